//! What a leader has in mind of a lane's transactions that have not ended: enough to decide what is
//! signed, sent and asked for next. Good under one token; read from the store whenever in doubt.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fencepost_domain::ids::{Nonce, TxId};
use fencepost_domain::state::State;

use super::entry::{Busy, Entry, Need};
use super::front::{Front, Gaps};
use crate::directory::Seat;
use crate::ports::Held;

/// How many transactions in no block are kept in mind for each place in the window; what is beyond
/// is read when its time comes. Too few reads often, too many keeps whole backlogs in memory.
const AHEAD: usize = 4;

/// How many lent nonces are kept in mind; what is beyond is read when its time comes.
const LENT_MAX: usize = 4_096;

/// How often due work is claimed in a lane with open reservations. Only the store's clock says when they are over, so it is
/// asked. Longer ends them later; shorter costs a statement for nothing.
const LOANS_EVERY: Duration = Duration::from_secs(2);

/// How far a lane's transactions are in mind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// All of them.
    All,
    /// Those below this nonce; there may be more above.
    Below(Nonce),
}

/// What is under way outside the worker: of each kind one thing for a lane at a time, so that its order is
/// kept and a slow one holds up nobody else.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tasks {
    pub(crate) signing: bool,
    pub(crate) sending: bool,
    pub(crate) asking: bool,
    /// About the chain and a policy; they take longer and hold up nothing.
    pub(crate) care: Care,
}

/// What is under way about those that do not move.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Care {
    pub(crate) examining: bool,
    pub(crate) consulting: bool,
    pub(crate) expiring: bool,
}

/// The transactions of one lane.
#[derive(Debug)]
pub(crate) struct Track {
    pub(crate) seat: Seat,
    pub(crate) held: Held,
    pub(super) entries: BTreeMap<Nonce, Entry>,
    /// Those of ours in no block. Most of a busy lane's entries are in one, and wait for more on top.
    pub(super) unmined: BTreeSet<Nonce>,
    /// Lent nonces in no block.
    pub(super) lent: BTreeSet<Nonce>,
    reach: Reach,
    window: usize,
    pub(crate) tasks: Tasks,
    /// The newest that have ended are on the chain's board.
    pub(crate) knows_ended: bool,
    /// Nothing is signed or sent before this.
    pub(crate) rests_until: Duration,
    /// Since when the key has failed.
    pub(crate) failing_since: Option<Duration>,
    pub(super) front: Option<Front>,
    /// The lent nonces below the front are gone: what it was stuck for is over.
    pub(crate) unblocked: bool,
    pub(crate) gaps: Option<Gaps>,
    /// When it was last compared with the chain.
    pub(crate) examined_at: Option<Duration>,
    /// Something says that the chain is not as we think: it is compared soon.
    pub(crate) suspect: bool,
    /// When lent nonces were last read: their holders speak to any node.
    pub(crate) lent_read_at: Duration,
    /// When due work was last claimed.
    pub(crate) claimed_at: Option<Duration>,
}

impl Track {
    /// A lane in which nothing is unfinished, or of which nothing was read.
    pub(crate) fn new(seat: Seat, held: Held, window: usize, is_empty: bool) -> Self {
        Self {
            seat,
            held,
            entries: BTreeMap::new(),
            unmined: BTreeSet::new(),
            lent: BTreeSet::new(),
            reach: if is_empty {
                Reach::All
            } else {
                Reach::Below(Nonce::ZERO)
            },
            window: window.max(1),
            tasks: Tasks::default(),
            knows_ended: false,
            rests_until: Duration::ZERO,
            failing_since: None,
            front: None,
            unblocked: false,
            gaps: None,
            examined_at: None,
            suspect: false,
            lent_read_at: Duration::ZERO,
            claimed_at: None,
        }
    }

    /// A transaction that has just got its nonce. One that is too far ahead is read when its time
    /// comes.
    pub(crate) fn add(&mut self, nonce: Nonce, entry: Entry) {
        let room = if entry.is_lent() {
            self.lent.len() < LENT_MAX
        } else {
            self.unmined.len() < self.window * AHEAD
        };
        match self.reach {
            // Below what is in mind it is the head that all others wait for.
            Reach::All if room || self.is_inside(nonce) => {
                self.insert(nonce, entry);
            }
            Reach::All => self.reach = Reach::Below(nonce),
            Reach::Below(limit) if nonce < limit => {
                self.insert(nonce, entry);
            }
            Reach::Below(_) => {}
        }
    }

    fn is_inside(&self, nonce: Nonce) -> bool {
        let highest = self.entries.last_key_value();
        highest.is_some_and(|(highest, _)| nonce < *highest)
    }

    /// The nonce of a transaction that is in mind.
    pub(crate) fn nonce_of(&self, tx: TxId) -> Option<Nonce> {
        let found = self.entries.iter().find(|(_, entry)| entry.tx == tx);
        found.map(|(nonce, _)| *nonce)
    }

    pub(crate) fn insert(&mut self, nonce: Nonce, entry: Entry) {
        self.entries.insert(nonce, entry);
        self.settle(nonce);
    }

    pub(crate) fn remove(&mut self, nonce: Nonce) -> Option<Entry> {
        self.unmined.remove(&nonce);
        self.lent.remove(&nonce);
        self.entries.remove(&nonce)
    }

    pub(crate) fn get(&self, nonce: Nonce) -> Option<&Entry> {
        self.entries.get(&nonce)
    }

    pub(crate) fn get_mut(&mut self, nonce: Nonce) -> Option<&mut Entry> {
        self.entries.get_mut(&nonce)
    }

    /// To be called when an entry's state was changed: it may be in a block now, or no longer.
    pub(crate) fn settle(&mut self, nonce: Nonce) {
        self.unmined.remove(&nonce);
        self.lent.remove(&nonce);
        let entry = self.entries.get(&nonce);
        if let Some(entry) = entry.filter(|entry| entry.inclusion().is_none()) {
            if entry.is_lent() {
                self.lent.insert(nonce);
            } else {
                self.unmined.insert(nonce);
            }
        }
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (Nonce, &mut Entry)> {
        let each = self.entries.iter_mut();
        each.map(|(nonce, entry)| (*nonce, entry))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Nonce, &Entry)> {
        self.entries.iter().map(|(nonce, entry)| (*nonce, entry))
    }

    /// From this nonce on the store knows more than we do.
    pub(crate) fn unlearn_from(&mut self, nonce: Nonce) {
        self.reach = match self.reach {
            Reach::All => Reach::Below(nonce),
            Reach::Below(limit) => Reach::Below(limit.min(nonce)),
        };
    }

    /// Where the next read begins, if what is in mind runs short.
    pub(crate) fn to_read(&self) -> Option<Nonce> {
        match self.reach {
            Reach::All => None,
            Reach::Below(limit) => {
                // What is above the limit does not help: it waits for what is missing below it.
                let most = self.window * 2;
                let known = self.unmined.range(..limit).take(most).count();
                (known < most).then_some(limit)
            }
        }
    }

    /// A page was read from where [`Track::to_read`] said; `last` is its last nonce, and none when
    /// there are no more behind it.
    pub(crate) fn read(&mut self, last: Option<Nonce>) {
        self.reach = match last.map(|nonce| nonce.plus(1)) {
            Some(Ok(next)) => Reach::Below(next),
            Some(Err(_)) | None => Reach::All,
        };
    }

    pub(crate) fn unmined(&self) -> impl Iterator<Item = (Nonce, &Entry)> {
        let entry = |nonce| Some((nonce, self.entries.get(&nonce)?));
        self.unmined.iter().copied().filter_map(entry)
    }

    /// Lent nonces in no block.
    pub(crate) fn lent(&self) -> impl Iterator<Item = (Nonce, &Entry)> {
        let entry = |nonce| Some((nonce, self.entries.get(&nonce)?));
        self.lent.iter().copied().filter_map(entry)
    }

    /// Those that may be in the nodes' pools.
    pub(crate) fn window(&self) -> impl Iterator<Item = (Nonce, &Entry)> {
        self.unmined().take(self.window)
    }

    /// What is to be signed now, in order.
    pub(crate) fn signable(&self, now: Duration) -> Vec<Nonce> {
        self.window()
            .filter(|(_, entry)| {
                entry.need() == Need::Sign && entry.busy == Busy::No && entry.due_at <= now
            })
            .map(|(nonce, _)| nonce)
            .collect()
    }

    /// What is to be sent now, in order. Nothing goes past one that has no bytes, or whose bytes all
    /// endpoints refuse: nodes would see a gap.
    pub(crate) fn sendable(&self) -> Vec<Nonce> {
        let mut nonces = Vec::new();
        for (nonce, entry) in self.window() {
            match (entry.need(), entry.busy) {
                (Need::Block, Busy::No) if entry.to_send && entry.raw.is_some() => {
                    nonces.push(nonce);
                    // What is behind it waits for its answer.
                    if entry.refused {
                        break;
                    }
                }
                (Need::Block, Busy::No | Busy::Ending) if !entry.refused => {}
                (Need::Nothing | Need::Holder, _) => {}
                (Need::Block | Need::Sign, _) => break,
            }
        }
        nonces
    }

    /// What is above one that lost its block may have lost its own before we saw it there: the whole
    /// window from here on is sent again, and a node that has it says so.
    pub(crate) fn send_from(&mut self, nonce: Nonce) {
        let above: Vec<Nonce> = self
            .window()
            .map(|(each, _)| each)
            .filter(|each| *each > nonce)
            .collect();
        for nonce in above {
            if let Some(entry) = self.entries.get_mut(&nonce)
                && entry.need() == Need::Block
            {
                entry.to_send = true;
            }
        }
    }

    /// Whether something in the window waits to be sent again since `now`, or a reservation may be over.
    pub(crate) fn has_due(&self, now: Duration) -> bool {
        let sends = self.window().any(|(_, entry)| {
            entry.need() == Need::Block
                && entry.busy == Busy::No
                && !entry.to_send
                && entry.due_at <= now
        });
        sends || self.may_have_late_loan(now, false)
    }

    /// Whether a reservation may be over, or, with `named`, one whose holder has named a hash; and the store was not asked
    /// lately. Beyond what is in mind there may be some.
    pub(crate) fn may_have_late_loan(&self, now: Duration, named: bool) -> bool {
        let lately = |at: Duration| now.saturating_sub(at) < LOANS_EVERY;
        !self.claimed_at.is_some_and(lately) && self.may_have_loans(named)
    }

    /// Whether there may be reservations that are open, or, with `named`, submitted.
    pub(crate) fn may_have_loans(&self, named: bool) -> bool {
        let counts = |state: &State| {
            matches!(state, State::Reserved(_)) || (named && matches!(state, State::Submitted(_)))
        };
        self.reach != Reach::All || self.lent().any(|(_, entry)| counts(&entry.state))
    }

    /// Those in the window, and lent ones, whose receipts were not asked for since `before`.
    pub(crate) fn stale(&self, before: Option<Duration>) -> Vec<Nonce> {
        let ours = self.window();
        let ours = ours.filter(|(_, entry)| entry.need() == Need::Block);
        let lent = self.lent().filter(|(_, entry)| !entry.attempts.is_empty());
        ours.chain(lent)
            .filter(|(_, entry)| entry.asked_at <= before)
            .map(|(nonce, _)| nonce)
            .collect()
    }
}

#[cfg(test)]
mod tests;
