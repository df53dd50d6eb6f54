//! The feed: contiguous numbers in commit order. One writer makes that simple: the next number is
//! the head's plus one, and a transaction that fails takes its numbers back with it.

use fencepost_app::ports::{Completion, Feed, Move};
use fencepost_domain::flat::Name;
use fencepost_domain::ids::{Corrupt, FeedSeq, Height, LaneId, Nonce, RequestId};
use fencepost_domain::state::Kind;
use rusqlite::{Row, params};

use crate::db::Db;
use crate::error::Answer;
use crate::moves::Standing;
use crate::row::{Cells, key};

/// Numbers one move in the feed.
pub(crate) fn tell(db: &Db<'_>, lane: LaneId, step: &Move, standing: &Standing) -> Answer<FeedSeq> {
    let (head, _) = head(db)?;
    let seq = head.plus(1)?;
    let at = step.to.inclusion();
    let hash = at.map(|at| at.hash).or(step.to.hash());
    let corrects: Option<i64> = db.value(
        "SELECT max(seq) FROM tx_completion
         WHERE tx_id = ?1 AND state IN ('CONFIRMED', 'FAILED_FINAL', 'USED')",
        [key(step.tx)],
    )?;
    db.run_one(
        "INSERT INTO tx_completion (seq, tx_id, lane_id, kind, request_id, nonce, state,
            sub_state, tx_hash, block_number, at, corrects)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
        params![
            seq.column(),
            key(step.tx),
            lane.0,
            standing.kind.word(),
            standing.request_id.as_ref().map(RequestId::as_str),
            step.to.nonce().map(Nonce::column),
            step.to.name().word(),
            step.to.sub(),
            hash.map(|hash| hash.0),
            at.map(|at| at.block.number.column()),
            db.now,
            corrects,
        ],
    )?;
    Ok(seq)
}

pub(crate) fn completions(db: &Db<'_>, after: FeedSeq, limit: usize) -> Answer<Feed> {
    let floor = db.value("SELECT deleted_seq FROM retention WHERE id = 1", [])?;
    let floor = FeedSeq::from_column(floor)?;
    // Whoever has not seen what was retired must not read on as if it had.
    let limit = if after < floor { 0 } else { limit };
    let completions = db.all(
        "SELECT c.seq, c.tx_id, c.kind, l.chain_id, l.signer, c.request_id, c.nonce, c.state,
            c.sub_state, c.tx_hash, c.block_number, c.at, c.corrects
         FROM tx_completion c JOIN signer_lease l ON l.lane_id = c.lane_id
         WHERE c.seq > ?1 ORDER BY c.seq LIMIT ?2",
        params![after.column(), limit],
        read,
    )?;
    let (head, epoch) = head(db)?;
    Ok(Feed {
        completions,
        head,
        floor,
        epoch,
    })
}

fn head(db: &Db<'_>) -> Answer<(FeedSeq, u64)> {
    let corrupt = Corrupt {
        column: "feed_head",
    };
    let head = db.one("SELECT seq, epoch FROM feed_head WHERE id = 1", [], |row| {
        let mut cells = Cells::of(row);
        let seq = FeedSeq::from_column(cells.next()?)?;
        let epoch: i64 = cells.next()?;
        Ok((seq, u64::try_from(epoch).map_err(|_| corrupt)?))
    })?;
    Ok(head.ok_or(corrupt)?)
}

fn read(row: &Row<'_>) -> Answer<Completion> {
    let mut cells = Cells::of(row);
    let seq = FeedSeq::from_column(cells.next()?)?;
    let tx = cells.tx()?;
    let kind = Kind::from_word(&cells.next::<String>()?)?;
    let lane = cells.lane()?;
    let request_id = cells.request_id()?;
    let nonce: Option<i64> = cells.next()?;
    let state = Name::from_word(&cells.next::<String>()?)?;
    let sub_state = cells.next()?;
    let tx_hash = cells.maybe_hash("tx_hash")?;
    let block_number: Option<i64> = cells.next()?;
    let at = cells.time()?;
    let corrects: Option<i64> = cells.next()?;
    Ok(Completion {
        seq,
        tx,
        kind,
        lane,
        request_id,
        nonce: nonce.map(Nonce::from_column).transpose()?,
        state,
        sub_state,
        tx_hash,
        block_number: block_number.map(Height::from_column).transpose()?,
        at,
        corrects: corrects.map(FeedSeq::from_column).transpose()?,
    })
}
