//! Workers share statements, and yet none of them waits for long because of another.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use fencepost_app::ports::{Store, StoreError, Watched, Watcher};
use fencepost_domain::ids::{Lane, Nonce};
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, yield_now};
use tokio::time::Instant;

use super::nodes::{Member, World, accepted, lane, unnamed};
use fencepost_app::lifecycle::accept::Verdict;

const LANES: u8 = 16;

/// What is done to the creates of a node, counted from when it was last asked to begin.
struct Meddler {
    creates: AtomicU32,
    /// This one waits until it may go on.
    holds: AtomicU32,
    leave: Semaphore,
    /// This one can never be stored.
    spoils: AtomicU32,
}

impl Meddler {
    fn new() -> Self {
        Self {
            creates: AtomicU32::new(0),
            holds: AtomicU32::new(0),
            leave: Semaphore::new(0),
            spoils: AtomicU32::new(0),
        }
    }

    fn begin(&self) {
        self.creates.store(0, Ordering::Relaxed);
    }

    fn creates(&self) -> u32 {
        self.creates.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl Watcher for Meddler {
    async fn before(&self, op: &'static str) -> Result<(), StoreError> {
        if op != "create" {
            return Ok(());
        }
        let number = self.creates.fetch_add(1, Ordering::Relaxed) + 1;
        if number == self.holds.load(Ordering::Relaxed) {
            self.leave.acquire().await.unwrap().forget();
        }
        if number == self.spoils.load(Ordering::Relaxed) {
            return Err(StoreError::Invalid("it is spoilt".to_owned()));
        }
        Ok(())
    }

    async fn after(&self, _: &'static str, _: Duration) -> Result<(), StoreError> {
        Ok(())
    }
}

/// A node that leads all of its lanes, one for each of its workers as far as chance has it.
async fn busy() -> (World, Member, Arc<Meddler>) {
    let mut world = World::new();
    world.settings.workers = usize::from(LANES);
    world.lanes = (1..=LANES).map(lane).collect();
    let meddler = Arc::new(Meddler::new());
    let sound = Arc::clone(&world.store) as Arc<dyn Store>;
    let watched = Watched::new(sound, Arc::clone(&meddler) as Arc<dyn Watcher>);
    world.seen = Some(Arc::new(watched));
    let node = world.node("a").await;
    for lane in &world.lanes {
        accepted(node.ask(*lane, unnamed()).await);
    }
    meddler.begin();
    (world, node, meddler)
}

/// One request for each of these lanes, while the first create is on its way.
async fn put(node: &Member, lanes: &[Lane], meddler: &Meddler) -> Vec<JoinHandle<Verdict>> {
    let mut asked = vec![node.put(lanes[0], unnamed())];
    while meddler.creates() == 0 {
        yield_now().await;
    }
    asked.extend(lanes[1..].iter().map(|lane| node.put(*lane, unnamed())));
    asked
}

/// Whoever can run does; time stands still.
async fn settle() {
    for _ in 0..1_000 {
        yield_now().await;
    }
}

async fn all_accepted(asked: Vec<JoinHandle<Verdict>>) {
    for each in asked {
        let nonce = accepted(each.await.unwrap()).state.nonce();
        assert_eq!(nonce.map(Nonce::get), Some(1));
    }
}

#[tokio::test(start_paused = true)]
async fn what_workers_have_to_write_while_a_statement_runs_goes_into_the_next_one() {
    let (world, node, meddler) = busy().await;
    meddler.holds.store(1, Ordering::Relaxed);
    let asked = put(&node, &world.lanes, &meddler).await;
    settle().await;
    assert_eq!(meddler.creates(), 1, "all others wait for it");
    meddler.leave.add_permits(1);
    all_accepted(asked).await;
    assert_eq!(meddler.creates(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_statement_that_hangs_holds_up_other_workers_for_a_moment_only() {
    let (world, node, meddler) = busy().await;
    meddler.holds.store(1, Ordering::Relaxed);
    let mut asked = put(&node, &world.lanes, &meddler).await;
    let began = Instant::now();
    let first = asked.remove(0);
    // Lanes of the first one's own worker wait with it.
    let mut answered = 0;
    for each in asked {
        let told = tokio::time::timeout(Duration::from_millis(150), each).await;
        answered += u32::from(told.is_ok());
    }
    assert!(answered >= 8, "only {answered} were answered");
    assert!(began.elapsed() < Duration::from_secs(3));
    assert!(!first.is_finished());
    meddler.leave.add_permits(1);
    accepted(first.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_stored_together_is_stored_worker_by_worker() {
    let (world, node, meddler) = busy().await;
    meddler.holds.store(1, Ordering::Relaxed);
    meddler.spoils.store(2, Ordering::Relaxed);
    let asked = put(&node, &world.lanes, &meddler).await;
    settle().await;
    meddler.leave.add_permits(1);
    all_accepted(asked).await;
    assert!(meddler.creates() > 4, "{} statements", meddler.creates());
}

#[tokio::test(start_paused = true)]
async fn whoever_was_just_answered_is_in_the_next_statement_too() {
    let (world, node, meddler) = busy().await;
    meddler.holds.store(1, Ordering::Relaxed);
    let asked = put(&node, &world.lanes, &meddler).await;
    let again = node.put(world.lanes[0], unnamed());
    settle().await;
    meddler.leave.add_permits(1);
    all_accepted(asked).await;
    assert_eq!(
        accepted(again.await.unwrap()).state.nonce(),
        Nonce::new(2).ok()
    );
    assert_eq!(meddler.creates(), 2, "the second has all that was left");
}

#[tokio::test(start_paused = true)]
async fn a_large_statement_does_not_wait_for_the_one_before_it() {
    let (world, node, meddler) = busy().await;
    meddler.holds.store(1, Ordering::Relaxed);
    let began = Instant::now();
    let first = node.put(world.lanes[0], unnamed());
    while meddler.creates() == 0 {
        yield_now().await;
    }
    // More than one worker's turn, whichever worker the first lane has.
    let many = || (0..300).map(|_| unnamed());
    let rest: Vec<JoinHandle<Verdict>> = world.lanes[1..]
        .iter()
        .flat_map(|lane| many().map(|body| node.put(*lane, body)))
        .collect();
    settle().await;
    assert!(meddler.creates() >= 2, "it waits");
    assert!(!first.is_finished());
    assert_eq!(began.elapsed(), Duration::ZERO, "time was needed for it");
    meddler.leave.add_permits(1);
    accepted(first.await.unwrap());
    for each in rest {
        accepted(each.await.unwrap());
    }
}
