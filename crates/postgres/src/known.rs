//! Requests that are there already. They are looked for by key only after a unique constraint has
//! spoken, or while it did so lately: a look-up before every insert costs a quarter of the rate,
//! and a plain join for it far more once the planner changes its mind.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use fencepost_app::ports::{NewTx, Record, StoreError};
use fencepost_domain::ids::{LaneId, TxId};
use uuid::Uuid;

use crate::PostgresStore;
use crate::row::{RECORD, column, record};

/// For so many batches after a duplicate we look before we insert. Too low: clients that retry in
/// bursts abort many statements. Too high: a single duplicate makes look-ups for long.
const WARY_BATCHES: u32 = 64;

/// Some new rows, by their place in a call.
pub(crate) type Places<'a> = Vec<(LaneId, &'a NewTx)>;

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
    ) -> Result<HashMap<usize, Record>, StoreError> {
        let mut found = self.known_by_request(places).await?;
        if by_id {
            for (place, record) in self.known_by_id(places).await? {
                found.insert(place, record);
            }
        }
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

    async fn known_by_id(&self, places: &Places<'_>) -> Result<Vec<(usize, Record)>, StoreError> {
        let ids: Vec<Uuid> = places.iter().map(|(_, tx)| tx.tx.0).collect();
        let tail = "FROM managed_tx m JOIN signer_lease l ON l.lane_id = m.lane_id
                    WHERE m.tx_id = ANY($1)";
        let records = self.records(tail, &[&ids]).await?;
        let by_id: HashMap<TxId, Record> = records
            .into_iter()
            .map(|record| (record.tx, record))
            .collect();
        let hit = |(place, (_, tx)): (usize, &(LaneId, &NewTx))| {
            by_id.get(&tx.tx).map(|record| (place, record.clone()))
        };
        Ok(places.iter().enumerate().filter_map(hit).collect())
    }
}
