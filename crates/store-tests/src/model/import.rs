//! What the model takes over from another service.

use fencepost_app::ports::{Audit, Import, Imported, OpenTx, StoreError, Unimportable, check};
use fencepost_domain::ids::{LaneId, TxId};

use super::memory::Whole;

impl Whole {
    pub(super) fn import(
        &mut self,
        lane: LaneId,
        import: &Import,
        audit: &Audit,
    ) -> Result<Imported, StoreError> {
        check::import(import, audit)?;
        let Some(row) = self.lanes.get(&lane) else {
            return Ok(Imported::UnknownLane);
        };
        let from = row.next_nonce;
        if row.paused.is_none() {
            return Ok(Imported::NotPaused);
        }
        if let Some(nonce) = self.held_from(lane, import.next_nonce) {
            return Ok(Imported::Holds(nonce));
        }
        let clashes = import.open.iter().enumerate();
        let clashes = clashes.filter_map(|(at, open)| Some((at, self.clash(lane, open)?)));
        let clashes: Vec<(usize, Unimportable)> = clashes.collect();
        if !clashes.is_empty() {
            return Ok(Imported::Refused(clashes));
        }
        if !import.dry_run {
            let token = self.lanes[&lane].token;
            for open in &import.open {
                let mut row = self.row(lane, &open.row(), open.state());
                row.token = token;
                if let Some(attempt) = open.attempt() {
                    self.store_attempt(&mut row, attempt, token);
                    if row.reservation.is_none() {
                        self.count_try(&mut row);
                    }
                }
                let due_at = self.later(open.due_in());
                let of_lane = self.lane_mut(lane);
                of_lane.due.insert(open.tx, due_at);
                of_lane.free.remove(&open.nonce);
                self.tell(&row, open.event(), None, None, token);
                self.records.insert(open.tx, row);
            }
            let (to, count) = (import.next_nonce, import.open.len());
            self.take_away(lane, to);
            let change = format!("next_nonce={from} -> next_nonce={to} open={count}");
            self.audit(lane, "IMPORT", audit, change);
        }
        Ok(Imported::Done { from })
    }

    fn clash(&self, lane: LaneId, open: &OpenTx) -> Option<Unimportable> {
        let of_lane = || self.records.values().filter(|row| row.lane_id == lane);
        let held = of_lane().find(|row| row.state.nonce() == Some(open.nonce));
        if let Some(held) = held {
            return Some(Unimportable::NonceHeld(held.tx));
        }
        let floor = self.floors.nonces.get(&lane);
        if floor.is_some_and(|floor| open.nonce < *floor) {
            return Some(Unimportable::NonceUsed);
        }
        let same_name =
            of_lane().find(|row| open.request_id.is_some() && row.request_id == open.request_id);
        if let Some(known) = same_name {
            return Some(Unimportable::RequestKnown(known.tx));
        }
        let chain = self.lanes[&lane].lane.chain;
        let owner: Option<TxId> = open.hash().and_then(|hash| self.owner_of(chain, hash));
        owner.map(Unimportable::HashKnown)
    }
}
