//! What a lane waits for: its first transaction in no block, since when, and the nonces that nobody holds.

use std::time::Duration;

use fencepost_domain::ids::Nonce;
use fencepost_domain::state::Why;

use super::track::Track;

/// The first transaction of ours in no block, and since when the lane waits for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Front {
    pub(crate) nonce: Nonce,
    pub(crate) since: Duration,
    /// A lower nonce is lent out.
    pub(crate) behind: bool,
}

/// Nonces that nobody holds and that others wait for, and since when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Gaps {
    pub(crate) nonces: Vec<Nonce>,
    pub(crate) since: Duration,
}

impl Track {
    /// How many of ours are in no block, as far as they are in mind.
    pub(crate) fn backlog(&self) -> usize {
        self.unmined.len()
    }

    /// The highest nonce in no block.
    pub(crate) fn highest(&self) -> Option<Nonce> {
        self.unmined.last().max(self.lent.last()).copied()
    }

    /// The first of ours in no block for which a block can still come. One that has become the first, or whose
    /// lower ones were lent out and are not any more, waits since then; of one that was the first when we began
    /// to look, nobody knows.
    pub(crate) fn front(&mut self, now: Duration) -> Option<Front> {
        let mut waiting = self.unmined();
        let first = waiting.find(|(_, entry)| entry.stuck() != Some(Why::NonceTaken));
        let first = first.map(|(nonce, entry)| (nonce, entry.since));
        drop(waiting);
        let lent = self.lent.first().copied();
        let before = self.front;
        let mut unblocked = false;
        self.front = first.map(|(nonce, since)| {
            let behind = lent.is_some_and(|lent| lent < nonce);
            let since = match before {
                Some(front) if front.nonce == nonce && front.behind && !behind => {
                    unblocked = true;
                    now
                }
                Some(front) if front.nonce == nonce => front.since,
                Some(front) if front.nonce < nonce => now,
                Some(_) | None => since,
            };
            Front {
                nonce,
                since,
                behind,
            }
        });
        self.unblocked |= unblocked;
        self.front
    }

    /// The lane waits for its first since then at the earliest.
    pub(crate) fn waits_since(&mut self, nonce: Nonce, since: Duration) {
        if let Some(front) = self.front.as_mut().filter(|front| front.nonce == nonce) {
            front.since = front.since.max(since);
        }
        if let Some(entry) = self.entries.get_mut(&nonce) {
            entry.since = entry.since.max(since);
        }
    }
}
