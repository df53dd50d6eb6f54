//! Waiting without a nonce, in order of arrival. Any node may enqueue: it takes nothing from anybody.

use std::collections::HashMap;

use fencepost_app::ports::{Enqueued, NewTx, Record, StoreError};
use fencepost_domain::ids::{LaneId, TxId};
use fencepost_domain::state::Wait;
use jiff::Timestamp;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::fault::{Fault, Unique, after_write, refused};
use crate::known::{Fate, Found};
use crate::row::column;
use crate::statement::Written;
use crate::witness::Said;
use crate::{PostgresStore, rows};

/// Needs no fence: it gives no nonce. What is known already aborts it whole.
const ENQUEUE: &str = "
WITH item AS MATERIALIZED (
    SELECT * FROM unnest($1::bigint[], $2::uuid[], $3::text[], $4::bytea[], $5::bytea[],
                         $6::timestamptz[], $7::text[], $9::text[], $10::bytea[]) WITH ORDINALITY
             AS i(lane_id, tx_id, request_id, payload, payload_hash, not_after, meta, created_by, seal, ord)
), stored AS (
    INSERT INTO managed_tx (tx_id, lane_id, kind, request_id, payload, payload_hash, seal, state, sub_state,
                            not_after, meta, created_by, fencing_token, created_at, updated_at)
    SELECT tx_id, lane_id, 'managed', request_id, payload, payload_hash, seal, 'QUEUED', $8,
           not_after, meta, created_by, 0, statement_timestamp(), statement_timestamp()
      FROM item
     -- By bytes, as a create sorts its rows.
     ORDER BY lane_id, request_id COLLATE \"C\" NULLS FIRST, tx_id
), queued AS (
    INSERT INTO lane_queue (lane_id, tx_id) SELECT lane_id, tx_id FROM item ORDER BY ord
)
SELECT statement_timestamp() AS at, lane_id AS ack_lane, tx_id AS ack_tx FROM item";

const ROOM: &str = "
SELECT l.lane_id,
       (SELECT count(*) FROM (SELECT FROM lane_queue q WHERE q.lane_id = l.lane_id LIMIT $2) w) AS waiting
  FROM signer_lease l WHERE l.lane_id = ANY($1)";

/// As for creating: more rounds mean that others store the same requests at this very moment.
const ROUNDS: usize = 4;

/// One call's items on their way through the rounds.
struct Items<'a> {
    txs: &'a [(LaneId, NewTx)],
    found: Found,
    fates: Vec<Fate>,
    answers: Vec<Option<Enqueued>>,
}

impl<'a> Items<'a> {
    fn new(txs: &'a [(LaneId, NewTx)]) -> Self {
        let mut items = Self {
            txs,
            found: Found::default(),
            fates: vec![],
            answers: vec![None; txs.len()],
        };
        items.learn(Found::default());
        items
    }

    /// Takes in what was found stored, and sees the items anew.
    fn learn(&mut self, found: Found) {
        self.found.absorb(found);
        self.fates = self
            .found
            .fates(self.txs.iter().map(|(lane, tx)| (*lane, tx)));
    }

    fn new_places(&self) -> Vec<usize> {
        let is_new =
            |place: &usize| self.fates[*place] == Fate::New && self.answers[*place].is_none();
        (0..self.txs.len()).filter(is_new).collect()
    }

    /// Whether more are new than their lanes take.
    fn are_short_of(&self, room: &HashMap<LaneId, usize>) -> bool {
        let mut left = room.clone();
        self.new_places().into_iter().any(|place| {
            let taken = left
                .get_mut(&self.txs[place].0)
                .map(|left| left.checked_sub(1).map(|n| *left = n));
            taken == Some(None)
        })
    }

    fn known(&self, place: usize, record: &Record) -> Enqueued {
        let (lane, tx) = &self.txs[place];
        let stored = Box::new(record.clone());
        if tx.matches(*lane, record) {
            Enqueued::Known(stored)
        } else {
            Enqueued::Conflict(stored)
        }
    }
}

impl PostgresStore {
    pub(crate) async fn enqueue_many(
        &self,
        txs: &[(LaneId, NewTx)],
        wait: Wait,
        queue_max: usize,
    ) -> Result<Vec<Enqueued>, StoreError> {
        if txs.is_empty() {
            return Ok(vec![]);
        }
        let mut items = Items::new(txs);
        // An item that repeats another's name may still be stored under its own id.
        let repeats = items
            .fates
            .iter()
            .any(|fate| matches!(fate, Fate::Repeat(_)));
        if self.is_wary() || repeats {
            self.answer_stored(&mut items, repeats).await?;
        }
        let mut room = self.room(txs, queue_max).await?;
        if items.are_short_of(&room) {
            // What is known already takes no place in the queue.
            self.answer_stored(&mut items, true).await?;
        }
        let mut wrote = false;
        for _ in 0..ROUNDS {
            let places = with_room(&mut items, &mut room.clone());
            if places.is_empty() {
                break;
            }
            match self.insert_queued(&items, &places, wait).await? {
                Written::Rows { rows, .. } => {
                    let row = rows.first().ok_or_else(|| crate::row::corrupt("at"))?;
                    let at: Timestamp = column(row, "at")?;
                    for place in places {
                        items.answers[place] = Some(Enqueued::Queued { at });
                    }
                    wrote = true;
                    break;
                }
                // A lost try of ours shows itself by the same ids: they are then ours.
                Written::Refused {
                    fault: Fault::Taken(Unique::Tx | Unique::Request),
                    again,
                    ..
                } => {
                    self.become_wary();
                    wrote |= again;
                    let known = self.answer_taken(&mut items, &places, again).await;
                    known.map_err(|error| told(wrote, error))?;
                }
                Written::Refused {
                    error,
                    again: false,
                    ..
                } => return Err(refused(error)),
                Written::Refused {
                    error, again: true, ..
                } => {
                    return Err(StoreError::OutcomeUnknown(error.into()));
                }
            }
            room = self
                .room(txs, queue_max)
                .await
                .map_err(|error| told(wrote, error))?;
        }
        self.enqueue_answers(items)
            .await
            .map_err(|error| told(wrote, error))
    }

    /// Answers what is stored already: first as ours, where a lost try may have stored it.
    async fn answer_taken(
        &self,
        items: &mut Items<'_>,
        places: &[usize],
        again: bool,
    ) -> Result<(), StoreError> {
        if again {
            self.answer_ours(items, places).await?;
        }
        self.answer_stored(items, true).await
    }

    /// How many each lane still takes; unknown lanes are missing. Nodes that fill the last places
    /// at once may overshoot by a batch each.
    async fn room(
        &self,
        txs: &[(LaneId, NewTx)],
        queue_max: usize,
    ) -> Result<HashMap<LaneId, usize>, StoreError> {
        let mut lanes: Vec<i64> = txs.iter().map(|(lane, _)| lane.0).collect();
        lanes.sort_unstable();
        lanes.dedup();
        let found = self
            .connections
            .read(ROOM, &[&lanes, &rows(queue_max)])
            .await?;
        let mut room = HashMap::new();
        for row in &found {
            let waiting = usize::try_from(column::<i64>(row, "waiting")?).unwrap_or(usize::MAX);
            room.insert(
                LaneId(column(row, "lane_id")?),
                queue_max.saturating_sub(waiting),
            );
        }
        Ok(room)
    }

    async fn insert_queued(
        &self,
        items: &Items<'_>,
        places: &[usize],
        wait: Wait,
    ) -> Result<Written, StoreError> {
        let picked = || places.iter().map(|place| &items.txs[*place]);
        let lanes: Vec<i64> = picked().map(|(lane, _)| lane.0).collect();
        let ids: Vec<Uuid> = picked().map(|(_, tx)| tx.tx.0).collect();
        let requests: Vec<Option<&str>> = picked()
            .map(|(_, tx)| tx.request_id.as_ref().map(|id| id.as_str()))
            .collect();
        let (payloads, hashes): (Vec<_>, Vec<_>) = picked()
            .map(|(_, tx)| {
                tx.payload()
                    .map(|(bytes, hash)| (bytes, hash.as_slice()))
                    .unzip()
            })
            .unzip();
        let not_after: Vec<Option<Timestamp>> = picked().map(|(_, tx)| tx.not_after).collect();
        let meta: Vec<Option<&str>> = picked()
            .map(|(_, tx)| tx.meta.as_ref().map(|meta| meta.as_str()))
            .collect();
        let created_by: Vec<Option<&str>> =
            picked().map(|(_, tx)| tx.created_by.as_deref()).collect();
        let seals: Vec<Option<&[u8]>> = picked()
            .map(|(_, tx)| tx.seal.as_ref().map(|seal| seal.as_slice()))
            .collect();
        let params: [&(dyn ToSql + Sync); 10] = [
            &lanes,
            &ids,
            &requests,
            &payloads,
            &hashes,
            &not_after,
            &meta,
            &wait.word(),
            &created_by,
            &seals,
        ];
        self.connections.write(ENQUEUE, &params).await
    }

    /// After a lost reply: rows with our own ids are what the lost try stored.
    async fn answer_ours(&self, items: &mut Items<'_>, places: &[usize]) -> Result<(), StoreError> {
        let ids: Vec<TxId> = places.iter().map(|place| items.txs[*place].1.tx).collect();
        let server = self.connections.generation();
        let there = self.find_map(&ids).await?;
        for &place in places {
            let (lane, tx) = &items.txs[place];
            if let Some(record) = there.get(&tx.tx)
                && tx.matches(*lane, record)
            {
                let memory = &self.connections.memory;
                memory.says(server, lane.0, Said::Request(tx.tx.0))?;
                items.answers[place] = Some(Enqueued::Queued {
                    at: record.created_at,
                });
            }
        }
        Ok(())
    }

    async fn answer_stored(&self, items: &mut Items<'_>, by_id: bool) -> Result<(), StoreError> {
        let places = items.txs.iter().map(|(lane, tx)| (*lane, tx)).collect();
        let found = self.known(&places, by_id).await?;
        items.learn(found);
        Ok(())
    }

    async fn enqueue_answers(&self, items: Items<'_>) -> Result<Vec<Enqueued>, StoreError> {
        let first = |fate: &Fate| match fate {
            Fate::Repeat(first) => Some(items.txs[*first].1.tx),
            Fate::New | Fate::Stored => None,
        };
        let firsts: Vec<TxId> = items.fates.iter().filter_map(first).collect();
        let stored = self.find_map(&firsts).await?;
        let contended = || StoreError::Busy("others store the same requests at this moment".into());
        let answer = |place: usize| -> Option<Enqueued> {
            match items.fates[place] {
                _ if items.answers[place].is_some() => items.answers[place].clone(),
                Fate::New => None,
                Fate::Stored => Some(items.known(place, items.found.record(place)?)),
                Fate::Repeat(first) => match &items.answers[first] {
                    Some(Enqueued::Full) => Some(Enqueued::Full),
                    Some(Enqueued::UnknownLane) => Some(Enqueued::UnknownLane),
                    Some(Enqueued::Queued { .. } | Enqueued::Known(_) | Enqueued::Conflict(_))
                    | None => Some(items.known(place, stored.get(&items.txs[first].1.tx)?)),
                },
            }
        };
        (0..items.txs.len())
            .map(|place| answer(place).ok_or_else(contended))
            .collect()
    }

    pub(crate) async fn waiting(
        &self,
        lane: LaneId,
        limit: usize,
    ) -> Result<Vec<Record>, StoreError> {
        let tail = "FROM lane_queue q
                    JOIN managed_tx m ON m.tx_id = q.tx_id
                    JOIN signer_lease l ON l.lane_id = m.lane_id
                    WHERE q.lane_id = $1 ORDER BY q.queue_seq LIMIT $2";
        self.records(tail, &[&lane.0, &rows(limit)]).await
    }

    /// One look-up for each lane in the queue, however many wait in it.
    pub(crate) async fn waiting_lanes(
        &self,
        after: Option<LaneId>,
        limit: usize,
    ) -> Result<Vec<LaneId>, StoreError> {
        let sql = "WITH RECURSIVE lane AS (
                (SELECT lane_id FROM lane_queue WHERE lane_id > $1 ORDER BY lane_id LIMIT 1)
                UNION ALL
                SELECT (SELECT q.lane_id FROM lane_queue q WHERE q.lane_id > lane.lane_id
                         ORDER BY q.lane_id LIMIT 1)
                  FROM lane WHERE lane.lane_id IS NOT NULL
            )
            SELECT lane_id FROM lane WHERE lane_id IS NOT NULL LIMIT $2";
        let after = after.map_or(i64::MIN, |lane| lane.0);
        let found = self.connections.read(sql, &[&after, &rows(limit)]).await?;
        let lane = |row| Ok(LaneId(column(row, "lane_id")?));
        found.iter().map(lane).collect()
    }
}

/// An error, as it must be told once something was written, or may have been.
fn told(wrote: bool, error: StoreError) -> StoreError {
    if wrote { after_write(error) } else { error }
}

/// The new items that their lanes still have room for; the others are answered.
fn with_room(items: &mut Items<'_>, room: &mut HashMap<LaneId, usize>) -> Vec<usize> {
    let mut places = Vec::new();
    for place in items.new_places() {
        match room.get_mut(&items.txs[place].0) {
            None => items.answers[place] = Some(Enqueued::UnknownLane),
            Some(0) => items.answers[place] = Some(Enqueued::Full),
            Some(left) => {
                *left -= 1;
                places.push(place);
            }
        }
    }
    places
}
