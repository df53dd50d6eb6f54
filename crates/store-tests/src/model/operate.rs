//! Pauses, cursors and gaps of the model.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use fencepost_app::ports::{
    Audit, CursorMove, CursorMoved, PauseChange, PauseReason, Paused, StoreError, check,
};
use fencepost_domain::ids::{LaneId, Nonce};

use super::memory::{LaneRow, Whole};

impl Whole {
    pub(super) fn pause(
        &mut self,
        lane: LaneId,
        change: PauseChange,
        audit: &Audit,
    ) -> Result<Paused, StoreError> {
        check::pause(change, audit)?;
        let Some(row) = self.lanes.get_mut(&lane) else {
            return Ok(Paused::UnknownLane);
        };
        let before = described(row);
        let mut dropped = String::new();
        let word = match change {
            PauseChange::Pause(reason) => {
                row.paused = Some(reason);
                "PAUSE"
            }
            PauseChange::Resume => {
                row.paused = None;
                "RESUME"
            }
            PauseChange::Reconcile { at_least } => {
                row.next_nonce = row.next_nonce.max(at_least);
                dropped = drop_free(row, at_least);
                "RECONCILE"
            }
        };
        let (paused, after) = (row.paused, described(row));
        self.audit(lane, word, audit, format!("{before} -> {after}{dropped}"));
        Ok(Paused::Now(paused))
    }

    pub(super) fn move_cursor(
        &mut self,
        lane: LaneId,
        to: &CursorMove,
        audit: &Audit,
    ) -> Result<CursorMoved, StoreError> {
        check::cursor(lane, to, audit)?;
        let Some(row) = self.lanes.get(&lane) else {
            return Ok(CursorMoved::UnknownLane);
        };
        let from = row.next_nonce;
        match to {
            CursorMove::Raise { holder, held, to } => {
                if !self.leads(holder, *held) {
                    return Ok(CursorMoved::Fenced);
                }
                self.renew_lease(lane);
                let to = from.max(*to);
                self.lane_mut(lane).next_nonce = to;
                if to > from {
                    let change = format!("next_nonce={from} -> next_nonce={to}");
                    self.audit(lane, "RAISE_CURSOR", audit, change);
                }
                Ok(CursorMoved::Now { from, to })
            }
            CursorMove::Forget {
                holder,
                held,
                below,
            } => {
                if !self.leads(holder, *held) {
                    return Ok(CursorMoved::Fenced);
                }
                self.renew_lease(lane);
                let dropped = drop_free(self.lane_mut(lane), *below);
                if !dropped.is_empty() {
                    let change = format!("next_nonce={from} -> next_nonce={from}{dropped}");
                    self.audit(lane, "RAISE_CURSOR", audit, change);
                }
                Ok(CursorMoved::Now { from, to: from })
            }
            CursorMove::Set { to } => {
                if row.paused.is_none() {
                    return Ok(CursorMoved::NotPaused);
                }
                if let Some(above) = self.held_from(lane, *to) {
                    return Ok(CursorMoved::Holds(above));
                }
                let (to, action) = match to.cmp(&from) {
                    Ordering::Less => (*to, "LOWER_CURSOR"),
                    Ordering::Equal => return Ok(CursorMoved::Now { from, to: *to }),
                    Ordering::Greater => (*to, "RAISE_CURSOR"),
                };
                self.take_away(lane, to);
                let change = format!("next_nonce={from} -> next_nonce={to}");
                self.audit(lane, action, audit, change);
                Ok(CursorMoved::Now { from, to })
            }
        }
    }

    /// The lowest nonce from this one on that is held, or was used by what is deleted.
    pub(super) fn held_from(&self, lane: LaneId, from: Nonce) -> Option<Nonce> {
        let held = self.held_nonces(lane);
        let used = self.floors.nonces.get(&lane);
        let used = used.filter(|below| from < **below);
        let used = used.map(|below| Nonce::new(below.get() - 1).unwrap());
        let above = held.range(from..).next().copied();
        above.into_iter().chain(used).min()
    }

    /// Sets the cursor; the leader loses the lane.
    pub(super) fn take_away(&mut self, lane: LaneId, to: Nonce) {
        let now = self.now;
        let row = self.lane_mut(lane);
        row.next_nonce = to;
        row.free.split_off(&to);
        row.token = row.token.plus(1).unwrap();
        row.owner = None;
        row.expires_at = now;
    }

    pub(super) fn gaps(
        &self,
        lane: LaneId,
        from: Nonce,
        limit: usize,
    ) -> Result<Vec<Nonce>, StoreError> {
        check::limit(limit)?;
        let Some(row) = self.lanes.get(&lane) else {
            return Ok(Vec::new());
        };
        let held = self.held_nonces(lane);
        let used = self.floors.nonces.get(&lane).copied();
        let from = from.max(used.unwrap_or_default());
        let scanned = (from.get()..row.next_nonce.get()).take(100_000);
        let gaps = scanned.map(|n| Nonce::new(n).unwrap());
        Ok(gaps.filter(|n| !held.contains(n)).take(limit).collect())
    }

    pub(super) fn held_nonces(&self, lane: LaneId) -> BTreeSet<Nonce> {
        let of_lane = self.records.values().filter(|tx| tx.lane_id == lane);
        of_lane.filter_map(|tx| tx.state.nonce()).collect()
    }
}

fn described(row: &LaneRow) -> String {
    let paused = row.paused.map_or("none", PauseReason::word);
    format!("paused={paused} next_nonce={}", row.next_nonce)
}

/// What is free below is free no longer; returns what the audit tells of it.
fn drop_free(row: &mut LaneRow, below: Nonce) -> String {
    let kept = row.free.split_off(&below);
    let dropped = std::mem::replace(&mut row.free, kept);
    if dropped.is_empty() {
        return String::new();
    }
    let lowest: Vec<String> = dropped.iter().take(100).map(Nonce::to_string).collect();
    let more = if dropped.len() > 100 { " ..." } else { "" };
    format!(" dropped={} ({}{more})", dropped.len(), lowest.join(" "))
}
