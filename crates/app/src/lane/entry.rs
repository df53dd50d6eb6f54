//! One transaction that has not ended, as a leader has it in mind, and what it needs next.

use std::sync::Arc;
use std::time::Duration;

use fencepost_domain::attempt;
use fencepost_domain::confirmation::{List, Stretch};
use fencepost_domain::event::Event;
use fencepost_domain::ids::{TxId, Version};
use fencepost_domain::request::Payload;
use fencepost_domain::seal::Proof;
use fencepost_domain::state::{Allocated, Block, Inclusion, Kind, Signing, State, Stuck, Why};
use fencepost_domain::{B256, Bytes};

use crate::ports::{Consumer, Record, StoredAttempt};

/// One transaction that has not ended.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) tx: TxId,
    pub(crate) version: Version,
    pub(crate) state: State,
    pub(crate) kind: Kind,
    /// What is to be executed; forgotten once bytes are stored.
    pub(crate) payload: Option<Payload>,
    /// What its row says about that.
    pub(crate) proof: Proof,
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
    /// An end that could not be written is not tried again before this.
    pub(crate) end_at: Duration,
    /// Why it could not be signed, the last time.
    pub(crate) unsigned_for: Option<String>,
    /// How often its newest bytes were sent.
    pub(crate) tries: u32,
    /// Since when at the most it has waited for a block with these bytes.
    pub(crate) since: Duration,
    /// What seems to have used its nonce, and is not ours.
    pub(crate) taken: Option<Taken>,
    /// Whether the hash that its holder has named is this nonce's.
    pub(crate) vouch: Vouch,
    /// No policy is asked about it before this.
    pub(crate) consulted_until: Duration,
    /// The confirmations that readers of its events have; none while that was not read.
    pub(crate) published: Option<List<()>>,
    /// The chain on top of it, as the follower last told it.
    pub(crate) chain: Option<Arc<Stretch>>,
}

/// A foreign transaction that has used a nonce of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Taken {
    /// Where, at the latest, and by what.
    pub(crate) by: Consumer,
    /// It was seen more than once.
    pub(crate) sure: bool,
}

/// What the chain says of a hash that a holder has named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Vouch {
    /// Nothing yet.
    Unasked,
    /// It is being asked.
    Asking,
    /// It is the nonce's.
    Given,
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
    /// Its holder to use it.
    Holder,
    /// More blocks on top, or a person.
    Nothing,
}

impl Entry {
    /// A transaction as the store has it, and since when at the most it has waited.
    pub(crate) fn new(record: Record, since: Duration) -> Self {
        Self {
            tries: record.submit_attempts,
            since,
            unsigned_for: None,
            taken: None,
            // In a block it was written only after the chain had vouched.
            vouch: match record.state.inclusion() {
                Some(at) if at.by == attempt::Kind::External => Vouch::Given,
                Some(_) | None => Vouch::Unasked,
            },
            consulted_until: Duration::ZERO,
            published: None,
            chain: None,
            tx: record.tx,
            version: record.version,
            state: record.state,
            kind: record.kind,
            payload: record.payload,
            proof: record.proof,
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
            end_at: Duration::ZERO,
        }
    }

    /// What the chain has said of it, which is not in the store and is told only once.
    pub(crate) fn learned(&mut self, from: &Self) {
        self.chain.clone_from(&from.chain);
        self.taken = from.taken;
        self.final_in = from.final_in;
        // What was tried in vain was the end of another state.
        if self.state == from.state {
            self.end_at = from.end_at;
        }
    }

    /// An event of it was written: readers have what it says.
    pub(crate) fn publishes(&mut self, event: &Event) {
        if event.begins_list() {
            self.published = Some(List::empty());
        }
        if let Some(list) = &mut self.published {
            list.read(event, ());
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
                why: Why::SignerError | Why::Gap | Why::NoFunds | Why::Tampered,
                ..
            }) => Need::Sign,
            // Whose nonce is used can only wait for the chain: no node takes its bytes.
            State::Stuck(Stuck {
                why: Why::NonceTaken,
                ..
            }) => Need::Nothing,
            State::Allocated(_) | State::Stuck(Stuck { hash: Some(_), .. }) => Need::Block,
            State::Reserved(_) => Need::Holder,
            State::Submitted(_) if self.inclusion().is_none() => Need::Holder,
            State::Tracking(_) if self.inclusion().is_none() => Need::Block,
            State::Tracking(_)
            | State::Stuck(_)
            | State::Queued(_)
            | State::Confirmed(_)
            | State::Failed(_)
            | State::Submitted(_)
            | State::Used(_)
            | State::Recyclable(_) => Need::Nothing,
        }
    }

    /// A business signs and sends it.
    pub(crate) fn is_lent(&self) -> bool {
        self.kind == Kind::Reserved
    }

    /// Why it cannot move by itself, if so.
    pub(crate) const fn stuck(&self) -> Option<Why> {
        match &self.state {
            State::Stuck(stuck) => Some(stuck.why),
            State::Queued(_)
            | State::Allocated(_)
            | State::Tracking(_)
            | State::Confirmed(_)
            | State::Failed(_)
            | State::Reserved(_)
            | State::Submitted(_)
            | State::Used(_)
            | State::Recyclable(_) => None,
        }
    }

    /// What has used its nonce, if that is in this block.
    pub(crate) fn taken_in(&self, block: Block) -> Option<Consumer> {
        let taken = self.taken.filter(|taken| taken.sure)?;
        (taken.by.block == block).then_some(taken.by)
    }

    /// Another transaction has surely used its nonce, and the store knows; of a lent one it need not.
    pub(crate) fn is_told_taken(&self) -> bool {
        let sure = self.taken.is_some_and(|taken| taken.sure);
        sure && (self.is_lent() || self.stuck() == Some(Why::NonceTaken))
    }

    pub(crate) fn attempt(&self, hash: B256) -> Option<Known> {
        self.attempts
            .iter()
            .copied()
            .find(|known| known.hash == hash)
    }
}
