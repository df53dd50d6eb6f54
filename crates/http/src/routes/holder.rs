//! A call of the holder of a lent nonce: its body, what it comes to, and what is told.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use fencepost_app::ports::{Key, LATE_HASHES_MAX, Record, Settle, SettleAct, Settled};
use fencepost_domain::ids::LockToken;
use fencepost_domain::state::{Kind, State};
use fencepost_domain::transition::Refusal;
use tokio::time::timeout;
use tracing::Instrument;
use uuid::Uuid;

use super::deadline;
use super::read::{find, id};
use crate::access::Caller;
use crate::api::Served;
use crate::faults::Faults;
use crate::given::{Given, Shape, Text};
use crate::json::reservation::Reservation;
use crate::problem::{About, Code, Problem};
use crate::{body, json};

/// A holder's call, as its bytes.
pub(super) struct Call<'a> {
    served: &'a Arc<Served>,
    caller: &'a Caller,
    reservation: &'a str,
    bytes: Bytes,
}

impl<'a> Call<'a> {
    pub(super) async fn read(
        served: &'a Arc<Served>,
        caller: &'a Caller,
        reservation: &'a str,
        headers: &HeaderMap,
        body: Body,
    ) -> Result<Self, Problem> {
        let limits = &served.limits;
        let bytes = body::read(body, headers, limits.body_bytes, limits.body_timeout).await?;
        Ok(Self {
            served,
            caller,
            reservation,
            bytes,
        })
    }

    /// Its fields, and what is wrong with it so far.
    pub(super) fn body<'b, T: Shape<'b> + Default>(&'b self) -> Result<(T, Faults), Problem> {
        let given: Given<T> = serde_json::from_str(body::text(&self.bytes)?)
            .map_err(|error| body::malformed(&error))?;
        let mut faults = Faults::default();
        let body = faults.required("body", given).unwrap_or_default();
        Ok((body, faults))
    }

    /// Does what it says, in a task of its own. Without faults there is an act.
    pub(super) async fn settle(
        &self,
        lock: Given<Text<'_>>,
        act: Option<SettleAct>,
        mut faults: Faults,
    ) -> Result<Response, Problem> {
        let served = self.served;
        let lock = faults.required("lockToken", lock).map(|text| text.0);
        let lock = faults.read("lockToken", lock.as_deref(), lock_of);
        let looking = named(served, self.caller, self.reservation, faults);
        let record = deadline::bounded(served, looking).await??;
        let call = Settle {
            reservation: record.tx,
            lock: lock.expect("what cannot be read is a fault"),
            act: act.expect("what cannot be read is a fault"),
        };
        let (node, lane) = (Arc::clone(&served.node), record.lane);
        let version = Some(record.version);
        let task = async move { node.settle_loan_since(lane, version, &call).await };
        let task = tokio::spawn(task.in_current_span());
        let unknown = || unknown().tx(record.tx);
        let settled = timeout(served.limits.request_timeout, task).await;
        let settled = settled.map_err(|_| unknown())?.map_err(|_| unknown())?;
        let settled = settled.map_err(|error| {
            let problem = Problem::unwritten_of(&error, About::tx(record.lane.signer, record.tx));
            if problem.code() == Code::OutcomeUnknown {
                return unknown();
            }
            problem.tx(record.tx)
        })?;
        let record = done(settled, &record)?;
        Ok(json::answer(StatusCode::OK, &told(served, &record)?))
    }
}

/// Saying the same again is answered as the first time would have been.
fn unknown() -> Problem {
    let detail = "It cannot be said whether this was written. Saying it again is safe.";
    Problem::new(Code::OutcomeUnknown).detail(detail)
}

fn lock_of(text: &str) -> Result<LockToken, &'static str> {
    let is_plain = text.len() == 36;
    let lock = Uuid::try_parse(text).ok().filter(|_| is_plain);
    lock.map(LockToken).ok_or("is not a UUID of 36 characters")
}

/// The reservation that a path names. Another transaction, or one that the key does not cover, is none.
pub(super) async fn named(
    served: &Served,
    caller: &Caller,
    reservation: &str,
    mut faults: Faults,
) -> Result<Record, Problem> {
    let tx = faults.read("id", Some(reservation), id);
    faults.check()?;
    let record = find(served, caller, tx.map(Key::Id)).await?;
    if record.kind == Kind::Reserved {
        Ok(record)
    } else {
        Err(Problem::new(Code::NotFound))
    }
}

pub(super) fn told(served: &Served, record: &Record) -> Result<Reservation, Problem> {
    let told = Reservation::of(record, &served.chains);
    told.ok_or_else(|| Problem::new(Code::NotFound))
}

/// The answer of the store in the words of the API.
fn done(settled: Settled, before: &Record) -> Result<Box<Record>, Problem> {
    let problem = match settled {
        Settled::Done(record) => return Ok(record),
        Settled::LockLost { recorded: true } => Problem::new(Code::LockLost).detail(
            "The nonce was given back before this was said, and may be someone else's by now. The hash was recorded against the nonce and is followed.",
        ),
        Settled::LockLost { recorded: false } => Problem::new(Code::LockLost).detail(format!(
            "The lock token is not the one of this reservation, or the nonce was given back and may be someone else's by now. Nothing was changed and no hash was recorded: of a nonce that was given back, {LATE_HASHES_MAX} are at most."
        )),
        Settled::Refused(refusal) => refused(refusal, before),
        Settled::NotFound => Problem::new(Code::NotFound),
    };
    Err(problem.tx(before.tx))
}

fn refused(refusal: Refusal, before: &Record) -> Problem {
    let code = match refusal {
        Refusal::OtherHash => Code::HashDiffers,
        Refusal::Signed => Code::AlreadySubmitted,
        Refusal::Over
        | Refusal::NoNonce
        | Refusal::HasNonce
        | Refusal::Unsigned
        | Refusal::NotMined
        | Refusal::OtherBlock
        | Refusal::InBlock
        | Refusal::NotStuck
        | Refusal::Unchanged
        | Refusal::NotOurs
        | Refusal::NotLent => match before.state {
            // Of what was sent, only the chain decides from now on.
            State::Submitted(_) => Code::AlreadySubmitted,
            State::Queued(_)
            | State::Allocated(_)
            | State::Tracking(_)
            | State::Confirmed(_)
            | State::Failed(_)
            | State::Stuck(_)
            | State::Reserved(_)
            | State::Used(_)
            | State::Recyclable(_) => Code::AlreadyFinal,
        },
    };
    Problem::new(code)
}
