//! The whole audit, for those who keep it elsewhere.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use fencepost_app::ports::{Act, Acts, RemedyId};

use super::LIST_MAX;
use crate::access::{Caller, Operator};
use crate::api::Served;
use crate::json;
use crate::json::audit::{AuditEntries, AuditEntry};
use crate::problem::{Problem, problems};
use crate::query::Query;

problems!(Problems: Unauthorized, Forbidden, InvalidRequest, RateLimited, InternalError, StoreUnavailable,
    TimedOut);

/// What people, policies and nodes did and were refused, oldest first
///
/// No entry with a lower number than one that was returned appears later, so a reader goes on with `after`. An entry
/// that is not closed yet (ASKED, CLAIMED) changes until it is: read it again by the number before it. Calls that were
/// refused are entries too: those of keys without the scope that a route needs, and all that operators asked for in
/// vain. A key that covers some signers sees their entries and its own refused calls.
#[utoipa::path(
    get,
    path = "/api/v1/audit",
    tag = "audit",
    operation_id = "getAudit",
    params(
        ("after" = Option<u64>, Query, minimum = 0, maximum = 9_223_372_036_854_775_807_isize, description = "The last number that was seen; 0 where not given"),
        ("limit" = Option<u64>, Query, minimum = 1, maximum = 1000, description = "How many at most; 100 where not given"),
    ),
    responses((status = 200, description = "A stretch of the audit", body = AuditEntries), Problems),
    security(("key" = ["operate"])),
)]
pub(super) async fn audit(
    State(served): State<Arc<Served>>,
    Operator(caller): Operator,
    mut query: Query,
) -> Result<Response, Problem> {
    let after = query.number("after", 0..=i64::MAX.unsigned_abs(), 0);
    let limit = query.number("limit", 1..=LIST_MAX, 100);
    query.finish().check()?;
    let after = i64::try_from(after).unwrap_or(i64::MAX);
    let limit = usize::try_from(limit).unwrap_or(1);
    let of = Acts::After(RemedyId(after));
    let acts = served.node.store().acts(of, None, limit).await;
    let acts = acts.map_err(|error| Problem::unread(&error))?;
    let next = acts.last().map_or(after, |act| act.id.0);
    let acts = acts.into_iter().filter(|act| may_see(&caller, act));
    let entries = acts
        .map(|act| AuditEntry::of(act, &served.chains))
        .collect();
    Ok(json::answer(
        StatusCode::OK,
        &AuditEntries { entries, next },
    ))
}

fn may_see(caller: &Caller, act: &Act) -> bool {
    match act.lane {
        Some(lane) => caller.covers(lane.signer),
        None => !caller.is_limited() || act.audit.by == *caller.name,
    }
}
