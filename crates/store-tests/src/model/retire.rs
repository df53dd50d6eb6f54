//! Retiring, in the model.

use std::collections::{BTreeMap, BTreeSet};

use fencepost_app::ports::{Record, Retire, Retired, Stage, StoreError, check};
use fencepost_domain::flat::Name;
use fencepost_domain::ids::{FeedSeq, LaneId, Nonce, TxId};
use fencepost_domain::request::Payload;
use jiff::Timestamp;

use super::memory::Whole;

/// How far retiring has come.
#[derive(Debug, Default)]
pub(super) struct Floors {
    /// Endings up to this one were looked at.
    pub(super) thinned: FeedSeq,
    /// The feed begins after this.
    pub(super) feed: FeedSeq,
    /// Rows up to this one were swept.
    pub(super) swept: Option<TxId>,
    /// Nonces below are used, by what is deleted.
    pub(super) nonces: BTreeMap<LaneId, Nonce>,
}

impl Whole {
    pub(super) fn retire(&mut self, retire: &Retire) -> Result<Retired, StoreError> {
        check::retire(retire)?;
        Ok(match retire.stage {
            Stage::Thin => self.thin(retire),
            Stage::Delete => self.delete(retire),
            Stage::Sweep => self.sweep(retire),
        })
    }

    fn thin(&mut self, retire: &Retire) -> Retired {
        let mut passed = self.endings(self.floors.thinned, retire);
        let top = passed.last().map(|(seq, ..)| *seq).unwrap_or_default();
        let waits = |tx: TxId| {
            let row = &self.records[&tx];
            row.state.is_final() && !self.told_after(tx, top) && !self.is_ripe(row, retire)
        };
        let stop = passed.iter().position(|(_, tx, _)| waits(*tx));
        let kept = passed.split_off(stop.unwrap_or(passed.len()));
        let mut ripe: BTreeSet<TxId> = passed.iter().map(|(_, tx, _)| *tx).collect();
        ripe.retain(|tx| {
            let again = self.told_after(*tx, top) || kept.iter().any(|(_, kept, _)| kept == tx);
            !again && self.is_ripe(&self.records[tx], retire)
        });
        for tx in &ripe {
            self.forget_details(*tx);
            let row = self.records.get_mut(tx).unwrap();
            row.retired = row.payload.as_ref().map(Payload::hash).or(row.retired);
            row.payload = None;
            row.receipt = None;
            row.meta = None;
            row.version = row.version.plus(1).unwrap();
        }
        if let Some((last, ..)) = passed.last() {
            self.floors.thinned = *last;
        }
        Retired {
            passed: passed.len(),
            retired: ripe.len(),
        }
    }

    /// What was told again since is looked at when its last telling is.
    fn told_after(&self, tx: TxId, seq: FeedSeq) -> bool {
        self.feed.iter().any(|c| c.tx == tx && c.seq > seq)
    }

    fn delete(&mut self, retire: &Retire) -> Retired {
        let mut passed = self.endings(self.floors.feed, retire);
        let top = passed.last().map(|(seq, ..)| *seq).unwrap_or_default();
        let told_again = |tx: TxId| self.told_after(tx, top);
        let blocks = |tx: TxId, told: Name| {
            let row = &self.records[&tx];
            if row.state.is_final() {
                !told_again(tx) && !self.is_ripe(row, retire)
            } else {
                // Its end was undone, and the next one must say which it corrects.
                told != Name::Stuck
            }
        };
        let stop = passed.iter().position(|(_, tx, told)| blocks(*tx, *told));
        let kept: Vec<TxId> = passed[stop.unwrap_or(passed.len())..]
            .iter()
            .map(|(_, tx, _)| *tx)
            .collect();
        let mut gone: BTreeSet<TxId> = passed.iter().map(|(_, tx, _)| *tx).collect();
        gone.retain(|tx| {
            let row = &self.records[tx];
            self.is_ripe(row, retire)
                && !told_again(*tx)
                && !self.is_audited(*tx)
                && !kept.contains(tx)
        });
        passed.truncate(stop.unwrap_or(passed.len()));
        if let Some((last, ..)) = passed.last() {
            self.floors.feed = *last;
            self.feed.retain(|c| c.seq > self.floors.feed);
        }
        for tx in &gone {
            self.remove(*tx);
        }
        Retired {
            passed: passed.len(),
            retired: gone.len(),
        }
    }

    fn sweep(&mut self, retire: &Retire) -> Retired {
        let before = self.ended_by(retire).as_millisecond();
        let minted = |tx: &TxId| {
            let (seconds, nanos) = tx.0.get_timestamp().unwrap().to_unix();
            i64::try_from(seconds).unwrap() * 1_000 + i64::from(nanos / 1_000_000)
        };
        let rows = self.records.keys();
        let rows = rows.filter(|tx| Some(**tx) > self.floors.swept && minted(tx) < before);
        let rows: Vec<TxId> = rows.take(retire.limit).copied().collect();
        // Having come to the end it begins again.
        let full = rows.len() == retire.limit;
        self.floors.swept = rows.last().copied().filter(|_| full);
        let passed = rows.len();
        let gone = rows.into_iter().filter(|tx| {
            let row = &self.records[tx];
            let back = row.state.name() == Name::Recyclable;
            back && self.is_ripe(row, retire) && !self.is_audited(*tx)
        });
        let gone: Vec<TxId> = gone.collect();
        for tx in &gone {
            self.remove(*tx);
        }
        Retired {
            passed,
            retired: gone.len(),
        }
    }

    fn ended_by(&self, retire: &Retire) -> Timestamp {
        self.now - retire.older_than
    }

    /// The oldest endings after one, as far as all of them are old enough.
    fn endings(&self, after: FeedSeq, retire: &Retire) -> Vec<(FeedSeq, TxId, Name)> {
        let by = self.ended_by(retire);
        let next = self.feed.iter().filter(|c| c.seq > after);
        let old = next.take(retire.limit).take_while(|c| c.at <= by);
        old.map(|c| (c.seq, c.tx, c.state)).collect()
    }

    fn is_ripe(&self, row: &Record, retire: &Retire) -> bool {
        let chain = row.lane.chain;
        let beneath = retire.beneath.iter().find(|(named, _)| *named == chain);
        let deep = match (row.state.inclusion(), beneath) {
            (Some(at), Some((_, height))) => at.block.number < *height,
            (Some(_), None) => false,
            (None, _) => true,
        };
        row.state.is_final() && row.updated_at <= self.ended_by(retire) && deep
    }

    fn is_audited(&self, tx: TxId) -> bool {
        self.remedies.iter().any(|each| each.act.tx == Some(tx))
    }

    fn forget_details(&mut self, tx: TxId) {
        self.attempts.retain(|each| each.tx != tx);
        self.events.retain(|each| each.tx != tx);
    }

    fn remove(&mut self, tx: TxId) {
        self.forget_details(tx);
        let row = self.records.remove(&tx).unwrap();
        if let Some(nonce) = row.state.nonce() {
            let below = self.floors.nonces.entry(row.lane_id).or_default();
            *below = nonce.plus(1).unwrap().max(*below);
        }
    }
}
