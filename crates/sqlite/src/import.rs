//! Taking over nonces that another service has given, on a paused lane. Every refusal comes before the first
//! row is written.

use fencepost_app::ports::{Audit, Body, Import, Imported, OpenTx, Unimportable};
use fencepost_domain::ids::LaneId;
use rusqlite::params;

use crate::accept::insert;
use crate::db::Db;
use crate::due;
use crate::error::Answer;
use crate::history::{Author, Teller, holder_of, store_attempt};
use crate::lease::LaneRow;
use crate::operate::{held_from, record_act};
use crate::reads;
use crate::retire::nonce_floor;

pub(crate) fn import(
    db: &Db<'_>,
    lane: LaneId,
    import: &Import,
    audit: &Audit,
) -> Answer<Imported> {
    let Some(row) = LaneRow::find(db, lane)? else {
        return Ok(Imported::UnknownLane);
    };
    if !row.is_paused() {
        return Ok(Imported::NotPaused);
    }
    if let Some(nonce) = held_from(db, &row, import.next_nonce)? {
        return Ok(Imported::Holds(nonce));
    }
    let mut clashes = Vec::new();
    for (at, open) in import.open.iter().enumerate() {
        clashes.extend(clash(db, &row, open)?.map(|why| (at, why)));
    }
    if !clashes.is_empty() {
        return Ok(Imported::Refused(clashes));
    }
    if !import.dry_run {
        write(db, &row, import, audit)?;
    }
    Ok(Imported::Done {
        from: row.next_nonce,
    })
}

fn clash(db: &Db<'_>, row: &LaneRow, open: &OpenTx) -> Answer<Option<Unimportable>> {
    if let Some(held) = reads::by_nonce(db, row.lane, open.nonce)? {
        return Ok(Some(Unimportable::NonceHeld(held.tx)));
    }
    if open.nonce < nonce_floor(db, row.id)? {
        return Ok(Some(Unimportable::NonceUsed));
    }
    if let Some(known) = reads::twin(db, row.id, &open.row())? {
        return Ok(Some(Unimportable::RequestKnown(known.tx)));
    }
    let owner = match open.hash() {
        Some(hash) => holder_of(db, row.lane.chain, hash)?,
        None => None,
    };
    Ok(owner.map(Unimportable::HashKnown))
}

fn write(db: &Db<'_>, row: &LaneRow, import: &Import, audit: &Audit) -> Answer<()> {
    let mut teller = Teller {
        lane: row.id,
        seq: row.lane_seq,
        author: Author {
            node: None,
            token: row.token,
        },
    };
    for open in &import.open {
        store(db, row, &mut teller, open)?;
    }
    let next = import.next_nonce;
    // Above the cursor nothing is free: the cursor itself will give those.
    db.run(
        "DELETE FROM free_nonce WHERE lane_id = ?1 AND nonce >= ?2",
        params![row.id.0, next.column()],
    )?;
    row.taken(db, next, teller.seq)?;
    let (from, count) = (row.next_nonce, import.open.len());
    let change = format!("next_nonce={from} -> next_nonce={next} open={count}");
    record_act(db, row.id, "IMPORT", &change, audit)
}

fn store(db: &Db<'_>, row: &LaneRow, teller: &mut Teller<'_>, open: &OpenTx) -> Answer<()> {
    let (new, state) = (open.row(), open.state());
    let lent_until = match new.body {
        Body::Reserved(loan) => Some(db.later(loan.ttl)),
        Body::Managed(_) | Body::Placeholder(_) => None,
    };
    insert(db, row.id, &new, &state, lent_until, row.token)?;
    if let Some(attempt) = open.attempt() {
        store_attempt(db, open.tx, 1, row.lane.chain, &attempt, row.token)?;
    }
    due::add(db, row.id, open.tx, open.nonce, db.later(open.due_in()))?;
    // What was given back and is open elsewhere is free no longer.
    db.run(
        "DELETE FROM free_nonce WHERE lane_id = ?1 AND nonce = ?2",
        params![row.id.0, open.nonce.column()],
    )?;
    teller.tell(db, open.tx, &open.event(), None, &state)
}
