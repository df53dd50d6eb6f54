//! What ended long ago goes, a little at a time, while the node goes on; and no sooner than a reorg is out of the question.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use fencepost_app::lifecycle::accept::Verdict;
use fencepost_app::ports::{Body, NewTx, Store, StoreError, Watched, Watcher};
use fencepost_app::settings::Retention;
use fencepost_domain::ids::{FeedSeq, Nonce, RequestId};

use super::hooks::Hook;
use super::life::{Life, seconds, transfer};
use super::nodes::{accepted, nonce_of, unnamed};

const RETENTION: Retention = Retention {
    keep: Duration::from_secs(60),
    request_ids: Duration::from_secs(600),
    batch: 4,
    interval: Duration::from_secs(1),
};

fn named(name: &str, wei: u64) -> NewTx {
    NewTx {
        request_id: Some(RequestId::new(name).unwrap()),
        ..transfer(wei)
    }
}

#[tokio::test(start_paused = true)]
async fn what_ended_long_ago_goes_in_small_batches() {
    let mut life = Life::new(1, 1).await;
    life.world.settings.retention = Some(RETENTION);
    let node = life.world.node("a").await;
    let lane = life.lanes[0];
    for n in 0..10_u64 {
        accepted(node.ask(lane, named(&n.to_string(), n + 1)).await);
    }
    life.until_ended().await;
    // Old enough, but every block is still among those that are watched.
    seconds(140).await;
    let rows = life.world.rows(lane).await;
    assert!(rows.iter().all(|row| row.payload.is_some()));

    // Once it is deep, each pass takes no more than a batch, and all of it takes three.
    life.mine(300);
    let whole = async || {
        let rows = life.world.rows(lane).await;
        rows.iter().filter(|row| row.payload.is_some()).count()
    };
    let mut seen = vec![10];
    for _ in 0..70 {
        let left = whole().await;
        if seen.last() != Some(&left) {
            seen.push(left);
        }
        seconds(1).await;
    }
    assert_eq!(seen.last(), Some(&0), "{seen:?}");
    assert!(seen.windows(2).all(|two| two[0] - two[1] <= 4), "{seen:?}");
    assert_eq!(
        life.world.rows(lane).await.len(),
        10,
        "request ids are honoured"
    );
    let Verdict::Known(known) = node.ask(lane, named("3", 4)).await else {
        panic!("not known");
    };
    assert_eq!(known.state.nonce(), Some(Nonce::new(3).unwrap()));
    let other = node.ask(lane, named("3", 5)).await;
    assert!(matches!(other, Verdict::Conflict(_)), "{other:?}");

    seconds(700).await;
    assert_eq!(life.world.rows(lane).await.len(), 0);
    let feed = life
        .world
        .store
        .completions(FeedSeq::ZERO, 10)
        .await
        .unwrap();
    assert_eq!((feed.floor.get(), feed.head.get()), (10, 10));
    assert_eq!(node.meter("fencepost_retired_total{stage=\"thinned\"}"), 10);
    assert_eq!(node.meter("fencepost_retired_total{stage=\"deleted\"}"), 10);

    // A nonce that was used is not open, and the next one is the next.
    let placeholder = NewTx {
        body: Body::Placeholder(Nonce::new(3).unwrap()),
        ..unnamed()
    };
    let verdict = node.ask(lane, placeholder).await;
    assert!(matches!(verdict, Verdict::NotOpen), "{verdict:?}");
    assert_eq!(nonce_of(node.ask(lane, transfer(7)).await), Some(10));
    life.until_ended().await;
    let feed = life
        .world
        .store
        .completions(FeedSeq::new(10).unwrap(), 10)
        .await;
    assert_eq!(feed.unwrap().completions.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn without_a_time_everything_is_kept() {
    let life = Life::new(1, 1).await;
    let node = life.world.node("a").await;
    life.send(&node, life.lanes[0], 3).await;
    life.until_ended().await;
    life.mine(300);
    seconds(600).await;
    life.check().await;
    life.check_feed().await;
}

/// How many of the lane have their payloads, second by second, each number once.
async fn shrinking(life: &Life) -> Vec<usize> {
    let mut seen = Vec::new();
    for _ in 0..200 {
        let rows = life.world.rows(life.lanes[0]).await;
        let whole = rows.iter().filter(|row| row.payload.is_some()).count();
        if seen.last() != Some(&whole) {
            seen.push(whole);
        }
        seconds(1).await;
    }
    seen
}

/// A batch that the store does not manage would be asked for again and again: less is, until it can do it.
#[tokio::test(start_paused = true)]
async fn after_a_failure_batches_are_smaller() {
    let mut life = Life::new(1, 1).await;
    life.world.settings.retention = Some(RETENTION);
    let hook = Hook::new(&mut life);
    let node = life.world.node("a").await;
    life.send(&node, life.lanes[0], 10).await;
    life.until_ended().await;
    life.mine(300);
    hook.fail("retire", 2);
    assert_eq!(shrinking(&life).await, [10, 9, 7, 3, 0]);
}

/// Counts what is asked of the store in order to retire.
#[derive(Default)]
struct Counted(AtomicU64);

#[async_trait]
impl Watcher for Counted {
    async fn before(&self, op: &'static str) -> Result<(), StoreError> {
        if op == "retire" {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    async fn after(&self, _: &'static str, _: Duration) -> Result<(), StoreError> {
        Ok(())
    }
}

/// Each walk begins among what was deleted before, which a store may have to step over: it is not made with
/// every batch.
#[tokio::test(start_paused = true)]
async fn the_walk_for_what_is_in_no_feed_rests_at_its_end() {
    let mut life = Life::new(1, 1).await;
    let counted = Arc::new(Counted::default());
    let sound = Arc::clone(&life.world.store) as Arc<dyn Store>;
    let watched = Watched::new(sound, Arc::clone(&counted) as Arc<dyn Watcher>);
    life.world.seen = Some(Arc::new(watched));
    // So long that the walk finds nothing, whatever clock minted the ids.
    let request_ids = Duration::from_hours(5 * 365 * 24);
    life.world.settings.retention = Some(Retention {
        batch: 1,
        request_ids,
        ..RETENTION
    });
    let node = life.world.node("a").await;
    life.send(&node, life.lanes[0], 30).await;
    life.until_ended().await;
    life.mine(300);
    while node.meter("fencepost_retired_total{stage=\"thinned\"}") == 0 {
        seconds(1).await;
    }
    let before = counted.0.load(Ordering::Relaxed);
    seconds(10).await;
    assert_eq!(counted.0.load(Ordering::Relaxed) - before, 20);
}

/// Looking for gaps may mean a hundred thousand nonces; of one that somebody holds no such question is asked.
#[tokio::test(start_paused = true)]
async fn a_held_nonce_is_not_looked_for_among_gaps() {
    let mut life = Life::new(1, 1).await;
    let hook = Hook::new(&mut life);
    let node = life.world.node("a").await;
    let lane = life.lanes[0];
    life.send(&node, lane, 3).await;
    life.until_ended().await;
    hook.fail("gaps", 1_000);
    let placeholder = NewTx {
        body: Body::Placeholder(Nonce::new(1).unwrap()),
        ..unnamed()
    };
    let verdict = node.ask(lane, placeholder).await;
    assert!(matches!(verdict, Verdict::NotOpen), "{verdict:?}");
}
