//! Many transactions, page by page. A cursor is the last id of the page before, so that pages neither
//! repeat nor skip anything that was there when the first one was read.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use fencepost_app::ports::{PageQuery, Record};
use fencepost_domain::amount;
use fencepost_domain::flat::Name;
use fencepost_domain::ids::{Lane, TxId};
use uuid::Uuid;

use super::LIST_MAX;
use crate::access::Reader;
use crate::api::Served;
use crate::chains::Choice;
use crate::json;
use crate::json::scalar::AddressText;
use crate::json::transaction::{Transaction, TransactionPage};
use crate::json::words;
use crate::problem::{Problem, problems};
use crate::query::Query;

problems!(Problems: Unauthorized, Forbidden, UnknownChain, InvalidRequest, RateLimited, InternalError,
    Overloaded, StoreUnavailable, TimedOut);

/// A page ends when it weighs this much, however many were asked for. More takes memory for each client that reads; less makes
/// readers of large payloads ask more often.
const PAGE_BYTES_MAX: usize = 8 * 1024 * 1024;
/// So many are read before it is known how heavy they are: with payloads of the largest size that is one page.
const FIRST_LOOK: usize = 32;
/// No look reads more: those that come may be heavier than those that were read. More takes memory, less makes more statements.
const LOOK_MAX: usize = 128;

/// Marks our cursors, and which kind they are.
const CURSOR_MARK: &str = "t1";

/// Transactions, newest first
///
/// A key that covers some signers only must name one. A page of large payloads holds fewer than `limit`: it ends at some 8 MiB,
/// and `nextCursor` gives the rest.
#[utoipa::path(
    get,
    path = "/api/v1/tx",
    tag = "transactions",
    operation_id = "listTransactions",
    params(
        ("signer" = Option<AddressText>, Query, description = "Only of this signer"),
        ("chain" = Option<String>, Query, description = "Only on this chain"),
        ("state" = Option<words::State>, Query, description = "Only in this state"),
        ("limit" = Option<u64>, Query, minimum = 1, maximum = 1000, description = "How many at most; 100 where not given"),
        ("cursor" = Option<String>, Query, pattern = "^t1[0-9a-f]{32}$", description = "The nextCursor of the page before"),
    ),
    responses((status = 200, description = "A page", body = TransactionPage), Problems),
    security(("key" = ["read"])),
)]
pub(super) async fn list(
    State(served): State<Arc<Served>>,
    Reader(caller): Reader,
    mut query: Query,
) -> Result<Response, Problem> {
    let limit = query.number("limit", 1..=LIST_MAX, 100);
    let (state, cursor) = (query.text("state"), query.text("cursor"));
    let (signer, chain) = (query.text("signer"), query.text("chain"));
    let state = query.faults.read("state", state.as_deref(), state_of);
    let before = query.faults.read("cursor", cursor.as_deref(), id_of);
    let signer = query
        .faults
        .read("signer", signer.as_deref(), amount::address);
    if signer.is_none() && caller.is_limited() {
        query
            .faults
            .add("signer", "is required: the key covers some signers only");
    }
    // Without a signer a chain is only a filter, and none need be named.
    let named = signer.is_some() || chain.is_some();
    let chain = named.then(|| served.chains.choose(chain.as_deref(), &mut query.faults));
    query.finish().check()?;
    signer.map_or(Ok(()), |signer| caller.check(signer))?;
    let chain = chain.map(Choice::known).transpose()?;
    let lane = signer.zip(chain).map(|(signer, chain)| Lane {
        chain: chain.id,
        signer,
    });
    let wanted = PageQuery {
        lane,
        state,
        before,
        limit: usize::try_from(limit).unwrap_or(1),
    };
    let _turn = served.pages.acquire().await;
    let Gathered {
        found,
        bytes,
        is_cut,
    } = gather(&served, wanted).await?;
    let next_cursor = found.last().filter(|_| is_cut).map(cursor_at);
    let shown = found
        .iter()
        .filter(|record| chain.is_none_or(|chain| record.lane.chain == chain.id))
        .map(|record| Transaction::of(record, &served.chains, &caller));
    let page = TransactionPage {
        transactions: shown.collect(),
        next_cursor,
    };
    // A text that grows while it is written takes up to twice its size.
    Ok(json::answer_in(bytes + json::ROOM, StatusCode::OK, &page))
}

/// What a page is made of.
struct Gathered {
    found: Vec<Record>,
    /// What they take in an answer, about.
    bytes: usize,
    /// There may be more.
    is_cut: bool,
}

/// As many as are wanted, or as many as a page may weigh. How heavy they are is known only when
/// they are read, so a few are read first, and then as many as are expected to fit.
async fn gather(served: &Served, mut wanted: PageQuery) -> Result<Gathered, Problem> {
    let limit = wanted.limit;
    let (mut found, mut bytes, mut fit) = (Vec::new(), 0_usize, FIRST_LOOK);
    loop {
        wanted.limit = fit.min(LOOK_MAX).min(limit - found.len());
        let more = served.node.store().page(&wanted).await;
        let more = more.map_err(|error| Problem::unread(&error))?;
        let is_end = more.len() < wanted.limit;
        for record in more {
            bytes = bytes.saturating_add(weight(&record));
            wanted.before = Some(record.tx);
            found.push(record);
            // What was read beyond is left for the next page.
            if bytes >= PAGE_BYTES_MAX {
                break;
            }
        }
        let is_heavy = bytes >= PAGE_BYTES_MAX;
        if is_heavy || is_end || found.len() == limit {
            return Ok(Gathered {
                found,
                bytes,
                is_cut: is_heavy || !is_end,
            });
        }
        let each = (bytes / found.len()).max(1);
        fit = ((PAGE_BYTES_MAX - bytes) / each).max(1);
    }
}

/// What a transaction takes in an answer, about.
fn weight(record: &Record) -> usize {
    let data = record
        .payload
        .as_ref()
        .map_or(0, |payload| payload.data().len());
    let receipt = record.receipt.as_ref().map_or(0, String::len);
    // Hex has two digits for each byte.
    json::ROOM + 2 * data + receipt
}

fn state_of(word: &str) -> Result<Name, String> {
    Name::from_word(word).map_err(|_| {
        let words: Vec<_> = Name::ALL.iter().map(|name| name.word()).collect();
        format!("is not one of {}", words.join(", "))
    })
}

fn cursor_at(record: &Record) -> String {
    format!("{CURSOR_MARK}{}", record.tx.0.simple())
}

fn id_of(cursor: &str) -> Result<TxId, &'static str> {
    let wrong = "is not a cursor of this route";
    let digits = cursor.strip_prefix(CURSOR_MARK).ok_or(wrong)?;
    // A UUID can be written in several ways; a cursor is written in one.
    let plain = digits.len() == 32 && !digits.bytes().any(|b| b.is_ascii_uppercase());
    let id = Uuid::try_parse(digits).ok().filter(|_| plain);
    id.map(TxId).ok_or(wrong)
}
