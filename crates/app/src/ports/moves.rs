//! Moves: a batch of transitions is one method, whatever their kinds.

use std::time::Duration;

use fencepost_domain::attempt::{Attempt, Outcome};
use fencepost_domain::event::Event;
use fencepost_domain::flat::Name;
use fencepost_domain::ids::{FeedSeq, LaneId, TxId, Version};
use fencepost_domain::state::State;
use fencepost_domain::transition::Transition;

use super::{Held, PauseReason, Record, RemedyId};

/// One transaction's move, with everything that must be written together with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Move {
    /// Which transaction.
    pub tx: TxId,
    /// The version it was decided on.
    pub version: Version,
    /// Its state and sub-state before, as the history tells it.
    pub from: (Name, Option<&'static str>),
    /// It held a nonce before; giving it back makes the nonce free.
    pub held_nonce: bool,
    /// Its state after.
    pub to: State,
    /// What the history tells.
    pub event: Event,
    /// Bytes that were signed: stored here, before anyone may send them.
    pub attempt: Option<Attempt>,
    /// What came of sending an attempt.
    pub sent: Option<SendOutcome>,
    /// The receipt as the node gave it. A state without a block clears it.
    pub receipt: Option<String>,
    /// The newest error's text; `None` keeps the old one.
    pub error: Option<String>,
    /// When it is next due; `None` keeps the time. What has ended is never due.
    pub due_in: Option<Duration>,
    /// A remedy that this move closes.
    pub closes: Option<Closing>,
}

/// The outcome of sending one attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SendOutcome {
    /// The attempt's number.
    pub n: u32,
    /// What came of it. An acceptance is never unlearned.
    pub outcome: Outcome,
}

/// A remedy is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closing {
    /// Which.
    pub remedy: RemedyId,
    /// Carried out, or why not.
    pub refused: Option<String>,
}

impl Move {
    /// The move that a decision makes of a record.
    #[must_use]
    pub fn of(record: &Record, transition: Transition) -> Self {
        Self::on(record.tx, record.version, &record.state, transition)
    }

    /// The same, of what is known of a record.
    #[must_use]
    pub fn on(tx: TxId, version: Version, from: &State, transition: Transition) -> Self {
        Self {
            tx,
            version,
            from: (from.name(), from.sub()),
            held_nonce: from.nonce().is_some(),
            to: transition.to,
            event: transition.event,
            attempt: None,
            sent: None,
            receipt: None,
            error: None,
            due_in: None,
            closes: None,
        }
    }

    /// With bytes to be stored.
    #[must_use]
    pub fn attempt(self, attempt: Attempt) -> Self {
        Self {
            attempt: Some(attempt),
            ..self
        }
    }

    /// With the outcome of a send.
    #[must_use]
    pub fn sent(self, n: u32, outcome: Outcome) -> Self {
        Self {
            sent: Some(SendOutcome { n, outcome }),
            ..self
        }
    }

    /// With the receipt as the node gave it.
    #[must_use]
    pub fn receipt(self, receipt: impl Into<String>) -> Self {
        Self {
            receipt: Some(receipt.into()),
            ..self
        }
    }

    /// With an error's text.
    #[must_use]
    pub fn error(self, error: impl Into<String>) -> Self {
        Self {
            error: Some(error.into()),
            ..self
        }
    }

    /// Due again after this time.
    #[must_use]
    pub fn due_in(self, due_in: Duration) -> Self {
        Self {
            due_in: Some(due_in),
            ..self
        }
    }

    /// Closing a remedy.
    #[must_use]
    pub fn closing(self, closing: Closing) -> Self {
        Self {
            closes: Some(closing),
            ..self
        }
    }
}

/// Moves of one lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneMoves {
    /// The lane and our token.
    pub held: Held,
    /// At most one for each transaction.
    pub moves: Vec<Move>,
}

/// The answer for one lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LaneMoved {
    /// All were written; numbers in the feed, in the order of the moves, where it tells them.
    Done(Vec<FeedSeq>),
    /// Not our lane any more. Nothing was written.
    Fenced,
    /// Attempts cannot be stored now. Nothing was written.
    Paused(PauseReason),
    /// These moved on, or were never there, since they were read. Nothing was written.
    Stale(Vec<TxId>),
    /// The chain has an attempt with this hash already. Nothing was written.
    KnownHash(TxId),
    /// Another statement holds the lane for longer than is waited. Nothing was written.
    Busy,
    /// There is no such lane.
    UnknownLane,
}

/// Due work that was claimed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Claimed {
    /// As they stand after the claim.
    pub records: Vec<Record>,
    /// Lanes that are no longer ours.
    pub fenced: Vec<LaneId>,
}
