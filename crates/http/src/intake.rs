//! A client's words to a transaction: every field is read, everything that is wrong is told at once,
//! and only then it is looked whether the key, the chain and the signer allow it.

mod fields;

use std::sync::Arc;

use axum::http::HeaderMap;
use fencepost_app::directory::Seat;
use fencepost_app::lifecycle::accept::{Origin, Pending, Verdict};
use fencepost_app::ports::{Body, Key, NewTx};
use fencepost_domain::ids::{Lane, RequestId, TxId};
use futures::future::join_all;
use jiff::Timestamp;
use tokio::time::timeout;
use tracing::Instrument;
use uuid::Uuid;

use crate::access::Caller;
use crate::api::Served;
use crate::faults::Faults;
use crate::given::Given;
use crate::json::create::CreateBody;
use crate::problem::{Code, Problem};
use crate::{body, faults};

/// The header that names a request.
const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// A valid request for a lane of ours, with the id that it will have everywhere.
pub(crate) struct Taken {
    pub(crate) seat: Seat,
    pub(crate) tx: NewTx,
}

/// Reads one request.
pub(crate) async fn take(
    served: &Served,
    caller: &Caller,
    text: &str,
    key: Option<&str>,
) -> Result<Asked, Problem> {
    let mut faults = Faults::default();
    let given: Given<CreateBody<'_>> =
        serde_json::from_str(text).map_err(|error| body::malformed(&error))?;
    let read = fields::read(given, key, &served.chains, &mut faults);
    faults.check()?;
    let read = read.expect("what cannot be read is a fault");
    caller.check(read.signer)?;
    let lane = Lane {
        chain: read.chain.known()?.id,
        signer: read.signer,
    };
    let seat = served.node.directory().seat(lane);
    let seat = seat.ok_or_else(|| Problem::new(Code::UnknownSigner))?;
    let tx = NewTx {
        tx: TxId(Uuid::now_v7()),
        request_id: read.request_id,
        body: Body::Managed(read.payload),
        not_after: read.not_after,
        meta: read.meta,
    };
    let taken = Taken { seat, tx };
    if is_past(served, taken.tx.not_after) {
        return overdue(served, taken).await;
    }
    Ok(Asked::Due(taken))
}

/// What is to be done with a request.
pub(crate) enum Asked {
    /// It is to be stored.
    Due(Taken),
    /// Its time has passed, but it was stored before that.
    Past(NewTx, Verdict),
}

fn is_past(served: &Served, not_after: Option<Timestamp>) -> bool {
    not_after.is_some_and(|not_after| not_after <= served.node.clock().now())
}

/// A request whose time has passed is refused, unless it is the repetition of one that came in time:
/// its client must hear what became of that.
async fn overdue(served: &Served, taken: Taken) -> Result<Asked, Problem> {
    let Taken { seat, tx } = taken;
    let known = match &tx.request_id {
        None => None,
        Some(name) => {
            let key = Key::Request(seat.lane, name.clone());
            let found = served.node.store().find(&key).await;
            found.map_err(|error| Problem::unread(&error))?
        }
    };
    match known {
        Some(record) => {
            let verdict = Verdict::found(seat, &tx, record);
            Ok(Asked::Past(tx, verdict))
        }
        None => Err(faults::wrong("notAfter", "has passed").request(tx.request_id.as_ref())),
    }
}

/// Puts all of them before the workers, in order, and waits for what becomes of them. That goes on by
/// itself: a client that goes away stops nothing half way.
pub(crate) async fn accept(served: &Arc<Served>, all: Vec<Taken>) -> Vec<(NewTx, Verdict)> {
    let node = Arc::clone(&served.node);
    let (txs, pending): (Vec<NewTx>, Vec<Pending>) = all
        .into_iter()
        .map(|Taken { seat, tx }| (tx.clone(), node.submit(seat, tx, Origin::Client)))
        .unzip();
    let settling = async move { join_all(pending.into_iter().map(|each| node.settle(each))).await };
    let task = tokio::spawn(settling.in_current_span());
    let verdicts = match timeout(served.limits.request_timeout, task).await {
        Ok(Ok(verdicts)) => verdicts,
        // It panicked, or takes too long: either way it may have stored, or may still store, any of them.
        Ok(Err(_)) | Err(_) => vec![Verdict::Unknown; txs.len()],
    };
    txs.into_iter().zip(verdicts).collect()
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

/// A client's own name, from the body or from the header; both may only say the same.
fn named(given: Option<&str>, key: Option<&str>, faults: &mut Faults) -> Option<RequestId> {
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
