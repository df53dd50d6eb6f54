//! Remedies: asked for by anyone, claimed by the lane's leader, decided where a policy is asked, and
//! closed by the move that carries them out. One runs for a transaction at a time.

use fencepost_app::ports::{
    Action, AskedRemedy, Audit, ClaimedRemedies, ClaimedRemedy, Decided, Decision, Held, Holder,
    NewRemedy, RemedyId,
};
use fencepost_domain::Bytes;
use fencepost_domain::attempt::SignedFees;
use fencepost_domain::decision::{After, Severity};
use fencepost_domain::ids::{Corrupt, NodeId, Token, TxId};
use fencepost_domain::mutant::Mutant;
use rusqlite::{Row, params};

use crate::acts::{after, severity};
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
    let (max_fee, tip) = prices(remedy.fees);
    db.run_one(
        "INSERT INTO remedy (lane_id, tx_id, round, action, state, max_fee, max_priority_fee,
            asked_by, reason, details, asked_at, node)
         VALUES (?1, ?2, ?3, ?4, 'ASKED', ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        params![
            record.lane_id.0,
            key(remedy.tx),
            remedy.round,
            remedy.action.word(),
            max_fee,
            tip,
            remedy.audit.by,
            remedy.audit.reason,
            remedy.audit.details,
            db.now,
            remedy.audit.node.as_ref().map(NodeId::as_str),
        ],
    )?;
    let asked = running(db, remedy.tx)?;
    Ok(AskedRemedy::Asked(asked.ok_or_else(|| {
        broken("a remedy that was asked for is not there")
    })?))
}

/// Fees as their two columns hold them.
fn prices(fees: Option<SignedFees>) -> (Option<String>, Option<String>) {
    let tip = fees.and_then(|fees| fees.max_priority_fee);
    let max_fee = fees.map(|fees| fees.max_fee.to_string());
    (max_fee, tip.map(|tip| tip.to_string()))
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
    raw: Option<Bytes>,
    severity: Option<Severity>,
    after: Option<After>,
    is_first_claim: bool,
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
            details, raw, severity, then_state, state = 'ASKED'
         FROM remedy
         WHERE lane_id = ?1 AND closed_at IS NULL
            AND (state = 'ASKED' OR claimed_token < ?2 OR ?4)
         ORDER BY remedy_id LIMIT ?3",
        params![
            lane.id.0,
            lane.token.column(),
            limit,
            Mutant::RemedyTwice.is_on()
        ],
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
        node: None,
    };
    let raw: Option<Vec<u8>> = cells.next()?;
    Ok(Open {
        id,
        tx,
        round,
        action,
        fees,
        audit,
        raw: raw.map(Bytes::from),
        severity: severity(&mut cells)?,
        after: after(&mut cells)?,
        is_first_claim: cells.next()?,
        token,
    })
}

/// Nothing moves a transaction that has ended, so its remedy is closed here.
fn claim_one(db: &Db<'_>, holder: &Holder, open: Open) -> Answer<Option<ClaimedRemedy>> {
    let gone = || broken("a remedy has no transaction");
    let record = reads::by_id(db, open.tx)?.ok_or_else(gone)?;
    if record.state.is_final() {
        db.run_one(
            "UPDATE remedy SET state = 'REFUSED', result = 'already final', closed_at = ?4,
                claimed_by = ?2, claimed_token = ?3, claimed_at = ?4
             WHERE remedy_id = ?1",
            params![open.id.0, holder.node.as_str(), open.token.column(), db.now],
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
        raw: open.raw,
        severity: open.severity,
        after: open.after,
        is_first_claim: open.is_first_claim,
        audit: open.audit,
        record,
    }))
}

/// The action of a round in which nothing is to be done. It is never claimed, so no action has it.
const NOOP: &str = "NOOP";

/// Only a question that was claimed under this very token is answered, and once: then it is none.
pub(crate) fn decide(
    db: &Db<'_>,
    holder: &Holder,
    held: Held,
    decided: &Decided,
) -> Answer<Decision> {
    let row = LaneRow::find(db, held.lane)?;
    let Some(row) = row.filter(|row| row.is_led(db, holder, held.token)) else {
        return Ok(Decision::Fenced);
    };
    let (max_fee, tip) = prices(decided.fees);
    let (state, result) = match decided.action {
        Some(_) => ("CLAIMED", None),
        None => ("DONE", Some(NOOP)),
    };
    let answered = db.run(
        "UPDATE remedy SET action = ?4, max_fee = ?5, max_priority_fee = ?6, asked_by = ?7,
            reason = ?8, details = ?9, state = ?10, result = ?11, closed_at = ?12, raw = ?13,
            severity = ?14, then_state = ?15
         WHERE remedy_id = ?1 AND lane_id = ?2 AND claimed_token = ?3 AND state = 'CLAIMED'
            AND action = 'DECIDE'",
        params![
            decided.remedy.0,
            row.id.0,
            held.token.column(),
            decided.action.map_or(NOOP, Action::word),
            max_fee,
            tip,
            decided.audit.by,
            decided.audit.reason,
            decided.audit.details,
            state,
            result,
            decided.action.is_none().then_some(db.now),
            decided.raw.as_ref().map(|raw| raw.as_ref()),
            decided.severity.map(Severity::word),
            decided.after.map(After::word),
        ],
    )?;
    if answered == 0 {
        return Ok(Decision::Gone);
    }
    row.wrote(db, row.lane_seq)?;
    Ok(Decision::Written)
}
