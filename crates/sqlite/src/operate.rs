//! What operators and leaders do to a lane itself: pausing it, moving its cursor, looking for
//! nonces that nobody holds. Every change leaves an audit row.

use std::cmp::Ordering;

use fencepost_app::ports::{
    Audit, CursorMove, CursorMoved, Held, Holder, PauseChange, PauseReason, Paused,
};
use fencepost_domain::ids::{LaneId, NodeId, Nonce};
use rusqlite::params;

use crate::db::Db;
use crate::error::{Answer, broken};
use crate::lease::LaneRow;
use crate::retire::nonce_floor;

/// How many nonces that are free no longer one audit row lists; a longer list reads worse than its
/// count.
const DROPPED_TOLD_MAX: usize = 100;

/// How many nonces one search for gaps looks at; a caller goes on behind the last one.
const GAP_SCAN_MAX: u64 = 100_000;

pub(crate) fn pause(
    db: &Db<'_>,
    lane: LaneId,
    change: PauseChange,
    audit: &Audit,
) -> Answer<Paused> {
    let Some(row) = LaneRow::find(db, lane)? else {
        return Ok(Paused::UnknownLane);
    };
    let mut dropped = String::new();
    let word = match change {
        PauseChange::Pause(reason) => {
            db.run_one(
                "UPDATE signer_lease SET paused = ?2, updated_at = ?3 WHERE lane_id = ?1",
                params![lane.0, reason.word(), db.now],
            )?;
            "PAUSE"
        }
        PauseChange::Resume => {
            db.run_one(
                "UPDATE signer_lease SET paused = NULL, updated_at = ?2 WHERE lane_id = ?1",
                params![lane.0, db.now],
            )?;
            "RESUME"
        }
        PauseChange::Reconcile { at_least } => {
            dropped = reconcile(db, &row, at_least)?;
            "RECONCILE"
        }
    };
    let now = LaneRow::find(db, lane)?.ok_or_else(|| broken("a lane vanished"))?;
    let change = format!("{} -> {}{dropped}", described(&row), described(&now));
    record_act(db, lane, word, &change, audit)?;
    Ok(Paused::Now(now.stopped()))
}

/// Returns what the audit tells of nonces that were dropped.
fn reconcile(db: &Db<'_>, row: &LaneRow, at_least: Nonce) -> Answer<String> {
    db.run_one(
        "UPDATE signer_lease SET held = 0, next_nonce = ?2, updated_at = ?3 WHERE lane_id = ?1",
        params![row.id.0, row.next_nonce.max(at_least).column(), db.now],
    )?;
    drop_free(db, row.id, at_least)
}

/// The chain has used every nonce below its count, so none of them is free any more. Returns what
/// the audit tells of them: nothing where there were none.
fn drop_free(db: &Db<'_>, lane: LaneId, below: Nonce) -> Answer<String> {
    let lowest: Vec<i64> = db.all(
        "SELECT nonce FROM free_nonce WHERE lane_id = ?1 AND nonce < ?2 ORDER BY nonce LIMIT ?3",
        params![lane.0, below.column(), DROPPED_TOLD_MAX],
        |row| Ok(row.get(0)?),
    )?;
    let dropped = db.run(
        "DELETE FROM free_nonce WHERE lane_id = ?1 AND nonce < ?2",
        params![lane.0, below.column()],
    )?;
    if dropped == 0 {
        return Ok(String::new());
    }
    let lowest: Vec<String> = lowest.iter().map(i64::to_string).collect();
    let more = if dropped > lowest.len() { " ..." } else { "" };
    Ok(format!(" dropped={dropped} ({}{more})", lowest.join(" ")))
}

fn described(row: &LaneRow) -> String {
    let paused = row.stopped().map_or("none", PauseReason::word);
    format!("paused={paused} next_nonce={}", row.next_nonce)
}

pub(crate) fn move_cursor(
    db: &Db<'_>,
    lane: LaneId,
    to: &CursorMove,
    audit: &Audit,
) -> Answer<CursorMoved> {
    let Some(row) = LaneRow::find(db, lane)? else {
        return Ok(CursorMoved::UnknownLane);
    };
    match to {
        CursorMove::Raise { holder, held, to } => {
            raise(db, &row, holder, *held, (*to, Nonce::ZERO), audit)
        }
        CursorMove::Forget {
            holder,
            held,
            below,
        } => raise(db, &row, holder, *held, (row.next_nonce, *below), audit),
        CursorMove::Set { to } => set(db, &row, *to, audit),
    }
}

fn raise(
    db: &Db<'_>,
    row: &LaneRow,
    holder: &Holder,
    held: Held,
    (to, used_below): (Nonce, Nonce),
    audit: &Audit,
) -> Answer<CursorMoved> {
    if !row.is_led(db, holder, held.token) {
        return Ok(CursorMoved::Fenced);
    }
    let from = row.next_nonce;
    let to = to.max(from);
    row.gave(db, to, row.lane_seq)?;
    let dropped = drop_free(db, row.id, used_below)?;
    if to > from || !dropped.is_empty() {
        let change = format!("next_nonce={from} -> next_nonce={to}{dropped}");
        record_act(db, row.id, "RAISE_CURSOR", &change, audit)?;
    }
    Ok(CursorMoved::Now { from, to })
}

fn set(db: &Db<'_>, row: &LaneRow, to: Nonce, audit: &Audit) -> Answer<CursorMoved> {
    if !row.is_paused() {
        return Ok(CursorMoved::NotPaused);
    }
    if let Some(nonce) = held_from(db, row, to)? {
        return Ok(CursorMoved::Holds(nonce));
    }
    let from = row.next_nonce;
    let action = match to.cmp(&from) {
        Ordering::Less => "LOWER_CURSOR",
        Ordering::Equal => return Ok(CursorMoved::Now { from, to }),
        Ordering::Greater => "RAISE_CURSOR",
    };
    row.taken(db, to, row.lane_seq)?;
    // Above the cursor nothing is free: the cursor itself will give those again.
    db.run(
        "DELETE FROM free_nonce WHERE lane_id = ?1 AND nonce >= ?2",
        params![row.id.0, to.column()],
    )?;
    let change = format!("next_nonce={from} -> next_nonce={to}");
    record_act(db, row.id, action, &change, audit)?;
    Ok(CursorMoved::Now { from, to })
}

/// The lowest nonce from this one on that is held, or was used by what is deleted.
pub(crate) fn held_from(db: &Db<'_>, row: &LaneRow, from: Nonce) -> Answer<Option<Nonce>> {
    let held = db.one(
        "SELECT nonce FROM managed_tx WHERE lane_id = ?1 AND nonce >= ?2 ORDER BY nonce LIMIT 1",
        params![row.id.0, from.column()],
        |row| Ok(Nonce::from_column(row.get(0)?)?),
    )?;
    let used = Some(nonce_floor(db, row.id)?).filter(|used| from < *used);
    let used = used.map(|used| Nonce::from_column(used.column() - 1));
    Ok(held.into_iter().chain(used.transpose()?).min())
}

pub(crate) fn record_act(
    db: &Db<'_>,
    lane: LaneId,
    word: &str,
    change: &str,
    audit: &Audit,
) -> Answer<()> {
    db.run_one(
        "INSERT INTO remedy (lane_id, action, state, asked_by, reason, details, before_after,
            asked_at, closed_at, node, token)
         SELECT ?1, ?2, 'DONE', ?3, ?4, ?5, ?6, ?7, ?7, ?8, fencing_token
           FROM signer_lease WHERE lane_id = ?1",
        params![
            lane.0,
            word,
            audit.by,
            audit.reason,
            audit.details,
            change,
            db.now,
            audit.node.as_ref().map(NodeId::as_str),
        ],
    )
}

pub(crate) fn gaps(db: &Db<'_>, lane: LaneId, from: Nonce, limit: usize) -> Answer<Vec<Nonce>> {
    let Some(row) = LaneRow::find(db, lane)? else {
        return Ok(Vec::new());
    };
    let from = from.max(nonce_floor(db, lane)?);
    let scanned = from.plus(GAP_SCAN_MAX).unwrap_or(Nonce::MAX);
    let end = row.next_nonce.min(scanned);
    let held = db.all(
        "SELECT nonce FROM managed_tx WHERE lane_id = ?1 AND nonce >= ?2 AND nonce < ?3
         ORDER BY nonce",
        params![lane.0, from.column(), end.column()],
        |row| Ok(Nonce::from_column(row.get(0)?)?),
    )?;
    let mut held = held.into_iter().peekable();
    let mut found = Vec::new();
    let mut at = from;
    while at < end && found.len() < limit {
        if held.next_if_eq(&at).is_none() {
            found.push(at);
        }
        at = at.plus(1)?;
    }
    Ok(found)
}
