//! What everybody in a run shares: the truth of the store and of the chain, the trace, what clients were
//! told, and the one who checks it all.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use alloy_primitives::U256;
use fencepost_app::ports::{Clock, Store};
use fencepost_devchain::{Config, Devchain, EndpointConfig, Shared};
use fencepost_domain::ids::{ChainId, Lane, LaneId, TxId};
use fencepost_signer::Keyring;
use fencepost_sqlite::SqliteStore;
use tokio::sync::Notify;
use tokio::time::Instant;
use uuid::Builder;

use crate::checks::Checker;
use crate::clock::{EPOCH, Hands};
use crate::ledger::Ledger;
use crate::node::Member;
use crate::profile::{CHAIN, FINALIZED_LAG, Profile, SAFE_LAG};
use crate::rng::Rng;
use crate::sometimes::{Rare, Sometimes};
use crate::trace::Trace;

/// A promise that was broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Which, as the design numbers them, or what else went wrong.
    pub promise: &'static str,
    /// What is known of it.
    pub facts: String,
}

/// What a run is made of.
pub(crate) struct World {
    pub(crate) seed: u64,
    pub(crate) profile: Profile,
    pub(crate) began: Instant,
    pub(crate) trace: Trace,
    pub(crate) seen: Sometimes,
    /// The store itself: without delays, without faults.
    pub(crate) store: Arc<SqliteStore>,
    pub(crate) store_clock: Arc<Hands>,
    pub(crate) chain: Shared,
    pub(crate) keys: Arc<Keyring>,
    pub(crate) lanes: Vec<Lane>,
    pub(crate) lane_ids: Vec<LaneId>,
    pub(crate) nodes: Mutex<BTreeMap<String, Arc<Member>>>,
    pub(crate) checker: Mutex<Checker>,
    pub(crate) ledger: Mutex<Ledger>,
    violation: Mutex<Option<Violation>>,
    broken: Notify,
    /// From here on nothing goes wrong any more.
    healed: AtomicBool,
    /// The miner makes no blocks: others do, when they want one.
    miner_rests: AtomicBool,
}

impl World {
    pub(crate) async fn new(seed: u64, keys: Arc<Keyring>, keeps_trace: bool) -> Arc<Self> {
        let root = Rng::new(seed);
        let profile = Profile::of(seed, &mut root.of("profile"));
        let began = Instant::now();
        let store_clock = Arc::new(Hands::new(began));
        let clock = Arc::clone(&store_clock) as Arc<dyn Clock>;
        let store = SqliteStore::in_memory(profile.settings.lease, clock);
        let store = Arc::new(store.expect("memory can be opened"));
        let chain = ChainId::new(CHAIN).expect("it is small");
        let accounts = &keys.addresses()[0][..profile.lanes];
        let lanes = accounts.iter().map(|signer| Lane {
            chain,
            signer: *signer,
        });
        let lanes: Vec<Lane> = lanes.collect();
        let lane_ids = store.open_lanes(&lanes).await.expect("it is empty");
        let checker = Checker::new(&profile, &lanes, &lane_ids);
        let world = Self {
            seed,
            began,
            trace: Trace::new(keeps_trace),
            seen: Sometimes::default(),
            store,
            store_clock,
            chain: devchain(&profile, &lanes),
            keys,
            lanes,
            lane_ids,
            nodes: Mutex::default(),
            checker: Mutex::new(checker),
            ledger: Mutex::default(),
            violation: Mutex::default(),
            broken: Notify::new(),
            healed: AtomicBool::new(false),
            miner_rests: AtomicBool::new(false),
            profile,
        };
        let told = format_args!("{:?}", world.profile).to_string();
        world.trace.note("world", told);
        Arc::new(world)
    }

    /// A stream of luck for someone.
    pub(crate) fn rng(&self, name: &str) -> Rng {
        Rng::new(self.seed).of(name)
    }

    pub(crate) fn saw(&self, rare: Rare) {
        self.seen.saw(rare);
    }

    pub(crate) fn note(&self, who: &str, what: impl std::fmt::Display) {
        self.trace.note(who, what);
    }

    pub(crate) fn checker(&self) -> MutexGuard<'_, Checker> {
        self.checker
            .lock()
            .expect("nothing panics while it is held")
    }

    pub(crate) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().expect("nothing panics while it is held")
    }

    pub(crate) fn members(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Member>>> {
        self.nodes.lock().expect("nothing panics while it is held")
    }

    /// A promise is broken. The first one counts: what follows may follow from it.
    pub(crate) fn violate(&self, promise: &'static str, facts: impl Into<String>) {
        let facts = facts.into();
        self.trace
            .note("VIOLATED", format_args!("{promise}: {facts}"));
        let mut violation = self
            .violation
            .lock()
            .expect("nothing panics while it is held");
        violation.get_or_insert(Violation { promise, facts });
        self.broken.notify_one();
    }

    pub(crate) fn violation(&self) -> Option<Violation> {
        let violation = self.violation.lock();
        violation.expect("nothing panics while it is held").clone()
    }

    /// Resolves when a promise is broken.
    pub(crate) async fn broken(&self) {
        self.broken.notified().await;
    }

    pub(crate) fn is_healed(&self) -> bool {
        self.healed.load(Ordering::Relaxed)
    }

    pub(crate) fn heal(&self) {
        self.healed.store(true, Ordering::Relaxed);
    }

    pub(crate) fn miner_rests(&self) -> bool {
        self.miner_rests.load(Ordering::Relaxed)
    }

    pub(crate) fn rest_miner(&self, rests: bool) {
        self.miner_rests.store(rests, Ordering::Relaxed);
    }

    /// An id as a node mints it, from virtual time and the caller's luck.
    pub(crate) fn mint(&self, rng: &mut Rng) -> TxId {
        let start = u64::try_from(EPOCH).expect("it is after 1970") * 1_000;
        let passed = u64::try_from(self.began.elapsed().as_millis()).expect("runs are short");
        let made = Builder::from_unix_timestamp_millis(start + passed, &rng.bytes());
        TxId(made.into_uuid())
    }

    /// The store's name for a lane.
    pub(crate) fn lane_id(&self, lane: Lane) -> LaneId {
        let at = self.lanes.iter().position(|each| *each == lane);
        self.lane_ids[at.expect("there are no other lanes")]
    }

    /// How long leases last.
    pub(crate) const fn lease(&self) -> Duration {
        self.profile.settings.lease.duration
    }
}

fn devchain(profile: &Profile, lanes: &[Lane]) -> Shared {
    let ether = U256::from(10_u64.pow(18)) * U256::from(1_000_000);
    let endpoints = (0..profile.endpoints).map(|n| EndpointConfig::new(&n.to_string()));
    Shared::new(Devchain::new(Config {
        chain_id: CHAIN,
        genesis_time: u64::try_from(EPOCH).expect("it is after 1970"),
        accounts: lanes.iter().map(|lane| (lane.signer, ether)).collect(),
        endpoints: endpoints.collect(),
        safe_lag: SAFE_LAG,
        finalized_lag: FINALIZED_LAG,
        ..Config::default()
    }))
}
