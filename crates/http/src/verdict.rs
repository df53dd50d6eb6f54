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
        Verdict::InFlightLimit => Problem::new(Code::InFlightLimit),
        Verdict::ChainUnavailable => Problem::new(Code::ChainUnavailable),
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

#[cfg(test)]
mod tests {
    use fencepost_app::ports::Body;
    use fencepost_domain::ids::{Nonce, TxId};
    use uuid::Uuid;

    use super::*;

    #[test]
    fn what_stored_nothing_is_told_by_its_code() {
        let tx = NewTx {
            tx: TxId(Uuid::nil()),
            seal: None,
            request_id: None,
            body: Body::Placeholder(Nonce::ZERO),
            not_after: None,
            meta: None,
            created_by: None,
        };
        for (verdict, status, code) in [
            (Verdict::NotOpen, 409, "nonce_not_open"),
            (Verdict::NotLeader(None), 409, "not_leader"),
            (Verdict::Exhausted, 409, "nonces_exhausted"),
            (Verdict::Paused(PauseReason::Failover), 423, "signer_paused"),
            (Verdict::Overloaded, 503, "overloaded"),
            (Verdict::InFlightLimit, 409, "in_flight_limit"),
            (Verdict::ChainUnavailable, 503, "chain_unavailable"),
            (Verdict::Unavailable, 503, "store_unavailable"),
            (Verdict::Unknown, 504, "outcome_unknown"),
        ] {
            let problem = told(verdict, &tx).unwrap_err();
            let told = (problem.code().status().as_u16(), problem.code().word());
            assert_eq!(told, (status, code));
        }
    }
}
