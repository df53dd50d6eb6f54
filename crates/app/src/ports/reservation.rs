//! What the holder of a reservation says. Its lock token is the fence of these calls.

use std::time::Duration;

use fencepost_domain::B256;
use fencepost_domain::ids::{LockToken, TxId};
use fencepost_domain::transition::Refusal;

use super::Record;

/// One call of a holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settle {
    /// The reservation.
    pub reservation: TxId,
    /// What its holder shows.
    pub lock: LockToken,
    /// What it wants.
    pub act: SettleAct,
}

/// What a holder can say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettleAct {
    /// It has sent a transaction.
    Submitted {
        /// The transaction's hash.
        hash: B256,
        /// When the reservation is due then. Where no chain can be followed, it is used after this time.
        due_in: Duration,
    },
    /// It has sent nothing and gives the nonce back.
    Recycle,
    /// It needs more time, from now on.
    Extend(Duration),
}

/// How many hashes are recorded against one nonce that was given back. Each is stored and watched for; a holder
/// bumps its fees a few times at most, and more than this is one that names whatever it likes.
pub const LATE_HASHES_MAX: u32 = 16;

/// The answer to a holder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settled {
    /// Done, or it was so already.
    Done(Box<Record>),
    /// The nonce is someone else's by now, or the token is wrong.
    LockLost {
        /// The hash was recorded against the nonce all the same, and is followed; never more than
        /// [`LATE_HASHES_MAX`] of one reservation are.
        recorded: bool,
    },
    /// It cannot be: the holder named another hash, or has sent what it wants to recycle.
    Refused(Refusal),
    /// There is no such reservation.
    NotFound,
}
