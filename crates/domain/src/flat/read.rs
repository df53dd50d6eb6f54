//! Columns back to a state. Each family reads the columns it owns; then the whole must lay out the
//! same way again, so that a column nobody asked for is noticed, too.

use alloy_primitives::B256;

use super::{Flat, Name};
use crate::attempt;
use crate::ids::{Corrupt, Height, Nonce};
use crate::state::{
    Allocated, Block, Confirmed, Execution, Failed, Inclusion, Lent, Queued, Recyclable, Reserved,
    Seen, Signing, State, Stuck, Submitted, Tracking, Used, Verdict, Wait, Why,
};

const SUB: Corrupt = Corrupt {
    column: "sub_state",
};

impl State {
    /// Reads columns back. What does not lay out the same way again was not written by us.
    pub fn from_flat(flat: &Flat) -> Result<Self, Corrupt> {
        let state = flat.read()?;
        if state.flat() == *flat {
            return Ok(state);
        }
        Err(Corrupt { column: "state" })
    }
}

impl Flat {
    fn read(&self) -> Result<State, Corrupt> {
        Ok(match Name::from_word(&self.state)? {
            Name::Queued => State::Queued(Queued {
                wait: Wait::from_word(self.sub().unwrap_or_default())?,
            }),
            Name::Allocated => State::Allocated(self.allocated()?),
            Name::Tracking => State::Tracking(self.tracking()?),
            Name::Confirmed => State::Confirmed(Confirmed {
                nonce: self.held()?,
                at: self.decided(Verdict::Executed)?,
            }),
            Name::Failed => State::Failed(self.failed()?),
            Name::Stuck => State::Stuck(self.stuck()?),
            Name::Reserved => State::Reserved(Reserved {
                nonce: self.held()?,
            }),
            Name::Submitted => State::Submitted(self.submitted()?),
            Name::Used => State::Used(self.used()?),
            Name::Recyclable => State::Recyclable(Recyclable {
                gave_back: needed(self.gave_back()?, "nonce_given_back")?,
            }),
        })
    }

    fn allocated(&self) -> Result<Allocated, Corrupt> {
        Ok(Allocated {
            nonce: self.held()?,
            bytes: match self.sub() {
                None => Signing::Unsigned,
                Some("SIGNED") => Signing::Signed(self.signed()?),
                Some("REFUSED") => Signing::Refused(self.signed()?),
                Some(_) => return Err(SUB),
            },
        })
    }

    fn tracking(&self) -> Result<Tracking, Corrupt> {
        Ok(Tracking {
            nonce: self.held()?,
            hash: self.signed()?,
            seen: match self.sub() {
                Some("BROADCAST") => Seen::Broadcast,
                Some("AMBIGUOUS") => Seen::Ambiguous,
                Some("MINED") => Seen::Mined(self.ours()?),
                Some("REORGED") => Seen::Reorged,
                Some(_) | None => return Err(SUB),
            },
        })
    }

    fn failed(&self) -> Result<Failed, Corrupt> {
        Ok(match self.sub() {
            Some("REVERTED") => Failed::Reverted(self.held()?, self.decided(Verdict::Reverted)?),
            // It was cancelled in the queue.
            Some("CANCELLED") if self.nonce.is_none() => Failed::Cancelled(None),
            Some("CANCELLED") => {
                Failed::Cancelled(Some((self.held()?, self.decided(Verdict::Cancelled)?)))
            }
            Some("PLACEHOLDER") => {
                Failed::Placeholder(self.held()?, self.decided(Verdict::Placeholder)?)
            }
            Some("SUBSTITUTED") => {
                Failed::Substituted(self.held()?, self.decided(Verdict::Substituted)?)
            }
            Some("NONCE_TAKEN") => Failed::NonceTaken {
                nonce: self.held()?,
                hash: self.newest()?,
                foreign: self.foreign()?,
            },
            Some("EXPIRED") => Failed::Expired,
            Some("REJECTED") => Failed::Rejected {
                gave_back: self.gave_back()?,
            },
            Some(_) | None => return Err(SUB),
        })
    }

    fn stuck(&self) -> Result<Stuck, Corrupt> {
        let why = Why::from_word(self.sub().unwrap_or_default())?;
        let hash = match why {
            // What was never signed can be neither refused nor waited for.
            Why::NoReceipt | Why::Refused => Some(self.signed()?),
            Why::NonceTaken
            | Why::Gap
            | Why::NoFunds
            | Why::SignerError
            | Why::ReorgAfterFinal
            | Why::Tampered => self.newest()?,
        };
        let foreign = match why {
            Why::NonceTaken => self.foreign()?,
            Why::NoReceipt
            | Why::Refused
            | Why::Gap
            | Why::NoFunds
            | Why::SignerError
            | Why::ReorgAfterFinal
            | Why::Tampered => None,
        };
        Ok(Stuck {
            nonce: self.held()?,
            hash,
            why,
            foreign,
        })
    }

    fn submitted(&self) -> Result<Submitted, Corrupt> {
        Ok(Submitted {
            nonce: self.held()?,
            hash: self.signed()?,
            seen: match self.sub() {
                None => Lent::Awaited,
                Some("MINED") => Lent::Mined(self.decided(Verdict::Theirs)?),
                Some("REORGED") => Lent::Reorged,
                Some(_) => return Err(SUB),
            },
        })
    }

    fn used(&self) -> Result<Used, Corrupt> {
        let nonce = self.held()?;
        if self.block_number.is_none() {
            return Ok(Used {
                nonce,
                hash: self.newest()?,
                at: None,
                foreign: self.foreign()?,
            });
        }
        Ok(Used {
            nonce,
            hash: Some(self.signed()?),
            at: Some(self.decided(Verdict::Theirs)?),
            foreign: None,
        })
    }

    fn sub(&self) -> Option<&str> {
        self.sub_state.as_deref()
    }

    fn held(&self) -> Result<Nonce, Corrupt> {
        Nonce::from_column(needed(self.nonce, "nonce")?)
    }

    fn gave_back(&self) -> Result<Option<Nonce>, Corrupt> {
        self.nonce_given_back.map(Nonce::from_column).transpose()
    }

    fn newest(&self) -> Result<Option<B256>, Corrupt> {
        word(self.tx_hash.as_deref(), "tx_hash")
    }

    fn signed(&self) -> Result<B256, Corrupt> {
        needed(self.newest()?, "tx_hash")
    }

    /// A foreign hash that is our own newest one would be a contradiction.
    fn foreign(&self) -> Result<Option<B256>, Corrupt> {
        let column = "foreign_hash";
        let foreign = word(self.foreign_hash.as_deref(), column)?;
        if foreign.is_some() && foreign == self.newest()? {
            return Err(Corrupt { column });
        }
        Ok(foreign)
    }

    fn inclusion(&self) -> Result<Inclusion, Corrupt> {
        let number = needed(self.block_number, "block_number")?;
        let block_hash = word(self.block_hash.as_deref(), "block_hash")?;
        let hash = word(self.mined_hash.as_deref(), "mined_hash")?;
        Ok(Inclusion {
            block: Block {
                number: Height::from_column(number)?,
                hash: needed(block_hash, "block_hash")?,
            },
            hash: needed(hash, "mined_hash")?,
            by: attempt::Kind::from_word(self.mined_by.as_deref().unwrap_or_default())?,
            execution: Execution::from_word(self.mined_status.as_deref().unwrap_or_default())?,
        })
    }

    /// The inclusion of an attempt that we have signed.
    fn ours(&self) -> Result<Inclusion, Corrupt> {
        let at = self.inclusion()?;
        match at.verdict() {
            Verdict::Executed
            | Verdict::Reverted
            | Verdict::Cancelled
            | Verdict::Placeholder
            | Verdict::Substituted => Ok(at),
            Verdict::Theirs => Err(Corrupt { column: "mined_by" }),
        }
    }

    /// The inclusion that ended it, which must have decided what the state says.
    fn decided(&self, verdict: Verdict) -> Result<Inclusion, Corrupt> {
        let at = self.inclusion()?;
        if at.verdict() == verdict {
            Ok(at)
        } else {
            Err(Corrupt { column: "mined_by" })
        }
    }
}

fn needed<T>(value: Option<T>, column: &'static str) -> Result<T, Corrupt> {
    value.ok_or(Corrupt { column })
}

fn word(bytes: Option<&[u8]>, column: &'static str) -> Result<Option<B256>, Corrupt> {
    bytes
        .map(|bytes| B256::try_from(bytes).map_err(|_| Corrupt { column }))
        .transpose()
}
