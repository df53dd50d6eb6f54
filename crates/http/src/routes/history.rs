//! What happened to one transaction.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use fencepost_domain::ids::LaneSeq;

use super::LIST_MAX;
use super::read::named;
use crate::access::Reader;
use crate::api::Served;
use crate::json;
use crate::json::history::{Attempt, Attempts, Confirmations, Covering, Event, History};
use crate::problem::{Problem, problems};
use crate::query::{Query, Segment};

problems!(Problems: Unauthorized, Forbidden, NotFound, InvalidRequest, RateLimited, InternalError,
    StoreUnavailable, TimedOut);

/// What happened to a transaction, in order
#[utoipa::path(
    get,
    path = "/api/v1/tx/{txId}/history",
    tag = "transactions",
    operation_id = "getHistory",
    params(
        ("txId" = Uuid, Path, description = "The transaction's id"),
        ("after" = Option<u64>, Query, minimum = 0, maximum = 9_223_372_036_854_775_807_isize, description = "Only events above this seq; 0 where not given"),
        ("limit" = Option<u64>, Query, minimum = 1, maximum = 1000, description = "How many at most; 1000 where not given"),
    ),
    responses((status = 200, description = "The events", body = History), Problems),
    security(("key" = ["read"])),
)]
pub(super) async fn history(
    State(served): State<Arc<Served>>,
    Reader(caller): Reader,
    Segment(tx): Segment,
    mut query: Query,
) -> Result<Response, Problem> {
    let after = query.number("after", 0..=LaneSeq::MAX.get(), 0);
    let limit = query.number("limit", 1..=LIST_MAX, LIST_MAX);
    let record = named(&served, &caller, &tx, query.finish()).await?;
    let after = LaneSeq::new(after).unwrap_or(LaneSeq::MAX);
    let limit = usize::try_from(limit).unwrap_or(1);
    let events = served.node.store().history(record.tx, after, limit).await;
    let events = events.map_err(|error| Problem::unread(&error))?;
    let events = events.into_iter();
    let events = events
        .map(|event| Event::of(event, &record, &caller))
        .collect();
    Ok(json::answer(StatusCode::OK, &History { events }))
}

/// Everything that was signed for a transaction
#[utoipa::path(
    get,
    path = "/api/v1/tx/{txId}/attempts",
    tag = "transactions",
    operation_id = "getAttempts",
    params(("txId" = Uuid, Path, description = "The transaction's id")),
    responses((status = 200, description = "The attempts", body = Attempts), Problems),
    security(("key" = ["read"])),
)]
pub(super) async fn attempts(
    State(served): State<Arc<Served>>,
    Reader(caller): Reader,
    Segment(tx): Segment,
    query: Query,
) -> Result<Response, Problem> {
    let record = named(&served, &caller, &tx, query.finish()).await?;
    let attempts = served.node.store().attempts(&[record.tx]).await;
    let attempts = attempts.map_err(|error| Problem::unread(&error))?;
    let attempts = attempts.into_iter().map(Attempt::from).collect();
    Ok(json::answer(StatusCode::OK, &Attempts { attempts }))
}

/// The blocks on top of the one that a transaction is in, where they are published
#[utoipa::path(
    get,
    path = "/api/v1/tx/{txId}/confirmations",
    tag = "transactions",
    operation_id = "getConfirmations",
    params(("txId" = Uuid, Path, description = "The transaction's id")),
    responses((status = 200, description = "The blocks", body = Confirmations), Problems),
    security(("key" = ["read"])),
)]
pub(super) async fn confirmations(
    State(served): State<Arc<Served>>,
    Reader(caller): Reader,
    Segment(tx): Segment,
    query: Query,
) -> Result<Response, Problem> {
    let record = named(&served, &caller, &tx, query.finish()).await?;
    let told = served.node.confirmations(record.tx).await;
    let told = told.map_err(|error| Problem::unread(&error))?;
    let confirmations = told.into_iter().map(Covering::from).collect();
    Ok(json::answer(
        StatusCode::OK,
        &Confirmations { confirmations },
    ))
}
