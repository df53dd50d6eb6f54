//! The audit: remedies of a transaction, acts on a lane, and which lanes have remedies to see to.

use fencepost_app::ports::{Act, Acts, Audit, Progress, RemedyId};
use fencepost_domain::ids::{Corrupt, LaneId, NodeId, Token};
use rusqlite::{Row, params};

use crate::db::Db;
use crate::error::Answer;
use crate::history::fees;
use crate::row::{Cells, key, node};

/// A query for acts, read by [`act`].
macro_rules! select_acts {
    ($whose:literal) => {
        concat!(
            "SELECT remedy_id, tx_id, round, action, max_fee, max_priority_fee, asked_by, reason, ",
            "details, state, claimed_by, claimed_token, result, before_after, asked_at, closed_at ",
            "FROM remedy WHERE ",
            $whose,
            " AND remedy_id < ?2 ORDER BY remedy_id DESC LIMIT ?3"
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
            select_acts!("tx_id = ?1"),
            params![key(tx), before, limit],
            act,
        ),
        Acts::Lane(lane) => db.all(
            select_acts!("lane_id = ?1 AND tx_id IS NULL"),
            params![lane.0, before, limit],
            act,
        ),
    }
}

fn act(row: &Row<'_>) -> Answer<Act> {
    let mut cells = Cells::of(row);
    Ok(Act {
        id: RemedyId(cells.next()?),
        tx: cells.maybe_tx()?,
        round: cells.next()?,
        action: cells.next()?,
        fees: fees(&mut cells)?,
        audit: Audit {
            by: cells.next()?,
            reason: cells.next()?,
            details: cells.next()?,
        },
        progress: progress(&cells.next::<String>()?)?,
        claimed: claimed(&mut cells)?,
        result: cells.next()?,
        before_after: cells.next()?,
        asked_at: cells.time()?,
        closed_at: cells.maybe_time()?,
    })
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
