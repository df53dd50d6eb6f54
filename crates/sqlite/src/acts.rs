//! The audit: remedies of a transaction, acts on a lane, refused calls, and which lanes have remedies to see to.

use fencepost_app::ports::{Act, Acts, Audit, Progress, REFUSED_CALL, RemedyId};
use fencepost_domain::decision::{After, Severity};
use fencepost_domain::ids::{Corrupt, LaneId, NodeId, Token};
use rusqlite::{Row, params};

use crate::db::Db;
use crate::error::Answer;
use crate::history::fees;
use crate::row::{Cells, key, node};

/// A query for acts, read by [`act`].
macro_rules! select_acts {
    ($which:literal) => {
        concat!(
            "SELECT remedy_id, tx_id, round, action, max_fee, max_priority_fee, asked_by, reason, ",
            "details, severity, then_state, state, claimed_by, claimed_token, result, before_after, asked_at, closed_at, ",
            "node, token, r.lane_id, chain_id, signer ",
            "FROM remedy r LEFT JOIN signer_lease l ON l.lane_id = r.lane_id WHERE ",
            $which,
            " LIMIT ?2"
        )
    };
}

pub(crate) fn before(
    db: &Db<'_>,
    of: Acts,
    before: Option<RemedyId>,
    limit: usize,
) -> Answer<Vec<Act>> {
    let before = before.map_or(i64::MAX, |remedy| remedy.0);
    match of {
        Acts::Tx(tx) => db.all(
            select_acts!("tx_id = ?1 AND remedy_id < ?3 ORDER BY remedy_id DESC"),
            params![key(tx), limit, before],
            act,
        ),
        Acts::Lane(lane) => db.all(
            select_acts!(
                "r.lane_id = ?1 AND tx_id IS NULL AND remedy_id < ?3 ORDER BY remedy_id DESC"
            ),
            params![lane.0, limit, before],
            act,
        ),
        // One writer gives the ids, so they are in the order of the commits.
        Acts::After(after) => db.all(
            select_acts!("remedy_id > ?1 ORDER BY remedy_id"),
            params![after.0, limit],
            act,
        ),
    }
}

pub(crate) fn record_refusal(db: &Db<'_>, audit: &Audit, answer: &str) -> Answer<()> {
    db.run_one(
        "INSERT INTO remedy (action, state, asked_by, reason, details, node, result, asked_at, closed_at)
         VALUES (?1, 'REFUSED', ?2, ?3, ?4, ?5, ?6, ?7, ?7)",
        params![
            REFUSED_CALL,
            audit.by,
            audit.reason,
            audit.details,
            audit.node.as_ref().map(NodeId::as_str),
            answer,
            db.now,
        ],
    )
}

fn act(row: &Row<'_>) -> Answer<Act> {
    let mut cells = Cells::of(row);
    let mut act = Act {
        id: RemedyId(cells.next()?),
        tx: cells.maybe_tx()?,
        round: cells.next()?,
        action: cells.next()?,
        fees: fees(&mut cells)?,
        audit: Audit {
            by: cells.next()?,
            reason: cells.next()?,
            details: cells.next()?,
            node: None,
        },
        severity: severity(&mut cells)?,
        after: after(&mut cells)?,
        progress: progress(&cells.next::<String>()?)?,
        claimed: claimed(&mut cells)?,
        result: cells.next()?,
        before_after: cells.next()?,
        asked_at: cells.time()?,
        closed_at: cells.maybe_time()?,
        token: None,
        lane: None,
    };
    act.audit.node = cells.next::<Option<String>>()?.map(node).transpose()?;
    let token: Option<i64> = cells.next()?;
    act.token = token.map(Token::from_column).transpose()?;
    let lane: Option<i64> = cells.next()?;
    act.lane = lane.map(|_| cells.lane()).transpose()?;
    Ok(act)
}

/// How urgent a policy has called a remedy.
pub(crate) fn severity(cells: &mut Cells<'_>) -> Answer<Option<Severity>> {
    let word: Option<String> = cells.next()?;
    Ok(word.as_deref().map(Severity::from_word).transpose()?)
}

/// Where a policy wants the transaction to stand after a remedy.
pub(crate) fn after(cells: &mut Cells<'_>) -> Answer<Option<After>> {
    let word: Option<String> = cells.next()?;
    Ok(word.as_deref().map(After::from_word).transpose()?)
}

fn progress(word: &str) -> Result<Progress, Corrupt> {
    Progress::from_word(word).ok_or(Corrupt { column: "state" })
}

fn claimed(cells: &mut Cells<'_>) -> Answer<Option<(NodeId, Token)>> {
    let by: Option<String> = cells.next()?;
    let token: Option<i64> = cells.next()?;
    Ok(match (by, token) {
        (Some(by), Some(token)) => Some((node(by)?, Token::from_column(token)?)),
        (None, None) => None,
        (Some(_), None) | (None, Some(_)) => {
            let column = "claimed_token";
            return Err(Corrupt { column }.into());
        }
    })
}

/// One look-up for each lane, however many remedies it has.
pub(crate) fn lanes(db: &Db<'_>, after: Option<LaneId>, limit: usize) -> Answer<Vec<LaneId>> {
    let mut after = after.map_or(i64::MIN, |lane| lane.0);
    let mut found = Vec::new();
    while found.len() < limit {
        let next: Option<i64> = db.one(
            "SELECT lane_id FROM remedy WHERE closed_at IS NULL AND lane_id > ?1
             ORDER BY lane_id LIMIT 1",
            [after],
            |row| Ok(row.get(0)?),
        )?;
        let Some(lane) = next else { break };
        found.push(LaneId(lane));
        after = lane;
    }
    Ok(found)
}
