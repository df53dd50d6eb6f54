//! A state laid out in columns, as both stores keep it. Writing is total; reading re-checks that
//! the columns say what some state says, and nothing else.

mod read;

use alloy_primitives::B256;

use crate::ids::Nonce;
use crate::state::{
    Allocated, Confirmed, Failed, Inclusion, Lent, Queued, Seen, Signing, State, Stuck, Submitted,
    Tracking, Used,
};

words! {
    /// The words of the `state` column.
    Name("state") {
        /// See [`State::Queued`].
        Queued = "QUEUED",
        /// See [`State::Allocated`].
        Allocated = "ALLOCATED",
        /// See [`State::Tracking`].
        Tracking = "TRACKING",
        /// See [`State::Confirmed`].
        Confirmed = "CONFIRMED",
        /// See [`State::Failed`].
        Failed = "FAILED_FINAL",
        /// See [`State::Stuck`].
        Stuck = "STUCK",
        /// See [`State::Reserved`].
        Reserved = "RESERVED",
        /// See [`State::Submitted`].
        Submitted = "SUBMITTED",
        /// See [`State::Used`].
        Used = "USED",
        /// See [`State::Recyclable`].
        Recyclable = "RECYCLABLE",
    }
}

/// The columns of `managed_tx` that a state fills. Fields stand in the order of the columns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Flat {
    /// `state`, one of [`Name`]'s words.
    pub state: String,
    /// `sub_state`, a word.
    pub sub_state: Option<String>,
    /// `nonce`: held now.
    pub nonce: Option<i64>,
    /// `nonce_given_back`.
    pub nonce_given_back: Option<i64>,
    /// `tx_hash`: the newest attempt's, or the mined one's once it is final. While a block is not
    /// final, the one to show is `mined_hash`.
    pub tx_hash: Option<Vec<u8>>,
    /// `block_number` of the inclusion.
    pub block_number: Option<i64>,
    /// `block_hash` of the inclusion.
    pub block_hash: Option<Vec<u8>>,
    /// `mined_hash`: which attempt is in that block.
    pub mined_hash: Option<Vec<u8>>,
    /// `mined_by`: its kind.
    pub mined_by: Option<String>,
    /// `mined_status`: how its execution went.
    pub mined_status: Option<String>,
    /// `foreign_hash`: who took the nonce.
    pub foreign_hash: Option<Vec<u8>>,
}

impl State {
    /// The word of its `state` column.
    #[must_use]
    pub const fn name(&self) -> Name {
        match self {
            Self::Queued(_) => Name::Queued,
            Self::Allocated(_) => Name::Allocated,
            Self::Tracking(_) => Name::Tracking,
            Self::Confirmed(_) => Name::Confirmed,
            Self::Failed(_) => Name::Failed,
            Self::Stuck(_) => Name::Stuck,
            Self::Reserved(_) => Name::Reserved,
            Self::Submitted(_) => Name::Submitted,
            Self::Used(_) => Name::Used,
            Self::Recyclable(_) => Name::Recyclable,
        }
    }

    /// The words, as in the columns, of every way to end.
    pub const ENDS: [(&'static str, Option<&'static str>); 10] = [
        ("CONFIRMED", None),
        ("FAILED_FINAL", Some("REVERTED")),
        ("FAILED_FINAL", Some("CANCELLED")),
        ("FAILED_FINAL", Some("PLACEHOLDER")),
        ("FAILED_FINAL", Some("SUBSTITUTED")),
        ("FAILED_FINAL", Some("NONCE_TAKEN")),
        ("FAILED_FINAL", Some("EXPIRED")),
        ("FAILED_FINAL", Some("REJECTED")),
        ("USED", None),
        ("RECYCLABLE", None),
    ];

    /// The word of its `sub_state` column: why it is there.
    #[must_use]
    pub const fn sub(&self) -> Option<&'static str> {
        match self {
            Self::Queued(Queued { wait }) => Some(wait.word()),
            Self::Allocated(Allocated { bytes, .. }) => match bytes {
                Signing::Unsigned => None,
                Signing::Signed(_) => Some("SIGNED"),
                Signing::Refused(_) => Some("REFUSED"),
            },
            Self::Tracking(Tracking { seen, .. }) => Some(match seen {
                Seen::Broadcast => "BROADCAST",
                Seen::Ambiguous => "AMBIGUOUS",
                Seen::Mined(_) => "MINED",
                Seen::Reorged => "REORGED",
            }),
            Self::Failed(failed) => Some(match failed {
                Failed::Reverted(..) => "REVERTED",
                Failed::Cancelled(_) => "CANCELLED",
                Failed::Placeholder(..) => "PLACEHOLDER",
                Failed::Substituted(..) => "SUBSTITUTED",
                Failed::NonceTaken { .. } => "NONCE_TAKEN",
                Failed::Expired => "EXPIRED",
                Failed::Rejected { .. } => "REJECTED",
            }),
            Self::Stuck(Stuck { why, .. }) => Some(why.word()),
            Self::Submitted(Submitted { seen, .. }) => match seen {
                Lent::Awaited => None,
                Lent::Mined(_) => Some("MINED"),
                Lent::Reorged => Some("REORGED"),
            },
            Self::Confirmed(_) | Self::Reserved(_) | Self::Used(_) | Self::Recyclable(_) => None,
        }
    }

    /// The newest attempt's hash, or the mined one's once it is final.
    #[must_use]
    pub const fn hash(&self) -> Option<B256> {
        match self {
            Self::Allocated(Allocated { bytes, .. }) => match bytes {
                Signing::Unsigned => None,
                Signing::Signed(hash) | Signing::Refused(hash) => Some(*hash),
            },
            Self::Tracking(Tracking { hash, .. }) | Self::Submitted(Submitted { hash, .. }) => {
                Some(*hash)
            }
            Self::Stuck(Stuck { hash, .. })
            | Self::Used(Used { hash, .. })
            | Self::Failed(Failed::NonceTaken { hash, .. }) => *hash,
            Self::Confirmed(_)
            | Self::Failed(_)
            | Self::Queued(_)
            | Self::Reserved(_)
            | Self::Recyclable(_) => match self.inclusion() {
                Some(at) => Some(at.hash),
                None => None,
            },
        }
    }

    /// The block it is in, if it is in one.
    #[must_use]
    pub const fn inclusion(&self) -> Option<Inclusion> {
        match self {
            Self::Tracking(Tracking {
                seen: Seen::Mined(at),
                ..
            })
            | Self::Submitted(Submitted {
                seen: Lent::Mined(at),
                ..
            })
            | Self::Confirmed(Confirmed { at, .. })
            | Self::Failed(
                Failed::Reverted(_, at)
                | Failed::Placeholder(_, at)
                | Failed::Substituted(_, at)
                | Failed::Cancelled(Some((_, at))),
            ) => Some(*at),
            Self::Used(Used { at, .. }) => *at,
            Self::Queued(_)
            | Self::Allocated(_)
            | Self::Tracking(_)
            | Self::Failed(_)
            | Self::Stuck(_)
            | Self::Reserved(_)
            | Self::Submitted(_)
            | Self::Recyclable(_) => None,
        }
    }

    const fn foreign(&self) -> Option<B256> {
        match self {
            Self::Stuck(Stuck { foreign, .. })
            | Self::Used(Used { foreign, .. })
            | Self::Failed(Failed::NonceTaken { foreign, .. }) => *foreign,
            Self::Queued(_)
            | Self::Allocated(_)
            | Self::Tracking(_)
            | Self::Confirmed(_)
            | Self::Failed(_)
            | Self::Reserved(_)
            | Self::Submitted(_)
            | Self::Recyclable(_) => None,
        }
    }

    /// Lays it out in columns.
    #[must_use]
    pub fn flat(&self) -> Flat {
        let at = self.inclusion();
        let bytes = |hash: B256| hash.to_vec();
        Flat {
            state: self.name().word().to_owned(),
            sub_state: self.sub().map(str::to_owned),
            nonce: self.nonce().map(Nonce::column),
            nonce_given_back: self.gave_back().map(Nonce::column),
            tx_hash: self.hash().map(bytes),
            block_number: at.map(|at| at.block.number.column()),
            block_hash: at.map(|at| bytes(at.block.hash)),
            mined_hash: at.map(|at| bytes(at.hash)),
            mined_by: at.map(|at| at.by.word().to_owned()),
            mined_status: at.map(|at| at.execution.word().to_owned()),
            foreign_hash: self.foreign().map(bytes),
        }
    }
}
