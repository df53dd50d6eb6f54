//! TRACKING: bytes are, or may be, on their way. Only a block ends it, and only a final one.

use alloy_primitives::B256;

use super::{
    Input, Outlook, Refusal, Transition, covered, forked, mined, signable, signed, stick,
    submitted, taken,
};
use crate::attempt::{self, Outcome};
use crate::confirmation::Publish;
use crate::event::{self, Event};
use crate::state::{Confirmed, Failed, Inclusion, Seen, State, Tracking, Verdict};

impl Tracking {
    pub(super) fn apply(self, input: Input) -> Outlook {
        match input {
            Input::Sign(kind, hash) => self.sign(kind, hash),
            Input::Sent(outcome) => Ok(self.sent(outcome)),
            Input::Mined(at) => self.mined(at),
            Input::Reorged => self.reorged(),
            Input::Covered(publish) => self.cover(publish),
            Input::Final => self.finish(),
            Input::Taken(foreign) => {
                let hash = self.unmined()?;
                taken(self.nonce, Some(hash), foreign)
            }
            Input::Stick(why) => {
                let hash = self.unmined()?;
                stick(self.nonce, Some(hash), why)
            }
            Input::Reject => Err(Refusal::Signed),
            Input::Allocate(_) | Input::Expire | Input::Cancel => Err(Refusal::HasNonce),
            // The end of a taken nonce is told only after its beginning.
            Input::TakenFinal(_) | Input::Clear => Err(Refusal::NotStuck),
            Input::Submit(_) | Input::Recycle => Err(Refusal::NotLent),
        }
    }

    const fn inclusion(&self) -> Option<Inclusion> {
        match self.seen {
            Seen::Mined(at) => Some(at),
            Seen::Broadcast | Seen::Ambiguous | Seen::Reorged => None,
        }
    }

    const fn unmined(&self) -> Result<B256, Refusal> {
        match self.inclusion() {
            Some(_) => Err(Refusal::InBlock),
            None => Ok(self.hash),
        }
    }

    /// Another attempt for the same nonce. What was seen of the older ones stays true.
    pub fn sign(self, kind: attempt::Kind, hash: B256) -> Outlook {
        let newest = self.unmined()?;
        signable(Some(newest), kind, hash)?;
        Ok(Transition::new(
            State::Tracking(Self { hash, ..self }),
            signed(kind, hash),
        ))
    }

    /// Records what came of a send. An acceptance is never unlearned, a refusal proves nothing
    /// about bytes that may have been sent before, and a block outranks both.
    pub fn sent(self, outcome: Outcome) -> Transition {
        let event = submitted(self.hash, outcome);
        let seen = match (self.seen, outcome) {
            (Seen::Mined(at), _) => Seen::Mined(at),
            (Seen::Broadcast, _) | (_, Outcome::Accepted) => Seen::Broadcast,
            (Seen::Ambiguous, _) | (Seen::Reorged, Outcome::Ambiguous) => Seen::Ambiguous,
            (Seen::Reorged, Outcome::Refused) => Seen::Reorged,
        };
        Transition::new(State::Tracking(Self { seen, ..self }), event)
    }

    /// Seen in a block, by any of its attempts.
    pub fn mined(self, at: Inclusion) -> Outlook {
        mined(self.nonce, Some(self.hash), self.inclusion(), at)
    }

    /// The block under it was replaced: the receipt is void, the bytes go out again.
    pub fn reorged(self) -> Outlook {
        let at = self.inclusion().ok_or(Refusal::NotMined)?;
        let to = Self {
            seen: Seen::Reorged,
            ..self
        };
        Ok(Transition::new(State::Tracking(to), forked(at)))
    }

    fn cover(self, publish: Publish) -> Outlook {
        let at = self.inclusion().ok_or(Refusal::NotMined)?;
        let event = covered(at, publish)?;
        Ok(Transition::new(State::Tracking(self), event))
    }

    /// Only a confirmed block ends a transaction, and the attempt in it decides how.
    pub fn finish(self) -> Outlook {
        let nonce = self.nonce;
        let at = self.inclusion().ok_or(Refusal::NotMined)?;
        let (to, kind) = match at.verdict() {
            Verdict::Executed => {
                let to = State::Confirmed(Confirmed { nonce, at });
                (to, event::Kind::Confirmed)
            }
            Verdict::Reverted => lost(Failed::Reverted(nonce, at)),
            Verdict::Cancelled => lost(Failed::Cancelled(Some((nonce, at)))),
            Verdict::Placeholder => lost(Failed::Placeholder(nonce, at)),
            Verdict::Substituted => lost(Failed::Substituted(nonce, at)),
            Verdict::Theirs => return Err(Refusal::NotLent),
        };
        let event = Event::new(kind).hash(Some(at.hash)).block(at.block);
        Ok(Transition::new(to, event))
    }
}

const fn lost(failed: Failed) -> (State, event::Kind) {
    (State::Failed(failed), event::Kind::Failed)
}
