//! Remedies: asked for by anyone, claimed by the lane's leader, closed by the move that carries
//! them out. One runs for a transaction at a time.

use fencepost_app::ports::{
    Action, AskedRemedy, Audit, ClaimedRemedies, ClaimedRemedy, Held, Holder, NewRemedy, RemedyId,
};
use fencepost_domain::attempt::SignedFees;
use fencepost_domain::ids::{Corrupt, Token, TxId};
use rusqlite::{Row, params};

use crate::db::Db;
use crate::error::{Answer, broken};
use crate::history::fees;
use crate::lease::{LaneRow, led};
use crate::reads;
use crate::row::{Cells, key};

pub(crate) fn ask(db: &Db<'_>, remedy: &NewRemedy) -> Answer<AskedRemedy> {
    let Some(record) = reads::by_id(db, remedy.tx)? else {
        return Ok(AskedRemedy::NotFound);
    };
    if record.state.is_final() {
        return Ok(AskedRemedy::AlreadyFinal);
    }
    if let Some(running) = running(db, remedy.tx)? {
        return Ok(AskedRemedy::Running(running));
    }
    let last: Option<u32> = db.value(
        "SELECT max(round) FROM remedy WHERE tx_id = ?1",
        [key(remedy.tx)],
    )?;
    if let Some(last) = last.filter(|last| remedy.round <= *last) {
        let next = last.saturating_add(1);
        return Ok(AskedRemedy::RoundTaken { next });
    }
    let price = remedy.fees;
    db.run_one(
        "INSERT INTO remedy (lane_id, tx_id, round, action, state, max_fee, max_priority_fee,
            asked_by, reason, details, asked_at)
         VALUES (?1, ?2, ?3, ?4, 'ASKED', ?5, ?6, ?7, ?8, ?9, ?10)",
        params![
            record.lane_id.0,
            key(remedy.tx),
            remedy.round,
            remedy.action.word(),
            price.map(|price| price.max_fee.to_string()),
            price
                .and_then(|price| price.max_priority_fee)
                .map(|tip| tip.to_string()),
            remedy.audit.by,
            remedy.audit.reason,
            remedy.audit.details,
            db.now,
        ],
    )?;
    let asked = running(db, remedy.tx)?;
    Ok(AskedRemedy::Asked(asked.ok_or_else(|| {
        broken("a remedy that was asked for is not there")
    })?))
}

fn running(db: &Db<'_>, tx: TxId) -> Answer<Option<RemedyId>> {
    db.one(
        "SELECT remedy_id FROM remedy WHERE tx_id = ?1 AND closed_at IS NULL",
        [key(tx)],
        |row| Ok(RemedyId(row.get(0)?)),
    )
}

/// A remedy that is not closed.
struct Open {
    id: RemedyId,
    tx: TxId,
    round: u32,
    action: Action,
    fees: Option<SignedFees>,
    audit: Audit,
    token: Token,
}

pub(crate) fn claim(
    db: &Db<'_>,
    holder: &Holder,
    held: &[Held],
    limit: usize,
) -> Answer<ClaimedRemedies> {
    let (led, fenced) = led(db, holder, held)?;
    let mut open = Vec::new();
    for lane in &led {
        open.extend(waiting(db, lane, limit)?);
        open.sort_by_key(|open| open.id);
        open.truncate(limit);
    }
    let mut remedies = Vec::new();
    for open in open {
        remedies.extend(claim_one(db, holder, open)?);
    }
    Ok(ClaimedRemedies { remedies, fenced })
}

/// What nobody has taken, or a leader before us took and never carried out.
fn waiting(db: &Db<'_>, lane: &LaneRow, limit: usize) -> Answer<Vec<Open>> {
    db.all(
        "SELECT remedy_id, tx_id, round, action, max_fee, max_priority_fee, asked_by, reason,
            details
         FROM remedy
         WHERE lane_id = ?1 AND closed_at IS NULL
            AND (state = 'ASKED' OR claimed_token < ?2)
         ORDER BY remedy_id LIMIT ?3",
        params![lane.id.0, lane.token.column(), limit],
        |row| read(row, lane.token),
    )
}

fn read(row: &Row<'_>, token: Token) -> Answer<Open> {
    let mut cells = Cells::of(row);
    let id = RemedyId(cells.next()?);
    let tx = cells.tx()?;
    let round = cells.next()?;
    let action: String = cells.next()?;
    let action = Action::from_word(&action).ok_or(Corrupt { column: "action" })?;
    let fees = fees(&mut cells)?;
    let audit = Audit {
        by: cells.next()?,
        reason: cells.next()?,
        details: cells.next()?,
    };
    Ok(Open {
        id,
        tx,
        round,
        action,
        fees,
        audit,
        token,
    })
}

/// Nothing moves a transaction that has ended, so its remedy is closed here.
fn claim_one(db: &Db<'_>, holder: &Holder, open: Open) -> Answer<Option<ClaimedRemedy>> {
    let gone = || broken("a remedy has no transaction");
    let record = reads::by_id(db, open.tx)?.ok_or_else(gone)?;
    if record.state.is_final() {
        db.run_one(
            "UPDATE remedy SET state = 'REFUSED', result = 'already final', closed_at = ?2
             WHERE remedy_id = ?1",
            params![open.id.0, db.now],
        )?;
        return Ok(None);
    }
    db.run_one(
        "UPDATE remedy SET state = 'CLAIMED', claimed_by = ?2, claimed_token = ?3,
            claimed_at = ?4
         WHERE remedy_id = ?1",
        params![open.id.0, holder.node.as_str(), open.token.column(), db.now],
    )?;
    Ok(Some(ClaimedRemedy {
        id: open.id,
        round: open.round,
        action: open.action,
        fees: open.fees,
        audit: open.audit,
        record,
    }))
}
