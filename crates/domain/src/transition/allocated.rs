//! ALLOCATED: it has its nonce. Until bytes are stored the nonce can be given back; from then on
//! it is this transaction's for ever.

use alloy_primitives::B256;

use super::{
    Input, Outlook, Refusal, Transition, failed, mined, signable, signed, stick, submitted, taken,
};
use crate::attempt::{self, Outcome};
use crate::mutant::Mutant;
use crate::state::{Allocated, Failed, Inclusion, Seen, Signing, State, Tracking};

impl Allocated {
    pub(super) fn apply(self, input: Input) -> Outlook {
        match input {
            Input::Sign(kind, hash) => self.sign(kind, hash),
            Input::Sent(outcome) => self.sent(outcome),
            Input::Mined(at) => self.mined(at),
            Input::Reject => self.reject(),
            Input::Taken(foreign) => taken(self.nonce, self.newest(), foreign),
            Input::Stick(why) => stick(self.nonce, self.newest(), why),
            // With a nonce given, `notAfter` no longer counts, and only a CANCEL attempt ends it.
            Input::Allocate(_) | Input::Expire | Input::Cancel => Err(Refusal::HasNonce),
            Input::Reorged | Input::Covered(_) | Input::Final => Err(Refusal::NotMined),
            // The end of a taken nonce is told only after its beginning.
            Input::TakenFinal(_) | Input::Clear => Err(Refusal::NotStuck),
            Input::Submit(_) | Input::Recycle => Err(Refusal::NotLent),
        }
    }

    const fn newest(&self) -> Option<B256> {
        match self.bytes {
            Signing::Unsigned => None,
            Signing::Signed(hash) | Signing::Refused(hash) => Some(hash),
        }
    }

    /// The bytes are stored before anyone may broadcast them: after a crash we can only resend
    /// the same transaction, never send a second one.
    pub fn sign(self, kind: attempt::Kind, hash: B256) -> Outlook {
        signable(self.newest(), kind, hash)?;
        let to = Self {
            bytes: Signing::Signed(hash),
            ..self
        };
        Ok(Transition::new(State::Allocated(to), signed(kind, hash)))
    }

    /// Records what came of a send.
    pub fn sent(self, outcome: Outcome) -> Outlook {
        let hash = self.newest().ok_or(Refusal::Unsigned)?;
        let nonce = self.nonce;
        let on_its_way = |seen| State::Tracking(Tracking { nonce, hash, seen });
        let to = match outcome {
            Outcome::Accepted => on_its_way(Seen::Broadcast),
            // Maybe sent is sent.
            Outcome::Ambiguous => on_its_way(Seen::Ambiguous),
            Outcome::Refused => State::Allocated(Self {
                nonce,
                bytes: Signing::Refused(hash),
            }),
        };
        Ok(Transition::new(to, submitted(hash, outcome)))
    }

    /// A crash between sending and recording leaves it here while the chain moves on.
    pub fn mined(self, at: Inclusion) -> Outlook {
        mined(self.nonce, self.newest(), None, at)
    }

    /// Signed bytes are a bearer instrument: refused today, they may be mined tomorrow. So only
    /// a nonce that was never signed for is given back.
    pub fn reject(self) -> Outlook {
        match self.bytes {
            Signing::Unsigned => Ok(failed(Failed::Rejected {
                gave_back: Some(self.nonce),
            })),
            Signing::Signed(_) | Signing::Refused(_) if Mutant::GiveBackAfterSigning.is_on() => {
                Ok(failed(Failed::Rejected {
                    gave_back: Some(self.nonce),
                }))
            }
            Signing::Signed(_) | Signing::Refused(_) => Err(Refusal::Signed),
        }
    }
}
