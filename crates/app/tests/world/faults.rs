//! A store that loses replies, is away, or takes no more: what requests are told, and what is stored.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use fencepost_app::lifecycle::accept::Verdict;
use fencepost_app::ports::{Store, StoreError, Watched, Watcher};
use tokio::sync::Semaphore;

use super::life::{Life, seconds, transfer};
use super::nodes::{World, accepted, lane, named, nonce_of, unnamed};

/// What is to happen to the next calls of one operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It is not put.
    Away,
    /// It is put, and its answer is lost.
    Lost,
    /// It is not put, and nobody can know.
    Doubtful,
    /// It is put, and its answer comes half a minute late.
    Late,
}

/// Makes calls fail as told, and holds those of one operation back while it has no leave.
#[derive(Default)]
pub(crate) struct Script {
    faults: Mutex<Vec<(&'static str, Fault)>>,
    held: Mutex<Option<(&'static str, Arc<Semaphore>)>>,
    /// How many calls were held back so far.
    waiting: Mutex<u32>,
}

impl Script {
    /// Whether a call was held back so far.
    pub(crate) fn holds_one(&self) -> bool {
        *self.waiting.lock().unwrap() > 0
    }

    /// The next fault of an operation, if its time has come: each call meets one, in their order.
    fn take(&self, op: &'static str, when: impl Fn(Fault) -> bool) -> Option<Fault> {
        let mut faults = self.faults.lock().unwrap();
        let at = faults.iter().position(|(of, _)| *of == op)?;
        when(faults[at].1).then(|| faults.remove(at).1)
    }
}

#[async_trait]
impl Watcher for Script {
    async fn before(&self, op: &'static str) -> Result<(), StoreError> {
        let held = self.held.lock().unwrap().clone();
        if let Some((_, leave)) = held.filter(|(of, _)| *of == op) {
            *self.waiting.lock().unwrap() += 1;
            leave.acquire().await.unwrap().forget();
        }
        match self.take(op, |fault| matches!(fault, Fault::Away | Fault::Doubtful)) {
            Some(Fault::Away) => Err(StoreError::Unavailable("away".into())),
            Some(Fault::Doubtful) => Err(StoreError::OutcomeUnknown("no reply".into())),
            Some(Fault::Lost | Fault::Late) | None => Ok(()),
        }
    }

    async fn after(&self, op: &'static str, _: Duration) -> Result<(), StoreError> {
        match self.take(op, |fault| matches!(fault, Fault::Lost | Fault::Late)) {
            Some(Fault::Lost) => Err(StoreError::OutcomeUnknown("no reply".into())),
            Some(_) => {
                seconds(30).await;
                Ok(())
            }
            None => Ok(()),
        }
    }
}

fn world() -> (World, Arc<Script>) {
    let mut world = World::new();
    let script = watch(&mut world);
    (world, script)
}

/// From now on nodes see the store as the script lets them.
pub(crate) fn watch(world: &mut World) -> Arc<Script> {
    let script = Arc::new(Script::default());
    let sound = Arc::clone(&world.store) as Arc<dyn Store>;
    let watcher = Arc::clone(&script) as Arc<dyn Watcher>;
    world.seen = Some(Arc::new(Watched::new(sound, watcher)));
    script
}

/// From now on calls of this operation wait for leave.
pub(crate) fn hold(script: &Script, op: &'static str) -> Arc<Semaphore> {
    let leave = Arc::new(Semaphore::new(0));
    *script.held.lock().unwrap() = Some((op, Arc::clone(&leave)));
    leave
}

/// Later calls need no leave any more.
pub(crate) fn let_go(script: &Script) {
    *script.held.lock().unwrap() = None;
}

pub(crate) fn fail(script: &Script, faults: &[(&'static str, Fault)]) {
    script.faults.lock().unwrap().extend_from_slice(faults);
}

#[tokio::test(start_paused = true)]
async fn a_create_whose_reply_was_lost_is_found_behind_a_new_token() {
    let (world, script) = world();
    let a = world.node("a").await;
    assert_eq!(nonce_of(a.ask(lane(1), unnamed()).await), Some(0));
    fail(&script, &[("create", Fault::Lost)]);
    assert_eq!(nonce_of(a.ask(lane(1), unnamed()).await), Some(1));
    let view = world.store.lane(lane(1)).await.unwrap().unwrap();
    assert_eq!((view.next_nonce.get(), view.token.get()), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn a_create_that_never_arrived_is_stored_once_behind_a_new_token() {
    let (world, script) = world();
    let a = world.node("a").await;
    fail(
        &script,
        &[("create", Fault::Doubtful), ("create", Fault::Lost)],
    );
    assert_eq!(nonce_of(a.ask(lane(1), unnamed()).await), Some(0));
    assert_eq!(world.rows(lane(1)).await.len(), 1);
    let view = world.store.lane(lane(1)).await.unwrap().unwrap();
    assert_eq!(view.token.get(), 3, "each doubt costs a token");
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_known_is_told_so_and_asking_again_finds_it() {
    let (world, script) = world();
    let a = world.node("a").await;
    assert_eq!(nonce_of(a.ask(lane(1), unnamed()).await), Some(0));
    fail(
        &script,
        &[("create", Fault::Lost), ("acquire", Fault::Away)],
    );
    assert_eq!(a.ask(lane(1), named("pay-1")).await, Verdict::Unknown);
    let Verdict::Known(known) = a.ask(lane(1), named("pay-1")).await else {
        panic!("it was stored");
    };
    assert_eq!(
        known.state.nonce().map(fencepost_domain::ids::Nonce::get),
        Some(1)
    );
    let view = world.store.lane(lane(1)).await.unwrap().unwrap();
    assert_eq!(
        view.token.get(),
        2,
        "nothing more is written under the doubtful token"
    );
}

#[tokio::test(start_paused = true)]
async fn while_the_store_is_away_nothing_is_stored_and_then_it_goes_on() {
    let (world, script) = world();
    let a = world.node("a").await;
    assert_eq!(nonce_of(a.ask(lane(1), unnamed()).await), Some(0));
    fail(&script, &[("create", Fault::Away)]);
    assert_eq!(a.ask(lane(1), unnamed()).await, Verdict::Unavailable);
    assert_eq!(world.rows(lane(1)).await.len(), 1);
    assert_eq!(nonce_of(a.ask(lane(1), unnamed()).await), Some(1));
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_stands_still_in_a_forward_stores_it_once_all_the_same() {
    let (world, script) = world();
    let a = world.node("a").await;
    assert_eq!(nonce_of(a.ask(lane(1), unnamed()).await), Some(0));
    let leave = hold(&script, "create");
    let b = world.node("b").await;
    let queued = accepted(b.ask(lane(1), unnamed()).await);
    assert_eq!(
        queued.state.nonce(),
        None,
        "the leader did not answer in time"
    );
    let_go(&script);
    leave.add_permits(1);
    world.until_allocated(lane(1)).await;
    let rows = world.rows(lane(1)).await;
    assert_eq!(rows.len(), 2, "the late leader found it stored: {rows:?}");
    let nonce = world.record(queued.tx).await.state.nonce();
    assert_eq!(nonce.map(fencepost_domain::ids::Nonce::get), Some(1));
}

#[tokio::test(start_paused = true)]
async fn a_full_desk_says_so_at_once() {
    let (mut world, script) = world();
    world.settings.worker_queue_max = 8;
    world.settings.batch_max = 4;
    let leave = hold(&script, "create");
    let a = world.node("a").await;
    let first = a.put(lane(1), unnamed());
    world
        .until("the first is under way", async || script.holds_one())
        .await;
    let asked: Vec<_> = (0..9).map(|_| a.put(lane(1), unnamed())).collect();
    let mut asked = asked.into_iter().rev();
    let last = asked.next().unwrap();
    assert_eq!(
        last.await.unwrap(),
        Verdict::Overloaded,
        "the first is under way, eight wait"
    );
    let_go(&script);
    leave.add_permits(1);
    assert_eq!(nonce_of(first.await.unwrap()), Some(0));
    for answer in asked {
        accepted(answer.await.unwrap());
    }
}

/// A promotion whose outcome stays unknown must not leave the lane's queue to nobody.
#[tokio::test(start_paused = true)]
async fn a_queue_whose_promotion_is_in_doubt_goes_on_by_itself() {
    let (mut world, script) = world();
    world.max_in_flight = None;
    let (a, b) = (world.node("a").await, world.node("b").await);
    assert_eq!(nonce_of(a.ask(lane(1), unnamed()).await), Some(0));
    fail(
        &script,
        &[("promote", Fault::Lost), ("promote", Fault::Doubtful)],
    );
    let leave = hold(&script, "create");
    let queued = accepted(b.ask(lane(1), unnamed()).await);
    let_go(&script);
    leave.add_permits(1);
    world.until_allocated(lane(1)).await;
    assert!(world.record(queued.tx).await.state.nonce().is_some());
}

/// The leader may have it, and the queue does not take it: nobody knows.
#[tokio::test(start_paused = true)]
async fn an_unanswered_forward_that_cannot_be_queued_is_unknown() {
    let (world, script) = world();
    let a = world.node("a").await;
    assert_eq!(nonce_of(a.ask(lane(1), unnamed()).await), Some(0));
    let leave = hold(&script, "create");
    let b = world.node("b").await;
    fail(&script, &[("enqueue", Fault::Away)]);
    assert_eq!(b.ask(lane(1), unnamed()).await, Verdict::Unknown);
    fail(
        &script,
        &[("enqueue", Fault::Lost), ("enqueue", Fault::Away)],
    );
    assert_eq!(
        b.ask(lane(1), unnamed()).await,
        Verdict::Unknown,
        "the first try may have done it"
    );
    leave.add_permits(10);
}

/// The leader is gone and was not reached, so all that is in doubt is the queue's own write.
#[tokio::test(start_paused = true)]
async fn a_lost_reply_of_the_queue_stays_lost_when_the_store_goes_away() {
    let (world, script) = world();
    let (a, b) = (world.node("a").await, world.node("b").await);
    assert_eq!(nonce_of(a.ask(lane(1), unnamed()).await), Some(0));
    a.kill();
    fail(
        &script,
        &[("enqueue", Fault::Lost), ("enqueue", Fault::Away)],
    );
    assert_eq!(b.ask(lane(1), named("pay-1")).await, Verdict::Unknown);
    assert_eq!(world.rows(lane(1)).await.len(), 2, "the first try did it");
    fail(&script, &[("enqueue", Fault::Away)]);
    assert_eq!(
        b.ask(lane(1), named("pay-2")).await,
        Verdict::Unavailable,
        "without a lost reply it is known that nothing was stored"
    );
    let Verdict::Known(_) = b.ask(lane(1), named("pay-1")).await else {
        panic!("it was stored");
    };
}

/// The follower saw it in its new block while the worker was held up; then the lane was read anew, with the old
/// block still in its row. What is on the board must be the new one, or nobody ever tells that it is final.
#[tokio::test(start_paused = true)]
async fn what_was_moved_to_another_block_while_its_lane_was_read_anew_still_ends() {
    let mut life = Life::new(1, 1).await;
    let script = watch(&mut life.world);
    let node = life.world.node("a").await;
    let lane = life.lanes[0];
    life.rest();
    life.mine(20);
    seconds(2).await;
    let rows = life.send(&node, lane, 1).await;
    life.until_state(&rows[0], "TRACKING/BROADCAST").await;
    life.mine(1);
    life.until_state(&rows[0], "TRACKING/MINED").await;
    let leave = hold(&script, "create");
    fail(&script, &[("create", Fault::Doubtful)]);
    let second = node.put(lane, transfer(2));
    life.world
        .until("it is under way", async || script.holds_one())
        .await;
    let plan = fencepost_devchain::Plan {
        depth: 1,
        extra: 1,
        ..fencepost_devchain::Plan::default()
    };
    life.chain.lock().reorg(&plan).unwrap();
    seconds(2).await;
    let_go(&script);
    leave.add_permits(1);
    accepted(second.await.unwrap());
    life.work();
    life.until_ended().await;
    life.check().await;
}
