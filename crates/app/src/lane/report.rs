//! What a worker is told of things that went on outside it: signing, sending, looking. It wrote none
//! of it down yet, and what comes from under an old token is void.

use fencepost_domain::ids::{LaneId, Nonce, TxId};
use fencepost_domain::rejection::Reply;

use super::align::Latest;
use crate::lifecycle::fill::Filled;
use crate::lifecycle::follow::Sight;
use crate::lifecycle::follow::board::Whose;
use crate::ports::{ChainUnavailable, Decided, Held, LaneMoved, Move, Receipt, StoreError};
use crate::recovery::decided::Question;
use crate::recovery::examine::Findings;
use crate::reservation::vouch::Named;
use crate::reservation::{Counted, Due};
use fencepost_domain::nonce::ChainCount;

/// Something happened outside.
#[derive(Debug)]
pub(crate) enum Report {
    /// Bytes were signed, or not.
    Signed { held: Held, results: Vec<Filled> },
    /// Bytes were sent: the number of the attempt, and what came of it.
    Sent {
        held: Held,
        replies: Vec<(Nonce, u32, Reply)>,
    },
    /// Bytes were not sent: we could no longer believe that the lane is ours.
    Unsent { held: Held, nonces: Vec<Nonce> },
    /// Receipts were asked for directly.
    Asked {
        held: Held,
        nonces: Vec<Nonce>,
        receipts: Result<Vec<Receipt>, ChainUnavailable>,
    },
    /// The follower saw something.
    Seen {
        lane: LaneId,
        sights: Vec<(Whose, Sight)>,
    },
    /// The follower may have missed something.
    LookAgain(LaneId),
    /// Something was written for the lane by someone else.
    Settled(LaneId),
    /// Remedies may have been asked for in the lane.
    Remedied(LaneId),
    /// The lane was compared with its chain.
    Examined {
        held: Held,
        seen: Result<Findings, ChainUnavailable>,
    },
    /// A round of the policy was opened for a transaction, or not.
    Consulted {
        held: Held,
        tx: TxId,
        opened: Option<Box<Question>>,
    },
    /// The policy has said what it wants done.
    Advised {
        held: Held,
        tx: TxId,
        advised: Decided,
    },
    /// The chain was asked whether lent nonces were used whose time is over.
    Expired {
        held: Held,
        due: Vec<Due>,
        counts: Result<Counted, ChainUnavailable>,
    },
    /// A hash that a holder has named is in a block, and is the nonce's or not.
    Vouched {
        held: Held,
        named: Named,
        answer: Result<Option<bool>, ChainUnavailable>,
    },
    /// Moves that the feed tells were written, or not.
    Ended {
        held: Held,
        moves: Vec<(Nonce, Move)>,
        answer: Result<LaneMoved, Ungiven>,
    },
    /// The chain was asked how far an account is.
    Counted {
        held: Held,
        count: Result<ChainCount, ChainUnavailable>,
        /// What is in blocks, where that matters.
        latest: Latest,
    },
}

/// Why a completing statement gave no answer for a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ungiven {
    /// Nothing was written.
    Nothing,
    /// It may have been written, or may be yet.
    Unknown,
}

impl From<&StoreError> for Ungiven {
    fn from(error: &StoreError) -> Self {
        match error {
            StoreError::OutcomeUnknown(_) => Self::Unknown,
            StoreError::Unavailable(_)
            | StoreError::Busy(_)
            | StoreError::Full(_)
            | StoreError::Invalid(_)
            | StoreError::Constraint(_)
            | StoreError::Corrupt(_)
            | StoreError::Unfit(_)
            | StoreError::InUse(_) => Self::Nothing,
        }
    }
}

impl Report {
    /// Which lane it is about.
    pub(crate) const fn lane(&self) -> LaneId {
        match self {
            Self::Signed { held, .. }
            | Self::Sent { held, .. }
            | Self::Unsent { held, .. }
            | Self::Asked { held, .. }
            | Self::Ended { held, .. }
            | Self::Counted { held, .. }
            | Self::Vouched { held, .. }
            | Self::Examined { held, .. }
            | Self::Consulted { held, .. }
            | Self::Advised { held, .. }
            | Self::Expired { held, .. } => held.lane,
            Self::Seen { lane, .. }
            | Self::LookAgain(lane)
            | Self::Settled(lane)
            | Self::Remedied(lane) => *lane,
        }
    }
}
