//! A client's words to a transaction: every field is read, everything that is wrong is told at once,
//! and only then it is looked whether the key, the chain and the signer allow it.

mod fields;

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::http::HeaderMap;
use fencepost_app::directory::Seat;
use fencepost_app::lifecycle::accept::{Origin, Verdict};
use fencepost_app::ports::{Body, Key, NewTx};
use fencepost_domain::Address;
use fencepost_domain::ids::{Lane, LaneId, RequestId, TxId};
use futures::{FutureExt, StreamExt, stream};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};
use tracing::Instrument;
use uuid::Uuid;

use crate::access::Caller;
use crate::api::Served;
use crate::chains::Choice;
use crate::faults::Faults;
use crate::given::Given;
use crate::json::create::CreateBody;
use crate::memory;
use crate::problem::{Code, Problem};
use crate::{body, faults};

/// How many requests of a batch are estimated at once.
const PREFLIGHTS_AT_ONCE: usize = 16;

/// The header that names a request.
const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// A valid request for a lane of ours, with the id that it will have everywhere.
pub(crate) struct Taken {
    pub(crate) seat: Seat,
    pub(crate) tx: NewTx,
}

/// Reads one request. One whose time has passed is refused if it has no name. Under its name it may
/// have come in time, and may be on its way at this moment: it goes the way of all, behind that one,
/// and is answered with what became of it; if nothing did, it is stored and ends as expired.
pub(crate) fn take(
    served: &Served,
    caller: &Caller,
    text: &str,
    key: Option<&str>,
) -> Result<Taken, Problem> {
    let mut faults = Faults::default();
    let given: Given<CreateBody<'_>> =
        serde_json::from_str(text).map_err(|error| body::malformed(&error))?;
    let read = fields::read(given, key, &served.chains, &mut faults);
    faults.check()?;
    let read = read.expect("what cannot be read is a fault");
    let seat = seat(served, caller, read.signer, read.chain)?;
    signing(seat)?;
    let now = served.node.store_time();
    let is_past = read.not_after.is_some_and(|not_after| not_after <= now);
    if is_past && read.request_id.is_none() {
        return Err(faults::wrong("notAfter", "has passed"));
    }
    let tx = NewTx {
        tx: TxId(Uuid::now_v7()),
        seal: None,
        request_id: read.request_id,
        body: Body::Managed(read.payload),
        not_after: read.not_after,
        meta: read.meta,
        created_by: caller.key_name(),
    };
    Ok(Taken { seat, tx })
}

/// The lane of ours that is meant, if the key covers it. Whether a signer exists is not told to others.
pub(crate) fn seat(
    served: &Served,
    caller: &Caller,
    signer: Address,
    chain: Choice<'_>,
) -> Result<Seat, Problem> {
    caller.check(signer)?;
    let lane = Lane {
        chain: chain.known()?.id,
        signer,
    };
    let seat = served.node.directory().seat(lane);
    seat.ok_or_else(|| Problem::new(Code::UnknownSigner))
}

/// That we have the key of a lane. Without it nothing can be signed, whatever is stored.
pub(crate) fn signing(seat: Seat) -> Result<(), Problem> {
    if seat.signs {
        return Ok(());
    }
    let why = "is watch-only here: its nonces can only be reserved";
    Err(faults::wrong("signer", why))
}

/// Looks whether it would be reverted, where that is wanted. What is known is not judged again: its
/// answer is what became of it.
pub(crate) async fn preflight(served: &Served, taken: &Taken) -> Result<(), Problem> {
    let Body::Managed(payload) = &taken.tx.body else {
        return Ok(());
    };
    if !served.node.settings().preflight || payload.gas().is_some() {
        return Ok(());
    }
    if let Some(request_id) = taken.tx.request_id.clone() {
        let key = Key::Request(taken.seat.lane, request_id);
        let known = served.node.store().find(&key).await;
        if known.map_err(|error| Problem::unread(&error))?.is_some() {
            return Ok(());
        }
    }
    let looked = served.node.preflight(taken.seat.lane, payload).await;
    looked.map_err(|why| {
        let detail = format!("It would be reverted: {why}. Nothing was stored.");
        Problem::new(Code::PreflightReverted).detail(detail)
    })
}

/// The same of many, at most [`PREFLIGHTS_AT_ONCE`] at once.
pub(crate) async fn preflights(served: &Served, all: &[Taken]) -> Vec<Result<(), Problem>> {
    // Mostly nobody wants any, and then no futures are made.
    if !served.node.settings().preflight {
        return all.iter().map(|_| Ok(())).collect();
    }
    // Boxed: a closure over borrows of every lifetime is none that a handler can be made of.
    let looks: Vec<_> = all
        .iter()
        .map(|taken| preflight(served, taken).boxed())
        .collect();
    stream::iter(looks)
        .buffered(PREFLIGHTS_AT_ONCE)
        .collect()
        .await
}

/// Puts all of them before the workers, in order, and waits for what becomes of them. That goes on by
/// itself: a client that goes away stops nothing half way.
pub(crate) async fn accept(served: &Arc<Served>, all: Vec<Taken>) -> Vec<(NewTx, Verdict)> {
    accept_by(served, all, Instant::now() + served.limits.request_timeout).await
}

/// The same until a time of the caller's own.
pub(crate) async fn accept_by(
    served: &Arc<Served>,
    all: Vec<Taken>,
    deadline: Instant,
) -> Vec<(NewTx, Verdict)> {
    let (mut txs, mut answers) = (Vec::with_capacity(all.len()), Vec::with_capacity(all.len()));
    let mut shares: BTreeMap<LaneId, Vec<_>> = BTreeMap::new();
    for Taken { seat, tx } in all {
        let (reply, told) = oneshot::channel();
        txs.push(tx.clone());
        answers.push(told);
        let pending = served.node.submit(seat, tx, Origin::Client);
        shares.entry(seat.id).or_default().push((pending, reply));
    }
    for share in shares.into_values() {
        let node = Arc::clone(&served.node);
        // The requests are in memory until they are settled, whether their client waits or not.
        let held = memory::current();
        let settling = async move {
            node.settle_share(share).await;
            drop(held);
        };
        tokio::spawn(settling.in_current_span());
    }
    let mut settled = Vec::with_capacity(txs.len());
    for (tx, told) in txs.into_iter().zip(answers) {
        // It takes too long, or has panicked: either way it may be stored, or may still be.
        let told = timeout_at(deadline, told).await;
        let verdict = told.map_or(Verdict::Unknown, |told| told.unwrap_or(Verdict::Unknown));
        settled.push((tx, verdict));
    }
    settled
}

/// What the `Idempotency-Key` header says.
pub(crate) fn idempotency_key(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let mut values = headers.get_all(IDEMPOTENCY_KEY).iter();
    let (first, second) = (values.next(), values.next());
    if second.is_some() {
        return Err(faults::wrong("Idempotency-Key", "is given twice"));
    }
    let text = first.map(|value| std::str::from_utf8(value.as_bytes()));
    text.transpose()
        .map_err(|_| faults::wrong("Idempotency-Key", "is not UTF-8"))
}

/// That there is none, where it would be a promise that is not kept: what is not kept under a name can be
/// done twice.
pub(crate) fn unnamed(headers: &HeaderMap, why: &str) -> Result<(), Problem> {
    match idempotency_key(headers)? {
        Some(_) => Err(faults::wrong("Idempotency-Key", why)),
        None => Ok(()),
    }
}

/// Why an operator's act has no name.
pub(crate) const ACT_UNNAMED: &str =
    "is not kept here: look at what was done before you do it again";

/// A client's own name, from the body or from the header; both may only say the same.
pub(crate) fn named(
    given: Option<&str>,
    key: Option<&str>,
    faults: &mut Faults,
) -> Option<RequestId> {
    let name = |text: &str| RequestId::new(text);
    let in_body = faults.read("requestId", given, name);
    let in_header = faults.read("Idempotency-Key", key, name);
    if let (Some(given), Some(key)) = (given, key)
        && given != key
    {
        faults.add(
            "requestId",
            "is another one than in the Idempotency-Key header",
        );
    }
    in_body.or(in_header)
}
