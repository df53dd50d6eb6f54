//! What a move tells: one row of the transaction's history and of its lane's ordered outbox.

use alloy_primitives::B256;

use crate::confirmation::Stretch;
use crate::state::Block;

words! {
    /// What happened.
    Kind("event.kind") {
        /// A nonce was given: to a new transaction, or to one that had been waiting in the queue.
        Accepted = "accepted",
        /// Signed bytes were stored; from here on they may have been sent.
        Signed = "signed",
        /// A send was tried and its outcome recorded.
        Submitted = "submitted",
        /// An attempt was seen in a block.
        Receipt = "receipt",
        /// The published list of blocks grew; with `new_fork` readers replace all they had.
        Confirmations = "confirmations",
        /// Final, and the payload was executed.
        Confirmed = "confirmed",
        /// Final, and the payload was not executed.
        Failed = "failed",
        /// It cannot move by itself.
        Stuck = "stuck",
        /// A remedy was asked for, claimed or closed.
        Remedied = "remedied",
        /// What held a stuck transaction has passed.
        Resumed = "resumed",
        /// A reserved nonce was given back.
        Recycled = "recycled",
        /// A reserved nonce is used, finally.
        Used = "used",
    }
}

impl Kind {
    /// The feed tells this, too: a transaction got to where readers are told, or is there for
    /// another reason now. Other events of such a transaction are history only.
    #[must_use]
    pub const fn is_told(self) -> bool {
        match self {
            Self::Confirmed | Self::Failed | Self::Stuck | Self::Used => true,
            Self::Accepted
            | Self::Signed
            | Self::Submitted
            | Self::Receipt
            | Self::Confirmations
            | Self::Remedied
            | Self::Resumed
            | Self::Recycled => false,
        }
    }
}

/// One thing told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// What happened.
    pub kind: Kind,
    /// The attempt it is about.
    pub hash: Option<B256>,
    /// The block it is about; of `confirmations` the newest.
    pub block: Option<Block>,
    /// A block that was published, or the one it was in, was replaced: readers drop the list they have.
    pub new_fork: bool,
    /// The blocks that are added to the list; with `new_fork` they are the list.
    pub confirmations: Option<Stretch>,
    /// Words for a person: an error's text, a reason.
    pub note: Option<String>,
}

impl Event {
    /// Longer notes are cut: they are for reading, and nodes can answer with megabytes.
    pub const NOTE_BYTES_MAX: usize = 1_000;

    /// An event with nothing but its kind.
    #[must_use]
    pub const fn new(kind: Kind) -> Self {
        Self {
            kind,
            hash: None,
            block: None,
            new_fork: false,
            confirmations: None,
            note: None,
        }
    }

    /// About this attempt.
    #[must_use]
    pub fn hash(self, hash: Option<B256>) -> Self {
        Self { hash, ..self }
    }

    /// About this block.
    #[must_use]
    pub fn block(self, block: Block) -> Self {
        Self {
            block: Some(block),
            ..self
        }
    }

    /// With blocks for the published list.
    #[must_use]
    pub fn confirmations(self, blocks: Stretch) -> Self {
        Self {
            block: Some(blocks.newest()),
            confirmations: Some(blocks),
            ..self
        }
    }

    /// Readers drop the list of confirmations that they have: it is in a block, perhaps in another one
    /// than before, or what they have was replaced.
    #[must_use]
    pub fn begins_list(&self) -> bool {
        self.kind == Kind::Receipt || self.new_fork
    }

    /// A block under the transaction was replaced.
    #[must_use]
    pub fn fork(self) -> Self {
        Self {
            new_fork: true,
            ..self
        }
    }

    /// With words for a person, cut at a character's edge.
    #[must_use]
    pub fn note(self, text: &str) -> Self {
        let mut end = text.len().min(Self::NOTE_BYTES_MAX);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        Self {
            note: Some(text[..end].to_owned()),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_note_is_cut_between_characters() {
        let event = Event::new(Kind::Stuck).note(&"错".repeat(Event::NOTE_BYTES_MAX));
        assert_eq!(event.note.unwrap(), "错".repeat(Event::NOTE_BYTES_MAX / 3));
    }
}
