//! Reading transactions, one or many.

use fencepost_app::ports::{Key, NewTx, PageQuery, Record};
use fencepost_domain::flat::Name;
use fencepost_domain::ids::{Lane, LaneId, Nonce, RequestId, TxId};
use rusqlite::params;

use crate::db::Db;
use crate::error::Answer;
use crate::lanes;
use crate::row::{key, record, select_record};

/// One transaction by its id.
pub(crate) fn by_id(db: &Db<'_>, tx: TxId) -> Answer<Option<Record>> {
    db.one(
        select_record!(
            "FROM managed_tx t JOIN signer_lease l ON l.lane_id = t.lane_id WHERE t.tx_id = ?1"
        ),
        [key(tx)],
        record,
    )
}

fn by_request(db: &Db<'_>, lane: LaneId, name: &RequestId) -> Answer<Option<Record>> {
    db.one(
        select_record!(
            "FROM managed_tx t JOIN signer_lease l ON l.lane_id = t.lane_id
             WHERE t.lane_id = ?1 AND t.request_id = ?2"
        ),
        params![lane.0, name.as_str()],
        record,
    )
}

/// The stored row that has a new one's id, or else its name in the lane.
pub(crate) fn twin(db: &Db<'_>, lane: LaneId, tx: &NewTx) -> Answer<Option<Record>> {
    match (by_id(db, tx.tx)?, &tx.request_id) {
        (Some(found), _) => Ok(Some(found)),
        (None, Some(name)) => by_request(db, lane, name),
        (None, None) => Ok(None),
    }
}

pub(crate) fn find(db: &Db<'_>, wanted: &Key) -> Answer<Option<Record>> {
    match wanted {
        Key::Id(tx) => by_id(db, *tx),
        Key::Request(lane, name) => match lanes::id(db, *lane)? {
            Some(lane) => by_request(db, lane, name),
            None => Ok(None),
        },
        Key::Hash(chain, hash) => match crate::history::holder_of(db, *chain, *hash)? {
            Some(tx) => by_id(db, tx),
            None => Ok(None),
        },
        Key::Nonce(lane, nonce) => by_nonce(db, *lane, *nonce),
    }
}

pub(crate) fn by_nonce(db: &Db<'_>, lane: Lane, nonce: Nonce) -> Answer<Option<Record>> {
    let Some(lane) = lanes::id(db, lane)? else {
        return Ok(None);
    };
    db.one(
        select_record!(
            "FROM managed_tx t JOIN signer_lease l ON l.lane_id = t.lane_id
             WHERE t.lane_id = ?1 AND t.nonce = ?2"
        ),
        params![lane.0, nonce.column()],
        record,
    )
}

pub(crate) fn find_many(db: &Db<'_>, ids: &[TxId]) -> Answer<Vec<Record>> {
    let mut ids = ids.to_vec();
    ids.sort_unstable();
    ids.dedup();
    let mut found = Vec::new();
    for id in ids {
        found.extend(by_id(db, id)?);
    }
    Ok(found)
}

/// Above every id: ids are sixteen bytes, and a longer text of the same bytes sorts behind.
const ABOVE_ALL: [u8; 17] = [0xff; 17];

pub(crate) fn page(db: &Db<'_>, query: &PageQuery) -> Answer<Vec<Record>> {
    let before = query
        .before
        .map_or(ABOVE_ALL.to_vec(), |tx| key(tx).to_vec());
    let state = query.state.map(Name::word);
    let limit = query.limit;
    let lane = match query.lane {
        None => None,
        Some(lane) => match lanes::id(db, lane)? {
            Some(id) => Some(id.0),
            None => return Ok(Vec::new()),
        },
    };
    match (lane, state) {
        (None, None) => db.all(
            select_record!(
                "FROM managed_tx t JOIN signer_lease l ON l.lane_id = t.lane_id
                 WHERE t.tx_id < ?1 ORDER BY t.tx_id DESC LIMIT ?2"
            ),
            params![before, limit],
            record,
        ),
        (Some(lane), None) => db.all(
            select_record!(
                "FROM managed_tx t JOIN signer_lease l ON l.lane_id = t.lane_id
                 WHERE t.lane_id = ?3 AND t.tx_id < ?1 ORDER BY t.tx_id DESC LIMIT ?2"
            ),
            params![before, limit, lane],
            record,
        ),
        (None, Some(state)) => db.all(
            select_record!(
                "FROM managed_tx t JOIN signer_lease l ON l.lane_id = t.lane_id
                 WHERE t.state = ?3 AND t.tx_id < ?1 ORDER BY t.tx_id DESC LIMIT ?2"
            ),
            params![before, limit, state],
            record,
        ),
        (Some(lane), Some(state)) => db.all(
            select_record!(
                "FROM managed_tx t JOIN signer_lease l ON l.lane_id = t.lane_id
                 WHERE t.lane_id = ?3 AND t.state = ?4 AND t.tx_id < ?1
                 ORDER BY t.tx_id DESC LIMIT ?2"
            ),
            params![before, limit, lane, state],
            record,
        ),
    }
}

pub(crate) fn unfinished(
    db: &Db<'_>,
    lane: LaneId,
    after: Option<Nonce>,
    limit: usize,
) -> Answer<Vec<Record>> {
    db.all(
        select_record!(
            "FROM due_work d JOIN managed_tx t ON t.tx_id = d.tx_id
             JOIN signer_lease l ON l.lane_id = t.lane_id
             WHERE d.lane_id = ?1 AND d.nonce > ?2 ORDER BY d.nonce LIMIT ?3"
        ),
        params![lane.0, after.map_or(-1, Nonce::column), limit],
        record,
    )
}
