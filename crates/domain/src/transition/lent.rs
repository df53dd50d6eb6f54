//! RESERVED, SUBMITTED, USED: a nonce that its holder signs for. We follow what it names on chain
//! like our own, but never sign, send, or call it stuck: the lane shows it as the head that waits.

use alloy_primitives::B256;

use super::ended::only_reorg;
use super::{Input, Outlook, Refusal, Transition, another, covered, forked, receipt};
use crate::attempt;
use crate::confirmation::Publish;
use crate::event::{self, Event};
use crate::state::{Inclusion, Lent, Recyclable, Reserved, State, Submitted, Used};

impl Reserved {
    pub(super) fn apply(self, input: Input) -> Outlook {
        match input {
            Input::Submit(hash) => Ok(self.submit(hash)),
            Input::Recycle => Ok(self.recycle()),
            Input::TakenFinal(foreign) => Ok(used(Used {
                nonce: self.nonce,
                hash: None,
                at: None,
                foreign,
            })),
            // Its holder has named nothing that could be in a block.
            Input::Mined(_) => Err(Refusal::Unsigned),
            Input::Reorged | Input::Covered(_) | Input::Final => Err(Refusal::NotMined),
            Input::Allocate(_) | Input::Expire | Input::Cancel => Err(Refusal::HasNonce),
            Input::Clear => Err(Refusal::NotStuck),
            Input::Reject
            | Input::Sign(..)
            | Input::Sent(_)
            | Input::Taken(_)
            | Input::Stick(_) => Err(Refusal::NotOurs),
        }
    }

    /// The holder names what it has sent; from now on it is followed like our own.
    pub fn submit(self, hash: B256) -> Transition {
        let to = Submitted {
            nonce: self.nonce,
            hash,
            seen: Lent::Awaited,
        };
        Transition::new(State::Submitted(to), named(hash))
    }

    /// Given back; whether that is safe after an expiry is asked of every endpoint before.
    pub fn recycle(self) -> Transition {
        let to = State::Recyclable(Recyclable {
            gave_back: self.nonce,
        });
        Transition::new(to, Event::new(event::Kind::Recycled))
    }
}

impl Submitted {
    pub(super) fn apply(self, input: Input) -> Outlook {
        match input {
            Input::Mined(at) => self.mined(at),
            Input::Reorged => self.reorged(),
            Input::Covered(publish) => self.cover(publish),
            Input::Final => self.finish(),
            Input::TakenFinal(foreign) => self.taken_final(foreign),
            Input::Submit(hash) => Err(named_again(self.hash, hash)),
            // It says it has sent bytes; they may be mined tomorrow.
            Input::Recycle => Err(Refusal::Signed),
            Input::Allocate(_) | Input::Expire | Input::Cancel => Err(Refusal::HasNonce),
            Input::Clear => Err(Refusal::NotStuck),
            Input::Reject
            | Input::Sign(..)
            | Input::Sent(_)
            | Input::Taken(_)
            | Input::Stick(_) => Err(Refusal::NotOurs),
        }
    }

    const fn inclusion(&self) -> Option<Inclusion> {
        match self.seen {
            Lent::Mined(at) => Some(at),
            Lent::Awaited | Lent::Reorged => None,
        }
    }

    fn mined(self, at: Inclusion) -> Outlook {
        if at.by != attempt::Kind::External {
            return Err(Refusal::NotOurs);
        }
        let event = receipt(self.inclusion(), at)?;
        let to = Self {
            seen: Lent::Mined(at),
            ..self
        };
        Ok(Transition::new(State::Submitted(to), event))
    }

    fn reorged(self) -> Outlook {
        let at = self.inclusion().ok_or(Refusal::NotMined)?;
        let to = Self {
            seen: Lent::Reorged,
            ..self
        };
        Ok(Transition::new(State::Submitted(to), forked(at)))
    }

    fn cover(self, publish: Publish) -> Outlook {
        let at = self.inclusion().ok_or(Refusal::NotMined)?;
        let event = covered(at, publish)?;
        Ok(Transition::new(State::Submitted(self), event))
    }

    /// How the execution went is its holder's concern: the nonce is used either way.
    fn finish(self) -> Outlook {
        let at = self.inclusion().ok_or(Refusal::NotMined)?;
        Ok(used(Used {
            nonce: self.nonce,
            hash: Some(self.hash),
            at: Some(at),
            foreign: None,
        }))
    }

    /// Holders replace their own bytes without telling us, so any hash uses the nonce.
    fn taken_final(self, foreign: Option<B256>) -> Outlook {
        match self.inclusion() {
            Some(_) => Err(Refusal::InBlock),
            None => Ok(used(Used {
                nonce: self.nonce,
                hash: Some(self.hash),
                at: None,
                foreign: another(foreign, self.hash),
            })),
        }
    }
}

impl Used {
    pub(super) fn apply(self, input: &Input) -> Outlook {
        if let Input::Submit(hash) = input {
            return self.submit(*hash);
        }
        only_reorg(input)?;
        Ok(self.reorged())
    }

    /// A holder may speak until its nonce is given back, and used is not given back: one that was
    /// away while the chain used the nonce can still name its bytes.
    fn submit(self, hash: B256) -> Outlook {
        if let Some(before) = self.hash {
            return Err(named_again(before, hash));
        }
        let to = Self {
            hash: Some(hash),
            foreign: another(self.foreign, hash),
            ..self
        };
        Ok(Transition::new(State::Used(to), named(hash)))
    }

    /// Whichever hash had used the nonce, its block is gone: the nonce is its holder's again.
    fn reorged(self) -> Transition {
        let nonce = self.nonce;
        let to = match self.hash {
            Some(hash) => State::Submitted(Submitted {
                nonce,
                hash,
                seen: Lent::Reorged,
            }),
            None => State::Reserved(Reserved { nonce }),
        };
        let event = match self.at {
            Some(at) => forked(at),
            None => Event::new(event::Kind::Confirmations)
                .hash(self.foreign)
                .fork(),
        };
        Transition::new(to, event)
    }
}

fn named(hash: B256) -> Event {
    Event::new(event::Kind::Submitted).hash(Some(hash))
}

/// Naming is idempotent, and final.
fn named_again(before: B256, hash: B256) -> Refusal {
    if before == hash {
        Refusal::Unchanged
    } else {
        Refusal::OtherHash
    }
}

fn used(to: Used) -> Transition {
    let by = to.at.map(|at| at.hash).or(to.foreign).or(to.hash);
    let mut event = Event::new(event::Kind::Used).hash(by);
    event.block = to.at.map(|at| at.block);
    Transition::new(State::Used(to), event)
}
