//! Following one transaction. Services with many should read the feed instead: it costs one call for all.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use uuid::Uuid;

use crate::client::Client;
use crate::error::Error;
use crate::retry::jittered;
use crate::transaction::{State, Transaction};

/// How often a transaction is looked at, first and at last. Shorter only asks more often for nothing: blocks
/// come every few seconds.
const PAUSE: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(2));

/// What is waited for. Each of these is also reached by a transaction that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// It has a nonce.
    Allocated,
    /// It is in a block, which may still be replaced.
    InBlock,
    /// It has ended. One that is STUCK has not: it still ends if the chain, a policy or an operator lets it.
    Final,
    /// It has ended, or is STUCK and someone may have to look.
    FinalOrStuck,
}

impl Until {
    /// Whether a transaction has come this far.
    #[must_use]
    pub fn is_reached(self, transaction: &Transaction) -> bool {
        let reached = match self {
            Self::Allocated => transaction.nonce.is_some(),
            Self::InBlock => transaction.block_number.is_some(),
            Self::Final => false,
            Self::FinalOrStuck => transaction.state == State::Stuck,
        };
        reached || transaction.is_final()
    }
}

/// Why waiting came to nothing. The transaction goes on either way.
#[derive(Debug, thiserror::Error)]
pub enum WaitError {
    /// It has not come that far in time.
    #[error("it has not come that far within {within:?}")]
    TooLong {
        /// How long was waited.
        within: Duration,
        /// How it stood when it was last seen; none when it could not be read once.
        last: Option<Box<Transaction>>,
    },
    /// It cannot be read, for a cause that does not pass.
    #[error("the transaction cannot be read")]
    Unread(#[source] Error),
}

impl Client {
    /// Looks at a transaction until it has come this far, or the time is over. Nodes that cannot be reached for
    /// a while are waited for, too.
    ///
    /// ```no_run
    /// # use fencepost_client::{Client, Until};
    /// # async fn follow(client: Client, id: uuid::Uuid) -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// let ended = client.wait(id, Until::Final, Duration::from_secs(600)).await?;
    /// println!("{} in block {:?}", ended.state, ended.block_number);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn wait(
        &self,
        tx_id: Uuid,
        until: Until,
        within: Duration,
    ) -> Result<Transaction, WaitError> {
        let now = Instant::now();
        let deadline = now.checked_add(within);
        // Thirty years, for those who mean for ever.
        let deadline = deadline.unwrap_or_else(|| now + Duration::from_secs(1_000_000_000));
        let (mut pause, mut last) = (PAUSE.0, None);
        loop {
            match self.transaction_by(tx_id, deadline).await {
                Ok(transaction) if until.is_reached(&transaction) => return Ok(transaction),
                Ok(transaction) => last = Some(Box::new(transaction)),
                Err(error) if error.is_retryable() => {}
                Err(error) => return Err(WaitError::Unread(error)),
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(WaitError::TooLong { within, last });
            }
            sleep(jittered(pause).min(left)).await;
            pause = (pause * 3 / 2).min(PAUSE.1);
        }
    }
}
