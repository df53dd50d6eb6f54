//! Signers that come from another service and go back: cursor, import, export.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use fencepost_app::causes::Causes;
use fencepost_app::directory::Seat;
use fencepost_app::import::{ImportReport, OpenNonce, OpenState, Unimported};
use fencepost_app::ports::{Audit, CursorMoved};
use fencepost_domain::ids::{Lane, Nonce, RequestId};
use fencepost_domain::{Address, amount};
use tokio::time::timeout;
use tracing::Instrument;

use super::signers::{describe, view};
use crate::access::{Caller, Operator};
use crate::api::Served;
use crate::audit::Words;
use crate::faults::Faults;
use crate::given::{Flag, Given, Whole};
use crate::intake::{self, ACT_UNNAMED};
use crate::json::import::{CursorBody, Exported, ImportBody, Importation, OPEN_MAX, OpenItem};
use crate::json::reservation::TTL_SECONDS_MAX;
use crate::json::scalar::AddressText;
use crate::json::signer::Signer;
use crate::problem::{About, Code, Problem, problems};
use crate::query::{Query, Segment};
use crate::{body, json};

problems!(CursorProblems: Malformed, Unauthorized, Forbidden, UnknownSigner, UnknownChain, RequestTimeout,
    SignerNotPaused, NonceHeld, TooLarge, UnsupportedMediaType, InvalidRequest, RateLimited,
    InternalError, StoreUnavailable, ChainUnavailable, TimedOut, OutcomeUnknown);
problems!(ImportProblems: Malformed, Unauthorized, Forbidden, UnknownSigner, UnknownChain, RequestTimeout,
    SignerNotPaused, NonceHeld, TooLarge, UnsupportedMediaType, InvalidRequest, RateLimited,
    InternalError, StoreUnavailable, ChainUnavailable, TimedOut, OutcomeUnknown);
problems!(ExportProblems: Unauthorized, Forbidden, UnknownSigner, UnknownChain, TooManyOpen,
    InvalidRequest, RateLimited, InternalError, StoreUnavailable, TimedOut);

/// Set the next nonce
///
/// Up or down, on a paused signer only, never to or below a nonce that is held or was used here, and never below
/// what the chain has used. Where endpoints disagree about that, the highest count is taken; while none of them can
/// be asked, nothing is changed and the answer is `chain_unavailable`. The `Idempotency-Key` header is refused here.
#[utoipa::path(
    post,
    path = "/api/v1/signers/{signer}/cursor",
    tag = "signers",
    operation_id = "setCursor",
    params(("signer" = AddressText, Path, description = "The address")),
    request_body = CursorBody,
    responses((status = 200, description = "The signer", body = Signer), CursorProblems),
    security(("key" = ["operate"])),
)]
pub(super) async fn cursor(
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
    intake::unnamed(&headers, ACT_UNNAMED)?;
    let (seat, to, audit) = read_cursor(&served, &caller, &signer, body::text(&bytes)?)?;
    let task = set(Arc::clone(&served), seat, to, audit).in_current_span();
    let unknown = || Problem::new(Code::OutcomeUnknown);
    let set = timeout(limits.request_timeout, tokio::spawn(task)).await;
    set.map_err(|_| unknown())?.map_err(|_| unknown())??;
    // It is done; whoever cannot be told how the signer stands now can look again.
    let view = view(&served, seat.lane).await.map_err(|_| unknown())?;
    let signer = describe(&served, view, None).await;
    Ok(json::answer(
        StatusCode::OK,
        &signer.map_err(|_| unknown())?,
    ))
}

fn read_cursor(
    served: &Served,
    caller: &Caller,
    signer: &str,
    text: &str,
) -> Result<(Seat, Nonce, Audit), Problem> {
    let given: Given<CursorBody<'_>> =
        serde_json::from_str(text).map_err(|error| body::malformed(&error))?;
    let mut faults = Faults::default();
    let signer = faults.read("signer", Some(signer), amount::address);
    let body = faults.required("body", given).unwrap_or_default();
    faults.extras("", body.extras);
    let chain = faults.text("chain", body.chain);
    let chain = served.chains.choose(chain.as_deref(), &mut faults);
    let to = nonce(&mut faults, "nextNonce", body.next_nonce);
    let words = Words::read(body.reason, body.audit, &mut faults);
    faults.check()?;
    let signer = signer.expect("what cannot be read is a fault");
    let seat = intake::seat(served, caller, signer, chain)?;
    let to = to.expect("what cannot be read is a fault");
    Ok((seat, to, words.by(caller, served)))
}

async fn set(served: Arc<Served>, seat: Seat, to: Nonce, audit: Audit) -> Result<(), Problem> {
    let node = &served.node;
    let (signer, node_id) = (seat.lane.signer, node.holder().node.as_str());
    match node.set_cursor(seat, to, &audit).await {
        Ok(CursorMoved::Now { from, to }) => {
            tracing::info!(%signer, node_id, by = audit.by, reason = audit.reason, %from, %to, "an operator set the cursor of a lane");
            Ok(())
        }
        Ok(CursorMoved::NotPaused) => Err(Problem::new(Code::SignerNotPaused)),
        Ok(CursorMoved::Holds(nonce)) => Err(held(nonce)),
        Ok(CursorMoved::UnknownLane | CursorMoved::Fenced) => {
            Err(Problem::new(Code::UnknownSigner))
        }
        Err(why) => Err(unimported(why, signer, false)),
    }
}

/// Take over a signer that was used elsewhere
///
/// The cursor and the nonces that another service has given and that are not final, all or nothing, on a paused
/// signer. With `dryRun` everything is checked, and the answer is what it would come to. The same list again, on a
/// signer that is still paused, changes nothing and is answered with what is there and the same lock tokens, so an
/// answer that was lost can be asked for again. docs/migrating.md has the whole way. The `Idempotency-Key` header is
/// refused here.
#[utoipa::path(
    post,
    path = "/api/v1/signers/{signer}/import",
    tag = "signers",
    operation_id = "importSigner",
    params(("signer" = AddressText, Path, description = "The address")),
    request_body = ImportBody,
    responses((status = 200, description = "What it came to", body = Importation), ImportProblems),
    security(("key" = ["operate"])),
)]
pub(super) async fn import(
    State(served): State<Arc<Served>>,
    Operator(caller): Operator,
    Segment(signer): Segment,
    query: Query,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    query.finish().check()?;
    let limits = &served.limits;
    let bytes = body::read(body, &headers, limits.import_bytes, limits.body_timeout).await?;
    intake::unnamed(&headers, ACT_UNNAMED)?;
    let wish = read_import(&served, &caller, &signer, body::text(&bytes)?)?;
    let (lane, is_dry) = (wish.seat.lane, wish.is_dry);
    let task = tokio::spawn(take(Arc::clone(&served), wish).in_current_span());
    let late = || {
        Problem::new(if is_dry {
            Code::TimedOut
        } else {
            Code::OutcomeUnknown
        })
    };
    let told = timeout(limits.request_timeout, task).await;
    let told = told.map_err(|_| late())?.map_err(|_| late())??;
    let told = Importation::of(&told, is_dry, lane, &served.chains);
    Ok(json::answer(StatusCode::OK, &told))
}

/// What is to be taken over.
struct Wish {
    seat: Seat,
    next_nonce: Nonce,
    open: Vec<OpenNonce>,
    is_dry: bool,
    audit: Audit,
}

fn read_import(
    served: &Served,
    caller: &Caller,
    signer: &str,
    text: &str,
) -> Result<Wish, Problem> {
    let given: Given<ImportBody<'_>> =
        serde_json::from_str(text).map_err(|error| body::malformed(&error))?;
    let mut faults = Faults::default();
    let signer = faults.read("signer", Some(signer), amount::address);
    let body = faults.required("body", given).unwrap_or_default();
    faults.extras("", body.extras);
    let named = faults.text("signer", body.signer);
    let named: Option<Address> = faults.read("signer", named.as_deref(), amount::address);
    if named.is_some() && signer.is_some() && named != signer {
        faults.add("signer", "is another one than in the path");
    }
    let chain = faults.text("chain", body.chain);
    let chain = served.chains.choose(chain.as_deref(), &mut faults);
    let next_nonce = nonce(&mut faults, "nextNonce", body.next_nonce);
    let is_dry = faults.given("dryRun", body.dry_run);
    let words = Words::read(body.reason, body.audit, &mut faults);
    let mut open = Vec::new();
    if let Some(list) = faults.required("open", body.open) {
        if list.is_too_long {
            faults.add("open", format_args!("has more than {OPEN_MAX} nonces"));
        }
        for (at, item) in list.items.into_iter().enumerate() {
            open.extend(read_item(&mut faults, at, item));
        }
    }
    faults.check()?;
    let signer = signer.expect("what cannot be read is a fault");
    Ok(Wish {
        seat: intake::seat(served, caller, signer, chain)?,
        next_nonce: next_nonce.expect("what cannot be read is a fault"),
        open,
        is_dry: is_dry.is_some_and(|Flag(is)| is),
        audit: words.by(caller, served),
    })
}

/// One item of the list, or nothing where something is wrong with it.
fn read_item(faults: &mut Faults, at: usize, item: Given<OpenItem<'_>>) -> Option<OpenNonce> {
    let place = format!("open[{at}]");
    let item = faults.required(&place, item)?;
    let field = |name: &str| format!("{place}.{name}");
    faults.extras(&format!("{place}."), item.extras);
    let nonce = nonce(faults, &field("nonce"), item.nonce);
    let name = faults.text(&field("requestId"), item.request_id);
    let request_id = faults.read(&field("requestId"), name.as_deref(), |text| {
        RequestId::new(text)
    });
    let hash = faults.text(&field("txHash"), item.tx_hash);
    let hash = faults.read(&field("txHash"), hash.as_deref(), amount::word);
    let raw = faults.text(&field("rawTransaction"), item.raw_transaction);
    let raw = faults.read(&field("rawTransaction"), raw.as_deref(), amount::bytes);
    let ttl = faults.number(&field("ttlSeconds"), item.ttl_seconds, 1..=TTL_SECONDS_MAX);
    let state = faults
        .required(&field("state"), item.state)
        .map(|text| text.0);
    let state = faults.read(&field("state"), state.as_deref(), |text| {
        OpenState::from_word(text).ok_or("must be RESERVED, SUBMITTED or TRACKING")
    });
    Some(OpenNonce {
        nonce: nonce?,
        request_id,
        hash,
        raw,
        state: state?,
        ttl: ttl.map(Duration::from_secs),
    })
}

fn nonce(faults: &mut Faults, field: &str, given: Given<Whole>) -> Option<Nonce> {
    let number = faults.required_number(field, given, 0..=Nonce::MAX.get());
    number.and_then(|number| Nonce::new(number).ok())
}

async fn take(served: Arc<Served>, wish: Wish) -> Result<ImportReport, Problem> {
    let node = &served.node;
    let Wish {
        seat,
        next_nonce,
        open,
        is_dry,
        audit,
    } = wish;
    let (signer, node_id) = (seat.lane.signer, node.holder().node.as_str());
    match node.import(seat, next_nonce, &open, is_dry, &audit).await {
        Ok(told) => {
            if !is_dry && !told.is_repeated {
                let (from, to, open) = (told.from, told.next_nonce, told.open.len());
                tracing::info!(%signer, node_id, by = audit.by, reason = audit.reason, %from, %to, open, "an operator imported a lane");
            }
            Ok(told)
        }
        Err(why) => Err(unimported(why, signer, is_dry)),
    }
}

/// Why nothing was changed, or why that cannot be said.
fn unimported(why: Unimported, signer: Address, is_dry: bool) -> Problem {
    let about = About::signer(signer);
    match why {
        Unimported::UnknownLane => Problem::new(Code::UnknownSigner),
        Unimported::NotPaused => Problem::new(Code::SignerNotPaused),
        Unimported::Holds(nonce) => held(nonce),
        Unimported::CursorUsed(latest) => {
            let mut faults = Faults::default();
            let why = format!("is used: the chain has used all nonces below {latest}");
            faults.add("nextNonce", why);
            told(faults)
        }
        Unimported::Items(bad) => {
            let mut faults = Faults::default();
            for item in bad {
                faults.add(&format!("open[{}].{}", item.at, item.field), item.why);
            }
            told(faults)
        }
        Unimported::Chain(error) => {
            tracing::warn!(%signer, error = %Causes(&error), "a cursor was not set: the chain cannot be asked which nonces are used");
            Problem::new(Code::ChainUnavailable)
        }
        Unimported::Store(error) if is_dry => Problem::unread_of(&error, about),
        Unimported::Store(error) => Problem::unwritten_of(&error, about),
    }
}

fn told(faults: Faults) -> Problem {
    match faults.check() {
        Err(problem) => problem,
        Ok(()) => Problem::new(Code::InternalError),
    }
}

fn held(nonce: Nonce) -> Problem {
    let detail = format!("Nonce {nonce} is held or was used here. Nothing was changed.");
    Problem::new(Code::NonceHeld).detail(detail)
}

/// Give a signer's cursor and open nonces away
///
/// The answer is what an import takes. Of a signer that is not paused it is old as soon as it is read.
/// Transactions that wait for a nonce are not in it.
#[utoipa::path(
    get,
    path = "/api/v1/signers/{signer}/export",
    tag = "signers",
    operation_id = "exportSigner",
    params(
        ("signer" = AddressText, Path, description = "The address"),
        ("chain" = Option<String>, Query, description = "The chain's configured name; may be left out while only one is configured"),
    ),
    responses((status = 200, description = "The cursor and the open nonces", body = Exported), ExportProblems),
    security(("key" = ["operate"])),
)]
pub(super) async fn export(
    State(served): State<Arc<Served>>,
    Operator(caller): Operator,
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
    let told = served.node.export(Lane { chain, signer }).await;
    let told = told.map_err(|error| Problem::unread(&error))?;
    let told = told.ok_or_else(|| Problem::new(Code::UnknownSigner))?;
    let exported = Exported::of(&told, &served.chains, served.limits.import_bytes);
    let exported = exported.ok_or_else(|| Problem::new(Code::TooManyOpen))?;
    Ok(json::answer(StatusCode::OK, &exported))
}
