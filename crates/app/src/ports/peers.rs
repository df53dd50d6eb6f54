//! The other nodes: a request is handed to the one that leads its lane.

use std::error::Error;
use std::time::Duration;

use async_trait::async_trait;
use fencepost_domain::ids::Lane;

use super::NewTx;
use crate::lifecycle::accept::Verdict;
use crate::store_memory::StoreInUse;

/// Why a request was not answered by the node it was handed to.
#[derive(Debug, thiserror::Error)]
pub enum Unforwarded {
    /// It was not reached: it has not seen the request.
    #[error("the leader cannot be reached")]
    NotSent(#[source] Box<dyn Error + Send + Sync>),
    /// It may have seen it, and may still act on it.
    #[error("the leader did not answer")]
    Unanswered(#[source] Box<dyn Error + Send + Sync>),
}

/// The way to other nodes.
#[async_trait]
pub trait Peers: Send + Sync {
    /// Hands a request to the node at `url`, once, and waits for its answer no longer than `within`. Requests
    /// of one lane get there in the order of these calls.
    async fn forward(
        &self,
        url: &str,
        lane: Lane,
        tx: &NewTx,
        within: Duration,
    ) -> Result<Verdict, Unforwarded>;

    /// Tells the node at `url` that something was written for a lane which its leader should see at
    /// once. Nothing depends on its arriving: leaders look by themselves, a little later.
    async fn nudge(&self, url: &str, lane: Lane, within: Duration) -> Result<(), Unforwarded>;

    /// Asks the node at `url` which store it works on. None where nodes do not talk about it.
    async fn ask_store(
        &self,
        url: &str,
        within: Duration,
    ) -> Result<Option<StoreInUse>, Unforwarded> {
        let _ = (url, within);
        Ok(None)
    }
}
