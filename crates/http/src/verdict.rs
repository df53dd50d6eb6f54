//! What became of a request, as a status and a code: the one place where that is decided.

use axum::http::StatusCode;
use fencepost_app::lifecycle::accept::Verdict;
use fencepost_app::ports::{NewTx, PauseReason, Record};

use crate::problem::{Code, Problem};

/// The stored transaction and its status, or why there is none.
pub(crate) fn told(verdict: Verdict, tx: &NewTx) -> Result<(StatusCode, Box<Record>), Problem> {
    let problem = match verdict {
        Verdict::New(record) => return Ok((StatusCode::ACCEPTED, record)),
        Verdict::Known(record) => return Ok((StatusCode::OK, record)),
        Verdict::Conflict(record) => Problem::new(Code::IdempotencyConflict).tx(record.tx),
        // Who leads is the operators' to know; a client tries again or goes to another node.
        Verdict::NotLeader(_) => Problem::new(Code::NotLeader),
        Verdict::Paused(reason) => Problem::new(Code::SignerPaused).detail(held(reason)),
        Verdict::Overloaded => Problem::new(Code::Overloaded),
        Verdict::Exhausted => Problem::new(Code::NoncesExhausted),
        Verdict::NotOpen => Problem::new(Code::NonceNotOpen),
        Verdict::Unavailable => Problem::new(Code::StoreUnavailable),
        Verdict::Unknown => Problem::new(Code::OutcomeUnknown).tx(tx.tx),
    };
    Err(problem.request(tx.request_id.as_ref()))
}

const fn held(reason: PauseReason) -> &'static str {
    match reason {
        PauseReason::Operator => "An operator has paused the signer. Nothing was stored.",
        PauseReason::CursorJump => {
            "The chain's count of the signer's transactions ran away from ours, and an operator must look. Nothing was stored."
        }
        PauseReason::NonceClash => {
            "The signer's next nonce is held already, and an operator must look. Nothing was stored."
        }
        PauseReason::Failover => {
            "The database was failed over, and an operator must reconcile the signer. Nothing was stored."
        }
    }
}
