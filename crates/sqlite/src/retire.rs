//! Retiring what ended long ago. The feed is the queue of endings, in commit order and with its times, so that no index is needed to
//! find what is old: two positions walk along it. One writer makes the rest simple: nothing moves between a look and a write.

use std::collections::{BTreeMap, BTreeSet};

use fencepost_app::ports::{Retire, Retired, Stage};
use fencepost_domain::flat::Name;
use fencepost_domain::ids::{ChainId, Height, LaneId, Nonce, TxId};
use rusqlite::params;
use uuid::Uuid;

use crate::db::{Db, Micros, span};
use crate::error::Answer;
use crate::row::{Cells, key};

/// One row of the feed that is old enough.
struct Ending {
    seq: i64,
    tx: TxId,
    told: Name,
}

/// What decides about a row.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one fact of the row, and they combine freely"
)]
struct Facts {
    lane: i64,
    nonce: Option<i64>,
    state: Name,
    is_final: bool,
    is_ripe: bool,
    is_audited: bool,
    is_told_again: bool,
}

impl Facts {
    /// It has ended for good, and too lately or not deep enough.
    const fn waits(&self) -> bool {
        self.is_final && !self.is_told_again && !self.is_ripe
    }
}

pub(crate) fn retire(db: &Db<'_>, retire: &Retire) -> Answer<Retired> {
    match retire.stage {
        Stage::Thin => thin(db, retire),
        Stage::Delete => delete(db, retire),
        Stage::Sweep => sweep(db, retire),
    }
}

fn thin(db: &Db<'_>, retire: &Retire) -> Answer<Retired> {
    let after = db.value("SELECT thinned_seq FROM retention WHERE id = 1", [])?;
    // What has ended and cannot be made small yet is waited for: it is not met again.
    let (last, passed, rows) = batch(db, after, retire, |facts, _| facts.waits())?;
    let mut retired = 0;
    for (tx, facts) in rows {
        if !facts.is_ripe || facts.is_told_again {
            continue;
        }
        forget_details(db, tx, &facts)?;
        db.run_one(
            "UPDATE managed_tx SET payload = CASE WHEN payload IS NULL THEN NULL ELSE x'' END,
                receipt = NULL, meta = NULL, version = version + 1 WHERE tx_id = ?1",
            [key(tx)],
        )?;
        retired += 1;
    }
    if let Some(last) = last {
        let sql = "UPDATE retention SET thinned_seq = ?1 WHERE id = 1";
        db.run_one(sql, [last])?;
    }
    Ok(Retired { passed, retired })
}

fn delete(db: &Db<'_>, retire: &Retire) -> Answer<Retired> {
    let after = db.value("SELECT deleted_seq FROM retention WHERE id = 1", [])?;
    // The next end of what was undone must say which one it corrects.
    let undone = |facts: &Facts, told| !facts.is_final && told != Name::Stuck;
    let blocks = |facts: &Facts, told| facts.waits() || undone(facts, told);
    let (last, passed, rows) = batch(db, after, retire, blocks)?;
    let Some(last) = last else {
        return Ok(Retired::default());
    };
    let floor = "UPDATE retention SET deleted_seq = ?1 WHERE id = 1";
    db.run_one(floor, [last])?;
    db.run("DELETE FROM tx_completion WHERE seq <= ?1", [last])?;
    let mut retired = 0;
    for (tx, facts) in rows {
        if facts.is_ripe && !facts.is_told_again && !facts.is_audited {
            remove(db, tx, &facts)?;
            retired += 1;
        }
    }
    Ok(Retired { passed, retired })
}

/// The oldest endings after one, up to the first that blocks: the last of them, how many, and the transactions of
/// which none is told beyond.
fn batch(
    db: &Db<'_>,
    after: i64,
    retire: &Retire,
    blocks: impl Fn(&Facts, Name) -> bool,
) -> Answer<(Option<i64>, usize, BTreeMap<TxId, Facts>)> {
    let mut passed = endings(db, after, retire)?;
    let top = passed.last().map_or(0, |last| last.seq);
    let mut rows: BTreeMap<TxId, Facts> = BTreeMap::new();
    for tx in passed.iter().map(|each| each.tx).collect::<BTreeSet<_>>() {
        let Some(mut facts) = facts(db, tx, retire)? else {
            continue;
        };
        // What was told again since is looked at when its last telling is.
        facts.is_told_again = db.exists(
            "SELECT 1 FROM tx_completion WHERE tx_id = ?1 AND seq > ?2 LIMIT 1",
            params![key(tx), top],
        )?;
        rows.insert(tx, facts);
    }
    let stops = |each: &Ending| {
        let facts = rows.get(&each.tx);
        facts.is_some_and(|facts| blocks(facts, each.told))
    };
    let stop = passed.iter().position(stops).unwrap_or(passed.len());
    for kept in passed.drain(stop..) {
        rows.remove(&kept.tx);
    }
    Ok((passed.last().map(|last| last.seq), passed.len(), rows))
}

/// Reservations that were given back are in no feed. Of rows this old nearly all are deleted already, so
/// the walk by id meets little else; having come to the end it begins again.
fn sweep(db: &Db<'_>, retire: &Retire) -> Answer<Retired> {
    let after: Vec<u8> = db.value("SELECT swept_tx FROM retention WHERE id = 1", [])?;
    let before = minted_before(ended_by(db, retire));
    let passed = db.all(
        "SELECT tx_id FROM managed_tx WHERE tx_id > ?1 AND tx_id < ?2 ORDER BY tx_id LIMIT ?3",
        params![after, before.as_bytes(), retire.limit],
        |row| Cells::of(row).tx(),
    )?;
    let mut retired = 0;
    for tx in &passed {
        let Some(facts) = facts(db, *tx, retire)? else {
            continue;
        };
        if facts.state == Name::Recyclable && facts.is_ripe && !facts.is_audited {
            remove(db, *tx, &facts)?;
            retired += 1;
        }
    }
    let last = passed.last().filter(|_| passed.len() == retire.limit);
    let swept = last.map_or([0; 16], |tx| key(*tx));
    db.run_one("UPDATE retention SET swept_tx = ?1 WHERE id = 1", [swept])?;
    Ok(Retired {
        passed: passed.len(),
        retired,
    })
}

fn ended_by(db: &Db<'_>, retire: &Retire) -> Micros {
    db.now.saturating_sub(span(retire.older_than))
}

/// The least id that could have been minted at this time.
fn minted_before(at: Micros) -> Uuid {
    let millis = u128::try_from(at.div_euclid(1_000)).unwrap_or_default();
    Uuid::from_u128(millis << 80)
}

/// The oldest endings after one, as far as all of them are old enough.
fn endings(db: &Db<'_>, after: i64, retire: &Retire) -> Answer<Vec<Ending>> {
    let by = ended_by(db, retire);
    let next = db.all(
        "SELECT seq, tx_id, state, at FROM tx_completion WHERE seq > ?1 ORDER BY seq LIMIT ?2",
        params![after, retire.limit],
        |row| {
            let mut cells = Cells::of(row);
            let seq = cells.next()?;
            let tx = cells.tx()?;
            let told = Name::from_word(&cells.next::<String>()?)?;
            let at: Micros = cells.next()?;
            Ok((Ending { seq, tx, told }, at))
        },
    )?;
    let old = next.into_iter().take_while(|(_, at)| *at <= by);
    Ok(old.map(|(ending, _)| ending).collect())
}

fn facts(db: &Db<'_>, tx: TxId, retire: &Retire) -> Answer<Option<Facts>> {
    let by = ended_by(db, retire);
    db.one(
        "SELECT t.lane_id, t.nonce, t.state, t.updated_at, t.block_number, l.chain_id,
            t.state IN ('CONFIRMED', 'FAILED_FINAL', 'USED', 'RECYCLABLE'),
            EXISTS (SELECT 1 FROM remedy r WHERE r.tx_id = t.tx_id)
         FROM managed_tx t JOIN signer_lease l ON l.lane_id = t.lane_id WHERE t.tx_id = ?1",
        [key(tx)],
        |row| {
            let mut cells = Cells::of(row);
            let (lane, nonce) = (cells.next()?, cells.next()?);
            let state = Name::from_word(&cells.next::<String>()?)?;
            let at: Micros = cells.next()?;
            let block: Option<i64> = cells.next()?;
            let chain = ChainId::from_column(cells.next()?)?;
            let beneath = retire.beneath.iter().find(|(named, _)| *named == chain);
            let block = block.map(Height::from_column).transpose()?;
            let is_deep =
                block.is_none_or(|block| beneath.is_some_and(|(_, height)| block < *height));
            let is_final: bool = cells.next()?;
            Ok(Facts {
                lane,
                nonce,
                state,
                is_final,
                is_ripe: is_final && at <= by && is_deep,
                is_audited: cells.next()?,
                is_told_again: false,
            })
        },
    )
}

/// Its events go only below what the lane remembers to have told.
fn forget_details(db: &Db<'_>, tx: TxId, facts: &Facts) -> Answer<()> {
    let told: Option<i64> = db.value(
        "SELECT max(lane_seq) FROM tx_event WHERE tx_id = ?1",
        [key(tx)],
    )?;
    db.run(
        "INSERT INTO lane_floor (lane_id, nonce, lane_seq) VALUES (?1, 0, ?2)
         ON CONFLICT (lane_id) DO UPDATE SET lane_seq = max(lane_seq, excluded.lane_seq)",
        params![facts.lane, told.unwrap_or(0)],
    )?;
    db.run("DELETE FROM tx_attempt WHERE tx_id = ?1", [key(tx)])?;
    db.run("DELETE FROM tx_event WHERE tx_id = ?1", [key(tx)])?;
    Ok(())
}

/// The row goes, and its nonce stays used.
fn remove(db: &Db<'_>, tx: TxId, facts: &Facts) -> Answer<()> {
    forget_details(db, tx, facts)?;
    if let Some(nonce) = facts.nonce {
        let sql = "UPDATE lane_floor SET nonce = max(nonce, ?2) WHERE lane_id = ?1";
        db.run_one(sql, params![facts.lane, nonce.saturating_add(1)])?;
    }
    db.run_one("DELETE FROM managed_tx WHERE tx_id = ?1", [key(tx)])
}

/// The nonces of a lane below this were used, by what is deleted.
pub(crate) fn nonce_floor(db: &Db<'_>, lane: LaneId) -> Answer<Nonce> {
    let sql = "SELECT nonce FROM lane_floor WHERE lane_id = ?1";
    let floor = db.one(sql, [lane.0], |row| Ok(Nonce::from_column(row.get(0)?)?))?;
    Ok(floor.unwrap_or_default())
}
