//! Sending again: nodes return hashes for what they drop, so this is what makes sending correct. The
//! claim is fenced and counted before anything goes out; the bytes are the same, and only the newest.

use std::collections::BTreeMap;
use std::time::Duration;

use fencepost_domain::ids::{LaneId, Nonce, TxId};
use fencepost_domain::mutant::Mutant;
use fencepost_domain::state::State;

use crate::causes::Causes;
use crate::lane::entry::{Busy, Need};
use crate::lane::worker::Worker;
use crate::ports::{Held, READ_LIMIT_MAX, Record};
use crate::writes::{Line, Write, words};

/// How many lanes are claimed for in one statement.
const LANES_MAX: usize = 64;
/// How long a transaction that the store does not call due is left alone.
const EARLY: Duration = Duration::from_secs(1);

impl Worker {
    /// Claims what is due in these lanes, and marks it to be sent.
    pub(crate) async fn resubmit(&mut self, lanes: &[LaneId]) {
        // What was accepted is never due where nothing is to be sent again.
        let interval = self.node.settings.resubmit_interval;
        let interval = interval.unwrap_or(Duration::from_hours(1));
        let now = self.node.ticks.ticks();
        let held: Vec<Held> = lanes
            .iter()
            .filter_map(|lane| self.tracks.get(lane))
            .filter(|track| !track.tasks.sending && now >= track.rests_until && track.has_due(now))
            .map(|track| track.held)
            .filter(|held| self.node.leases.held(held.lane) == Some(*held))
            .collect();
        if Mutant::SentOnce.is_on() {
            return;
        }
        if let Some(due) = self.claim_due(held, interval).await {
            self.claimed(due, now, interval).await;
        }
    }

    /// Claims what is due in these lanes, or in the first of them; none if nothing could be claimed. The store shows
    /// the same again after `next`.
    pub(crate) async fn claim_due(
        &mut self,
        mut held: Vec<Held>,
        next: Duration,
    ) -> Option<Vec<Record>> {
        // Those that have waited longest, so that every lane has its turn.
        held.sort_by_key(|held| self.tracks.get(&held.lane).map(|track| track.claimed_at));
        held.truncate(LANES_MAX);
        if held.is_empty() {
            return None;
        }
        let now = self.node.ticks.ticks();
        for held in &held {
            if let Some(track) = self.tracks.get_mut(&held.lane) {
                track.claimed_at = Some(now);
            }
        }
        let next = u64::try_from(next.as_millis()).unwrap_or(u64::MAX);
        let sent = self.node.leases.sending();
        let store = std::sync::Arc::clone(&self.node.store);
        let claimed = match store
            .claim_due(&self.node.holder, &held, next, READ_LIMIT_MAX)
            .await
        {
            Ok(claimed) => claimed,
            Err(error) => {
                tracing::warn!(error = %Causes(&error), lanes = held.len(), "claiming due work failed");
                for held in held {
                    self.doubt(held, &error);
                }
                return None;
            }
        };
        for held in &held {
            if claimed.fenced.contains(&held.lane) {
                self.fenced(*held, "claim");
            } else {
                self.node.leases.keep(*held, sent);
                self.put_off(held.lane, now + EARLY);
            }
        }
        Some(claimed.records)
    }

    /// What is due is marked: bytes to be sent, lent nonces to be asked about.
    async fn claimed(&mut self, records: Vec<Record>, now: Duration, interval: Duration) {
        self.recall_loans(&records).await;
        let mut moved: BTreeMap<LaneId, BTreeMap<TxId, Nonce>> = BTreeMap::new();
        let mut late = Vec::new();
        for record in records {
            let Some(track) = self.tracks.get_mut(&record.lane_id) else {
                continue;
            };
            let Some(nonce) = record.state.nonce() else {
                continue;
            };
            let entry = track.get_mut(nonce);
            let Some(entry) = entry.filter(|entry| entry.tx == record.tx) else {
                continue;
            };
            // Its holder has spoken to another node.
            if entry.state != record.state {
                let rows = moved.entry(record.lane_id).or_default();
                rows.insert(record.tx, nonce);
                continue;
            }
            // A claim moves the row, and nothing else of it.
            entry.version = record.version;
            // One that is held for its holder is left alone.
            if matches!(record.state, State::Reserved(_)) && entry.due_at <= now {
                late.push((record.lane_id, nonce, record.tx, record.version));
            }
            if entry.need() == Need::Block && entry.busy == Busy::No {
                entry.to_send = true;
                entry.due_at = now + interval;
                self.node.log_write(&Line {
                    write: Write::Claim,
                    held: track.held,
                    tx: Some(record.tx),
                    nonce: Some(nonce),
                    from: words(&record.state),
                    to: words(&record.state),
                });
            }
        }
        for (lane, rows) in moved {
            self.read_rows(lane, &rows).await;
        }
        self.expire_loans(late);
    }

    /// Those that looked due are looked at again a little later.
    fn put_off(&mut self, lane: LaneId, until: Duration) {
        let Some(track) = self.tracks.get_mut(&lane) else {
            return;
        };
        for (_, entry) in track.iter_mut() {
            let waits = match entry.need() {
                Need::Block => !entry.to_send,
                Need::Holder | Need::Sign | Need::Nothing => false,
            };
            if waits {
                entry.due_at = entry.due_at.max(until);
            }
        }
    }
}
