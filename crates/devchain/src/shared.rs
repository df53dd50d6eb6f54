//! The chain for several users at once, and the way to it without sockets.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::sleep;

use crate::chain::Devchain;
use crate::endpoint::EndpointId;
use crate::rpc::{Answer, Outcome};

/// The connection was cut, as a fault asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the endpoint cut the connection")]
pub struct Disconnected;

/// A chain that many can hold. Nothing waits while it is locked.
#[derive(Debug, Clone)]
pub struct Shared {
    chain: Arc<Mutex<Devchain>>,
}

impl Shared {
    /// Shares a chain.
    #[must_use]
    pub fn new(chain: Devchain) -> Shared {
        let chain = Arc::new(Mutex::new(chain));
        Shared { chain }
    }

    /// The chain itself. Not to be held across an await.
    ///
    /// A test that panicked with it in hand has failed already; the others may go on.
    pub fn lock(&self) -> MutexGuard<'_, Devchain> {
        self.chain.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers a request as [`Devchain::handle`] does.
    #[must_use]
    pub fn handle(&self, endpoint: EndpointId, body: &str) -> Outcome {
        self.lock().handle(endpoint, body)
    }

    /// Answers a request when it is time, by tokio's clock. Where a fault says so it never returns: the
    /// caller has a deadline.
    pub async fn call(
        &self,
        endpoint: EndpointId,
        body: String,
    ) -> Result<(u16, String), Disconnected> {
        let Outcome { answer, delay } = self.handle(endpoint, &body);
        if !delay.is_zero() {
            sleep(delay).await;
        }
        match answer {
            Answer::Reply { status, body } => Ok((status, body)),
            Answer::Hang => std::future::pending().await,
            Answer::Disconnect => Err(Disconnected),
        }
    }
}
