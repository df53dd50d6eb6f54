//! One run: a world begins, everybody does what they do, then all is healed and looked at.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use fencepost_signer::{KeySource, KeySpec, Keyring};
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::client::Client;
use crate::fate::Fateful;
use crate::healing;
use crate::holder::Borrower;
use crate::miner::Miner;
use crate::operator::Operator;
use crate::outsider::Outsider;
use crate::profile::LANES_MAX;
use crate::reader::Reader;
use crate::sometimes::Sometimes;
use crate::trace::Told;
use crate::world::{Violation, World};

const PHRASE: &str = "test test test test test test test test test test test junk";
/// How long everybody may take to do what they want, in virtual time. Retries end long before.
const LONGEST: Duration = Duration::from_mins(10);

thread_local! {
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// What came of a run.
pub struct Report {
    /// Of which seed.
    pub seed: u64,
    /// How many transactions were stored.
    pub transactions: u64,
    /// How much virtual time has passed.
    pub took: Duration,
    /// What happened.
    pub trace: Told,
    /// What rare things happened.
    pub seen: Sometimes,
    /// The first broken promise.
    pub violation: Option<Violation>,
}

/// The keys of all runs. They are opened once: opening costs more than a run.
///
/// # Panics
/// If the test phrase is no phrase, which it is.
#[must_use]
pub fn keys() -> Arc<Keyring> {
    let source = KeySource::Mnemonic {
        phrase: PHRASE.into(),
        count: LANES_MAX,
    };
    let spec = KeySpec {
        source,
        address: None,
    };
    let runtime = Builder::new_current_thread().build();
    let runtime = runtime.expect("a runtime can be built");
    let opened = runtime.block_on(Keyring::open(vec![spec]));
    Arc::new(opened.expect("the phrase is sound"))
}

/// Panics anywhere in a run are told with its seed. To be called once, before any run.
pub fn watch_panics() {
    std::panic::set_hook(Box::new(|info| {
        PANIC.with_borrow_mut(|panic| {
            panic.get_or_insert_with(|| info.to_string());
        });
    }));
}

/// Runs a seed. A panic is one of its violations, wherever it was.
#[must_use]
pub fn run(seed: u64, keys: &Arc<Keyring>, keeps_trace: bool) -> Report {
    PANIC.with_borrow_mut(Option::take);
    let report = catch_unwind(AssertUnwindSafe(|| lived(seed, keys, keeps_trace)));
    let mut report = report.unwrap_or_else(|_| Report {
        seed,
        transactions: 0,
        took: Duration::ZERO,
        trace: Told::default(),
        seen: Sometimes::default(),
        violation: Some(panicked("its facts are lost".into())),
    });
    let told = PANIC.with_borrow_mut(Option::take);
    report.violation = told.map(panicked).or(report.violation);
    report
}

const fn panicked(facts: String) -> Violation {
    Violation {
        promise: "nothing panics",
        facts,
    }
}

fn lived(seed: u64, keys: &Arc<Keyring>, keeps_trace: bool) -> Report {
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    let runtime = runtime.expect("a runtime can be built");
    let world = runtime.block_on(async {
        let world = World::new(seed, Arc::clone(keys), keeps_trace).await;
        tokio::select! {
            biased;
            () = world.broken() => {}
            () = live(&world) => {}
        }
        for member in world.all() {
            world.kill(&member);
        }
        world
    });
    let took = runtime.block_on(async { world.began.elapsed() });
    let transactions = world.checker().rows.len();
    drop(runtime);
    let seen = Sometimes::default();
    seen.add(&world.seen);
    Report {
        seed,
        transactions: u64::try_from(transactions).expect("it is in memory"),
        took,
        trace: world.trace.told(),
        seen,
        violation: world.violation(),
    }
}

async fn live(world: &Arc<World>) {
    for n in 0..world.profile.nodes {
        world.start(name(n)).await;
    }
    tokio::spawn(Miner::new(world).run());
    let left = Arc::new(AtomicU64::new(world.profile.requests));
    let amount = Arc::new(AtomicU64::new(1));
    let mut everybody = JoinSet::new();
    for n in 0..3 {
        everybody.spawn(Client::new(world, n, &left, &amount).run());
    }
    everybody.spawn(Borrower::new(world).run());
    everybody.spawn(Operator::new(world).run());
    if world.profile.foreigners {
        everybody.spawn(Outsider::new(world).run());
    }
    tokio::spawn(Reader::new(world).run());
    tokio::spawn(Fateful::new(world).run());
    let began = Instant::now();
    let done = timeout(LONGEST, async {
        while everybody.join_next().await.is_some() {}
    });
    if done.await.is_err() {
        world.violate(
            "I12 nothing slow stops the rest",
            "clients do not come to an end",
        );
        return;
    }
    let took = began.elapsed().as_millis();
    world.note(
        "world",
        format_args!("all has been asked for after {took} ms"),
    );
    healing::heal(world).await;
}

/// Nodes have short names.
pub(crate) fn name(n: usize) -> &'static str {
    ["a", "b", "c", "d"][n]
}
