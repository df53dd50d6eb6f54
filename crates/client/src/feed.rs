//! The feed: how transactions ended, numbered without gaps. This is how a service should learn of its
//! transactions: read from the last number that was worked off, work off, store the number, read on.

use std::time::Duration;

use alloy_primitives::{Address, B256};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::call::Call;
use crate::client::Client;
use crate::error::Error;
use crate::problem::{Code, Problem};
use crate::transaction::{Kind, State, SubState};

/// The longest wait that a node takes.
const WAIT_MAX: Duration = Duration::from_secs(30);
/// How long a node waits for the first completion where nothing else is said.
const WAIT: Duration = Duration::from_secs(20);
/// How many completions are asked for where nothing else is said.
const LIMIT: u32 = 500;

/// How a transaction ended, or that it is stuck, as it was then.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Completion {
    /// Its number in the feed.
    pub seq: u64,
    /// The transaction.
    pub tx_id: Uuid,
    /// What it is for.
    pub kind: Kind,
    /// The chain's configured name.
    pub chain: String,
    /// Who sends.
    pub signer: Address,
    /// The caller's own name for it.
    pub request_id: Option<String>,
    /// Its nonce.
    pub nonce: Option<u64>,
    /// Its state.
    pub state: State,
    /// Why.
    pub sub_state: Option<SubState>,
    /// Its hash.
    pub tx_hash: Option<B256>,
    /// Its block.
    pub block_number: Option<u64>,
    /// When it was told.
    pub at: Timestamp,
    /// The number of the final completion that this one corrects: a block that was final has been replaced.
    pub corrects: Option<u64>,
}

/// How far a reader is. Store it with the work it stands for, in one database transaction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// The last number that was worked off; 0 before the first.
    pub after: u64,
    /// The epoch in which that number was read; none before anything was read.
    pub epoch: Option<u64>,
}

impl From<u64> for Position {
    fn from(after: u64) -> Self {
        Self { after, epoch: None }
    }
}

/// A stretch of the feed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Batch {
    /// In order; empty when nothing ended in time, or nothing that the key may see.
    pub completions: Vec<Completion>,
    /// What to store once these are worked off. It advances past rows that the key may not see.
    pub position: Position,
}

/// Why there is no next stretch. The reader stays where it is; asking again is always safe.
#[derive(Debug, thiserror::Error)]
pub enum FeedError {
    /// The feed is no longer the one that was read: the database was failed over and lost its newest rows, or
    /// the reader is behind what was retired. Read again from the last number that is certain, or from
    /// [`Problem::begins_after`] where that is higher, and take what comes as the truth: after a failover numbers
    /// may stand for other transactions.
    #[error("the feed was reset: what was read up to {} may be gone", position.after)]
    Reset {
        /// Where the reader is.
        position: Position,
        /// The epoch now, where the node told it.
        epoch: Option<u64>,
        /// The node's words, where it refused.
        problem: Option<Box<Problem>>,
    },
    /// A number is missing, repeated or out of order. Nothing of the stretch was given out.
    #[error("after {expected_after} the feed goes on with {found}")]
    Broken {
        /// The number before.
        expected_after: u64,
        /// The number that came.
        found: u64,
    },
    /// It could not be read.
    #[error("the feed cannot be read")]
    Unread(#[source] Error),
}

/// Reads the feed, one stretch after another.
#[derive(Debug, Clone)]
pub struct Feed {
    client: Client,
    position: Position,
    limit: u32,
    wait: Duration,
    sees_all: bool,
}

#[derive(Deserialize)]
struct Told {
    completions: Vec<Completion>,
    next: u64,
    epoch: u64,
}

impl Client {
    /// Reads the feed from behind this position: 0 for everything, or what was stored before a restart.
    ///
    /// ```no_run
    /// # use fencepost_client::{Client, FeedError, Position};
    /// # async fn read(client: Client, stored: Position) -> Result<(), FeedError> {
    /// let mut feed = client.completions(stored);
    /// loop {
    ///     let batch = feed.next().await?;
    ///     for completion in &batch.completions {
    ///         println!("{}: {:?} is {}", completion.seq, completion.request_id, completion.state);
    ///     }
    ///     // Store batch.position together with what was done about these.
    /// }
    /// # }
    /// ```
    #[must_use]
    pub fn completions(&self, from: impl Into<Position>) -> Feed {
        Feed {
            client: self.clone(),
            position: from.into(),
            limit: LIMIT,
            wait: WAIT,
            sees_all: false,
        }
    }
}

impl Feed {
    /// How many completions a stretch has at most, 1 to 1,000 (500).
    #[must_use]
    pub fn limit(mut self, limit: u32) -> Self {
        self.limit = limit.clamp(1, 1_000);
        self
    }

    /// How long a node waits for the first completion, up to 30 s, in whole seconds (20 s).
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait.min(WAIT_MAX);
        self
    }

    /// The key covers every signer, so each number must come: a missing one is [`FeedError::Broken`].
    #[must_use]
    pub const fn sees_all(mut self) -> Self {
        self.sees_all = true;
        self
    }

    /// Behind what the reader is.
    #[must_use]
    pub const fn position(&self) -> Position {
        self.position
    }

    /// The next stretch, empty when nothing came in time. After an error the reader is where it was.
    pub async fn next(&mut self) -> Result<Batch, FeedError> {
        let call = Call::get(["tx", "completions"])
            .with("after", Some(self.position.after))
            .with("limit", Some(self.limit))
            .with("wait", Some(self.wait.as_secs()))
            .waiting(self.wait);
        let told: Told = self.client.told(call).await.map_err(|e| self.unread(e))?;
        let position = self.check(&told)?;
        self.position = position;
        Ok(Batch {
            completions: told.completions,
            position,
        })
    }

    fn unread(&self, error: Error) -> FeedError {
        match error.saying(&[Code::FeedReset]) {
            Ok(problem) => FeedError::Reset {
                position: self.position,
                epoch: None,
                problem: Some(problem),
            },
            Err(error) => FeedError::Unread(error),
        }
    }

    /// Where the reader is after this stretch, if it follows on what was read before.
    fn check(&self, told: &Told) -> Result<Position, FeedError> {
        let position = self.position;
        if position.epoch.is_some_and(|epoch| epoch != told.epoch) {
            return Err(FeedError::Reset {
                position,
                epoch: Some(told.epoch),
                problem: None,
            });
        }
        let mut seen = position.after;
        for completion in &told.completions {
            let is_next = completion.seq == seen + 1;
            if completion.seq <= seen || (self.sees_all && !is_next) {
                return Err(FeedError::Broken {
                    expected_after: seen,
                    found: completion.seq,
                });
            }
            seen = completion.seq;
        }
        if told.next < seen || (self.sees_all && told.next != seen) {
            return Err(FeedError::Broken {
                expected_after: seen,
                found: told.next,
            });
        }
        Ok(Position {
            after: told.next,
            epoch: Some(told.epoch),
        })
    }
}
