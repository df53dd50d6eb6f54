//! What accepting asks of a chain: how far an account is.

use async_trait::async_trait;
use fencepost_domain::ids::Lane;
use fencepost_domain::nonce::ChainCount;

/// Which count is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CountMode {
    /// With what waits in the pools.
    Pending,
    /// What is in blocks.
    Latest,
}

/// No endpoint of the chain answered.
#[derive(Debug, thiserror::Error)]
#[error("no endpoint of the chain answers")]
pub struct ChainUnavailable(#[source] pub Box<dyn std::error::Error + Send + Sync>);

/// The chains.
#[async_trait]
pub trait Chain: Send + Sync {
    /// How many transactions of the lane's signer the chain has counted, as its reachable endpoints
    /// say. Bounded: an endpoint that hangs is not reachable.
    async fn count(&self, lane: Lane, mode: CountMode) -> Result<ChainCount, ChainUnavailable>;
}
