//! Nonces for those who sign themselves: lending them.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use fencepost_app::ports::Record;
use tokio::time::{Instant, timeout_at};
use tracing::Instrument;

use crate::access::Submitter;
use crate::api::Served;
use crate::json::reservation::{Reservation, Reservations, ReserveBody};
use crate::lending::{Wish, lend};
use crate::problem::{Code, Problem, problems};
use crate::query::Query;
use crate::{body, intake, json};

problems!(Problems: Malformed, Unauthorized, Forbidden, UnknownSigner, UnknownChain, RequestTimeout,
    IdempotencyConflict, NotLeader, InFlightLimit, NoncesExhausted, TooLarge, UnsupportedMediaType, InvalidRequest,
    SignerPaused, RateLimited, InternalError, Overloaded, StoreUnavailable, ChainUnavailable, OutcomeUnknown);

/// Reserve nonces
///
/// The smallest nonce that was given back, else the next one, is lent until `expiresAt`. All later
/// transactions of the signer wait for it: say `submitted` or `recycle` as soon as you can. A request that
/// is repeated with the same request id gives the same reservation and the same lock token. Where nobody
/// leads the signer, a leader is waited for no longer than `routing.deadline`, then the answer is 409 `not_leader`.
/// Where the signer's `max_in_flight` is reached, it is 409 `in_flight_limit` at once.
#[utoipa::path(
    post,
    path = "/api/v1/nonces/reserve",
    tag = "reservations",
    operation_id = "reserveNonce",
    params(("Idempotency-Key" = Option<String>, Header, min_length = 1, max_length = 200,
        pattern = "^[^\\s\\x00-\\x1f\\x7f-\\x9f]([^\\x00-\\x1f\\x7f-\\x9f]*[^\\s\\x00-\\x1f\\x7f-\\x9f])?$",
        description = "The same as requestId in the body")),
    request_body = ReserveBody,
    responses(
        (status = 201, description = "Reserved now: the reservation, or `{reservations}` where `count` was given", body = Lent),
        (status = 200, description = "Reserved before: the same, with the same lock token, as it stands", body = Lent),
        Problems,
    ),
    security(("key" = ["submit"])),
)]
pub(super) async fn reserve(
    State(served): State<Arc<Served>>,
    Submitter(caller): Submitter,
    query: Query,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    query.finish().check()?;
    let limits = &served.limits;
    let bytes = body::read(body, &headers, limits.body_bytes, limits.body_timeout).await?;
    let key = intake::idempotency_key(&headers)?;
    let wish = Wish::read(&served, &caller, body::text(&bytes)?, key)?;
    let more = wish.count.unwrap_or(1).saturating_sub(1);
    let more = usize::try_from(more).unwrap_or(usize::MAX);
    caller.rate.take_more(more)?;
    let deadline = Instant::now() + limits.request_timeout;
    let lending = lend(Arc::clone(&served), wish.clone(), deadline);
    let lending = tokio::spawn(lending.in_current_span());
    let lent = timeout_at(deadline, lending).await;
    let lent = lent.map_err(|_| wish.unknown())?;
    let (status, records) = lent.map_err(|_| wish.unknown())??;
    let all = records.iter().map(|record| told(&served, record));
    let mut reservations = all.collect::<Result<Vec<_>, _>>()?;
    let lent = match (wish.count, reservations.pop()) {
        (None, Some(only)) => Lent::One(only),
        (Some(_), last) => {
            reservations.extend(last);
            Lent::Several(Reservations { reservations })
        }
        (None, None) => return Err(Problem::new(Code::InternalError)),
    };
    Ok(json::answer(status, &lent))
}

/// What was asked for: one, or as many as `count` said
#[derive(serde::Serialize, utoipa::ToSchema)]
#[serde(untagged)]
#[schema(as = ReservedNonces)]
enum Lent {
    /// Without `count`
    One(Reservation),
    /// With `count`
    Several(Reservations),
}

fn told(served: &Served, record: &Record) -> Result<Reservation, Problem> {
    let told = Reservation::of(record, &served.chains);
    told.ok_or_else(|| {
        let (signer, token) = (record.lane.signer, record.token);
        tracing::error!(%signer, tx_id = %record.tx, %token, "a reservation has no nonce");
        Problem::new(Code::InternalError)
    })
}
