//! What is counted and timed, by the names that operators see. Labels stay bounded: words of ours
//! and configured names, never ids, hashes or addresses of anything.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use fencepost_domain::attempt;
use fencepost_domain::decision::Severity;
use fencepost_domain::state::{State, Why};

use crate::lifecycle::accept::Verdict;
use crate::ports::{Action, Holder, PauseReason, Stage, StoreError, Taken};

/// A label `result`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    result: &'static str,
}

/// A label `reason`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reason {
    reason: &'static str,
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

/// What was done about a stuck transaction, and what came of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Remedied {
    action: &'static str,
    result: &'static str,
}

/// What a stuck policy has decided, and how urgent it was.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Decided {
    action: &'static str,
    severity: &'static str,
}

/// A label `stage`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Staged {
    stage: &'static str,
}

/// A configured signer on a chain.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfSigner {
    chain: String,
    signer: String,
}

/// How a transaction ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Ended {
    state: &'static str,
    sub_state: &'static str,
}

/// A label `error`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Fault {
    error: &'static str,
}

/// A label `node`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfNode {
    node: String,
}

/// What does not go on, on a chain and for a reason.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ForReason {
    chain: String,
    reason: &'static str,
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
    clock_skew: Gauge<f64, AtomicU64>,
    clock_skew_allowance: Gauge<f64, AtomicU64>,
    start_waits: Family<Reason, Counter>,
    desk_depth: Family<Desk, Gauge>,
    batch_size: Histogram,
    tx_create: Family<Outcome, Counter>,
    pending_oldest_age: Family<OnChain, Gauge>,
    pending_depth: Family<OnChain, Gauge>,
    completion_lag: Histogram,
    store_seconds: Family<Op, Histogram>,
    tx_submit: Family<Outcome, Counter>,
    receipt_check: Family<Outcome, Counter>,
    new_fork: Counter,
    finality_disputed: Counter,
    resubmit: Family<Outcome, Counter>,
    stuck: Family<Reason, Counter>,
    oldest_snapshot_age: Gauge,
    store_failover: Family<Outcome, Counter>,
    late_hash: Counter,
    ended_by_clock: Family<Outcome, Counter>,
    remedy: Family<Remedied, Counter>,
    decided: Family<Decided, Counter>,
    signer_balance: Family<OfSigner, Gauge<f64, AtomicU64>>,
    retired: Family<Staged, Counter>,
    ended: Family<Ended, Counter>,
    store_errors: Family<Fault, Counter>,
    lanes_paused: Family<ForReason, Gauge>,
    lanes_unled: Family<OnChain, Gauge>,
    stuck_now: Family<ForReason, Gauge>,
    incarnation: Family<OfNode, Gauge>,
    wait: Family<Outcome, Counter>,
    waiting: Gauge,
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
            clock_skew: Gauge::default(),
            clock_skew_allowance: Gauge::default(),
            start_waits: Family::default(),
            desk_depth: Family::default(),
            batch_size: Histogram::new(exponential_buckets(1.0, 2.0, 11)),
            tx_create: Family::default(),
            pending_oldest_age: Family::default(),
            pending_depth: Family::default(),
            completion_lag: seconds(),
            store_seconds: Family::new_with_constructor(seconds),
            tx_submit: Family::default(),
            receipt_check: Family::default(),
            new_fork: Counter::default(),
            finality_disputed: Counter::default(),
            resubmit: Family::default(),
            stuck: Family::default(),
            oldest_snapshot_age: Gauge::default(),
            store_failover: Family::default(),
            late_hash: Counter::default(),
            ended_by_clock: Family::default(),
            remedy: Family::default(),
            decided: Family::default(),
            signer_balance: Family::default(),
            retired: Family::default(),
            ended: Family::default(),
            store_errors: Family::default(),
            lanes_paused: Family::default(),
            lanes_unled: Family::default(),
            stuck_now: Family::default(),
            incarnation: Family::default(),
            wait: Family::default(),
            waiting: Gauge::default(),
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
        m.register_lanes(registry);
        m.register_clock(registry);
        m.register_store(registry);
        m.register_life(registry);
        meters.begin();
        meters
    }

    /// How far the node's clock is from the store's.
    fn register_clock(&self, registry: &mut Registry) {
        registry.register(
            "store_clock_skew_seconds",
            "How far the clock of this node is ahead of the store's, at least",
            self.clock_skew.clone(),
        );
        registry.register(
            "lease_clock_skew_allowance_seconds",
            "lease.clock_skew_allowance as it is configured",
            self.clock_skew_allowance.clone(),
        );
    }

    /// What has not ended, and lanes that do not go on.
    fn register_lanes(&self, registry: &mut Registry) {
        registry.register(
            "lease_held",
            "Lanes that this node leads",
            self.lease_held.clone(),
        );
        registry.register(
            "pending_oldest_age_seconds",
            "Age of the oldest transaction that has not ended",
            self.pending_oldest_age.clone(),
        );
        registry.register(
            "pending_depth",
            "Transactions that hold a nonce or wait for one and are in no block",
            self.pending_depth.clone(),
        );
        registry.register(
            "lane_start_waits",
            "New lanes that could not begin, by reason",
            self.start_waits.clone(),
        );
        registry.register(
            "lanes_paused",
            "Lanes that give no nonces, by reason",
            self.lanes_paused.clone(),
        );
        registry.register(
            "lanes_unled",
            "Lanes with unfinished work that no living node leads",
            self.lanes_unled.clone(),
        );
        registry.register(
            "stuck_now",
            "Transactions that are stuck now, by reason",
            self.stuck_now.clone(),
        );
        registry.register(
            "node_incarnation",
            "Processes that have joined under this node id, up to this one",
            self.incarnation.clone(),
        );
    }

    /// What is timed of the store and of the feed.
    fn register_store(&self, registry: &mut Registry) {
        registry.register(
            "completion_lag_seconds",
            "Time from the commit of a completion until this node could tell it",
            self.completion_lag.clone(),
        );
        registry.register(
            "store_seconds",
            "Time that an operation of the store took",
            self.store_seconds.clone(),
        );
        registry.register(
            "store_errors",
            "Operations of the store that failed, by how",
            self.store_errors.clone(),
        );
        registry.register("store_oldest_snapshot_age_seconds", "Age of the oldest snapshot that the database keeps alive; an old one makes the feed's counter slow", self.oldest_snapshot_age.clone());
        registry.register(
            "store_failover",
            "Lanes that this node judged after a failover of the database, by result",
            self.store_failover.clone(),
        );
    }

    /// What is counted of transactions once they have their nonces.
    fn register_life(&self, registry: &mut Registry) {
        registry.register(
            "tx_submit",
            "Sends of bytes, by what came of them",
            self.tx_submit.clone(),
        );
        registry.register(
            "receipt_check",
            "Receipts that were asked for, by whether there was one or nobody answered",
            self.receipt_check.clone(),
        );
        registry.register(
            "confirmations_new_fork",
            "Events with newFork: readers of a transaction's events drop the confirmations that they have",
            self.new_fork.clone(),
        );
        registry.register(
            "finality_disputed",
            "Looks at a block that would be final and about which endpoints disagree",
            self.finality_disputed.clone(),
        );
        registry.register(
            "resubmit",
            "Bytes that were sent again, by what came of it",
            self.resubmit.clone(),
        );
        registry.register(
            "tx_end",
            "Transactions and reservations that ended, by how",
            self.ended.clone(),
        );
        registry.register(
            "stuck",
            "Transactions that got stuck, by reason",
            self.stuck.clone(),
        );
        registry.register(
            "remedy",
            "What was done about stuck transactions, by what came of it",
            self.remedy.clone(),
        );
        registry.register(
            "stuck_decisions",
            "Decisions of the stuck policy, by action and by how urgent it called them",
            self.decided.clone(),
        );
        self.register_rest(registry);
    }

    /// What is counted of reservations, accounts, retired rows and waiting clients.
    fn register_rest(&self, registry: &mut Registry) {
        registry.register(
            "reservation_late",
            "Hashes that were named for nonces which had been given back",
            self.late_hash.clone(),
        );
        registry.register(
            "reservation_by_clock",
            "Reservations that the store's clock ended, or held, because the node has no chain to ask",
            self.ended_by_clock.clone(),
        );
        registry.register(
            "signer_balance_wei",
            "What a configured signer has, rounded",
            self.signer_balance.clone(),
        );
        registry.register(
            "retired",
            "Transactions that ended long ago and were retired, by what became of them",
            self.retired.clone(),
        );
        registry.register(
            "wait",
            "Requests that waited for a transaction, by how that ended",
            self.wait.clone(),
        );
        registry.register(
            "waiting",
            "Transactions that clients of this node wait for now",
            self.waiting.clone(),
        );
    }

    /// Counters stand at zero from the start. One that first appears at 1 has no increase, and an alert
    /// on it would miss its first event.
    fn begin(&self) {
        let taken = Taken::ALL.map(Taken::word);
        for result in taken
            .into_iter()
            .chain(["led", "busy", "ghost", "unknown_lane"])
        {
            drop(self.lease_acquire.get_or_create(&Outcome { result }));
        }
        for outcome in attempt::Outcome::ALL {
            drop(self.tx_submit.get_or_create(&submit(*outcome)));
            drop(self.resubmit.get_or_create(&submit(*outcome)));
        }
        for result in ["found", "missing", "error"] {
            drop(self.receipt_check.get_or_create(&Outcome { result }));
        }
        for (state, sub_state) in State::ENDS {
            let sub_state = sub_state.unwrap_or_default();
            drop(self.ended.get_or_create(&Ended { state, sub_state }));
        }
        for error in StoreError::WORDS {
            drop(self.store_errors.get_or_create(&Fault { error }));
        }
        for why in Why::ALL {
            let reason = why.word();
            drop(self.stuck.get_or_create(&Reason { reason }));
        }
        for op in [
            "create", "promote", "expire", "raise", "renew", "apply", "complete", "claim",
        ] {
            drop(self.lease_fenced.get_or_create(&Op { op }));
        }
        for action in Action::ALL {
            let action = action.word();
            for result in ["done", "refused"] {
                drop(self.remedy.get_or_create(&Remedied { action, result }));
            }
        }
        // An alert on the first critical one needs a series that was 0 before it.
        for action in [
            "NOOP",
            "RESUBMIT",
            "REPLACE",
            "CANCEL",
            "PLACEHOLDER",
            "FILL",
        ] {
            for severity in ["none", "info", "warning", "critical"] {
                drop(self.decided.get_or_create(&Decided { action, severity }));
            }
        }
        for stage in [Stage::Thin, Stage::Delete, Stage::Sweep] {
            drop(self.retired.get_or_create(&staged(stage)));
        }
        for result in ["reached", "over", "full", "stopping"] {
            drop(self.wait.get_or_create(&Outcome { result }));
        }
        for reason in ["disagreed", "used"] {
            drop(self.start_waits.get_or_create(&Reason { reason }));
        }
        for result in ["recycled", "used", "held"] {
            drop(self.ended_by_clock.get_or_create(&Outcome { result }));
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

    pub(crate) fn clock_skew(&self, seconds: f64) {
        self.clock_skew.set(seconds);
    }

    pub(crate) fn clock_skew_allowance(&self, allowance: Duration) {
        self.clock_skew_allowance.set(allowance.as_secs_f64());
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

    pub(crate) fn submitted(&self, outcome: attempt::Outcome) {
        self.tx_submit.get_or_create(&submit(outcome)).inc();
    }

    pub(crate) fn receipts(&self, found: usize, missing: usize) {
        for (result, n) in [("found", found), ("missing", missing)] {
            let n = u64::try_from(n).unwrap_or(u64::MAX);
            self.receipt_check
                .get_or_create(&Outcome { result })
                .inc_by(n);
        }
    }

    /// Nobody could say whether there are receipts of so many.
    pub(crate) fn receipts_failed(&self, count: usize) {
        self.receipt_check
            .get_or_create(&Outcome { result: "error" })
            .inc_by(u64::try_from(count).unwrap_or(u64::MAX));
    }

    pub(crate) fn start_waits(&self, reason: &'static str) {
        self.start_waits.get_or_create(&Reason { reason }).inc();
    }

    pub(crate) fn new_fork(&self) {
        self.new_fork.inc();
    }

    pub(crate) fn disputed(&self) {
        self.finality_disputed.inc();
    }

    pub(crate) fn resubmitted(&self, outcome: attempt::Outcome) {
        self.resubmit.get_or_create(&submit(outcome)).inc();
    }

    /// A transaction is in this state now; counted where it ends by that.
    pub(crate) fn ended(&self, to: &State) {
        if to.is_final() {
            let state = to.name().word();
            let sub_state = to.sub().unwrap_or_default();
            debug_assert!(
                State::ENDS.contains(&(state, to.sub())),
                "a way to end that is missing in ENDS has no counter at zero: {state}/{sub_state}"
            );
            self.ended.get_or_create(&Ended { state, sub_state }).inc();
        }
    }

    /// The store failed.
    pub fn store_failed(&self, error: &StoreError) {
        let error = error.word();
        self.store_errors.get_or_create(&Fault { error }).inc();
    }

    /// How many lanes of a chain are paused for this reason.
    pub(crate) fn paused(&self, chain: &str, reason: PauseReason, count: u64) {
        let chain = chain.to_owned();
        let reason = reason.word();
        self.lanes_paused
            .get_or_create(&ForReason { chain, reason })
            .set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// How many transactions of a chain are stuck for this reason.
    pub(crate) fn stuck_now(&self, chain: &str, why: Why, count: u64) {
        let (chain, reason) = (chain.to_owned(), why.word());
        self.stuck_now
            .get_or_create(&ForReason { chain, reason })
            .set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// How many processes have joined under this node id, up to this one.
    pub(crate) fn incarnation(&self, holder: &Holder) {
        let node = holder.node.as_str().to_owned();
        self.incarnation
            .get_or_create(&OfNode { node })
            .set(i64::try_from(holder.incarnation.get()).unwrap_or(i64::MAX));
    }

    /// How many lanes of a chain have work and no leader.
    pub(crate) fn unled(&self, chain: &str, count: usize) {
        let chain = chain.to_owned();
        let gauge = self.lanes_unled.get_or_create(&OnChain { chain });
        gauge.set(whole(count));
    }

    pub(crate) fn stuck(&self, why: Why) {
        let reason = why.word();
        self.stuck.get_or_create(&Reason { reason }).inc();
    }

    pub(crate) fn remedied(&self, action: Action, result: &'static str) {
        let action = action.word();
        self.remedy
            .get_or_create(&Remedied { action, result })
            .inc();
    }

    pub(crate) fn decided(&self, action: &'static str, severity: Option<Severity>) {
        let severity = severity.map_or("none", Severity::word);
        self.decided
            .get_or_create(&Decided { action, severity })
            .inc();
    }

    pub(crate) fn retired(&self, stage: Stage, count: usize) {
        let counter = self.retired.get_or_create(&staged(stage));
        counter.inc_by(u64::try_from(count).unwrap_or(u64::MAX));
    }

    pub(crate) fn waited(&self, result: &'static str) {
        self.wait.get_or_create(&Outcome { result }).inc();
    }

    pub(crate) fn waiting(&self, count: usize) {
        self.waiting.set(whole(count));
    }

    pub(crate) fn ended_by_clock(&self, result: &'static str) {
        let counter = self.ended_by_clock.get_or_create(&Outcome { result });
        counter.inc();
    }

    pub(crate) fn late_hash(&self) {
        self.late_hash.inc();
    }

    /// What a configured signer has; the exact amount is the chain's to tell.
    pub(crate) fn balance(&self, chain: &str, signer: String, wei: f64) {
        let of = OfSigner {
            chain: chain.to_owned(),
            signer,
        };
        self.signer_balance.get_or_create(&of).set(wei);
    }

    pub(crate) fn failed_over(&self, result: &'static str, lanes: usize) {
        let lanes = u64::try_from(lanes).unwrap_or(u64::MAX);
        let result = Outcome { result };
        self.store_failover.get_or_create(&result).inc_by(lanes);
    }

    pub(crate) fn oldest_snapshot(&self, age: Duration) {
        let age = i64::try_from(age.as_secs()).unwrap_or(i64::MAX);
        self.oldest_snapshot_age.set(age);
    }
}

/// A swept reservation is deleted like any other row.
const fn staged(stage: Stage) -> Staged {
    Staged {
        stage: match stage {
            Stage::Thin => "thinned",
            Stage::Delete | Stage::Sweep => "deleted",
        },
    }
}

const fn submit(outcome: attempt::Outcome) -> Outcome {
    Outcome {
        result: match outcome {
            attempt::Outcome::Accepted => "accepted",
            attempt::Outcome::Ambiguous => "ambiguous",
            attempt::Outcome::Refused => "refused",
        },
    }
}

fn whole(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
