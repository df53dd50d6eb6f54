//! The way of a transaction.

pub mod accept;
mod elsewhere;
pub mod queue;
pub(crate) mod fill;
pub mod sign;
pub mod submit;
pub mod follow;
pub mod receipt;
mod publish;
pub mod finality;
pub mod completion;
pub mod waiting;
pub(crate) mod retire;

use crate::ports::StoreError;
use accept::Verdict;

/// What a request is told when the store fails: whether nothing was stored, or that it is not known.
pub(crate) const fn failed(error: &StoreError) -> Verdict {
    match error {
        StoreError::OutcomeUnknown(_) => Verdict::Unknown,
        StoreError::Busy(_) => Verdict::Overloaded,
        StoreError::Unavailable(_)
        | StoreError::Full(_)
        | StoreError::Invalid(_)
        | StoreError::Constraint(_)
        | StoreError::Corrupt(_)
        | StoreError::Unfit(_)
        | StoreError::InUse(_) => Verdict::Unavailable,
    }
}
