//! The feed of completions. This is the core contract with readers: poll, from the last number seen.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use fencepost_domain::ids::FeedSeq;

use super::LIST_MAX;
use crate::access::Reader;
use crate::api::Served;
use crate::json;
use crate::json::completion::{Completion, Completions};
use crate::problem::{Code, Problem, problems};
use crate::query::Query;
use crate::waiting::{WAIT_SECONDS_MAX, kept};

problems!(Problems: Unauthorized, Forbidden, FeedReset, InvalidRequest, RateLimited, InternalError,
    StoreUnavailable, TimedOut);

/// How transactions ended, in the order of their numbers
///
/// Numbers have no gaps, and no number at or below one that was returned ever appears later. A reader
/// behind what was retired is told so, and where the feed begins: it never misses a number unawares. With
/// `wait` the answer comes with the first new completion, or empty when the time is over.
#[utoipa::path(
    get,
    path = "/api/v1/tx/completions",
    tag = "completions",
    operation_id = "listCompletions",
    params(
        ("after" = Option<u64>, Query, minimum = 0, maximum = 9_223_372_036_854_775_807_isize, description = "The last number that was seen; 0 where not given"),
        ("limit" = Option<u64>, Query, minimum = 1, maximum = 1000, description = "How many at most; 100 where not given"),
        ("wait" = Option<u64>, Query, minimum = 0, maximum = 30, description = "Seconds to wait for the first; 0 where not given. The answer comes within 29 s, also of a longer wait"),
    ),
    responses((status = 200, description = "A stretch of the feed", body = Completions), Problems),
    security(("key" = ["read"])),
)]
pub(super) async fn completions(
    State(served): State<Arc<Served>>,
    Reader(caller): Reader,
    mut query: Query,
) -> Result<Response, Problem> {
    let after = query.number("after", 0..=FeedSeq::MAX.get(), 0);
    let limit = query.number("limit", 1..=LIST_MAX, 100);
    let wait = query.number("wait", 0..=WAIT_SECONDS_MAX, 0);
    query.finish().check()?;
    let seen = FeedSeq::new(after).unwrap_or(FeedSeq::MAX);
    let limit = usize::try_from(limit).unwrap_or(1);
    let feed = served.node.completions(seen, limit, kept(wait));
    let feed = feed.await.map_err(|error| Problem::unread(&error))?;
    if feed.head < seen {
        let (head, epoch) = (feed.head, feed.epoch);
        let detail = format!("The newest completion is {head}, in epoch {epoch}.");
        let problem = Problem::new(Code::FeedReset).detail(detail);
        return Err(problem.begins_after(feed.floor));
    }
    if seen < feed.floor {
        let floor = feed.floor;
        let detail = format!("Completions up to {floor} were retired: the feed begins after them.");
        let problem = Problem::new(Code::FeedReset).detail(detail);
        return Err(problem.begins_after(floor));
    }
    let next = feed.completions.last().map_or(after, |last| last.seq.get());
    let visible = feed
        .completions
        .iter()
        .filter(|completion| caller.covers(completion.lane.signer))
        .map(|completion| Completion::of(completion, &served.chains, &caller));
    let answer = Completions {
        completions: visible.collect(),
        next,
        epoch: feed.epoch,
    };
    Ok(json::answer(StatusCode::OK, &answer))
}
