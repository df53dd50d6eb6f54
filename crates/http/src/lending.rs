//! A client's wish for nonces to sign for itself, one or several, and what becomes of it. Several are
//! lent together or not at all.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use fencepost_app::directory::Seat;
use fencepost_app::lifecycle::accept::Verdict;
use fencepost_app::ports::{Body, Key, Loan, NewTx, Record, Settle, SettleAct, Settled};
use fencepost_domain::amount;
use fencepost_domain::ids::{LockToken, RequestId, TxId};
use fencepost_domain::keccak256;
use fencepost_domain::request::Meta;
use fencepost_domain::state::{Kind, State};
use futures::future::join_all;
use tokio::time::{Instant, timeout};
use uuid::Uuid;

use crate::access::Caller;
use crate::api::Served;
use crate::body;
use crate::faults::Faults;
use crate::given::Given;
use crate::intake::{self, Taken};
use crate::json::reservation::{COUNT_MAX, ReserveBody, TTL_SECONDS_MAX};
use crate::problem::{Code, Problem};
use crate::verdict;

/// What is to be lent.
#[derive(Clone)]
pub(crate) struct Wish {
    seat: Seat,
    request_id: Option<RequestId>,
    ttl: Duration,
    grace: Duration,
    /// How many, where the client said.
    pub(crate) count: Option<u64>,
    created_by: Option<Arc<str>>,
}

impl Wish {
    /// Reads a request.
    pub(crate) fn read(
        served: &Served,
        caller: &Caller,
        text: &str,
        key: Option<&str>,
    ) -> Result<Self, Problem> {
        let given: Given<ReserveBody<'_>> =
            serde_json::from_str(text).map_err(|error| body::malformed(&error))?;
        let mut faults = Faults::default();
        let body = faults.required("body", given).unwrap_or_default();
        faults.extras("", body.extras);
        let signer = faults.required("signer", body.signer).map(|text| text.0);
        let signer = faults.read("signer", signer.as_deref(), amount::address);
        let chain = faults.text("chain", body.chain);
        let chain = served.chains.choose(chain.as_deref(), &mut faults);
        let request_id = faults.text("requestId", body.request_id);
        let request_id = intake::named(request_id.as_deref(), key, &mut faults);
        let ttl = faults.number("ttlSeconds", body.ttl_seconds, 1..=TTL_SECONDS_MAX);
        let count = faults.number("count", body.count, 1..=COUNT_MAX);
        faults.check()?;
        let signer = signer.expect("what cannot be read is a fault");
        let lending = served.node.settings().lending;
        let seat = intake::seat(served, caller, signer, chain)?;
        fits(seat, count)?;
        Ok(Self {
            seat,
            request_id,
            ttl: ttl.map_or(lending.ttl, Duration::from_secs),
            grace: lending.grace,
            count,
            created_by: caller.key_name(),
        })
    }

    fn len(&self) -> u64 {
        self.count.unwrap_or(1)
    }

    /// What stands for a wish whose outcome is not known.
    pub(crate) fn unknown(&self) -> Problem {
        Problem::new(Code::OutcomeUnknown).request(self.request_id.as_ref())
    }

    /// The client's name for the n-th of several. The first has it itself, so that a transaction of that
    /// name is a conflict.
    fn name(&self, n: u64) -> Option<RequestId> {
        let first = self.request_id.as_ref()?;
        if n == 0 {
            return Some(first.clone());
        }
        let digest = keccak256(first.as_str()).to_string();
        let name = format!("reserve:{}:{n}", &digest[2..18]);
        Some(RequestId::new(name).expect("short and printable"))
    }

    /// The n-th of them. How many there are is the first one's meta: the same name with another number
    /// is another request.
    fn item(&self, n: u64) -> Taken {
        let loan = Loan {
            lock: LockToken(Uuid::new_v4()),
            ttl: self.ttl,
            grace: self.grace,
        };
        let meta = self.count.filter(|_| n == 0);
        let meta = meta.map(|count| Meta::new(format!(r#"{{"count":{count}}}"#)));
        Taken {
            seat: self.seat,
            tx: NewTx {
                tx: TxId(Uuid::now_v7()),
                seal: None,
                request_id: self.name(n),
                body: Body::Reserved(loan),
                not_after: None,
                meta: meta.transpose().expect("a few bytes"),
                created_by: self.created_by.clone(),
            },
        }
    }
}

/// More at once than the signer may ever have in flight would never be lent together.
fn fits(seat: Seat, count: Option<u64>) -> Result<(), Problem> {
    let wanted = count.and_then(|count| usize::try_from(count).ok());
    let mut faults = Faults::default();
    if let (Some(wanted), Some(limit)) = (wanted, seat.max_in_flight)
        && wanted > limit.max
    {
        let max = limit.max;
        faults.add(
            "count",
            format!("must be at most {max}, the signer's max_in_flight"),
        );
    }
    faults.check()
}

/// Reserves all of them by the deadline. To be run in a task of its own: a client that goes away must not
/// leave half of them lent.
pub(crate) async fn lend(
    served: Arc<Served>,
    wish: Wish,
    deadline: Instant,
) -> Result<(StatusCode, Vec<Box<Record>>), Problem> {
    let first = intake::accept_by(&served, vec![wish.item(0)], deadline).await;
    let (tx, verdict) = first.into_iter().next().expect("one answer for each");
    let verdict = counted(verdict, &tx);
    if let Verdict::Known(record) = &verdict
        && let State::Recyclable(_) = record.state
    {
        return given_back(&served, &wish, record.clone()).await;
    }
    let first = verdict::told(verdict, &tx).map(|(status, record)| (status, tx, record))?;
    let rest = (1..wish.len()).map(|n| wish.item(n)).collect();
    let rest = intake::accept_by(&served, rest, deadline).await;
    let (mut lent, mut failed) = (vec![first], vec![]);
    for (tx, verdict) in rest {
        match verdict::told(verdict, &tx) {
            Ok((status, record)) => lent.push((status, tx, record)),
            Err(problem) => failed.push(problem),
        }
    }
    if failed.is_empty() {
        let is_new = |(status, ..): &(StatusCode, NewTx, Box<Record>)| *status == NEW;
        let status = if lent.iter().any(is_new) {
            StatusCode::CREATED
        } else {
            StatusCode::OK
        };
        return Ok((
            status,
            lent.into_iter().map(|(.., record)| record).collect(),
        ));
    }
    Err(undone(&served, &wish, lent, failed).await)
}

/// How [`verdict::told`] says that something was stored now.
const NEW: StatusCode = StatusCode::ACCEPTED;

/// The first of several that is known tells how many they are.
fn counted(verdict: Verdict, tx: &NewTx) -> Verdict {
    match verdict {
        Verdict::Known(record) if record.meta != tx.meta => Verdict::Conflict(record),
        verdict @ (Verdict::New(_)
        | Verdict::Known(_)
        | Verdict::Conflict(_)
        | Verdict::NotLeader(_)
        | Verdict::Paused(_)
        | Verdict::Overloaded
        | Verdict::InFlightLimit
        | Verdict::ChainUnavailable
        | Verdict::Exhausted
        | Verdict::NotOpen
        | Verdict::Unavailable
        | Verdict::Unknown) => verdict,
    }
}

/// The first was given back, so the wish was fulfilled or undone before: it is told as it stands, and
/// nothing new is lent under its name.
async fn given_back(
    served: &Served,
    wish: &Wish,
    first: Box<Record>,
) -> Result<(StatusCode, Vec<Box<Record>>), Problem> {
    let mut all = vec![first];
    for name in (1..wish.len()).filter_map(|n| wish.name(n)) {
        let key = Key::Request(wish.seat.lane, name);
        let found = served.node.store().find(&key).await;
        let found = found.map_err(|error| Problem::unread(&error))?;
        let lent = found.filter(|record| record.kind == Kind::Reserved);
        all.extend(lent.map(Box::new));
    }
    if all.len() == usize::try_from(wish.len()).unwrap_or(usize::MAX) {
        return Ok((StatusCode::OK, all));
    }
    let detail = "An earlier request under this id could not be fulfilled, and what was reserved of it was given back. Nothing is reserved: use a new request id.";
    Err(Problem::new(Code::IdempotencyConflict)
        .detail(detail)
        .request(wish.request_id.as_ref()))
}

/// Some could not be lent. Under a name those that were stay, unless the name can never be fulfilled: the same
/// request may have been answered with them elsewhere, and it completes them all. Otherwise they are given
/// back, and the first that was not lent is told.
async fn undone(
    served: &Served,
    wish: &Wish,
    lent: Vec<(StatusCode, NewTx, Box<Record>)>,
    failed: Vec<Problem>,
) -> Problem {
    let is_unknown = |problem: &Problem| problem.code() == Code::OutcomeUnknown;
    let doubtful = failed.iter().any(is_unknown);
    let never = |problem: &Problem| problem.code() == Code::IdempotencyConflict;
    if wish.request_id.is_some() && (doubtful || !failed.iter().any(never)) && !lent.is_empty() {
        return wish.unknown();
    }
    let ours = lent.iter().filter(|(status, ..)| *status == NEW);
    let recycling = ours.filter_map(|(_, tx, _)| {
        let Body::Reserved(loan) = tx.body else {
            return None;
        };
        Some(Settle {
            reservation: tx.tx,
            lock: loan.lock,
            act: SettleAct::Recycle,
        })
    });
    let recycling: Vec<Settle> = recycling.collect();
    let lane = wish.seat.lane;
    let settling = recycling
        .iter()
        .map(|call| served.node.settle_loan(lane, call));
    // Whoever asked may have been answered by now; what was lent is given back all the same.
    let settled = timeout(served.limits.request_timeout, join_all(settling)).await;
    let is_done = |settled: &Result<Settled, _>| matches!(settled, Ok(Settled::Done(_)));
    let all_back = settled.is_ok_and(|all| all.iter().all(is_done));
    if doubtful || !all_back {
        return wish.unknown();
    }
    let first = failed.into_iter().next().unwrap_or_else(|| wish.unknown());
    let told = first.told().detail().to_owned();
    let problem = first.request(wish.request_id.as_ref());
    if wish.request_id.is_some() {
        problem.detail(format!(
            "{told} What was reserved of several is given back: use a new request id for the next try."
        ))
    } else {
        problem
    }
}
