//! Requests that are there already. They are looked for by key only after a unique constraint has
//! spoken, or while it did so lately: a look-up before every insert costs a quarter of the rate,
//! and a plain join for it far more once the planner changes its mind.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use fencepost_app::ports::{NewTx, Record, StoreError};
use fencepost_domain::ids::{LaneId, TxId};

use crate::PostgresStore;
use crate::row::{RECORD, column, record};

/// For so many batches after a duplicate we look before we insert. Too low: clients that retry in
/// bursts abort many statements. Too high: a single duplicate makes look-ups for long.
const WARY_BATCHES: u32 = 64;

/// Some new rows, by their place in a call.
pub(crate) type Places<'a> = Vec<(LaneId, &'a NewTx)>;

/// Rows that were stored before, by the place of the item that they answer.
#[derive(Default)]
pub(crate) struct Found {
    by_id: HashMap<usize, Record>,
    by_name: HashMap<usize, Record>,
}

/// What an item turns out to be when the items of a call are taken one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// To be stored.
    New,
    /// Answered by a row that was there before.
    Stored,
    /// Answered by an earlier item of the call.
    Repeat(usize),
}

impl Found {
    pub(crate) fn is_empty(&self) -> bool {
        self.by_id.is_empty() && self.by_name.is_empty()
    }

    /// The row that answers an item: an id outranks a name.
    pub(crate) fn record(&self, place: usize) -> Option<&Record> {
        self.by_id.get(&place).or_else(|| self.by_name.get(&place))
    }

    /// Adds what was found later.
    pub(crate) fn absorb(&mut self, found: Self) {
        self.by_id.extend(found.by_id);
        self.by_name.extend(found.by_name);
    }

    /// Deals what was found out to whom each place belongs: an owner and a place of its own.
    pub(crate) fn split(self, at: &[(usize, usize)]) -> HashMap<usize, Self> {
        let mut parts: HashMap<usize, Self> = HashMap::new();
        for (place, record) in self.by_id {
            let (owner, place) = at[place];
            parts.entry(owner).or_default().by_id.insert(place, record);
        }
        for (place, record) in self.by_name {
            let (owner, place) = at[place];
            parts
                .entry(owner)
                .or_default()
                .by_name
                .insert(place, record);
        }
        parts
    }

    /// An item that is not stored itself gives its name to nobody: the next one of that name is
    /// looked at as if it had come alone.
    pub(crate) fn fates<'a>(&self, items: impl Iterator<Item = (LaneId, &'a NewTx)>) -> Vec<Fate> {
        let mut ids: HashMap<TxId, usize> = HashMap::new();
        let mut names: HashMap<(LaneId, &str), usize> = HashMap::new();
        let fate = |(place, (lane, tx)): (usize, (LaneId, &'a NewTx))| {
            let name = tx.request_id.as_ref().map(|id| (lane, id.as_str()));
            if self.by_id.contains_key(&place) {
                return Fate::Stored;
            }
            if let Some(first) = ids.get(&tx.tx) {
                return Fate::Repeat(*first);
            }
            if self.by_name.contains_key(&place) {
                return Fate::Stored;
            }
            if let Some(first) = name.and_then(|name| names.get(&name)) {
                return Fate::Repeat(*first);
            }
            ids.insert(tx.tx, place);
            names.extend(name.map(|name| (name, place)));
            Fate::New
        };
        items.enumerate().map(fate).collect()
    }
}

impl PostgresStore {
    /// Whether duplicates were seen lately; counts the batch.
    pub(crate) fn is_wary(&self) -> bool {
        let less = |n: u32| n.checked_sub(1);
        self.wary
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less)
            .is_ok()
    }

    pub(crate) fn become_wary(&self) {
        self.wary.store(WARY_BATCHES, Ordering::Relaxed);
    }

    /// Which of these are stored already: by lane and request id, and by id where that may be.
    pub(crate) async fn known(
        &self,
        places: &Places<'_>,
        by_id: bool,
    ) -> Result<Found, StoreError> {
        let by_name = self.known_by_request(places).await?;
        // An id outranks a name, so whoever is found by name is looked up by id as well.
        let asked = (0..places.len()).filter(|place| by_id || by_name.contains_key(place));
        let by_id = self.known_by_id(places, asked).await?;
        let found = Found { by_id, by_name };
        if !found.is_empty() {
            self.become_wary();
        }
        Ok(found)
    }

    async fn known_by_request(
        &self,
        places: &Places<'_>,
    ) -> Result<HashMap<usize, Record>, StoreError> {
        let mut at = Vec::new();
        let (mut lanes, mut requests) = (Vec::new(), Vec::new());
        for (place, (lane, tx)) in places.iter().enumerate() {
            if let Some(request) = &tx.request_id {
                at.push(place);
                lanes.push(lane.0);
                requests.push(request.as_str());
            }
        }
        if at.is_empty() {
            return Ok(HashMap::new());
        }
        let sql = format!(
            "SELECT i.ord, {RECORD}
               FROM unnest($1::bigint[], $2::text[]) WITH ORDINALITY AS i(lane_id, request_id, ord)
              CROSS JOIN LATERAL (SELECT * FROM managed_tx t
                    WHERE t.lane_id = i.lane_id AND t.request_id = i.request_id LIMIT 1) m
               JOIN signer_lease l ON l.lane_id = m.lane_id"
        );
        let rows = self.connections.read(&sql, &[&lanes, &requests]).await?;
        let mut found = HashMap::with_capacity(rows.len());
        for row in &rows {
            let ord: i64 = column(row, "ord")?;
            let place = usize::try_from(ord - 1)
                .ok()
                .and_then(|index| at.get(index));
            if let Some(place) = place {
                found.insert(*place, record(row)?);
            }
        }
        Ok(found)
    }

    async fn known_by_id(
        &self,
        places: &Places<'_>,
        asked: impl Iterator<Item = usize>,
    ) -> Result<HashMap<usize, Record>, StoreError> {
        let asked: Vec<usize> = asked.collect();
        let ids: Vec<TxId> = asked.iter().map(|place| places[*place].1.tx).collect();
        let stored = self.find_map(&ids).await?;
        let hit = |place: usize| {
            let record = stored.get(&places[place].1.tx)?;
            Some((place, record.clone()))
        };
        Ok(asked.into_iter().filter_map(hit).collect())
    }
}
