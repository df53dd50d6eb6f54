//! STUCK: it cannot move by itself, is told as such, and still ends if the chain lets it.
//!
//! NONCE_TAKEN and REORG_AFTER_FINAL were proven by the chain. New bytes, sends and lesser reasons
//! leave them standing; only the chain lifts them, or whoever has looked at it again.

use alloy_primitives::B256;

use super::{
    Input, Outlook, Refusal, Transition, another, failed, foreign_to, mined, signable, signed,
    stick, submitted, taken,
};
use crate::attempt::{self, Outcome};
use crate::event::{self, Event};
use crate::state::{Allocated, Failed, Seen, Signing, State, Stuck, Tracking, Why};

impl Stuck {
    pub(super) fn apply(self, input: Input) -> Outlook {
        match input {
            Input::Sign(kind, hash) => self.sign(kind, hash),
            Input::Sent(outcome) => self.sent(outcome),
            Input::Mined(at) => mined(self.nonce, self.hash, None, at),
            Input::Taken(foreign) => self.taken(foreign),
            Input::TakenFinal(foreign) => self.taken_final(foreign),
            Input::Stick(why) => self.stick(why),
            Input::Clear => Ok(self.clear()),
            Input::Reject => self.reject(),
            Input::Allocate(_) | Input::Expire | Input::Cancel => Err(Refusal::HasNonce),
            Input::Reorged | Input::Covered(_) | Input::Final => Err(Refusal::NotMined),
            Input::Submit(_) | Input::Recycle => Err(Refusal::NotLent),
        }
    }

    const fn is_proven(&self) -> bool {
        match self.why {
            Why::NonceTaken | Why::ReorgAfterFinal => true,
            Why::NoReceipt
            | Why::Refused
            | Why::Gap
            | Why::NoFunds
            | Why::SignerError
            | Why::Tampered => false,
        }
    }

    /// New bytes count as maybe sent from the moment they are stored, so a transaction that had
    /// been signed before is on its way again.
    pub fn sign(self, kind: attempt::Kind, hash: B256) -> Outlook {
        signable(self.hash, kind, hash)?;
        let nonce = self.nonce;
        let to = if self.is_proven() {
            State::Stuck(Self {
                hash: Some(hash),
                foreign: another(self.foreign, hash),
                ..self
            })
        } else if self.hash.is_none() {
            State::Allocated(Allocated {
                nonce,
                bytes: Signing::Signed(hash),
            })
        } else {
            State::Tracking(Tracking {
                nonce,
                hash,
                seen: Seen::Ambiguous,
            })
        };
        Ok(Transition::new(to, signed(kind, hash)))
    }

    /// A node that takes the bytes ends a refusal. It says nothing about missing receipts, and
    /// pools take bytes from beyond a gap, too.
    pub fn sent(self, outcome: Outcome) -> Outlook {
        let hash = self.hash.ok_or(Refusal::Unsigned)?;
        let nonce = self.nonce;
        let freed = match (self.why, outcome) {
            (Why::Refused | Why::NoFunds | Why::SignerError, Outcome::Accepted) => true,
            // That a node takes older bytes says nothing about the row.
            (
                Why::NoReceipt | Why::Gap | Why::NonceTaken | Why::ReorgAfterFinal | Why::Tampered,
                _,
            )
            | (_, Outcome::Ambiguous | Outcome::Refused) => false,
        };
        let to = if freed {
            State::Tracking(Tracking {
                nonce,
                hash,
                seen: Seen::Broadcast,
            })
        } else {
            State::Stuck(self)
        };
        Ok(Transition::new(to, submitted(hash, outcome)))
    }

    /// A second look that could not tell who took the nonce does not unlearn what the first knew.
    fn taken(self, foreign: Option<B256>) -> Outlook {
        let known = self.why == Why::NonceTaken;
        if known && (foreign.is_none() || foreign == self.foreign) {
            return Err(Refusal::Unchanged);
        }
        taken(self.nonce, self.hash, foreign)
    }

    fn taken_final(self, foreign: Option<B256>) -> Outlook {
        if self.why != Why::NonceTaken {
            return Err(Refusal::NotStuck);
        }
        foreign_to(self.hash, foreign)?;
        let foreign = foreign.or(self.foreign);
        Ok(failed(Failed::NonceTaken {
            nonce: self.nonce,
            hash: self.hash,
            foreign,
        }))
    }

    fn stick(self, why: Why) -> Outlook {
        if why == self.why {
            return Err(Refusal::Unchanged);
        }
        // A changed row stays the reason until the row is mended or its nonce is used up.
        if self.is_proven() || self.why == Why::Tampered {
            return Err(Refusal::NotStuck);
        }
        stick(self.nonce, self.hash, why)
    }

    /// Goes back to where its bytes stand; what was sent before counts as maybe sent.
    pub fn clear(self) -> Transition {
        let nonce = self.nonce;
        let to = match self.hash {
            None => State::Allocated(Allocated {
                nonce,
                bytes: Signing::Unsigned,
            }),
            Some(hash) => State::Tracking(Tracking {
                nonce,
                hash,
                seen: Seen::Ambiguous,
            }),
        };
        Transition::new(to, Event::new(event::Kind::Resumed).hash(self.hash))
    }

    fn reject(self) -> Outlook {
        match (self.hash, self.why) {
            (Some(_), _) => Err(Refusal::Signed),
            // A nonce that the chain has consumed is nothing to give back.
            (None, Why::NonceTaken | Why::ReorgAfterFinal) => Err(Refusal::HasNonce),
            (
                None,
                Why::NoReceipt
                | Why::Refused
                | Why::Gap
                | Why::NoFunds
                | Why::SignerError
                | Why::Tampered,
            ) => Ok(failed(Failed::Rejected {
                gave_back: Some(self.nonce),
            })),
        }
    }
}
