//! What SQLite says, in the store's words.

use std::error::Error;

use fencepost_app::ports::StoreError;
use fencepost_domain::ids::{Corrupt, OutOfRange};
use rusqlite::ErrorCode;

/// A [`StoreError`] on its way out of an operation.
#[derive(Debug)]
pub(crate) struct Fault(pub(crate) StoreError);

/// What every statement and operation returns.
pub(crate) type Answer<T> = Result<T, Fault>;

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self(error)
    }
}

impl From<Corrupt> for Fault {
    fn from(corrupt: Corrupt) -> Self {
        Self(StoreError::Corrupt(corrupt))
    }
}

impl From<OutOfRange> for Fault {
    fn from(error: OutOfRange) -> Self {
        Self(StoreError::Invalid(error.to_string()))
    }
}

impl From<rusqlite::Error> for Fault {
    /// Before a commit nothing is written, whatever went wrong.
    fn from(error: rusqlite::Error) -> Self {
        let Some(code) = error.sqlite_error_code() else {
            // The driver could not read a column as what we wrote there.
            let column = "with another type";
            return Self(StoreError::Corrupt(Corrupt { column }));
        };
        Self(if code == ErrorCode::DiskFull {
            StoreError::Full(Box::new(error))
        } else if code == ErrorCode::ConstraintViolation {
            StoreError::Constraint(Box::new(error))
        } else if is_busy(code) {
            StoreError::Busy(Box::new(error))
        } else if matches!(code, ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) {
            StoreError::Unfit(format!("the database file is damaged: {error}"))
        } else {
            StoreError::Unavailable(Box::new(error))
        })
    }
}

fn is_busy(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
}

/// A broken rule that no constraint of the schema can say.
pub(crate) fn broken(rule: &'static str) -> Fault {
    Fault(StoreError::Constraint(rule.into()))
}

/// Why a whole group was not stored: told to each of its members.
#[derive(Debug, Clone)]
pub(crate) struct Lost {
    how: How,
    text: String,
}

#[derive(Debug, Clone, Copy)]
enum How {
    Full,
    Busy,
    Constraint,
    Unavailable,
    Unknown,
}

impl Lost {
    /// The transaction ended, or could not begin, before its commit: nothing can be written.
    pub(crate) fn before_commit(error: &rusqlite::Error) -> Self {
        let how = match definite(error) {
            Some(how) => how,
            None => How::Unavailable,
        };
        let text = error.to_string();
        Self { how, text }
    }

    /// A commit failed. Only a full disk, a lock or a constraint say for sure that the commit's
    /// mark is not in the log: after any other failure (of the sync, of the log's index) it may be
    /// there, and a crash before the next commit would bring it to life.
    pub(crate) fn at_commit(error: &rusqlite::Error) -> Self {
        let how = match definite(error) {
            Some(how) => how,
            None => How::Unknown,
        };
        let text = error.to_string();
        Self { how, text }
    }

    /// The error for one member of the group.
    pub(crate) fn error(&self) -> StoreError {
        let source: Box<dyn Error + Send + Sync> = self.text.clone().into();
        match self.how {
            How::Full => StoreError::Full(source),
            How::Busy => StoreError::Busy(source),
            How::Constraint => StoreError::Constraint(source),
            How::Unavailable => StoreError::Unavailable(source),
            How::Unknown => StoreError::OutcomeUnknown(source),
        }
    }
}

fn definite(error: &rusqlite::Error) -> Option<How> {
    let code = error.sqlite_error_code()?;
    if code == ErrorCode::DiskFull {
        Some(How::Full)
    } else if code == ErrorCode::ConstraintViolation {
        Some(How::Constraint)
    } else {
        is_busy(code).then_some(How::Busy)
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::ffi;

    use super::*;

    #[test]
    fn a_failed_commit_is_unknown_unless_its_mark_cannot_be_in_the_log() {
        let check = |code, before: fn(&StoreError) -> bool, at: fn(&StoreError) -> bool| {
            let error = || rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
            let Fault(inside) = error().into();
            assert!(before(&inside), "{inside:?}");
            let lost = Lost::before_commit(&error()).error();
            assert!(before(&lost), "{lost:?}");
            let lost = Lost::at_commit(&error()).error();
            assert!(at(&lost), "{lost:?}");
        };
        let full = |error: &StoreError| matches!(error, StoreError::Full(_));
        let busy = |error: &StoreError| matches!(error, StoreError::Busy(_));
        let constraint = |error: &StoreError| matches!(error, StoreError::Constraint(_));
        let unavailable = |error: &StoreError| matches!(error, StoreError::Unavailable(_));
        let unknown = |error: &StoreError| matches!(error, StoreError::OutcomeUnknown(_));
        check(ffi::SQLITE_FULL, full, full);
        check(ffi::SQLITE_BUSY, busy, busy);
        check(ffi::SQLITE_CONSTRAINT_CHECK, constraint, constraint);
        check(ffi::SQLITE_IOERR_WRITE, unavailable, unknown);
        check(ffi::SQLITE_IOERR_FSYNC, unavailable, unknown);
        check(ffi::SQLITE_IOERR_SHMSIZE, unavailable, unknown);
        check(ffi::SQLITE_NOMEM, unavailable, unknown);
    }
}
