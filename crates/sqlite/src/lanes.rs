//! Lanes: making them, and what an operator sees of them.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use fencepost_app::ports::{Backlog, LaneView, PausedLanes, READ_LIMIT_MAX, Record};
use fencepost_domain::ids::{ChainId, Lane, LaneId, Nonce, TxId};
use fencepost_domain::state::Why;
use jiff::Timestamp;
use rusqlite::params;
use uuid::Uuid;

use crate::db::{Db, Micros};
use crate::error::{Answer, broken};
use crate::lease::{LaneRow, select_lane};
use crate::row::{key, record, select_record, time};

pub(crate) fn open(db: &Db<'_>, lanes: &[Lane]) -> Answer<Vec<LaneId>> {
    lanes.iter().map(|lane| open_one(db, *lane)).collect()
}

fn open_one(db: &Db<'_>, lane: Lane) -> Answer<LaneId> {
    if let Some(id) = id(db, lane)? {
        return Ok(id);
    }
    db.run_one(
        "INSERT INTO signer_lease (chain_id, signer, fencing_token, expires_at, next_nonce,
            lane_seq, held, updated_at)
         VALUES (?1, ?2, 0, ?3, 0, 0, 0, ?3)",
        params![lane.chain.column(), lane.signer.as_slice(), db.now],
    )?;
    id(db, lane)?.ok_or_else(|| broken("a lane that was made is not there"))
}

/// The id of a lane.
pub(crate) fn id(db: &Db<'_>, lane: Lane) -> Answer<Option<LaneId>> {
    db.one(
        "SELECT lane_id FROM signer_lease WHERE chain_id = ?1 AND signer = ?2",
        params![lane.chain.column(), lane.signer.as_slice()],
        |row| Ok(LaneId(row.get(0)?)),
    )
}

pub(crate) fn lane(db: &Db<'_>, lane: Lane) -> Answer<Option<LaneView>> {
    let row = db.one(
        select_lane!("WHERE chain_id = ?1 AND signer = ?2"),
        params![lane.chain.column(), lane.signer.as_slice()],
        LaneRow::of,
    )?;
    row.map(|row| view(db, &row)).transpose()
}

pub(crate) fn lanes(db: &Db<'_>, after: Option<LaneId>, limit: usize) -> Answer<Vec<LaneView>> {
    let rows = db.all(
        select_lane!("WHERE lane_id > ?1 ORDER BY lane_id LIMIT ?2"),
        params![after.map_or(i64::MIN, |lane| lane.0), limit],
        LaneRow::of,
    )?;
    rows.iter().map(|row| view(db, row)).collect()
}

pub(crate) fn backlog(db: &Db<'_>, after: Option<TxId>, limit: usize) -> Answer<Vec<Backlog>> {
    let after = key(after.unwrap_or(TxId(Uuid::nil())));
    let open = |sql| {
        db.all(sql, params![after, limit], |row| {
            let tx = TxId(Uuid::from_bytes(row.get(0)?));
            let stuck: Option<String> = row.get(2)?;
            let stuck = stuck.map(|word| Why::from_word(&word));
            Ok((tx, ChainId::from_column(row.get(1)?)?, stuck.transpose()?))
        })
    };
    let mut page = open(
        "SELECT w.tx_id, l.chain_id,
                (SELECT m.sub_state FROM managed_tx m WHERE m.tx_id = w.tx_id AND m.state = 'STUCK')
           FROM due_work w JOIN signer_lease l ON l.lane_id = w.lane_id
          WHERE w.tx_id > ?1 ORDER BY w.tx_id LIMIT ?2",
    )?;
    page.extend(open(
        "SELECT q.tx_id, l.chain_id, NULL FROM lane_queue q JOIN signer_lease l ON l.lane_id = q.lane_id
          WHERE q.tx_id > ?1 ORDER BY q.tx_id LIMIT ?2",
    )?);
    page.sort_unstable_by_key(|(tx, ..)| *tx);
    page.truncate(limit);
    let mut chains: BTreeMap<(ChainId, Option<&str>), Backlog> = BTreeMap::new();
    for (tx, chain, stuck) in page {
        let backlog = match chains.entry((chain, stuck.map(Why::word))) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(Backlog {
                chain,
                stuck,
                count: 0,
                oldest_at: created_at(db, tx)?,
                last: tx,
            }),
        };
        backlog.count += 1;
        backlog.last = tx;
    }
    Ok(chains.into_values().collect())
}

pub(crate) fn paused(db: &Db<'_>) -> Answer<Vec<PausedLanes>> {
    let stopped = db.all(
        select_lane!("WHERE paused IS NOT NULL OR held ORDER BY chain_id"),
        [],
        LaneRow::of,
    )?;
    let mut counted: Vec<PausedLanes> = Vec::new();
    for row in stopped {
        let Some(reason) = row.stopped() else {
            continue;
        };
        let chain = row.lane.chain;
        let is_it = |each: &&mut PausedLanes| each.chain == chain && each.reason == reason;
        match counted.iter_mut().find(is_it) {
            Some(known) => known.count += 1,
            None => counted.push(PausedLanes {
                chain,
                reason,
                count: 1,
            }),
        }
    }
    Ok(counted)
}

fn created_at(db: &Db<'_>, tx: TxId) -> Answer<Timestamp> {
    let at = db.one(
        "SELECT created_at FROM managed_tx WHERE tx_id = ?1",
        params![key(tx)],
        |row| Ok(time(row.get(0)?)?),
    )?;
    at.ok_or_else(|| broken("a transaction that is unfinished is not there"))
}

fn view(db: &Db<'_>, row: &LaneRow) -> Answer<LaneView> {
    let work = work(db, row.id)?;
    Ok(LaneView {
        id: row.id,
        lane: row.lane,
        leader: row.leader(db)?,
        token: row.token,
        next_nonce: row.next_nonce,
        lane_seq: row.lane_seq,
        paused: row.stopped(),
        in_flight: work.in_flight,
        queued: work.queued,
        stuck: work.stuck,
        oldest_at: work.oldest_at,
        head: head(db, row.id)?.map(Box::new),
        free: free(db, row.id)?,
    })
}

struct Work {
    in_flight: u64,
    queued: u64,
    stuck: u64,
    oldest_at: Option<Timestamp>,
}

/// Counts what is unfinished. What holds a nonce and has not ended is exactly what has due work.
fn work(db: &Db<'_>, lane: LaneId) -> Answer<Work> {
    let counted: (u64, u64, Option<Micros>) = db
        .one(
            "SELECT count(*) FILTER (WHERE t.block_number IS NULL),
                count(*) FILTER (WHERE t.state = 'STUCK'), min(t.created_at)
             FROM due_work d JOIN managed_tx t ON t.tx_id = d.tx_id
             WHERE d.lane_id = ?1",
            [lane.0],
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
        )?
        .ok_or_else(|| broken("a count found nothing"))?;
    let (in_flight, stuck, oldest) = counted;
    let queued: (u64, Option<Micros>) = db
        .one(
            "SELECT count(*), min(t.created_at)
             FROM lane_queue q JOIN managed_tx t ON t.tx_id = q.tx_id
             WHERE q.lane_id = ?1",
            [lane.0],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?
        .ok_or_else(|| broken("a count found nothing"))?;
    let (queued, oldest_queued) = queued;
    let oldest_at = [oldest, oldest_queued].into_iter().flatten().min();
    Ok(Work {
        in_flight,
        queued,
        stuck,
        oldest_at: oldest_at.map(time).transpose()?,
    })
}

fn head(db: &Db<'_>, lane: LaneId) -> Answer<Option<Record>> {
    db.one(
        select_record!(
            "FROM due_work d JOIN managed_tx t ON t.tx_id = d.tx_id
             JOIN signer_lease l ON l.lane_id = t.lane_id
             WHERE d.lane_id = ?1 ORDER BY d.nonce LIMIT 1"
        ),
        [lane.0],
        record,
    )
}

fn free(db: &Db<'_>, lane: LaneId) -> Answer<Vec<Nonce>> {
    db.all(
        "SELECT nonce FROM free_nonce WHERE lane_id = ?1 ORDER BY nonce LIMIT ?2",
        params![lane.0, READ_LIMIT_MAX],
        |row| Ok(Nonce::from_column(row.get(0)?)?),
    )
}
