//! How JSON-RPC text gets to an endpoint and back. Simulations and tests put an in-process chain here;
//! nothing above this trait knows of sockets.

use std::time::Duration;

use async_trait::async_trait;

/// What came back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// The HTTP status, 200 where there is no HTTP.
    pub status: u16,
    /// The text, whatever it is.
    pub body: Vec<u8>,
}

/// Why nothing came back.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TransportError {
    /// No connection was made, so nothing was sent.
    #[error("no connection: {0}")]
    Unreachable(String),
    /// The deadline passed. The request may have arrived.
    #[error("no answer within the deadline")]
    TimedOut,
    /// The connection ended on the way. The request may have arrived.
    #[error("the connection broke: {0}")]
    Broken(String),
    /// The answer is longer than any that we ask for.
    #[error("the answer is above {max} bytes")]
    TooLarge {
        /// How long it may be.
        max: usize,
    },
}

/// One endpoint's wire. Texts of errors never hold its address: providers put keys into it.
#[async_trait]
pub trait Transport: Send + Sync {
    /// Sends a JSON-RPC text and waits for the answer, no longer than this.
    async fn post(&self, body: String, within: Duration) -> Result<Response, TransportError>;
}
