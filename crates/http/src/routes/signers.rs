//! Signers as operators see them.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use fencepost_app::ports::LaneView;
use fencepost_domain::amount;
use fencepost_domain::ids::{Lane, LaneId, Nonce};

use super::LIST_MAX;
use super::gaps::gaps;
use crate::access::Reader;
use crate::api::Served;
use crate::json;
use crate::json::scalar::AddressText;
use crate::json::signer::{Signer, Signers};
use crate::problem::{Code, Problem, problems};
use crate::query::{Query, Segment};

problems!(ListProblems: Unauthorized, Forbidden, UnknownChain, InvalidRequest, RateLimited,
    InternalError, StoreUnavailable, TimedOut);
problems!(Problems: Unauthorized, Forbidden, UnknownSigner, UnknownChain, InvalidRequest, RateLimited,
    InternalError, StoreUnavailable, TimedOut);

/// Marks our cursors, and which kind they are.
const CURSOR_MARK: &str = "s1-";

/// All signers that the key covers
#[utoipa::path(
    get,
    path = "/api/v1/signers",
    tag = "signers",
    operation_id = "listSigners",
    params(
        ("chain" = Option<String>, Query, description = "Only on this chain"),
        ("limit" = Option<u64>, Query, minimum = 1, maximum = 1000, description = "How many at most; 1000 where not given"),
        ("cursor" = Option<String>, Query, pattern = "^s1-(0|[1-9][0-9]{0,18})$", description = "The nextCursor of the page before"),
    ),
    responses((status = 200, description = "The signers", body = Signers), ListProblems),
    security(("key" = ["read"])),
)]
pub(super) async fn list(
    State(served): State<Arc<Served>>,
    Reader(caller): Reader,
    mut query: Query,
) -> Result<Response, Problem> {
    let limit = query.number("limit", 1..=LIST_MAX, LIST_MAX);
    let (chain, cursor) = (query.text("chain"), query.text("cursor"));
    let after = query.faults.read("cursor", cursor.as_deref(), lane_of);
    let chain = chain.map(|name| served.chains.choose(Some(&name), &mut query.faults));
    query.finish().check()?;
    let chain = chain.map(crate::chains::Choice::known).transpose()?;
    let limit = usize::try_from(limit).unwrap_or(1);
    let views = served.node.store().lanes(after, limit).await;
    let views = views.map_err(|error| Problem::unread(&error))?;
    let is_full = views.len() == limit;
    let next_cursor = views.last().filter(|_| is_full);
    let next_cursor = next_cursor.map(|view| format!("{CURSOR_MARK}{}", view.id.0));
    let visible = views
        .into_iter()
        .filter(|view| caller.covers(view.lane.signer))
        .filter(|view| chain.is_none_or(|chain| view.lane.chain == chain.id));
    // One after another: whoever lists signers takes one reader of the store, not all of them.
    let mut signers = Vec::new();
    for view in visible {
        let signer = describe(&served, view, None).await?;
        signers.push(signer.shown_to(&caller));
    }
    let answer = Signers {
        signers,
        next_cursor,
    };
    Ok(json::answer(StatusCode::OK, &answer))
}

/// One signer on one chain
#[utoipa::path(
    get,
    path = "/api/v1/signers/{signer}",
    tag = "signers",
    operation_id = "getSigner",
    params(
        ("signer" = AddressText, Path, description = "The address"),
        ("chain" = Option<String>, Query, description = "The chain's configured name; may be left out while only one is configured"),
    ),
    responses((status = 200, description = "The signer", body = Signer), Problems),
    security(("key" = ["read"])),
)]
pub(super) async fn one(
    State(served): State<Arc<Served>>,
    Reader(caller): Reader,
    Segment(signer): Segment,
    mut query: Query,
) -> Result<Response, Problem> {
    let chain = query.text("chain");
    let mut faults = query.finish();
    let signer = faults.read("signer", Some(&signer), amount::address);
    let chain = served.chains.choose(chain.as_deref(), &mut faults);
    faults.check()?;
    let signer = signer.expect("what cannot be read is a fault");
    caller.check(signer)?;
    let chain = chain.known()?.id;
    let lane = Lane { chain, signer };
    let view = view(&served, lane).await?;
    let counts = served.node.counts(lane).await;
    let unbegun = served.node.unbegun(&view, counts);
    let latest = counts.latest.map(|count| count.highest);
    let signer = describe(&served, view, latest).await?;
    let signer = signer.counted(counts).waiting(unbegun).shown_to(&caller);
    Ok(json::answer(StatusCode::OK, &signer))
}

/// A lane as the store has it.
pub(super) async fn view(served: &Served, lane: Lane) -> Result<LaneView, Problem> {
    let view = served.node.store().lane(lane).await;
    let view = view.map_err(|error| Problem::unread(&error))?;
    view.ok_or_else(|| Problem::new(Code::UnknownSigner))
}

/// A lane in JSON, with its gaps.
pub(super) async fn describe(
    served: &Served,
    view: LaneView,
    latest: Option<Nonce>,
) -> Result<Signer, Problem> {
    let gaps = gaps(served.node.store(), &view, latest).await;
    let gaps = gaps.map_err(|error| Problem::unread(&error))?;
    let now = served.node.clock().now();
    Ok(Signer::of(&view, &gaps, &served.chains, now))
}

fn lane_of(cursor: &str) -> Result<LaneId, &'static str> {
    let wrong = "is not a cursor of this route";
    let digits = cursor.strip_prefix(CURSOR_MARK).ok_or(wrong)?;
    // A number can be written in several ways; a cursor is written in one.
    let id = digits.parse::<i64>().ok().filter(|id| *id >= 0);
    let id = id.filter(|id| id.to_string() == digits);
    id.map(LaneId).ok_or(wrong)
}
