//! Pausing and resuming a signer. When a pause is answered, no nonce is given any more.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use fencepost_app::ports::{Audit, LaneView, PauseChange, PauseReason, Paused};
use fencepost_domain::amount;
use fencepost_domain::ids::Lane;
use tokio::time::timeout;
use tracing::Instrument;

use super::signers::{describe, view};
use crate::access::{Caller, Operator};
use crate::api::Served;
use crate::audit::Words;
use crate::faults::Faults;
use crate::given::Given;
use crate::intake::{self, ACT_UNNAMED};
use crate::json::pause::PauseBody;
use crate::json::scalar::AddressText;
use crate::json::signer::Signer;
use crate::problem::{Code, Problem, problems};
use crate::query::{Query, Segment};
use crate::{body, json};

problems!(Problems: Malformed, Unauthorized, Forbidden, UnknownSigner, UnknownChain, RequestTimeout,
    TooLarge, UnsupportedMediaType, InvalidRequest, RateLimited, InternalError, StoreUnavailable,
    TimedOut, OutcomeUnknown);

/// Give no more nonces
///
/// When this is answered, no transaction of the signer is given a nonce and nothing is signed. What is
/// on its way is still followed. The `Idempotency-Key` header is refused here.
#[utoipa::path(
    post,
    path = "/api/v1/signers/{signer}/pause",
    tag = "signers",
    operation_id = "pauseSigner",
    params(("signer" = AddressText, Path, description = "The address")),
    request_body = PauseBody,
    responses((status = 200, description = "The signer, paused", body = Signer), Problems),
    security(("key" = ["operate"])),
)]
pub(super) async fn pause(
    State(served): State<Arc<Served>>,
    Operator(caller): Operator,
    Segment(signer): Segment,
    query: Query,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    query.finish().check()?;
    let change = PauseChange::Pause(PauseReason::Operator);
    changed(served, caller, &signer, &headers, body, change).await
}

/// Give nonces again
///
/// A hold after a failover of the database stays: `paused` in the answer says so. The `Idempotency-Key`
/// header is refused here.
#[utoipa::path(
    post,
    path = "/api/v1/signers/{signer}/resume",
    tag = "signers",
    operation_id = "resumeSigner",
    params(("signer" = AddressText, Path, description = "The address")),
    request_body = PauseBody,
    responses((status = 200, description = "The signer", body = Signer), Problems),
    security(("key" = ["operate"])),
)]
pub(super) async fn resume(
    State(served): State<Arc<Served>>,
    Operator(caller): Operator,
    Segment(signer): Segment,
    query: Query,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    query.finish().check()?;
    changed(served, caller, &signer, &headers, body, PauseChange::Resume).await
}

async fn changed(
    served: Arc<Served>,
    caller: Caller,
    signer: &str,
    headers: &HeaderMap,
    body: Body,
    change: PauseChange,
) -> Result<Response, Problem> {
    let limits = &served.limits;
    let bytes = body::read(body, headers, limits.body_bytes, limits.body_timeout).await?;
    intake::unnamed(headers, ACT_UNNAMED)?;
    let (lane, audit) = read(&served, &caller, signer, body::text(&bytes)?)?;
    // What is told of the signer is read before the change: after it nothing may fail any more.
    let looking = timeout(limits.request_timeout, look(&served, lane)).await;
    let (before, signer) = looking.map_err(|_| Problem::new(Code::TimedOut))??;
    let task = tokio::spawn(write(Arc::clone(&served), before, change, audit).in_current_span());
    let unknown = || Problem::new(Code::OutcomeUnknown);
    let written = timeout(limits.request_timeout, task).await;
    let paused = written.map_err(|_| unknown())?.map_err(|_| unknown())??;
    Ok(json::answer(StatusCode::OK, &signer.paused(paused)))
}

async fn look(served: &Served, lane: Lane) -> Result<(LaneView, Signer), Problem> {
    let view = view(served, lane).await?;
    let signer = describe(served, view.clone(), None).await?;
    Ok((view, signer))
}

fn read(
    served: &Served,
    caller: &Caller,
    signer: &str,
    text: &str,
) -> Result<(Lane, Audit), Problem> {
    let given: Given<PauseBody<'_>> =
        serde_json::from_str(text).map_err(|error| body::malformed(&error))?;
    let mut faults = Faults::default();
    let signer = faults.read("signer", Some(signer), amount::address);
    let body = faults.required("body", given).unwrap_or_default();
    faults.extras("", body.extras);
    let chain = faults.text("chain", body.chain);
    let chain = served.chains.choose(chain.as_deref(), &mut faults);
    let words = Words::read(body.reason, body.audit, &mut faults);
    faults.check()?;
    let signer = signer.expect("what cannot be read is a fault");
    caller.check(signer)?;
    let chain = chain.known()?.id;
    Ok((Lane { chain, signer }, words.by(caller, served)))
}

async fn write(
    served: Arc<Served>,
    lane: LaneView,
    change: PauseChange,
    audit: Audit,
) -> Result<Option<PauseReason>, Problem> {
    let node = &served.node;
    let answer = node.store().pause(lane.id, change, &audit).await;
    match answer.map_err(|error| Problem::unwritten(&error))? {
        Paused::Now(paused) => {
            let (signer, node_id) = (lane.lane.signer, node.holder().node.as_str());
            let word = |paused: Option<PauseReason>| paused.map_or("RUNNING", PauseReason::word);
            let (from, to) = (word(lane.paused), word(paused));
            tracing::info!(%signer, tx_id = "-", node_id, token = %lane.token, nonce = %lane.next_nonce, write = "pause", from, to, by = audit.by, reason = audit.reason, "an operator changed the pause of a lane");
            Ok(paused)
        }
        Paused::UnknownLane => Err(Problem::new(Code::UnknownSigner)),
    }
}
