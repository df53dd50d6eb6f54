//! Due work: one row for each transaction that holds a nonce and has not ended.

use std::time::Duration;

use fencepost_app::ports::{Claimed, Held, Holder, Record};
use fencepost_domain::ids::{LaneId, Nonce, Token, TxId};
use rusqlite::params;

use crate::db::{Db, Micros};
use crate::error::{Answer, broken};
use crate::lease::{LaneRow, led};
use crate::reads;
use crate::row::{Cells, key};

/// Makes it due; it was not before.
pub(crate) fn add(db: &Db<'_>, lane: LaneId, tx: TxId, nonce: Nonce, at: Micros) -> Answer<()> {
    db.run_one(
        "INSERT INTO due_work (tx_id, lane_id, nonce, due_at) VALUES (?1, ?2, ?3, ?4)",
        params![key(tx), lane.0, nonce.column(), at],
    )
}

/// Makes it due then, whether it was due before or not.
pub(crate) fn put(db: &Db<'_>, lane: LaneId, tx: TxId, nonce: Nonce, at: Micros) -> Answer<()> {
    db.run_one(
        "INSERT INTO due_work (tx_id, lane_id, nonce, due_at) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (tx_id) DO UPDATE SET due_at = excluded.due_at",
        params![key(tx), lane.0, nonce.column(), at],
    )
}

/// Leaves its time as it is; due now when it has come back from an end.
pub(crate) fn keep(db: &Db<'_>, lane: LaneId, tx: TxId, nonce: Nonce) -> Answer<()> {
    db.run(
        "INSERT INTO due_work (tx_id, lane_id, nonce, due_at) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (tx_id) DO NOTHING",
        params![key(tx), lane.0, nonce.column(), db.now],
    )?;
    Ok(())
}

/// Later by as much as this.
pub(crate) fn shift(db: &Db<'_>, tx: TxId, by: Micros) -> Answer<()> {
    db.run_one(
        "UPDATE due_work SET due_at = due_at + ?2 WHERE tx_id = ?1",
        params![key(tx), by],
    )
}

/// It has ended, or never held a nonce.
pub(crate) fn remove(db: &Db<'_>, tx: TxId) -> Answer<()> {
    db.run("DELETE FROM due_work WHERE tx_id = ?1", [key(tx)])?;
    Ok(())
}

pub(crate) fn claim(
    db: &Db<'_>,
    holder: &Holder,
    held: &[Held],
    next_in_ms: u64,
    limit: usize,
) -> Answer<Claimed> {
    let (led, fenced) = led(db, holder, held)?;
    let next_at = db.later(Duration::from_millis(next_in_ms));
    let mut records = Vec::new();
    for due in oldest(db, &led, limit)? {
        records.push(claim_one(db, due, next_at)?);
    }
    records.sort_by_key(|record| (record.lane_id, record.state.nonce()));
    Ok(Claimed { records, fenced })
}

/// Ordered by age, then by id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    at: Micros,
    tx: TxId,
    token: Token,
}

/// What has been due longest in these lanes. Each lane is asked only for what could still be among
/// the oldest, so a long backlog in many lanes is not read whole.
fn oldest(db: &Db<'_>, lanes: &[LaneRow], limit: usize) -> Answer<Vec<Due>> {
    let mut oldest: Vec<Due> = Vec::new();
    let mut until = db.now;
    for lane in lanes {
        oldest.extend(db.all(
            "SELECT due_at, tx_id FROM due_work WHERE lane_id = ?1 AND due_at <= ?2
             ORDER BY due_at, tx_id LIMIT ?3",
            params![lane.id.0, until, limit],
            |row| {
                let mut cells = Cells::of(row);
                Ok(Due {
                    at: cells.next()?,
                    tx: cells.tx()?,
                    token: lane.token,
                })
            },
        )?);
        oldest.sort_unstable();
        oldest.truncate(limit);
        if oldest.len() == limit {
            until = oldest.last().map_or(until, |due| due.at);
        }
    }
    Ok(oldest)
}

/// Puts it off and counts the try before anything is sent: a crash after the send must not make
/// the next leader believe that nothing was tried.
fn claim_one(db: &Db<'_>, due: Due, next_at: Micros) -> Answer<Record> {
    db.run_one(
        "UPDATE due_work SET due_at = ?2 WHERE tx_id = ?1",
        params![key(due.tx), next_at],
    )?;
    let has_bytes_to_send: bool = db.value(
        "SELECT tx_hash IS NOT NULL AND block_number IS NULL
            AND state IN ('ALLOCATED', 'TRACKING', 'STUCK')
         FROM managed_tx WHERE tx_id = ?1",
        [key(due.tx)],
    )?;
    db.run_one(
        "UPDATE managed_tx SET version = version + 1, updated_at = ?2, fencing_token = ?3,
            submit_attempts = submit_attempts + ?4,
            first_submit_at = coalesce(first_submit_at, ?5),
            last_submit_at = coalesce(?5, last_submit_at)
         WHERE tx_id = ?1",
        params![
            key(due.tx),
            db.now,
            due.token.column(),
            has_bytes_to_send,
            has_bytes_to_send.then_some(db.now)
        ],
    )?;
    reads::by_id(db, due.tx)?.ok_or_else(|| broken("due work has no transaction"))
}
