//! Remedies of operators. They are stored by whichever node is asked; whoever leads the lane carries
//! them out.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use fencepost_app::operate::{self, Wish};
use fencepost_app::ports::{Action, AskedRemedy, Record};
use fencepost_domain::attempt::{self, SignedFees};
use fencepost_domain::state::Kind;
use tokio::time::timeout;
use tracing::Instrument;

use super::deadline;
use super::read::named;
use crate::access::{Caller, Operator};
use crate::api::Served;
use crate::audit::Words;
use crate::faults::{Faults, wrong};
use crate::given::{Given, Slot};
use crate::intake::{self, ACT_UNNAMED};
use crate::json::remedy::RemedyBody;
use crate::json::transaction::Transaction;
use crate::json::words::ASKED;
use crate::problem::{Code, Problem, problems};
use crate::query::{Query, Segment};
use crate::{body, json, replacement};

problems!(Problems: Malformed, Unauthorized, Forbidden, NotFound, RequestTimeout, AlreadyFinal,
    RemedyRunning, NoPolicy, TooLarge, UnsupportedMediaType, InvalidRequest, RateLimited, InternalError,
    StoreUnavailable, TimedOut, OutcomeUnknown);

/// Have something done to a transaction that does not move
///
/// The answer means that it is stored; whoever leads the signer does it. `GET /api/v1/tx/{txId}/remedies`
/// tells what came of it. Whatever was sent before may still be mined: all attempts are followed, and
/// whichever is final decides. The `Idempotency-Key` header is refused here.
#[utoipa::path(
    post,
    path = "/api/v1/tx/{txId}/remedy",
    tag = "transactions",
    operation_id = "remedyTransaction",
    params(("txId" = Uuid, Path, description = "The transaction's id")),
    request_body = RemedyBody,
    responses((status = 202, description = "Stored: the transaction as it stood", body = Transaction), Problems),
    security(("key" = ["operate"])),
)]
pub(super) async fn remedy(
    State(served): State<Arc<Served>>,
    Operator(caller): Operator,
    Segment(tx): Segment,
    query: Query,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    query.finish().check()?;
    let limits = &served.limits;
    let bytes = body::read(body, &headers, limits.body_bytes, limits.body_timeout).await?;
    intake::unnamed(&headers, ACT_UNNAMED)?;
    let (wish, faults) = read(&served, &caller, body::text(&bytes)?)?;
    let looking = async {
        let record = named(&served, &caller, &tx, faults).await?;
        // Without faults there is a wish.
        let wish = wish.ok_or_else(|| Problem::new(Code::InternalError))?;
        check(&served, &record, &wish).await?;
        Ok::<_, Problem>((record, wish))
    };
    let (record, wish) = deadline::bounded(&served, looking).await??;
    let told = Transaction::of(&record, &served.chains, &caller);
    let tx = record.tx;
    let task = tokio::spawn(ask(Arc::clone(&served), record, wish).in_current_span());
    let unknown = || Problem::new(Code::OutcomeUnknown).tx(tx);
    let asked = timeout(limits.request_timeout, task).await;
    asked.map_err(|_| unknown())?.map_err(|_| unknown())??;
    Ok(json::answer(StatusCode::ACCEPTED, &told))
}

/// The wish, and what is wrong with it so far. Without faults there is one.
fn read(served: &Served, caller: &Caller, text: &str) -> Result<(Option<Wish>, Faults), Problem> {
    let given: Given<RemedyBody<'_>> =
        serde_json::from_str(text).map_err(|error| body::malformed(&error))?;
    let mut faults = Faults::default();
    let body = faults.required("body", given).unwrap_or_default();
    faults.extras("", body.extras);
    let action = faults.required("action", body.action).map(|text| text.0);
    let action = faults.read("action", action.as_deref(), action_of);
    let words = Words::read(body.reason, body.audit, &mut faults);
    let has_fees = body.fees.is_filled();
    let fees = faults.given("fees", body.fees);
    let fees = fees.and_then(|fees| replacement::read(fees, &mut faults));
    if has_fees && action.is_some_and(|action| action != Action::Replace) {
        faults.add("fees", "are for REPLACE only");
    }
    let wish = action.filter(|_| faults.is_empty()).map(|action| Wish {
        action,
        fees,
        audit: words.by(caller, served),
    });
    Ok((wish, faults))
}

fn action_of(word: &str) -> Result<Action, String> {
    let found = ASKED.into_iter().find(|(asked, _)| *asked == word);
    found.map(|(_, action)| action).ok_or_else(|| {
        let words = ASKED.map(|(word, _)| word);
        format!("is not one of {}", words.join(", "))
    })
}

/// Refuses at once what the leader could only refuse later.
async fn check(served: &Served, record: &Record, wish: &Wish) -> Result<(), Problem> {
    if record.state.is_final() {
        return Err(Problem::new(Code::AlreadyFinal).tx(record.tx));
    }
    if record.kind == Kind::Reserved {
        let why = "cannot be done to a reservation: its holder signs for it";
        return Err(wrong("action", why));
    }
    let seat = served.node.directory().seat(record.lane);
    if seat.is_some_and(|seat| !seat.signs) {
        let why = "cannot be done here: the signer is watch-only, and nothing can be signed for it";
        return Err(wrong("action", why));
    }
    if wish.action == Action::Decide && !served.node.has_policy() {
        return Err(Problem::new(Code::NoPolicy).tx(record.tx));
    }
    if wish.action == Action::Fill && !operate::waits_for_gap(record) {
        let why = "has nothing to fill: the transaction is not STUCK/GAP";
        return Err(wrong("action", why));
    }
    if wish.action != Action::Replace {
        return Ok(());
    }
    let Some(newest) = newest_fees(served, record).await? else {
        return Err(wrong(
            "action",
            "has nothing to replace: nothing was signed yet",
        ));
    };
    let Some(fees) = wish.fees else {
        return Ok(());
    };
    let mut faults = Faults::default();
    let ceilings = served.chains.ceilings(record.lane.chain);
    replacement::check_ceilings(fees, ceilings, &mut faults);
    replacement::check_bump(fees, newest, &mut faults);
    faults.check()
}

/// What the newest bytes of a transaction pay; none where nothing was signed.
async fn newest_fees(served: &Served, record: &Record) -> Result<Option<SignedFees>, Problem> {
    let attempts = served.node.store().attempts(&[record.tx]).await;
    let attempts = attempts.map_err(|error| Problem::unread(&error))?;
    let ours = attempts
        .into_iter()
        .filter(|stored| stored.attempt.kind != attempt::Kind::External);
    let newest = ours.max_by_key(|stored| stored.n);
    Ok(newest.and_then(|stored| stored.attempt.fees))
}

async fn ask(served: Arc<Served>, record: Record, wish: Wish) -> Result<(), Problem> {
    let node = &served.node;
    let tx = record.tx;
    let asked = node.ask_remedy(&record, &wish).await;
    let asked = asked.map_err(|error| Problem::unwritten(&error).tx(tx))?;
    let problem = match asked {
        AskedRemedy::Asked(id) => {
            let (signer, node_id) = (record.lane.signer, node.holder().node.as_str());
            let (action, audit) = (wish.action.word(), wish.audit);
            let (token, from) = (record.token, record.state.name().word());
            let nonce = record
                .state
                .nonce()
                .map_or_else(|| "-".to_owned(), |nonce| nonce.to_string());
            tracing::info!(%signer, tx_id = %tx, node_id, %token, nonce, write = "remedy", from, to = from, remedy = id.0, action, by = audit.by, reason = audit.reason, "an operator asked for a remedy");
            return Ok(());
        }
        AskedRemedy::Running(id) => {
            let detail = format!("Remedy {} is not done yet. Nothing was stored.", id.0);
            Problem::new(Code::RemedyRunning).detail(detail)
        }
        // Others have asked again and again meanwhile.
        AskedRemedy::RoundTaken { .. } => Problem::new(Code::RemedyRunning),
        AskedRemedy::AlreadyFinal => Problem::new(Code::AlreadyFinal),
        AskedRemedy::NotFound => Problem::new(Code::NotFound),
    };
    Err(problem.tx(tx))
}
