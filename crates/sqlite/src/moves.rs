//! Moves: everything that was sent for a lane is checked, then all of it is written.

use std::collections::HashSet;

use fencepost_app::ports::{Holder, LaneMoved, LaneMoves, Move};
use fencepost_domain::ids::{LaneId, RequestId, TxId, Version};
use fencepost_domain::state::Kind;
use rusqlite::params;

use crate::db::{Db, Verdict};
use crate::error::{Answer, broken};
use crate::feed;
use crate::history::{Author, Teller, holder_of};
use crate::lease::LaneRow;
use crate::row::{Cells, key};
use crate::step;

impl Verdict for LaneMoved {
    fn is_written(&self) -> bool {
        matches!(self, Self::Done(_))
    }
}

/// Whether the feed tells these moves.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    Silent,
    Feed,
}

/// What must be known of a row before it is moved.
pub(crate) struct Standing {
    lane: LaneId,
    version: Version,
    attempts: u32,
    pub(crate) kind: Kind,
    pub(crate) request_id: Option<RequestId>,
}

pub(crate) fn write(
    db: &Db<'_>,
    holder: &Holder,
    batches: &[LaneMoves],
    told: Told,
) -> Answer<Vec<LaneMoved>> {
    batches
        .iter()
        .map(|batch| match batch.moves.is_empty() {
            true => Ok(LaneMoved::Done(Vec::new())),
            false => db.lane(|| write_lane(db, holder, batch, told)),
        })
        .collect()
}

fn write_lane(db: &Db<'_>, holder: &Holder, batch: &LaneMoves, told: Told) -> Answer<LaneMoved> {
    let Some(row) = LaneRow::find(db, batch.held.lane)? else {
        return Ok(LaneMoved::UnknownLane);
    };
    if !row.is_led(db, holder, batch.held.token) {
        return Ok(LaneMoved::Fenced);
    }
    let signs = batch.moves.iter().any(|step| step.attempt.is_some());
    if let Some(reason) = row.stopped().filter(|_| signs) {
        return Ok(LaneMoved::Paused(reason));
    }
    let standings = match standings(db, row.id, &batch.moves)? {
        Ok(standings) => standings,
        Err(stale) => return Ok(LaneMoved::Stale(stale)),
    };
    if let Some(tx) = known_hash(db, &row, &batch.moves)? {
        return Ok(LaneMoved::KnownHash(tx));
    }
    let mut teller = Teller {
        lane: row.id,
        seq: row.lane_seq,
        author: Author {
            node: Some(&holder.node),
            token: batch.held.token,
        },
    };
    let mut seqs = Vec::new();
    for (step, standing) in batch.moves.iter().zip(&standings) {
        step::write(db, &mut teller, row.lane.chain, standing.attempts, step)?;
        if told == Told::Feed {
            seqs.push(feed::tell(db, row.id, step, standing)?);
        }
    }
    row.wrote(db, teller.seq)?;
    Ok(LaneMoved::Done(seqs))
}

/// Where each row stands, or those that moved on since they were read.
fn standings(
    db: &Db<'_>,
    lane: LaneId,
    moves: &[Move],
) -> Answer<Result<Vec<Standing>, Vec<TxId>>> {
    let mut standings = Vec::with_capacity(moves.len());
    let mut stale = Vec::new();
    for step in moves {
        match standing(db, step.tx)? {
            Some(found) if found.is_as_decided(db, lane, step)? => standings.push(found),
            Some(_) | None => stale.push(step.tx),
        }
    }
    Ok(match stale.is_empty() {
        true => Ok(standings),
        false => Err(stale),
    })
}

impl Standing {
    fn is_as_decided(&self, db: &Db<'_>, lane: LaneId, step: &Move) -> Answer<bool> {
        let stored = self.attempts + u32::from(step.attempt.is_some());
        let sent = step.sent.is_none_or(|sent| (1..=stored).contains(&sent.n));
        if self.lane != lane || self.version != step.version || !sent {
            return Ok(false);
        }
        match &step.closes {
            None => Ok(true),
            Some(closing) => db.exists(
                "SELECT 1 FROM remedy
                 WHERE remedy_id = ?1 AND tx_id = ?2 AND closed_at IS NULL",
                params![closing.remedy.0, key(step.tx)],
            ),
        }
    }
}

fn standing(db: &Db<'_>, tx: TxId) -> Answer<Option<Standing>> {
    db.one(
        "SELECT lane_id, version, attempts, kind, request_id FROM managed_tx WHERE tx_id = ?1",
        [key(tx)],
        |row| {
            let mut cells = Cells::of(row);
            Ok(Standing {
                lane: LaneId(cells.next()?),
                version: Version::from_column(cells.next()?)?,
                attempts: cells.next()?,
                kind: Kind::from_word(&cells.next::<String>()?)?,
                request_id: cells.request_id()?,
            })
        },
    )
}

/// Equal bytes are not a new attempt, and two transactions never share a hash.
fn known_hash(db: &Db<'_>, row: &LaneRow, moves: &[Move]) -> Answer<Option<TxId>> {
    let mut seen = HashSet::new();
    for step in moves {
        let Some(attempt) = &step.attempt else {
            continue;
        };
        let stored = holder_of(db, row.lane.chain, attempt.hash)?;
        if stored.is_some() || !seen.insert(attempt.hash) {
            return Ok(Some(step.tx));
        }
    }
    Ok(None)
}

/// A lane that is certainly there, for callers that have just read one of its rows.
pub(crate) fn lane_of(db: &Db<'_>, lane: LaneId) -> Answer<LaneRow> {
    LaneRow::find(db, lane)?.ok_or_else(|| broken("a transaction's lane is not there"))
}
