//! Many transactions to be sent, each with an answer of its own.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use fencepost_app::ports::Record;
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::task::yield_now;
use utoipa::ToSchema;

use super::deadline;
use crate::access::{Caller, Submitter};
use crate::api::Served;
use crate::faults::Faults;
use crate::given::Given;
use crate::intake::{self, Taken};
use crate::json::create::{BATCH_MAX, BatchBody};
use crate::json::transaction::Transaction;
use crate::json::words::WaitPoint;
use crate::problem::{Code, Problem, Told, problems};
use crate::query::Query;
use crate::waiting::{Begun, Wanted};
use crate::{body, json, verdict};

problems!(Problems: Malformed, Unauthorized, Forbidden, RequestTimeout, TooLarge, UnsupportedMediaType,
    InvalidRequest,
    RateLimited, InternalError, TimedOut);

/// What became of each request, in order
#[derive(Serialize, ToSchema)]
pub(crate) struct BatchResults {
    /// One for each request
    #[schema(max_items = 1000)]
    results: Vec<BatchResult>,
}

/// What became of one request: what it would have been answered alone
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum BatchResult {
    /// It is stored
    Stored {
        /// 202 for a new one, 200 for a known one
        #[schema(minimum = 200, maximum = 202)]
        status: u16,
        /// The transaction
        transaction: Box<Transaction>,
    },
    /// It is not, or nobody knows
    Refused {
        /// The problem's status
        #[schema(minimum = 400, maximum = 599)]
        status: u16,
        /// Why
        problem: Told,
    },
}

/// After so many requests of a batch others have their turn: a thousand keep a thread busy for tens of milliseconds, and
/// whoever waits for what the store has answered meanwhile would wait for them too. More is felt by those; fewer, and
/// batches that come together are all read by turns, so that the store has nothing to do until all of them are.
const AT_ONCE: usize = 100;

/// What a request came to.
type Settled = Result<(StatusCode, Box<Record>), Problem>;

/// Have many transactions sent
///
/// Up to 1,000 requests. Each is stored or refused by itself; those of one signer get their nonces in
/// order. The `Idempotency-Key` header is refused here: each request has its own `requestId`. With `wait` the answer
/// comes when every one that is stored has reached a point, or with all of them as they stand when the time is over.
#[utoipa::path(
    post,
    path = "/api/v1/tx/batch",
    tag = "transactions",
    operation_id = "createTransactions",
    params(
        ("wait" = Option<WaitPoint>, Query, description = "Answer when every one that is stored has reached this point, or has ended or is STUCK, or when the time is over"),
        ("waitSeconds" = Option<u64>, Query, minimum = 0, maximum = 30, description = "How long to wait at most; 10 where not given; only with wait. No wait is longer than 28.5 s"),
    ),
    request_body = BatchBody,
    responses((status = 200, description = "One result for each request", body = BatchResults), Problems),
    security(("key" = ["submit"])),
)]
pub(super) async fn batch(
    State(served): State<Arc<Served>>,
    Submitter(caller): Submitter,
    mut query: Query,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let wanted = Wanted::read(&mut query);
    query.finish().check()?;
    let limits = &served.limits;
    let bytes = body::read(body, &headers, limits.batch_bytes, limits.body_timeout).await?;
    let why = "names one request; in a batch each has its own requestId";
    intake::unnamed(&headers, why)?;
    let requests = split(body::text(&bytes)?)?;
    let more = requests.len().saturating_sub(1);
    caller.rate.take_more(more)?;
    // Each is filled in once it is known what becomes of it.
    let mut results: Vec<Option<Settled>> = Vec::with_capacity(requests.len());
    let (mut due, mut places) = (Vec::new(), Vec::new());
    for (number, request) in requests.into_iter().enumerate() {
        give_way(number).await;
        results.push(match take(&served, &caller, request) {
            Err(problem) => Some(Err(problem)),
            Ok(taken) => {
                places.push(results.len());
                due.push(taken);
                None
            }
        });
    }
    let looked = deadline::bounded(&served, intake::preflights(&served, &due)).await?;
    let mut good = Vec::with_capacity(due.len());
    for ((place, taken), looked) in places.into_iter().zip(due).zip(looked) {
        match looked {
            Ok(()) => good.push((place, taken)),
            Err(problem) => results[place] = Some(Err(problem)),
        }
    }
    let (places, due): (Vec<usize>, Vec<Taken>) = good.into_iter().unzip();
    let txs = due.iter().map(|taken| taken.tx.tx);
    let begun = wanted.map(|wanted| wanted.begin(&served.node, txs));
    for (place, (tx, verdict)) in places.into_iter().zip(intake::accept(&served, due).await) {
        results[place] = Some(verdict::told(verdict, &tx));
    }
    if let Some(begun) = begun {
        wait(begun, &mut results).await;
    }
    let mut told = Vec::with_capacity(results.len());
    for (number, settled) in results.into_iter().enumerate() {
        give_way(number).await;
        let settled = settled.unwrap_or_else(|| Err(Problem::new(Code::InternalError)));
        told.push(result(settled, &served, &caller));
    }
    let room = told.len() * json::ROOM;
    let results = BatchResults { results: told };
    Ok(json::answer_in(room, StatusCode::OK, &results))
}

/// Puts the stored transactions as they stand after the wait in the place of those that were stored.
async fn wait(begun: Begun<'_>, results: &mut [Option<Settled>]) {
    let mut stored: Vec<&mut Box<Record>> = results
        .iter_mut()
        .filter_map(|settled| settled.as_mut()?.as_mut().ok().map(|(_, record)| record))
        .collect();
    let known = stored.iter().map(|record| (**record).clone()).collect();
    for (record, reached) in stored.iter_mut().zip(begun.reach(known).await) {
        **record = reached;
    }
}

/// Before this request others have their turn, if as many as go at once have gone.
async fn give_way(number: usize) {
    if number > 0 && number.is_multiple_of(AT_ONCE) {
        yield_now().await;
    }
}

/// A batch as the texts of its requests: each is read by itself, so memory is bounded by the largest.
fn split(text: &str) -> Result<Vec<&RawValue>, Problem> {
    let given: Given<BatchBody<'_>> =
        serde_json::from_str(text).map_err(|error| body::malformed(&error))?;
    let mut faults = Faults::default();
    let list = faults.required("body", given).and_then(|batch| {
        faults.extras("", batch.extras);
        faults.required("requests", batch.requests)
    });
    if list.as_ref().is_some_and(|list| list.is_too_long) {
        faults.add("requests", format_args!("holds more than {BATCH_MAX}"));
    }
    faults.check()?;
    Ok(list.expect("a missing list is a fault").items)
}

fn take(served: &Served, caller: &Caller, request: &RawValue) -> Result<Taken, Problem> {
    let (text, max) = (request.get(), served.limits.body_bytes);
    if text.len() > max {
        let detail = format!("The request is above the limit of {max} bytes. It was not stored.");
        return Err(Problem::new(Code::TooLarge).detail(detail));
    }
    intake::take(served, caller, text, None)
}

fn result(settled: Settled, served: &Served, caller: &Caller) -> BatchResult {
    match settled {
        Ok((status, record)) => BatchResult::Stored {
            status: status.as_u16(),
            transaction: Box::new(Transaction::of(&record, &served.chains, caller)),
        },
        Err(problem) => BatchResult::Refused {
            status: problem.code().status().as_u16(),
            problem: problem.told().clone(),
        },
    }
}
