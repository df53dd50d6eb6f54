//! CONFIRMED and FAILED_FINAL: only a reorg below a block that was final brings them back.

use alloy_primitives::B256;

use super::{Input, Outlook, Refusal, Transition};
use crate::event::{self, Event};
use crate::ids::Nonce;
use crate::state::{Confirmed, Failed, Inclusion, State, Stuck, Why};

/// Refuses everything that does not undo an end.
pub(super) const fn only_reorg(input: &Input) -> Result<(), Refusal> {
    match input {
        Input::Reorged => Ok(()),
        Input::Allocate(_)
        | Input::Expire
        | Input::Reject
        | Input::Cancel
        | Input::Sign(..)
        | Input::Sent(_)
        | Input::Mined(_)
        | Input::Covered(_)
        | Input::Final
        | Input::Taken(_)
        | Input::TakenFinal(_)
        | Input::Stick(_)
        | Input::Clear
        | Input::Submit(_)
        | Input::Recycle => Err(Refusal::Over),
    }
}

impl Confirmed {
    pub(super) fn apply(self, input: &Input) -> Outlook {
        only_reorg(input)?;
        Ok(undone(self.nonce, Some(self.at.hash), Some(self.at)))
    }
}

impl Failed {
    pub(super) fn apply(self, input: &Input) -> Outlook {
        only_reorg(input)?;
        match self {
            Self::Reverted(nonce, at)
            | Self::Placeholder(nonce, at)
            | Self::Substituted(nonce, at)
            | Self::Cancelled(Some((nonce, at))) => Ok(undone(nonce, Some(at.hash), Some(at))),
            Self::NonceTaken { nonce, hash, .. } => Ok(undone(nonce, hash, None)),
            // What no block decided, no block can undo.
            Self::Cancelled(None) | Self::Expired | Self::Rejected { .. } => Err(Refusal::NotMined),
        }
    }
}

/// A final block was replaced: never silent, and the bytes that had won go out again.
fn undone(nonce: Nonce, hash: Option<B256>, at: Option<Inclusion>) -> Transition {
    let to = Stuck {
        nonce,
        hash,
        why: Why::ReorgAfterFinal,
        foreign: None,
    };
    let mut event = Event::new(event::Kind::Stuck).hash(hash).fork();
    event.block = at.map(|at| at.block);
    Transition::new(State::Stuck(to), event.note(Why::ReorgAfterFinal.word()))
}
