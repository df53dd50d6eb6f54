//! What a client hears when a question could not be put to the store.

use fencepost_app::causes::Causes;
use fencepost_app::ports::StoreError;

use super::{Code, Problem};

impl Problem {
    /// Reading failed. What went wrong is for the log; the client needs to know whether to ask again.
    pub(crate) fn unread(error: &StoreError) -> Self {
        let cause = Causes(error);
        match error {
            StoreError::Unavailable(_)
            | StoreError::Busy(_)
            | StoreError::Full(_)
            | StoreError::OutcomeUnknown(_) => {
                tracing::warn!(error = %cause, "asking the store failed");
                Self::new(Code::StoreUnavailable)
            }
            StoreError::Unfit(_) | StoreError::InUse(_) => {
                tracing::error!(error = %cause, "the store cannot be used");
                Self::new(Code::StoreUnavailable)
            }
            StoreError::Invalid(_) | StoreError::Constraint(_) | StoreError::Corrupt(_) => {
                tracing::error!(error = %cause, "the store was asked what it must never be asked, or holds what was never written");
                Self::new(Code::InternalError)
            }
        }
    }

    /// Writing failed: as [`Self::unread`], but a lost reply leaves the outcome open.
    pub(crate) fn unwritten(error: &StoreError) -> Self {
        match error {
            StoreError::OutcomeUnknown(_) => {
                tracing::warn!(error = %Causes(error), "the store's reply was lost");
                Self::new(Code::OutcomeUnknown)
            }
            StoreError::Unavailable(_)
            | StoreError::Busy(_)
            | StoreError::Full(_)
            | StoreError::Unfit(_)
            | StoreError::InUse(_)
            | StoreError::Invalid(_)
            | StoreError::Constraint(_)
            | StoreError::Corrupt(_) => Self::unread(error),
        }
    }
}
