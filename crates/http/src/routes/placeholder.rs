//! Using up a nonce that nobody holds, so that later ones can go on.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use fencepost_app::lifecycle::accept::Verdict;
use fencepost_app::ports::{self, Audit, NewTx, Record};
use fencepost_domain::amount;
use fencepost_domain::ids::{Nonce, TxId};
use fencepost_domain::request::Meta;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::access::{Caller, Operator};
use crate::api::Served;
use crate::audit::Words;
use crate::faults::{Faults, wrong};
use crate::given::Given;
use crate::intake::{self, Taken};
use crate::json::placeholder::PlaceholderBody;
use crate::json::scalar::AddressText;
use crate::json::transaction::Transaction;
use crate::problem::{Code, Problem, problems};
use crate::query::{Query, Segment};
use crate::{body, json as spelled, verdict};

problems!(Problems: Malformed, Unauthorized, Forbidden, UnknownSigner, UnknownChain, RequestTimeout,
    IdempotencyConflict, NotLeader, NonceNotOpen, NoncesExhausted, TooLarge, UnsupportedMediaType,
    InvalidRequest, SignerPaused, RateLimited, InternalError, Overloaded, StoreUnavailable,
    ChainUnavailable, OutcomeUnknown);

/// Fill a gap
///
/// A transaction of kind `placeholder` takes the nonce and only uses it up: it moves nothing. The nonce
/// must have been given once and be held by nobody: one of the signer's `gaps` or `freeNonces`.
#[utoipa::path(
    post,
    path = "/api/v1/signers/{signer}/placeholder",
    tag = "signers",
    operation_id = "placePlaceholder",
    params(
        ("signer" = AddressText, Path, description = "The address"),
        ("Idempotency-Key" = Option<String>, Header, min_length = 1, max_length = 200,
            pattern = "^[^\\s\\x00-\\x1f\\x7f-\\x9f]([^\\x00-\\x1f\\x7f-\\x9f]*[^\\s\\x00-\\x1f\\x7f-\\x9f])?$",
            description = "The same as requestId in the body"),
    ),
    request_body = PlaceholderBody,
    responses(
        (status = 202, description = "Stored now", body = Transaction),
        (status = 200, description = "Stored before, the same", body = Transaction),
        Problems,
    ),
    security(("key" = ["operate"])),
)]
pub(super) async fn placeholder(
    State(served): State<Arc<Served>>,
    Operator(caller): Operator,
    Segment(signer): Segment,
    query: Query,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    query.finish().check()?;
    let limits = &served.limits;
    let bytes = body::read(body, &headers, limits.body_bytes, limits.body_timeout).await?;
    let key = intake::idempotency_key(&headers)?;
    let (taken, nonce) = read(&served, &caller, &signer, body::text(&bytes)?, key)?;
    let settled = intake::accept(&served, vec![taken]).await.pop();
    let (tx, verdict) = settled.ok_or_else(|| Problem::new(Code::InternalError))?;
    let (status, record) = verdict::told(same_nonce(verdict, nonce), &tx)?;
    let told = Transaction::of(&record, &served.chains, &caller);
    Ok(spelled::answer(status, &told))
}

fn read(
    served: &Served,
    caller: &Caller,
    signer: &str,
    text: &str,
    key: Option<&str>,
) -> Result<(Taken, Nonce), Problem> {
    let given: Given<PlaceholderBody<'_>> =
        serde_json::from_str(text).map_err(|error| body::malformed(&error))?;
    let mut faults = Faults::default();
    let signer = faults.read("signer", Some(signer), amount::address);
    let body = faults.required("body", given).unwrap_or_default();
    faults.extras("", body.extras);
    let chain = faults.text("chain", body.chain);
    let chain = served.chains.choose(chain.as_deref(), &mut faults);
    let nonce = faults.required_number("nonce", body.nonce, 0..=Nonce::MAX.get());
    let words = Words::read(body.reason, body.audit, &mut faults);
    let request_id = faults.text("requestId", body.request_id);
    let request_id = intake::named(request_id.as_deref(), key, &mut faults);
    faults.check()?;
    let nonce = nonce.and_then(|nonce| Nonce::new(nonce).ok());
    let nonce = nonce.expect("what cannot be read is a fault");
    let meta = meta(&words.by(caller, served))?;
    let signer = signer.expect("what cannot be read is a fault");
    let seat = intake::seat(served, caller, signer, chain)?;
    intake::signing(seat)?;
    let tx = NewTx {
        tx: TxId(Uuid::now_v7()),
        seal: None,
        request_id,
        body: ports::Body::Placeholder(nonce),
        not_after: None,
        meta: Some(meta),
        created_by: caller.key_name(),
    };
    Ok((Taken { seat, tx }, nonce))
}

/// Who and why, as the transaction keeps it.
fn meta(audit: &Audit) -> Result<Meta, Problem> {
    let details = audit.details.as_deref();
    let details: Option<Value> = details.and_then(|text| serde_json::from_str(text).ok());
    let meta = json!({ "by": audit.by, "reason": audit.reason, "audit": details });
    Meta::new(meta.to_string()).map_err(|_| {
        let why = format!("is above {} bytes with the reason", Meta::BYTES_MAX);
        wrong("audit", why)
    })
}

/// A placeholder that is known by this name is the same one only if it is, or was, for the same nonce.
fn same_nonce(verdict: Verdict, nonce: Nonce) -> Verdict {
    let its = |record: &Record| record.state.nonce().or(record.state.gave_back());
    match verdict {
        Verdict::Known(record) if its(&record) != Some(nonce) => Verdict::Conflict(record),
        verdict @ (Verdict::New(_)
        | Verdict::Known(_)
        | Verdict::Conflict(_)
        | Verdict::NotLeader(_)
        | Verdict::Paused(_)
        | Verdict::Overloaded
        | Verdict::InFlightLimit
        | Verdict::ChainUnavailable
        | Verdict::Exhausted
        | Verdict::NotOpen
        | Verdict::Unavailable
        | Verdict::Unknown) => verdict,
    }
}
