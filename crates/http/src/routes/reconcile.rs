//! Comparing a signer with its chain, and bringing it in line.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use fencepost_app::causes::Causes;
use fencepost_app::directory::Seat;
use fencepost_app::operate::{Reconciled, Unreconciled};
use fencepost_app::ports::Audit;
use fencepost_domain::amount;
use tokio::time::timeout;
use tracing::Instrument;

use crate::access::{Caller, Operator};
use crate::api::Served;
use crate::audit::Words;
use crate::faults::Faults;
use crate::given::{Flag, Given};
use crate::intake::{self, ACT_UNNAMED};
use crate::json::reconcile::{ReconcileBody, Reconciliation};
use crate::json::scalar::AddressText;
use crate::problem::{Code, Problem, problems};
use crate::query::{Query, Segment};
use crate::{body, json};

problems!(Problems: Malformed, Unauthorized, Forbidden, UnknownSigner, UnknownChain, RequestTimeout,
    ChainDisagrees, TooLarge, UnsupportedMediaType, InvalidRequest, RateLimited, InternalError,
    StoreUnavailable, ChainUnavailable, TimedOut, OutcomeUnknown);

/// Bring a signer in line with its chain
///
/// The next nonce is raised to what the chain has seen, never lowered; nonces that were given back and
/// are used on chain are forgotten; a hold after a failover of the database ends. `gaps` are told and not
/// filled: that is what a placeholder does. The `Idempotency-Key` header is refused here.
#[utoipa::path(
    post,
    path = "/api/v1/signers/{signer}/reconcile",
    tag = "signers",
    operation_id = "reconcileSigner",
    params(("signer" = AddressText, Path, description = "The address")),
    request_body = ReconcileBody,
    responses((status = 200, description = "What it came to", body = Reconciliation), Problems),
    security(("key" = ["operate"])),
)]
pub(super) async fn reconcile(
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
    let (seat, is_dry, audit) = read(&served, &caller, &signer, body::text(&bytes)?)?;
    let task = work(Arc::clone(&served), seat, is_dry, audit);
    let task = tokio::spawn(task.in_current_span());
    let late = || {
        Problem::new(if is_dry {
            Code::TimedOut
        } else {
            Code::OutcomeUnknown
        })
    };
    let told = timeout(limits.request_timeout, task).await;
    let told = told.map_err(|_| late())?.map_err(|_| late())??;
    let told = Reconciliation::of(&told, is_dry, &served.chains);
    Ok(json::answer(StatusCode::OK, &told))
}

fn read(
    served: &Served,
    caller: &Caller,
    signer: &str,
    text: &str,
) -> Result<(Seat, bool, Audit), Problem> {
    let given: Given<ReconcileBody<'_>> =
        serde_json::from_str(text).map_err(|error| body::malformed(&error))?;
    let mut faults = Faults::default();
    let signer = faults.read("signer", Some(signer), amount::address);
    let body = faults.required("body", given).unwrap_or_default();
    faults.extras("", body.extras);
    let chain = faults.text("chain", body.chain);
    let chain = served.chains.choose(chain.as_deref(), &mut faults);
    let is_dry = faults.given("dryRun", body.dry_run);
    let words = Words::read(body.reason, body.audit, &mut faults);
    faults.check()?;
    let signer = signer.expect("what cannot be read is a fault");
    let seat = intake::seat(served, caller, signer, chain)?;
    Ok((
        seat,
        is_dry.is_some_and(|Flag(is)| is),
        words.by(caller, served),
    ))
}

async fn work(
    served: Arc<Served>,
    seat: Seat,
    is_dry: bool,
    audit: Audit,
) -> Result<Reconciled, Problem> {
    let node = &served.node;
    let (signer, node_id) = (seat.lane.signer, node.holder().node.as_str());
    match node.reconcile(seat, is_dry, &audit).await {
        Ok(told) => {
            let (from, to) = (told.before.next_nonce.get(), told.next_nonce.get());
            if !is_dry {
                let token = told.before.token;
                tracing::info!(%signer, tx_id = "-", node_id, %token, nonce = to, write = "reconcile", from, to, by = audit.by, reason = audit.reason, "an operator reconciled a lane with its chain");
            }
            Ok(told)
        }
        Err(Unreconciled::UnknownLane) => Err(Problem::new(Code::UnknownSigner)),
        Err(Unreconciled::NoChain) => Err(Problem::new(Code::ChainUnavailable)),
        Err(Unreconciled::Chain(error)) => {
            tracing::warn!(%signer, error = %Causes(&error), "a lane was not reconciled: its chain cannot be asked");
            Err(Problem::new(Code::ChainUnavailable))
        }
        Err(Unreconciled::Disagreed) => Err(Problem::new(Code::ChainDisagrees)),
        Err(Unreconciled::Store(error)) if is_dry => Err(Problem::unread(&error)),
        Err(Unreconciled::Store(error)) => Err(Problem::unwritten(&error)),
    }
}
