//! What no store may be asked for. Every adapter checks its input here before it does anything, so
//! that the same call is impossible everywhere and a statement is bounded before it is sent.

use std::collections::HashSet;
use std::hash::Hash;
use std::time::Duration;

use fencepost_domain::ids::{ChainId, Lane, LaneId, TxId};

use super::{
    Audit, Bid, Body, CursorMove, Held, LaneBatch, LaneMoves, LanePromotion, Move, NewRemedy,
    NewTx, PauseChange, PauseReason, READ_LIMIT_MAX, Settle, SettleAct, StoreError,
    WRITE_LIMIT_MAX,
};

/// A longer URL is a mistake, and it is stored in every lane that a node leads.
pub const URL_BYTES_MAX: usize = 500;
/// A receipt with more logs than this is no receipt that a block can hold.
pub const RECEIPT_BYTES_MAX: usize = 1024 * 1024;
/// Who and why, in a person's words.
pub const AUDIT_BYTES_MAX: usize = 1_000;
/// The caller's own audit fields.
pub const DETAILS_BYTES_MAX: usize = 16 * 1024;
/// Longer errors are cut: they are for reading, and nodes can answer with megabytes.
pub const ERROR_BYTES_MAX: usize = 1_000;
/// Ten years. More is a mistake in units, and added to a clock it could leave the calendar.
pub const WAIT_MAX: Duration = Duration::from_hours(10 * 365 * 24);

type Checked = Result<(), StoreError>;

fn refuse(why: impl Into<String>) -> Checked {
    Err(StoreError::Invalid(why.into()))
}

/// How many a read may return.
pub fn limit(limit: usize) -> Checked {
    if limit == 0 || limit > READ_LIMIT_MAX {
        return refuse(format!("a limit of {limit}; it is 1 to {READ_LIMIT_MAX}"));
    }
    Ok(())
}

/// How many may be asked for by id.
pub fn ids(ids: &[TxId]) -> Checked {
    if ids.len() > READ_LIMIT_MAX {
        let n = ids.len();
        return refuse(format!("{n} ids in one read; {READ_LIMIT_MAX} at most"));
    }
    Ok(())
}

/// A node's URL.
pub fn url(url: &str) -> Checked {
    at_most(url.len(), URL_BYTES_MAX, "bytes of url")
}

/// The chains of a heartbeat.
pub fn chains(chains: &[ChainId]) -> Checked {
    items(chains.len())
}

/// Lanes to open; the same one twice is the same lane.
pub fn lanes(lanes: &[Lane]) -> Checked {
    items(lanes.len())
}

/// Bids for lanes.
pub fn bids(at: &str, bids: &[Bid]) -> Checked {
    url(at)?;
    items(bids.len())?;
    distinct(bids.iter().map(|bid| bid.lane), "lane")
}

/// Led lanes.
pub fn held(held: &[Held]) -> Checked {
    items(held.len())?;
    distinct(held.iter().map(|held| held.lane), "lane")
}

/// A change of a lane's pause. A hold after a failover is the store's own finding.
pub fn pause(change: PauseChange, by: &Audit) -> Checked {
    audit(by)?;
    match change {
        PauseChange::Pause(PauseReason::Failover) => refuse("a pause for FAILOVER"),
        PauseChange::Pause(
            PauseReason::Operator | PauseReason::CursorJump | PauseReason::NonceClash,
        )
        | PauseChange::Resume
        | PauseChange::Reconcile { .. } => Ok(()),
    }
}

/// A move of a lane's cursor.
pub fn cursor(lane: LaneId, to: &CursorMove, by: &Audit) -> Checked {
    audit(by)?;
    match to {
        CursorMove::Raise { held, .. } if held.lane != lane => {
            refuse("a cursor raised under another lane's token")
        }
        CursorMove::Raise { .. } | CursorMove::Lower { .. } => Ok(()),
    }
}

/// New transactions with nonces.
pub fn create(batches: &[LaneBatch]) -> Checked {
    items(batches.iter().map(|batch| batch.txs.len()).sum())?;
    items(batches.iter().map(|batch| batch.free.len()).sum())?;
    items(batches.len())?;
    distinct(batches.iter().map(|batch| batch.held.lane), "lane")?;
    for batch in batches {
        for tx in &batch.txs {
            match tx.body {
                Body::Managed(_) => {}
                Body::Reserved(loan) => {
                    wait(loan.ttl)?;
                    wait(loan.grace)?;
                }
                Body::Placeholder(nonce) if nonce >= batch.cursor => {
                    refuse(format!("a placeholder for nonce {nonce}, never given"))?;
                }
                Body::Placeholder(_) => {}
            }
        }
    }
    Ok(())
}

/// New transactions without nonces. Only what we sign ourselves can wait for one.
pub fn enqueue(txs: &[(LaneId, NewTx)]) -> Checked {
    items(txs.len())?;
    for (_, tx) in txs {
        match tx.body {
            Body::Managed(_) => {}
            Body::Reserved(_) | Body::Placeholder(_) => {
                refuse("only a managed transaction can wait in the queue")?;
            }
        }
    }
    Ok(())
}

/// Queued transactions that get nonces.
pub fn promote(promotions: &[LanePromotion]) -> Checked {
    items(promotions.iter().map(|lane| lane.txs.len()).sum())?;
    items(promotions.iter().map(|lane| lane.free.len()).sum())?;
    items(promotions.len())?;
    distinct(promotions.iter().map(|lane| lane.held.lane), "lane")
}

/// Moves that the feed does not tell.
pub fn apply(batches: &[LaneMoves]) -> Checked {
    moves(batches)?;
    if each(batches).any(|step| step.event.kind.is_told()) {
        return refuse("a move that the feed tells must complete");
    }
    Ok(())
}

/// Moves that the feed tells.
pub fn complete(batches: &[LaneMoves]) -> Checked {
    moves(batches)?;
    if each(batches).any(|step| !step.event.kind.is_told()) {
        return refuse("a move that the feed does not tell cannot complete");
    }
    Ok(())
}

fn each(batches: &[LaneMoves]) -> impl Iterator<Item = &Move> {
    batches.iter().flat_map(|batch| &batch.moves)
}

fn moves(batches: &[LaneMoves]) -> Checked {
    items(each(batches).count())?;
    items(batches.len())?;
    distinct(batches.iter().map(|batch| batch.held.lane), "lane")?;
    distinct(each(batches).map(|step| step.tx), "transaction")?;
    for step in each(batches) {
        let receipt = step.receipt.as_ref().map_or(0, String::len);
        at_most(receipt, RECEIPT_BYTES_MAX, "bytes of receipt")?;
        step.due_in.map_or(Ok(()), wait)?;
    }
    Ok(())
}

/// A claim of due work.
pub fn claim_due(lanes: &[Held], next_in_ms: u64, most: usize) -> Checked {
    held(lanes)?;
    limit(most)?;
    wait(Duration::from_millis(next_in_ms))
}

/// A claim of remedies.
pub fn claim_remedies(lanes: &[Held], most: usize) -> Checked {
    held(lanes)?;
    limit(most)
}

/// A remedy that is asked for. Rounds are counted from one, in a 32-bit column.
pub fn remedy(remedy: &NewRemedy) -> Checked {
    let round = remedy.round;
    if round == 0 || i32::try_from(round).is_err() {
        return refuse(format!("a round {round}"));
    }
    audit(&remedy.audit)
}

/// What the holder of a reservation says.
pub fn settle(call: &Settle) -> Checked {
    match call.act {
        SettleAct::Extend(by) => wait(by),
        SettleAct::Submitted(_) | SettleAct::Recycle => Ok(()),
    }
}

/// An error's text as it is stored, cut at a character's edge.
#[must_use]
pub fn cut(text: &str) -> &str {
    let mut end = text.len().min(ERROR_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

fn audit(audit: &Audit) -> Checked {
    at_most(audit.by.len(), AUDIT_BYTES_MAX, "bytes of audit.by")?;
    at_most(audit.reason.len(), AUDIT_BYTES_MAX, "bytes of audit.reason")?;
    let details = audit.details.as_ref().map_or(0, String::len);
    at_most(details, DETAILS_BYTES_MAX, "bytes of audit.details")
}

fn wait(time: Duration) -> Checked {
    if time > WAIT_MAX {
        return refuse(format!("a wait of {} s, above ten years", time.as_secs()));
    }
    Ok(())
}

fn items(n: usize) -> Checked {
    at_most(n, WRITE_LIMIT_MAX, "items in one write")
}

fn at_most(n: usize, max: usize, what: &str) -> Checked {
    if n > max {
        return refuse(format!("{n} {what}; {max} at most"));
    }
    Ok(())
}

fn distinct<T: Eq + Hash>(items: impl Iterator<Item = T>, what: &str) -> Checked {
    let mut seen = HashSet::new();
    for item in items {
        if !seen.insert(item) {
            return refuse(format!("one {what} twice in one call"));
        }
    }
    Ok(())
}
