//! What the holders of lent nonces say. The lock token is the fence of these calls; any node takes them.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use fencepost_app::ports::SettleAct;
use fencepost_domain::amount;

use super::holder::{Call, named, told};
use crate::access::{Reader, Submitter};
use crate::api::Served;
use crate::json;
use crate::json::reservation::{
    ExtendBody, RecycleBody, Reservation, SubmittedBody, TTL_SECONDS_MAX,
};
use crate::problem::{Problem, problems};
use crate::query::{Query, Segment};

problems!(ReadProblems: Unauthorized, Forbidden, NotFound, InvalidRequest, RateLimited, InternalError,
    StoreUnavailable, TimedOut);
problems!(Problems: Malformed, Unauthorized, Forbidden, NotFound, RequestTimeout, LockLost, HashDiffers,
    AlreadySubmitted, AlreadyFinal, TooLarge, UnsupportedMediaType, InvalidRequest, RateLimited,
    InternalError, StoreUnavailable, TimedOut, OutcomeUnknown);

/// A reservation, without its lock token
///
/// Where `api.hide_nonces` is set, keys without `operate` are told no nonce here: the holder got it with the lock token.
#[utoipa::path(
    get,
    path = "/api/v1/nonces/{id}",
    tag = "reservations",
    operation_id = "getReservation",
    params(("id" = Uuid, Path, description = "The reservation's id")),
    responses((status = 200, description = "The reservation", body = Reservation), ReadProblems),
    security(("key" = ["read"])),
)]
pub(super) async fn one(
    State(served): State<Arc<Served>>,
    Reader(caller): Reader,
    Segment(reservation): Segment,
    query: Query,
) -> Result<Response, Problem> {
    let record = named(&served, &caller, &reservation, query.finish()).await?;
    let told = told(&served, &record)?.without_lock(&caller);
    Ok(json::answer(StatusCode::OK, &told))
}

/// Say that something was sent with a lent nonce
///
/// From now on it is followed until it is final, whatever hash uses the nonce in the end. Saying the same
/// hash again changes nothing. It can be said until the nonce is given back, even after `expiresAt`; later
/// the answer is `lock_lost`, and the hash is recorded and followed all the same, up to 16 of one reservation.
#[utoipa::path(
    post,
    path = "/api/v1/nonces/{id}/submitted",
    tag = "reservations",
    operation_id = "submittedNonce",
    params(("id" = Uuid, Path, description = "The reservation's id")),
    request_body = SubmittedBody,
    responses((status = 200, description = "The reservation", body = Reservation), Problems),
    security(("key" = ["submit"])),
)]
pub(super) async fn submitted(
    State(served): State<Arc<Served>>,
    Submitter(caller): Submitter,
    Segment(reservation): Segment,
    query: Query,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    query.finish().check()?;
    let call = Call::read(&served, &caller, &reservation, &headers, body).await?;
    let (body, mut faults) = call.body::<SubmittedBody<'_>>()?;
    faults.extras("", body.extras);
    let hash = faults.required("txHash", body.tx_hash).map(|text| text.0);
    let hash = faults.read("txHash", hash.as_deref(), amount::word);
    let act = hash.map(|hash| SettleAct::Submitted {
        hash,
        due_in: served.node.used_after(),
    });
    call.settle(body.lock_token, act, faults).await
}

/// Give a lent nonce back
///
/// Only when nothing was sent with it, and nothing will be: it is given to the next transaction at once.
#[utoipa::path(
    post,
    path = "/api/v1/nonces/{id}/recycle",
    tag = "reservations",
    operation_id = "recycleNonce",
    params(("id" = Uuid, Path, description = "The reservation's id")),
    request_body = RecycleBody,
    responses((status = 200, description = "The reservation", body = Reservation), Problems),
    security(("key" = ["submit"])),
)]
pub(super) async fn recycle(
    State(served): State<Arc<Served>>,
    Submitter(caller): Submitter,
    Segment(reservation): Segment,
    query: Query,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    query.finish().check()?;
    let call = Call::read(&served, &caller, &reservation, &headers, body).await?;
    let (body, mut faults) = call.body::<RecycleBody<'_>>()?;
    faults.extras("", body.extras);
    let act = Some(SettleAct::Recycle);
    call.settle(body.lock_token, act, faults).await
}

/// Keep a lent nonce for longer
#[utoipa::path(
    post,
    path = "/api/v1/nonces/{id}/extend",
    tag = "reservations",
    operation_id = "extendNonce",
    params(("id" = Uuid, Path, description = "The reservation's id")),
    request_body = ExtendBody,
    responses((status = 200, description = "The reservation", body = Reservation), Problems),
    security(("key" = ["submit"])),
)]
pub(super) async fn extend(
    State(served): State<Arc<Served>>,
    Submitter(caller): Submitter,
    Segment(reservation): Segment,
    query: Query,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    query.finish().check()?;
    let call = Call::read(&served, &caller, &reservation, &headers, body).await?;
    let (body, mut faults) = call.body::<ExtendBody<'_>>()?;
    faults.extras("", body.extras);
    let ttl = faults.required_number("ttlSeconds", body.ttl_seconds, 1..=TTL_SECONDS_MAX);
    let act = ttl.map(Duration::from_secs).map(SettleAct::Extend);
    call.settle(body.lock_token, act, faults).await
}
