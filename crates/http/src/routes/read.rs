//! One transaction, by whatever its reader knows of it.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use fencepost_app::ports::{Key, Record};
use fencepost_domain::amount;
use fencepost_domain::ids::{Lane, Nonce, RequestId, TxId};
use uuid::Uuid;

use crate::access::{Caller, Reader};
use crate::api::Served;
use crate::faults::Faults;
use crate::json;
use crate::json::scalar::{AddressText, WordText};
use crate::json::transaction::Transaction;
use crate::json::words::WaitPoint;
use crate::problem::{Code, Problem, problems};
use crate::query::{Query, Segment};
use crate::waiting::Wanted;

problems!(Problems: Unauthorized, Forbidden, NotFound, UnknownChain, InvalidRequest, RateLimited,
    InternalError, StoreUnavailable, TimedOut);

/// A transaction by its id
#[utoipa::path(
    get,
    path = "/api/v1/tx/{txId}",
    tag = "transactions",
    operation_id = "getTransaction",
    params(
        ("txId" = Uuid, Path, description = "The transaction's id"),
        ("wait" = Option<WaitPoint>, Query, description = "Answer when it has reached this point, or has ended or is STUCK, or when the time is over"),
        ("waitSeconds" = Option<u64>, Query, minimum = 0, maximum = 30, description = "How long to wait at most; 10 where not given; only with wait. No wait is longer than 28.5 s"),
    ),
    responses((status = 200, description = "The transaction", body = Transaction), Problems),
    security(("key" = ["read"])),
)]
pub(super) async fn by_id(
    State(served): State<Arc<Served>>,
    Reader(caller): Reader,
    Segment(tx): Segment,
    mut query: Query,
) -> Result<Response, Problem> {
    let wanted = Wanted::read(&mut query);
    let mut record = named(&served, &caller, &tx, query.finish()).await?;
    if let Some(wanted) = wanted {
        let begun = wanted.begin(&served.node, []);
        record = *begun.reach_one(Box::new(record)).await;
    }
    answer(&served, &caller, record)
}

/// A transaction by the client's own name for it
#[utoipa::path(
    get,
    path = "/api/v1/tx/by-request",
    tag = "transactions",
    operation_id = "getTransactionByRequest",
    params(
        ("signer" = AddressText, Query, description = "Who sends"),
        ("requestId" = String, Query, min_length = 1, max_length = 200, pattern = "^[^\\s\\x00-\\x1f\\x7f-\\x9f]([^\\x00-\\x1f\\x7f-\\x9f]*[^\\s\\x00-\\x1f\\x7f-\\x9f])?$", description = "The client's own name for it"),
        ("chain" = Option<String>, Query, description = "The chain's configured name; may be left out while only one is configured"),
    ),
    responses((status = 200, description = "The transaction", body = Transaction), Problems),
    security(("key" = ["read"])),
)]
pub(super) async fn by_request(
    State(served): State<Arc<Served>>,
    Reader(caller): Reader,
    mut query: Query,
) -> Result<Response, Problem> {
    let name = query.required("requestId");
    let name = query
        .faults
        .read("requestId", name.as_deref(), |text| RequestId::new(text));
    let lane = lane(&served, &caller, query)?;
    answer(
        &served,
        &caller,
        find(&served, &caller, name.map(|name| Key::Request(lane, name))).await?,
    )
}

/// The transaction that holds a nonce now
#[utoipa::path(
    get,
    path = "/api/v1/tx/by-nonce",
    tag = "transactions",
    operation_id = "getTransactionByNonce",
    params(
        ("signer" = AddressText, Query, description = "Who sends"),
        ("nonce" = u64, Query, minimum = 0, maximum = 9_223_372_036_854_775_807_isize, description = "The nonce"),
        ("chain" = Option<String>, Query, description = "The chain's configured name; may be left out while only one is configured"),
    ),
    responses((status = 200, description = "The transaction", body = Transaction), Problems),
    security(("key" = ["read"])),
)]
pub(super) async fn by_nonce(
    State(served): State<Arc<Served>>,
    Reader(caller): Reader,
    mut query: Query,
) -> Result<Response, Problem> {
    caller.check_nonces()?;
    let nonce = query.required_number("nonce", 0..=Nonce::MAX.get());
    let lane = lane(&served, &caller, query)?;
    let nonce = nonce.and_then(|nonce| Nonce::new(nonce).ok());
    answer(
        &served,
        &caller,
        find(&served, &caller, nonce.map(|nonce| Key::Nonce(lane, nonce))).await?,
    )
}

/// The transaction that has an attempt of this hash
#[utoipa::path(
    get,
    path = "/api/v1/tx/by-hash/{hash}",
    tag = "transactions",
    operation_id = "getTransactionByHash",
    params(
        ("hash" = WordText, Path, description = "The hash of any of its attempts"),
        ("chain" = Option<String>, Query, description = "The chain's configured name; without it all are searched"),
    ),
    responses((status = 200, description = "The transaction", body = Transaction), Problems),
    security(("key" = ["read"])),
)]
pub(super) async fn by_hash(
    State(served): State<Arc<Served>>,
    Reader(caller): Reader,
    Segment(hash): Segment,
    mut query: Query,
) -> Result<Response, Problem> {
    let chain = query.text("chain");
    let hash = query.faults.read("hash", Some(&hash), amount::word);
    let only = chain.map(|name| served.chains.choose(Some(&name), &mut query.faults));
    query.finish().check()?;
    let chains = match only {
        Some(only) => std::slice::from_ref(only.known()?),
        None => served.chains.all(),
    };
    for chain in chains {
        let key = hash.map(|hash| Key::Hash(chain.id, hash));
        match find(&served, &caller, key).await {
            Ok(record) => return answer(&served, &caller, record),
            Err(problem) if problem.code() == Code::NotFound => {}
            Err(problem) => return Err(problem),
        }
    }
    Err(Problem::new(Code::NotFound))
}

/// Which signer on which chain is meant, and that the key covers it.
pub(super) fn lane(served: &Served, caller: &Caller, mut query: Query) -> Result<Lane, Problem> {
    let chain = query.text("chain");
    let signer = query.required("signer");
    let mut faults: Faults = query.finish();
    let signer = faults.read("signer", signer.as_deref(), amount::address);
    let chain = served.chains.choose(chain.as_deref(), &mut faults);
    faults.check()?;
    let signer = signer.expect("what cannot be read is a fault");
    caller.check(signer)?;
    Ok(Lane {
        chain: chain.known()?.id,
        signer,
    })
}

/// The transaction that a path names, once nothing is wrong with the request.
pub(super) async fn named(
    served: &Served,
    caller: &Caller,
    tx: &str,
    mut faults: Faults,
) -> Result<Record, Problem> {
    let tx = faults.read("txId", Some(tx), id);
    faults.check()?;
    find(served, caller, tx.map(Key::Id)).await
}

/// A transaction that this key may see. One that it may not see is not there.
pub(super) async fn find(
    served: &Served,
    caller: &Caller,
    key: Option<Key>,
) -> Result<Record, Problem> {
    let missing = || Problem::new(Code::NotFound);
    let key = key.ok_or_else(missing)?;
    let found = served.node.store().find(&key).await;
    let found = found.map_err(|error| Problem::unread(&error))?;
    found
        .filter(|record| caller.covers(record.lane.signer))
        .ok_or_else(missing)
}

/// A transaction's id, as it is written.
pub(super) fn id(text: &str) -> Result<TxId, &'static str> {
    let wrong = "is not a UUID of 36 characters";
    if text.len() != 36 {
        return Err(wrong);
    }
    Uuid::try_parse(text).map(TxId).map_err(|_| wrong)
}

fn answer(served: &Served, caller: &Caller, record: Record) -> Result<Response, Problem> {
    let transaction = Transaction::of(&record, &served.chains, caller);
    Ok(json::answer(StatusCode::OK, &transaction))
}
