//! Reading the model.

use fencepost_app::ports::{
    Feed, Key, PageQuery, Record, StoreError, StoredAttempt, StoredEvent, check,
};
use fencepost_domain::event;
use fencepost_domain::ids::{FeedSeq, LaneId, LaneSeq, Nonce, TxId};

use super::memory::Whole;

impl Whole {
    pub(super) fn find(&self, key: &Key) -> Option<Record> {
        let mut all = self.records.values();
        match key {
            Key::Id(tx) => self.records.get(tx),
            Key::Request(lane, name) => {
                all.find(|row| row.lane == *lane && row.request_id.as_ref() == Some(name))
            }
            Key::Hash(chain, hash) => {
                let owner = self.owner_of(*chain, *hash);
                owner.map(|tx| &self.records[&tx])
            }
            Key::Nonce(lane, nonce) => {
                all.find(|row| row.lane == *lane && row.state.nonce() == Some(*nonce))
            }
        }
        .cloned()
    }

    pub(super) fn find_many(&self, ids: &[TxId]) -> Result<Vec<Record>, StoreError> {
        check::ids(ids)?;
        let there = self.records.values().filter(|row| ids.contains(&row.tx));
        Ok(there.cloned().collect())
    }

    pub(super) fn page(&self, query: &PageQuery) -> Result<Vec<Record>, StoreError> {
        check::limit(query.limit)?;
        let fits = |row: &&Record| {
            query.lane.is_none_or(|lane| row.lane == lane)
                && query.state.is_none_or(|state| row.state.name() == state)
                && query.before.is_none_or(|before| row.tx < before)
        };
        let rows = self.records.values().rev().filter(fits);
        Ok(rows.take(query.limit).cloned().collect())
    }

    pub(super) fn queued(&self, lane: LaneId, limit: usize) -> Result<Vec<Record>, StoreError> {
        check::limit(limit)?;
        let queue = self.lanes.get(&lane).into_iter().flat_map(|row| &row.queue);
        let rows = queue.map(|tx| self.records[tx].clone());
        Ok(rows.take(limit).collect())
    }

    pub(super) fn queued_lanes(
        &self,
        after: Option<LaneId>,
        limit: usize,
    ) -> Result<Vec<LaneId>, StoreError> {
        check::limit(limit)?;
        let waiting = self.lanes.iter().filter(|(_, row)| !row.queue.is_empty());
        let mut ids: Vec<LaneId> = waiting.map(|(id, _)| *id).collect();
        ids.sort();
        ids.retain(|id| Some(*id) > after);
        ids.truncate(limit);
        Ok(ids)
    }

    pub(super) fn unfinished(
        &self,
        lane: LaneId,
        after: Option<Nonce>,
        limit: usize,
    ) -> Result<Vec<Record>, StoreError> {
        check::limit(limit)?;
        let due = self
            .lanes
            .get(&lane)
            .into_iter()
            .flat_map(|row| row.due.keys());
        let rows = due.map(|tx| self.records[tx].clone());
        let mut rows: Vec<_> = rows.filter(|row| row.state.nonce() > after).collect();
        rows.sort_by_key(|row| row.state.nonce());
        rows.truncate(limit);
        Ok(rows)
    }

    pub(super) fn history(
        &self,
        tx: TxId,
        after: LaneSeq,
        limit: usize,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        check::limit(limit)?;
        let events = self
            .events
            .iter()
            .filter(|each| each.tx == tx && each.seq > after);
        Ok(events.take(limit).cloned().collect())
    }

    pub(super) fn listing(&self, txs: &[TxId]) -> Result<Vec<StoredEvent>, StoreError> {
        check::ids(txs)?;
        let mut found: Vec<StoredEvent> = Vec::new();
        for each in self.events.iter().filter(|each| txs.contains(&each.tx)) {
            if each.event.begins_list() {
                found.retain(|before| before.tx != each.tx);
            }
            if each.event.begins_list() || each.event.kind == event::Kind::Confirmations {
                found.push(each.clone());
            }
        }
        found.sort_by_key(|each| (each.tx, each.seq));
        Ok(found)
    }

    pub(super) fn attempts_of(&self, txs: &[TxId]) -> Result<Vec<StoredAttempt>, StoreError> {
        check::ids(txs)?;
        let of_txs = self.attempts.iter().filter(|each| txs.contains(&each.tx));
        let mut attempts: Vec<_> = of_txs.cloned().collect();
        attempts.sort_by_key(|each| (each.tx, each.n));
        Ok(attempts)
    }

    pub(super) fn completions(&self, after: FeedSeq, limit: usize) -> Result<Feed, StoreError> {
        check::limit(limit)?;
        let floor = self.floors.feed;
        let limit = if after < floor { 0 } else { limit };
        let rows = self.feed.iter().filter(|each| each.seq > after);
        Ok(Feed {
            completions: rows.take(limit).cloned().collect(),
            head: self.feed.last().map_or(floor, |last| last.seq),
            floor,
            epoch: 1,
        })
    }
}
