//! What is counted and timed, by the names that operators see. Labels stay bounded: words of ours
//! and configured names, never ids, hashes or addresses of anything.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::lifecycle::accept::Verdict;

/// A label `result`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    result: &'static str,
}

/// A label `op`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Op {
    op: &'static str,
}

/// A label `worker`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Desk {
    worker: u64,
}

/// A label `chain`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OnChain {
    chain: String,
}

/// All meters of a node. Clones count together.
#[derive(Debug, Clone)]
pub struct Meters {
    lease_acquire: Family<Outcome, Counter>,
    lease_fenced: Family<Op, Counter>,
    lease_held: Gauge,
    desk_depth: Family<Desk, Gauge>,
    batch_size: Histogram,
    tx_create: Family<Outcome, Counter>,
    pending_oldest_age: Family<OnChain, Gauge>,
    pending_depth: Family<OnChain, Gauge>,
    completion_lag: Histogram,
    store_seconds: Family<Op, Histogram>,
    oldest_snapshot_age: Gauge,
}

/// From a fifth of a millisecond to some seconds.
fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.000_2, 2.0, 16))
}

impl Meters {
    /// Registers all of them under the prefix that operators know.
    pub fn register(registry: &mut Registry) -> Self {
        let meters = Self {
            lease_acquire: Family::default(),
            lease_fenced: Family::default(),
            lease_held: Gauge::default(),
            desk_depth: Family::default(),
            batch_size: Histogram::new(exponential_buckets(1.0, 2.0, 11)),
            tx_create: Family::default(),
            pending_oldest_age: Family::default(),
            pending_depth: Family::default(),
            completion_lag: seconds(),
            store_seconds: Family::new_with_constructor(seconds),
            oldest_snapshot_age: Gauge::default(),
        };
        let registry = registry.sub_registry_with_prefix("fencepost");
        let m = &meters;
        registry.register(
            "lease_acquire",
            "Bids for the leadership of lanes, by answer",
            m.lease_acquire.clone(),
        );
        registry.register(
            "lease_fenced",
            "Answers that a token of ours is old and nothing was written, by operation",
            m.lease_fenced.clone(),
        );
        registry.register(
            "lease_held",
            "Lanes that this node leads",
            m.lease_held.clone(),
        );
        registry.register(
            "writer_queue_depth",
            "Requests that wait for a worker",
            m.desk_depth.clone(),
        );
        registry.register(
            "writer_batch_size",
            "Requests that one statement stored",
            m.batch_size.clone(),
        );
        registry.register(
            "tx_create",
            "Requests by what became of them",
            m.tx_create.clone(),
        );
        registry.register(
            "pending_oldest_age_seconds",
            "Age of the oldest transaction that has not ended",
            m.pending_oldest_age.clone(),
        );
        registry.register(
            "pending_depth",
            "Transactions that hold a nonce or wait for one and are in no block",
            m.pending_depth.clone(),
        );
        registry.register(
            "completion_lag_seconds",
            "Time from the commit of a completion until this node could tell it",
            m.completion_lag.clone(),
        );
        registry.register(
            "store_seconds",
            "Time that an operation of the store took",
            m.store_seconds.clone(),
        );
        registry.register("store_oldest_snapshot_age_seconds", "Age of the oldest snapshot that the database keeps alive; an old one makes the feed's counter slow", m.oldest_snapshot_age.clone());
        meters.begin();
        meters
    }

    /// Counters stand at zero from the start. One that first appears at 1 has no increase, and an alert
    /// on it would miss its first event.
    fn begin(&self) {
        for result in ["taken", "kept", "led", "busy", "ghost", "unknown_lane"] {
            drop(self.lease_acquire.get_or_create(&Outcome { result }));
        }
        for op in ["create", "promote", "expire", "raise", "renew"] {
            drop(self.lease_fenced.get_or_create(&Op { op }));
        }
        for result in Verdict::WORDS {
            drop(self.tx_create.get_or_create(&Outcome { result }));
        }
    }

    pub(crate) fn acquired(&self, result: &'static str) {
        self.lease_acquire.get_or_create(&Outcome { result }).inc();
    }

    pub(crate) fn fenced(&self, op: &'static str) {
        self.lease_fenced.get_or_create(&Op { op }).inc();
    }

    pub(crate) fn led(&self, lanes: usize) {
        self.lease_held.set(whole(lanes));
    }

    pub(crate) fn desk_depth(&self, desk: usize, depth: usize) {
        let worker = u64::try_from(desk).unwrap_or(u64::MAX);
        self.desk_depth
            .get_or_create(&Desk { worker })
            .set(whole(depth));
    }

    pub(crate) fn batch(&self, size: usize) {
        self.batch_size
            .observe(f64::from(u32::try_from(size).unwrap_or(u32::MAX)));
    }

    pub(crate) fn created(&self, result: &'static str) {
        self.tx_create.get_or_create(&Outcome { result }).inc();
    }

    /// What is pending on a chain, by the chain's configured name.
    pub fn pending(&self, chain: &str, depth: u64, oldest: Duration) {
        let on = OnChain {
            chain: chain.to_owned(),
        };
        self.pending_depth
            .get_or_create(&on)
            .set(i64::try_from(depth).unwrap_or(i64::MAX));
        let age = i64::try_from(oldest.as_secs()).unwrap_or(i64::MAX);
        self.pending_oldest_age.get_or_create(&on).set(age);
    }

    pub(crate) fn told(&self, lag: Duration) {
        self.completion_lag.observe(lag.as_secs_f64());
    }

    /// An operation of the store took this long.
    pub fn stored(&self, op: &'static str, took: Duration) {
        self.store_seconds
            .get_or_create(&Op { op })
            .observe(took.as_secs_f64());
    }

    pub(crate) fn oldest_snapshot(&self, age: Duration) {
        let age = i64::try_from(age.as_secs()).unwrap_or(i64::MAX);
        self.oldest_snapshot_age.set(age);
    }
}

fn whole(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
