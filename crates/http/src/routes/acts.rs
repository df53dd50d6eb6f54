//! Who asked for what, and what came of it.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use fencepost_app::ports::{Act, Acts, READ_LIMIT_MAX, RemedyId};
use fencepost_domain::amount;
use fencepost_domain::ids::Lane;

use super::LIST_MAX;
use super::read::named;
use super::signers::view;
use crate::access::{Operator, Reader};
use crate::api::Served;
use crate::json;
use crate::json::acts::{Remedies, Remedy, SignerAct, SignerActs};
use crate::json::scalar::AddressText;
use crate::problem::{Problem, problems};
use crate::query::{Query, Segment};

problems!(Problems: Unauthorized, Forbidden, NotFound, InvalidRequest, RateLimited, InternalError,
    StoreUnavailable, TimedOut);
problems!(SignerProblems: Unauthorized, Forbidden, UnknownSigner, UnknownChain, InvalidRequest,
    RateLimited, InternalError, StoreUnavailable, TimedOut);

/// Marks our cursors, and which kind they are.
const CURSOR_MARK: &str = "a1-";

/// What was asked for a transaction, newest first
#[utoipa::path(
    get,
    path = "/api/v1/tx/{txId}/remedies",
    tag = "transactions",
    operation_id = "getRemedies",
    params(("txId" = Uuid, Path, description = "The transaction's id")),
    responses((status = 200, description = "The remedies", body = Remedies), Problems),
    security(("key" = ["read"])),
)]
pub(super) async fn remedies(
    State(served): State<Arc<Served>>,
    Reader(caller): Reader,
    Segment(tx): Segment,
    query: Query,
) -> Result<Response, Problem> {
    let record = named(&served, &caller, &tx, query.finish()).await?;
    let acts = read(&served, Acts::Tx(record.tx), None, READ_LIMIT_MAX).await?;
    let remedies = acts.into_iter();
    let remedies = remedies
        .filter_map(|act| Remedy::of(act, &caller))
        .collect();
    Ok(json::answer(StatusCode::OK, &Remedies { remedies }))
}

/// What was done to a signer itself, newest first
#[utoipa::path(
    get,
    path = "/api/v1/signers/{signer}/audit",
    tag = "signers",
    operation_id = "getSignerAudit",
    params(
        ("signer" = AddressText, Path, description = "The address"),
        ("chain" = Option<String>, Query, description = "The chain's configured name; may be left out while only one is configured"),
        ("limit" = Option<u64>, Query, minimum = 1, maximum = 1000, description = "How many at most; 100 where not given"),
        ("cursor" = Option<String>, Query, pattern = "^a1-(0|[1-9][0-9]{0,18})$", description = "The nextCursor of the page before"),
    ),
    responses((status = 200, description = "The acts", body = SignerActs), SignerProblems),
    security(("key" = ["operate"])),
)]
pub(super) async fn audit(
    State(served): State<Arc<Served>>,
    Operator(caller): Operator,
    Segment(signer): Segment,
    mut query: Query,
) -> Result<Response, Problem> {
    let limit = query.number("limit", 1..=LIST_MAX, 100);
    let (chain, cursor) = (query.text("chain"), query.text("cursor"));
    let mut faults = query.finish();
    let before = faults.read("cursor", cursor.as_deref(), act_of);
    let signer = faults.read("signer", Some(&signer), amount::address);
    let chain = served.chains.choose(chain.as_deref(), &mut faults);
    faults.check()?;
    let signer = signer.expect("what cannot be read is a fault");
    caller.check(signer)?;
    let chain = chain.known()?.id;
    let lane = view(&served, Lane { chain, signer }).await?.id;
    let limit = usize::try_from(limit).unwrap_or(1);
    let acts = read(&served, Acts::Lane(lane), before, limit).await?;
    let last = acts.last().filter(|_| acts.len() == limit);
    let next_cursor = last.map(|act| format!("{CURSOR_MARK}{}", act.id.0));
    let acts = acts.into_iter().map(SignerAct::from).collect();
    let answer = SignerActs { acts, next_cursor };
    Ok(json::answer(StatusCode::OK, &answer))
}

async fn read(
    served: &Served,
    of: Acts,
    before: Option<RemedyId>,
    limit: usize,
) -> Result<Vec<Act>, Problem> {
    let acts = served.node.store().acts(of, before, limit).await;
    acts.map_err(|error| Problem::unread(&error))
}

fn act_of(cursor: &str) -> Result<RemedyId, &'static str> {
    let wrong = "is not a cursor of this route";
    let digits = cursor.strip_prefix(CURSOR_MARK).ok_or(wrong)?;
    // A number can be written in several ways; a cursor is written in one.
    let id = digits.parse::<i64>().ok().filter(|id| *id >= 0);
    let id = id.filter(|id| id.to_string() == digits);
    id.map(RemedyId).ok_or(wrong)
}
