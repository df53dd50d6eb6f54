//! What is told about all lanes together.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use fencepost_app::ports::{Audit, PauseChange, PauseReason, Store, StoreError, Watched, Watcher};
use fencepost_domain::state::Wait;

use super::nodes::{Member, World, accepted, lane, pass, unnamed};

/// More than two pages.
const MANY: usize = 2_300;

const DEPTH: &str = "fencepost_pending_depth{chain=\"main\"}";
const OLDEST: &str = "fencepost_pending_oldest_age_seconds{chain=\"main\"}";

async fn put_many(node: &Member, many: usize) {
    let signers = (1..=4).cycle().take(many);
    let asked: Vec<_> = signers.map(|n| node.put(lane(n), unnamed())).collect();
    for answer in asked {
        accepted(answer.await.unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn what_has_not_ended_is_counted_whole_however_much_it_is() {
    let world = World::new();
    let node = world.node("a").await;
    put_many(&node, 1).await;
    pass(Duration::from_secs(100)).await;
    put_many(&node, MANY - 1).await;
    pass(Duration::from_secs(40)).await;
    assert_eq!(node.meter(DEPTH), u64::try_from(MANY).unwrap());
    // The first page has the oldest, not the last.
    let oldest = node.meter(OLDEST);
    assert!((120..=140).contains(&oldest), "{oldest} s");
}

/// Looks that go well until then, one that fails, and others that go well.
struct Stumbles {
    looks: AtomicU32,
    at: u32,
}

#[async_trait]
impl Watcher for Stumbles {
    async fn before(&self, op: &'static str) -> Result<(), StoreError> {
        if op == "backlog" && self.looks.fetch_add(1, Ordering::Relaxed) + 1 == self.at {
            return Err(StoreError::Unavailable("it stumbles".into()));
        }
        Ok(())
    }

    async fn after(&self, _: &'static str, _: Duration) -> Result<(), StoreError> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_page_that_fails_once_is_read_again_and_nothing_is_counted_twice() {
    let mut world = World::new();
    let stumbles = Stumbles {
        looks: AtomicU32::new(0),
        // The first look finds nothing; this is the second page of the next.
        at: 3,
    };
    let store = Arc::clone(&world.store);
    world.seen = Some(Arc::new(Watched::new(store, Arc::new(stumbles))));
    let node = world.node("a").await;
    pass(Duration::from_secs(1)).await;
    assert_eq!(node.meter(DEPTH), 0);
    put_many(&node, MANY).await;
    // One more look, and none after that one.
    pass(Duration::from_secs(20)).await;
    assert_eq!(node.meter(DEPTH), u64::try_from(MANY).unwrap());
}

#[tokio::test(start_paused = true)]
async fn lanes_that_do_not_go_on_are_counted_by_chain_and_reason() {
    let world = World::new();
    let node = world.node("a").await;
    let paused = || {
        ["OPERATOR", "NONCE_CLASH"].map(|reason| {
            node.meter(&format!(
                "fencepost_lanes_paused{{chain=\"main\",reason=\"{reason}\"}}"
            ))
        })
    };
    let unled = || node.meter("fencepost_lanes_unled{chain=\"main\"}");
    put_many(&node, 4).await;
    pass(Duration::from_secs(20)).await;
    assert_eq!((paused(), unled()), ([0, 0], 0));
    let id = world.store.lane(lane(1)).await.unwrap().unwrap().id;
    let audit = Audit {
        by: "test".to_owned(),
        reason: "test".to_owned(),
        details: None,
        node: None,
    };
    let pause = PauseChange::Pause(PauseReason::Operator);
    world.store.pause(id, pause, &audit).await.unwrap();
    // Nobody here has the signer of this one: whatever comes into it waits.
    let foreign = world.store.open_lanes(&[lane(99)]).await.unwrap();
    let waits = [(foreign[0], unnamed())];
    world.store.enqueue(&waits, Wait::Leader, 10).await.unwrap();
    pass(Duration::from_secs(20)).await;
    assert_eq!((paused(), unled()), ([1, 0], 1));
    world
        .store
        .pause(id, PauseChange::Resume, &audit)
        .await
        .unwrap();
    pass(Duration::from_secs(20)).await;
    assert_eq!(paused(), [0, 0]);
}

/// Counts what fails, by how.
#[derive(Default)]
struct Failures(Mutex<Vec<(&'static str, &'static str)>>);

#[async_trait]
impl Watcher for Failures {
    async fn before(&self, _: &'static str) -> Result<(), StoreError> {
        Ok(())
    }

    async fn after(&self, _: &'static str, _: Duration) -> Result<(), StoreError> {
        Ok(())
    }

    fn failed(&self, op: &'static str, error: &StoreError) {
        self.0.lock().unwrap().push((op, error.word()));
    }
}

#[tokio::test]
async fn a_store_that_fails_is_seen_to_fail() {
    let world = World::new();
    let stumbles = Stumbles {
        looks: AtomicU32::new(0),
        at: 1,
    };
    let store: Arc<dyn Store> = Arc::clone(&world.store) as _;
    let store = Watched::new(store, Arc::new(stumbles));
    let failures = Arc::new(Failures::default());
    let store = Watched::new(Arc::new(store), Arc::clone(&failures) as Arc<dyn Watcher>);
    store.backlog(None, 10).await.unwrap_err();
    store.backlog(None, 10).await.unwrap();
    assert_eq!(*failures.0.lock().unwrap(), [("backlog", "unavailable")]);
}
