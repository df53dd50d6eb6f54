//! QUEUED: no nonce yet, so it can still end at once, and nothing can be on chain.

use super::{Input, Outlook, Refusal, Transition, failed};
use crate::event::{self, Event};
use crate::ids::Nonce;
use crate::state::{Allocated, Failed, Queued, Signing, State};

impl Queued {
    pub(super) fn apply(self, input: Input) -> Outlook {
        match input {
            Input::Allocate(nonce) => Ok(self.allocate(nonce)),
            Input::Expire => Ok(failed(Failed::Expired)),
            Input::Reject => Ok(failed(Failed::Rejected { gave_back: None })),
            Input::Cancel => Ok(failed(Failed::Cancelled(None))),
            Input::Sign(..)
            | Input::Sent(_)
            | Input::Mined(_)
            | Input::Reorged
            | Input::Covered(_)
            | Input::Final
            | Input::Taken(_)
            | Input::TakenFinal(_)
            | Input::Stick(_) => Err(Refusal::NoNonce),
            Input::Clear => Err(Refusal::NotStuck),
            Input::Submit(_) | Input::Recycle => Err(Refusal::NotLent),
        }
    }

    /// The leader gives it a nonce.
    pub fn allocate(self, nonce: Nonce) -> Transition {
        let to = Allocated {
            nonce,
            bytes: Signing::Unsigned,
        };
        Transition::new(State::Allocated(to), Event::new(event::Kind::Accepted))
    }
}
