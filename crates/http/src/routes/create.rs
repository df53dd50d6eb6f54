//! One transaction to be sent.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;

use super::deadline;
use crate::access::Submitter;
use crate::api::Served;
use crate::intake;
use crate::json::create::CreateBody;
use crate::json::transaction::Transaction;
use crate::json::words::WaitPoint;
use crate::problem::{Code, Problem, problems};
use crate::query::Query;
use crate::waiting::Wanted;
use crate::{body, json, verdict};

problems!(Problems: Malformed, Unauthorized, Forbidden, UnknownSigner, UnknownChain, RequestTimeout,
    IdempotencyConflict, NotLeader, NoncesExhausted, TooLarge, UnsupportedMediaType, InvalidRequest, PreflightReverted,
    SignerPaused,
    RateLimited, InternalError, Overloaded, StoreUnavailable, TimedOut, OutcomeUnknown);

/// Have a transaction sent
///
/// The answer means that it is stored. A request that is repeated with the same request id gives the
/// same transaction and costs nothing; the same id with another payload is refused. With `wait` the answer comes
/// when the transaction has reached a point; one that is slow is answered as it stands, with the same status.
#[utoipa::path(
    post,
    path = "/api/v1/tx",
    tag = "transactions",
    operation_id = "createTransaction",
    params(
        ("Idempotency-Key" = Option<String>, Header, min_length = 1, max_length = 200,
            pattern = "^[^\\s\\x00-\\x1f\\x7f-\\x9f]([^\\x00-\\x1f\\x7f-\\x9f]*[^\\s\\x00-\\x1f\\x7f-\\x9f])?$",
            description = "The same as requestId in the body"),
        ("wait" = Option<WaitPoint>, Query, description = "Answer when it has reached this point, or has ended or is STUCK, or when the time is over"),
        ("waitSeconds" = Option<u64>, Query, minimum = 0, maximum = 30, description = "How long to wait at most; 10 where not given; only with wait. No wait is longer than 28.5 s"),
    ),
    request_body = CreateBody,
    responses(
        (status = 202, description = "Stored now", body = Transaction),
        (status = 200, description = "Stored before, the same", body = Transaction),
        Problems,
    ),
    security(("key" = ["submit"])),
)]
pub(super) async fn create(
    State(served): State<Arc<Served>>,
    Submitter(caller): Submitter,
    mut query: Query,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let wanted = Wanted::read(&mut query);
    query.finish().check()?;
    let limits = &served.limits;
    let bytes = body::read(body, &headers, limits.body_bytes, limits.body_timeout).await?;
    let key = intake::idempotency_key(&headers)?;
    let taken = intake::take(&served, &caller, body::text(&bytes)?, key)?;
    deadline::bounded(&served, intake::preflight(&served, &taken)).await??;
    let begun = wanted.map(|wanted| wanted.begin(&served.node, [taken.tx.tx]));
    let settled = intake::accept(&served, vec![taken]).await.pop();
    let (tx, verdict) = settled.ok_or_else(|| Problem::new(Code::InternalError))?;
    let (status, mut record) = verdict::told(verdict, &tx)?;
    if let Some(begun) = begun {
        record = begun.reach_one(record).await;
    }
    Ok(json::answer(
        status,
        &Transaction::of(&record, &served.chains, &caller),
    ))
}
