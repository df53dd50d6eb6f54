//! What is asked of whoever has the keys.

use async_trait::async_trait;
use fencepost_domain::attempt::Unsigned;
use fencepost_domain::{Address, B256, Bytes};

/// Signed bytes and their hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signed {
    /// The transaction hash.
    pub hash: B256,
    /// What is sent.
    pub raw: Bytes,
}

/// Why nothing was signed.
#[derive(Debug, thiserror::Error)]
pub enum Unsignable {
    /// The signer says no to this transaction, and would again.
    #[error("the signer refuses: {0}")]
    Refused(String),
    /// The key cannot be used now: it is not there, its service does not answer, or what it signed is
    /// not this account's.
    #[error("the key cannot be used: {0}")]
    Unusable(String),
}

/// Whoever has the keys. What is signed is checked to be by this account; a call ends within a
/// deadline of its own.
#[async_trait]
pub trait Signer: Send + Sync {
    /// Signs. Asking twice may give two different sets of bytes.
    async fn sign(&self, account: Address, tx: &Unsigned) -> Result<Signed, Unsignable>;
}
