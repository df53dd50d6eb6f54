//! One transaction that has not ended, as a leader has it in mind, and what it needs next.

use std::time::Duration;

use fencepost_domain::attempt;
use fencepost_domain::ids::{TxId, Version};
use fencepost_domain::request::Payload;
use fencepost_domain::state::{Allocated, Block, Inclusion, Kind, Signing, State, Stuck, Why};
use fencepost_domain::{B256, Bytes};

use crate::ports::{Record, StoredAttempt};

/// One transaction that has not ended.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) tx: TxId,
    pub(crate) version: Version,
    pub(crate) state: State,
    pub(crate) kind: Kind,
    /// What is to be executed; forgotten once bytes are stored.
    pub(crate) payload: Option<Payload>,
    /// All bytes that were ever stored, the newest last.
    pub(crate) attempts: Vec<Known>,
    /// The newest bytes themselves, while they may have to be sent.
    pub(crate) raw: Option<Bytes>,
    /// What is under way.
    pub(crate) busy: Busy,
    /// The newest bytes are to be sent at the next opportunity.
    pub(crate) to_send: bool,
    /// Every endpoint has refused the newest bytes: what is behind them waits.
    pub(crate) refused: bool,
    /// How often it would have been reverted while it was the lane's head.
    pub(crate) reverts: u32,
    /// How often sending or signing failed in a row.
    pub(crate) failures: u32,
    /// Nothing is tried again before this.
    pub(crate) due_at: Duration,
    /// When its receipts were last asked for, or its bytes sent.
    pub(crate) asked_at: Option<Duration>,
    /// The block that is final with it inside, once that is known.
    pub(crate) final_in: Option<Block>,
}

/// Bytes that were stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) n: u32,
    pub(crate) hash: B256,
    pub(crate) kind: attempt::Kind,
}

/// What is under way with a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Busy {
    No,
    Signing,
    Sending,
    /// With the completer: its row is about to move.
    Ending,
}

/// What a transaction needs next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// Bytes.
    Sign,
    /// A block with it inside.
    Block,
    /// More blocks on top, or a person.
    Nothing,
}

impl Entry {
    pub(crate) fn new(record: Record) -> Self {
        Self {
            tx: record.tx,
            version: record.version,
            state: record.state,
            kind: record.kind,
            payload: record.payload,
            attempts: vec![],
            raw: None,
            busy: Busy::No,
            to_send: false,
            refused: false,
            reverts: 0,
            failures: 0,
            due_at: Duration::ZERO,
            asked_at: None,
            final_in: None,
        }
    }

    /// With bytes that the store has for it, in their order.
    pub(crate) fn stored(&mut self, stored: StoredAttempt) {
        self.payload = None;
        self.attempts.push(Known {
            n: stored.n,
            hash: stored.attempt.hash,
            kind: stored.attempt.kind,
        });
        self.raw = Some(stored.attempt.raw);
    }

    /// The block it is in, while it has not ended there.
    pub(crate) fn inclusion(&self) -> Option<Inclusion> {
        self.state.inclusion().filter(|_| !self.state.is_final())
    }

    pub(crate) fn need(&self) -> Need {
        match &self.state {
            State::Allocated(Allocated {
                bytes: Signing::Unsigned,
                ..
            })
            | State::Stuck(Stuck {
                hash: None,
                why: Why::SignerError | Why::Gap | Why::NoFunds,
                ..
            }) => Need::Sign,
            State::Allocated(_) | State::Stuck(Stuck { hash: Some(_), .. }) => Need::Block,
            State::Tracking(_) if self.inclusion().is_none() => Need::Block,
            State::Tracking(_)
            | State::Stuck(_)
            | State::Queued(_)
            | State::Confirmed(_)
            | State::Failed(_)
            | State::Reserved(_)
            | State::Submitted(_)
            | State::Used(_)
            | State::Recyclable(_) => Need::Nothing,
        }
    }

    pub(crate) fn attempt(&self, hash: B256) -> Option<Known> {
        self.attempts
            .iter()
            .copied()
            .find(|known| known.hash == hash)
    }
}
