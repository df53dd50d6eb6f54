//! What a client hears when a question could not be put to the store.

use fencepost_app::causes::Causes;
use fencepost_app::ports::StoreError;
use fencepost_domain::Address;
use fencepost_domain::ids::TxId;

use super::{Code, Problem};

/// What a call was about, for its log line.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct About {
    signer: Option<Address>,
    tx: Option<TxId>,
}

impl About {
    pub(crate) const fn signer(signer: Address) -> Self {
        Self {
            signer: Some(signer),
            tx: None,
        }
    }

    pub(crate) const fn tx(signer: Address, tx: TxId) -> Self {
        Self {
            signer: Some(signer),
            tx: Some(tx),
        }
    }
}

impl Problem {
    /// Reading failed. What went wrong is for the log; the client needs to know whether to ask again.
    pub(crate) fn unread(error: &StoreError) -> Self {
        Self::unread_of(error, About::default())
    }

    /// The same of a call that names a signer or a transaction.
    pub(crate) fn unread_of(error: &StoreError, about: About) -> Self {
        let cause = Causes(error);
        let signer = about.signer.map(tracing::field::display);
        let tx_id = about.tx.map(tracing::field::display);
        match error {
            StoreError::Unavailable(_)
            | StoreError::Busy(_)
            | StoreError::Full(_)
            | StoreError::OutcomeUnknown(_) => {
                tracing::warn!(signer, tx_id, error = %cause, "asking the store failed");
                Self::new(Code::StoreUnavailable)
            }
            StoreError::Unfit(_) | StoreError::InUse(_) => {
                tracing::error!(signer, tx_id, error = %cause, "the store cannot be used");
                Self::new(Code::StoreUnavailable)
            }
            StoreError::Invalid(_) | StoreError::Constraint(_) | StoreError::Corrupt(_) => {
                tracing::error!(signer, tx_id, error = %cause, "the store was asked what it must never be asked, or holds what was never written");
                Self::new(Code::InternalError)
            }
        }
    }

    /// Writing failed: as [`Self::unread`], but a lost reply leaves the outcome open.
    pub(crate) fn unwritten(error: &StoreError) -> Self {
        Self::unwritten_of(error, About::default())
    }

    /// The same of a call that names a signer or a transaction.
    pub(crate) fn unwritten_of(error: &StoreError, about: About) -> Self {
        match error {
            StoreError::OutcomeUnknown(_) => {
                let signer = about.signer.map(tracing::field::display);
                let tx_id = about.tx.map(tracing::field::display);
                tracing::warn!(signer, tx_id, error = %Causes(error), "the store's reply was lost");
                Self::new(Code::OutcomeUnknown)
            }
            StoreError::Unavailable(_)
            | StoreError::Busy(_)
            | StoreError::Full(_)
            | StoreError::Unfit(_)
            | StoreError::InUse(_)
            | StoreError::Invalid(_)
            | StoreError::Constraint(_)
            | StoreError::Corrupt(_) => Self::unread_of(error, about),
        }
    }
}
