//! What a Postgres error means for a write: did not happen, may have happened, or is an answer.

use deadpool::managed::TimeoutType;
use fencepost_app::ports::StoreError;
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

use crate::pool::PoolError;
use crate::pooler::TRANSACTION_MODE;

/// How a failed statement is to be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The reply was lost, or the server was stopping: it may have committed, and still may.
    Lost,
    /// Deadlock or serialization trouble: nothing happened, and trying again helps.
    Contended,
    /// A row was held for longer than is waited: nothing happened, and more waiting would stop others.
    Held,
    /// The guard inside the statement refused to commit a part of what was sent.
    Partial,
    /// A unique constraint refused; nothing happened.
    Taken(Unique),
    /// Any other refusal of the server; nothing happened.
    Refused,
}

/// Which unique constraint refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unique {
    /// A transaction's id.
    Tx,
    /// A request id of the lane.
    Request,
    /// A nonce of the lane.
    Nonce,
    /// An attempt's hash on the chain.
    Hash,
    /// A running remedy, or a round of it.
    Remedy,
    /// An operator's act.
    Act,
    /// Something that no answer of ours is about.
    Other,
}

pub(crate) fn fault(error: &Error) -> Fault {
    let Some(db) = error.as_db_error() else {
        return if is_transport(error) {
            Fault::Lost
        } else {
            Fault::Refused
        };
    };
    let code = db.code();
    if *code == SqlState::UNIQUE_VIOLATION {
        return Fault::Taken(match db.constraint() {
            // The rows that stand beside a transaction's; the server may come to them first.
            Some("managed_tx_pkey" | "due_work_pkey" | "lane_queue_tx_id_key") => Unique::Tx,
            Some("managed_tx_request") => Unique::Request,
            Some("managed_tx_nonce") => Unique::Nonce,
            Some("tx_attempt_hash") => Unique::Hash,
            Some("remedy_running" | "remedy_tx_id_round_key") => Unique::Remedy,
            Some("remedy_act_key") => Unique::Act,
            Some(_) | None => Unique::Other,
        });
    }
    if *code == SqlState::DIVISION_BY_ZERO {
        return Fault::Partial;
    }
    let contended = [
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::T_R_SERIALIZATION_FAILURE,
    ];
    if contended.contains(code) {
        return Fault::Contended;
    }
    if [SqlState::LOCK_NOT_AVAILABLE, SqlState::QUERY_CANCELED].contains(code) {
        return Fault::Held;
    }
    // A server that is told to stop may do so between the commit and its reply.
    if code.code().starts_with("57P") || code.code().starts_with("08") {
        return Fault::Lost;
    }
    Fault::Refused
}

/// Neither a database error nor a conversion of ours: the wire broke, or spoke nonsense. What has no
/// source is a closed connection or a message that does not belong there.
fn is_transport(error: &Error) -> bool {
    let mut source = std::error::Error::source(error);
    if source.is_none() {
        return true;
    }
    while let Some(inner) = source {
        if inner.is::<std::io::Error>() {
            return true;
        }
        source = inner.source();
    }
    false
}

/// A statement that this session prepared is not there, or one that it never prepared is: the session is
/// not ours alone.
pub(crate) fn loses_statements(code: &SqlState) -> bool {
    let foreign = [
        SqlState::INVALID_SQL_STATEMENT_NAME,
        SqlState::DUPLICATE_PSTATEMENT,
    ];
    foreign.contains(code)
}

/// A statement that did not happen, as the port tells it.
pub(crate) fn refused(error: Error) -> StoreError {
    let Some(db) = error.as_db_error() else {
        return StoreError::Unavailable(error.into());
    };
    let code = db.code().code();
    match code {
        // No room on disk, or for a relation to grow.
        "53100" | "53000" => StoreError::Full(error.into()),
        // Deadlock, lock not available, cancelled by the statement timeout.
        "40P01" | "55P03" | "40001" | "57014" => StoreError::Busy(error.into()),
        // A table, column or function is not there.
        "42P01" | "42703" | "42883" => StoreError::Unfit(format!(
            "its schema is not the one this program needs ({}): run `fencepost migrate`",
            db.message()
        )),
        _ if loses_statements(db.code()) => StoreError::Unfit(TRANSACTION_MODE.to_owned()),
        _ if code.starts_with("23") => StoreError::Constraint(error.into()),
        _ if code.starts_with("22") => StoreError::Invalid(db.message().to_owned()),
        _ => StoreError::Unavailable(error.into()),
    }
}

/// A question that failed behind a write which has happened, or may have: whatever it says about
/// itself, the call as a whole must not be told as "nothing was written".
pub(crate) fn after_write(error: StoreError) -> StoreError {
    match error {
        StoreError::Unavailable(_)
        | StoreError::Busy(_)
        | StoreError::Full(_)
        | StoreError::Invalid(_)
        | StoreError::Constraint(_)
        | StoreError::Unfit(_)
        | StoreError::InUse(_)
        | StoreError::Corrupt(_) => StoreError::OutcomeUnknown(error.into()),
        StoreError::OutcomeUnknown(_) => error,
    }
}

/// A connection could not be had: nothing was sent.
pub(crate) fn unreached(error: PoolError) -> StoreError {
    match error {
        PoolError::Backend(why) => why.into(),
        // All connections are in use, which is no fault of the server's.
        PoolError::Timeout(TimeoutType::Wait) => StoreError::Busy(error.into()),
        PoolError::Timeout(TimeoutType::Create | TimeoutType::Recycle)
        | PoolError::Closed
        | PoolError::NoRuntimeSpecified
        | PoolError::PostCreateHook(_) => StoreError::Unavailable(error.into()),
    }
}
