//! Lent nonces: followed like our own, given back only when every endpoint says that they are unused.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use fencepost_app::lifecycle::accept::Verdict;
use fencepost_app::ports::{
    Body, Enqueued, Loan, NewTx, Record, Settle, SettleAct, Settled, Store, StoreError, Watched,
    Watcher,
};
use fencepost_app::settings::OnExpiry;
use fencepost_devchain::{Fault, FaultKind};
use fencepost_domain::B256;
use fencepost_domain::ids::{Lane, LockToken};
use fencepost_domain::state::Wait;
use fencepost_domain::transition::Refusal;
use fencepost_sqlite::SqliteStore;
use tokio::sync::Mutex;
use tokio::time::Instant;
use uuid::Uuid;

use super::care::capped;
use super::faults::{self as store, fail, hold, let_go, watch};
use super::life::{Life, seconds};
use super::nodes::{Member, World, accepted, lane, pass, unnamed};

pub(crate) fn loan(seconds: u64) -> NewTx {
    NewTx {
        body: Body::Reserved(Loan {
            lock: LockToken(Uuid::now_v7()),
            ttl: Duration::from_secs(seconds),
            grace: Duration::from_secs(5),
        }),
        ..unnamed()
    }
}

pub(crate) async fn lend(node: &Member, lane: Lane, seconds: u64) -> Record {
    accepted(node.ask(lane, loan(seconds)).await)
}

async fn settle(node: &Member, lane: Lane, lent: &Record, act: SettleAct) -> Settled {
    let call = Settle {
        reservation: lent.tx,
        lock: lent.reservation.unwrap().lock,
        act,
    };
    node.node.settle_loan(lane, &call).await.unwrap()
}

pub(crate) async fn recycle(node: &Member, lane: Lane, lent: &Record) {
    let settled = settle(node, lane, lent, SettleAct::Recycle).await;
    assert!(matches!(settled, Settled::Done(_)), "{settled:?}");
}

pub(crate) async fn submitted(node: &Member, lane: Lane, lent: &Record, hash: B256) -> Settled {
    settle(
        node,
        lane,
        lent,
        SettleAct::Submitted {
            hash,
            due_in: node.node.used_after(),
        },
    )
    .await
}

fn nonce(record: &Record) -> u64 {
    record.state.nonce().unwrap().get()
}

async fn careful(endpoints: usize) -> Life {
    let mut life = Life::careful(endpoints).await;
    life.world.settings.lending.grace = Duration::from_secs(5);
    life
}

/// Managed and lent nonces of one signer share one cursor, and all end.
#[tokio::test(start_paused = true)]
async fn what_its_holder_sends_is_followed_to_its_use() {
    let life = careful(2).await;
    let node = life.world.node("a").await;
    let lane = life.lanes[0];
    let first = accepted(node.ask(lane, capped(100)).await);
    let lent = lend(&node, lane, 60).await;
    let last = accepted(node.ask(lane, capped(100)).await);
    assert_eq!([nonce(&first), nonce(&lent), nonce(&last)], [0, 1, 2]);
    let hash = life.foreign(lane, 1).await;
    assert!(matches!(
        submitted(&node, lane, &lent, hash).await,
        Settled::Done(_)
    ));
    life.until_ended().await;
    assert_eq!(life.words(&lent).await, "USED");
    assert_eq!(life.words(&last).await, "CONFIRMED");
    life.check_feed().await;
    // The same words again are no news, other words are refused.
    assert!(matches!(
        submitted(&node, lane, &lent, hash).await,
        Settled::Done(_)
    ));
    let other = submitted(&node, lane, &lent, B256::repeat_byte(1)).await;
    assert_eq!(other, Settled::Refused(Refusal::OtherHash));
}

/// Waits until it has asked so often for a lane that another node leads.
async fn until_asked(world: &World, node: &Member, times: u64) {
    let line = "fencepost_lease_acquire_total{result=\"led\"}";
    let asked = async || node.meter(line) >= times;
    world.until("it has asked again", asked).await;
}

/// A loan needs its nonce at once, but the lane is soon free: whoever asks is not sent away for that.
#[tokio::test(start_paused = true)]
async fn a_loan_outlasts_the_end_of_a_dead_leaders_lease() {
    let world = World::new();
    let (a, b) = (world.node("a").await, world.node("b").await);
    assert_eq!(nonce(&lend(&a, lane(1), 60).await), 0);
    a.kill();
    let asked = Instant::now();
    let told = b.ask(lane(1), loan(60)).await;
    assert!(matches!(told, Verdict::NotLeader(_)), "{told:?}");
    let patience = world.settings.forward_deadline;
    let waited = asked.elapsed();
    assert!(waited <= patience && waited * 2 > patience, "{waited:?}");
    let lease = world.settings.lease;
    pass(lease.duration + lease.skew - Duration::from_secs(1) - waited).await;
    let loans: Vec<_> = (0..3).map(|_| loan(60)).collect();
    let asked: Vec<_> = loans
        .iter()
        .map(|loan| b.put(lane(1), loan.clone()))
        .collect();
    for (expected, (loan, asked)) in (1..).zip(loans.iter().zip(asked)) {
        let lent = accepted(asked.await.unwrap());
        assert_eq!((lent.tx, nonce(&lent)), (loan.tx, expected));
    }
    assert_eq!(world.rows(lane(1)).await.len(), 4);
}

/// Its leases are given up when it has nothing in hand: what asks for a leader again does not keep it.
#[tokio::test(start_paused = true)]
async fn a_node_that_stops_does_not_wait_for_what_asks_for_a_leader() {
    let world = World::new();
    let (a, b) = (world.node("a").await, world.node("b").await);
    lend(&a, lane(1), 60).await;
    a.kill();
    let asked = b.put(lane(1), loan(60));
    // The next pause is a long one.
    until_asked(&world, &b, 6).await;
    let began = Instant::now();
    b.stop().await;
    let took = began.elapsed();
    assert!(took < Duration::from_millis(50), "{took:?}");
    let told = asked.await.unwrap();
    assert!(matches!(told, Verdict::NotLeader(_)), "{told:?}");
}

/// The leader is stopping and still answers: it gives the lane up, so whoever asks elsewhere gets a nonce.
#[tokio::test(start_paused = true)]
async fn a_loan_outlasts_a_leader_that_stops() {
    let (mut world, lane) = (World::new(), lane(1));
    let script = watch(&mut world);
    let (a, b) = (world.node("a").await, world.node("b").await);
    assert_eq!(nonce(&lend(&a, lane, 60).await), 0);
    // What is in its hands keeps it from being gone at once.
    let leave = hold(&script, "create");
    let in_hand = a.put(lane, loan(60));
    let held = async || script.holds_one();
    world.until("it is in hand", held).await;
    let node = Arc::clone(&a.node);
    let stopping = tokio::spawn(a.stop());
    node.drained().await;
    let asked = b.put(lane, loan(60));
    until_asked(&world, &b, 2).await;
    let_go(&script);
    leave.add_permits(1);
    for (asked, expected) in [(in_hand, 1), (asked, 2)] {
        assert_eq!(nonce(&accepted(asked.await.unwrap())), expected);
    }
    stopping.await.unwrap();
}

/// Every endpoint makes the same count up. No block shows the use, and nothing behind it is in one.
#[tokio::test(start_paused = true)]
async fn a_lent_nonce_is_not_used_by_a_count_alone() {
    let life = careful(2).await;
    let node = life.world.node("a").await;
    let lane = life.lanes[0];
    let lent = lend(&node, lane, 300).await;
    for endpoint in [0, 1] {
        life.fault(endpoint, Fault::new(FaultKind::Count(10)));
    }
    seconds(120).await;
    assert_eq!(life.words(&lent).await, "RESERVED");
    life.heal();
    life.foreign(lane, 0).await;
    life.until_state(&lent, "USED").await;
    life.check_feed().await;
}

/// Too long ago to be searched for, and more than are searched for at once: what is behind them shows their use.
#[tokio::test(start_paused = true)]
async fn lent_nonces_that_were_used_long_ago_end_when_a_later_one_is_mined() {
    let life = careful(1).await;
    let node = life.world.node("a").await;
    let lane = life.lanes[0];
    let mut lent = Vec::new();
    for _ in 0..12 {
        lent.push(lend(&node, lane, 600).await);
    }
    node.kill();
    for nonce in 0..12 {
        life.foreign(lane, nonce).await;
    }
    seconds(200).await;
    let node = life.world.node("b").await;
    accepted(node.ask(lane, capped(100)).await);
    for each in &lent {
        life.until_state(each, "USED").await;
    }
    life.until_ended().await;
    life.check_feed().await;
}

/// Its holder has replaced its own bytes without telling us: any hash uses the nonce.
#[tokio::test(start_paused = true)]
async fn a_lent_nonce_that_is_used_by_another_hash_is_used() {
    let life = careful(1).await;
    let node = life.world.node("a").await;
    let lane = life.lanes[0];
    let lent = lend(&node, lane, 60).await;
    submitted(&node, lane, &lent, B256::repeat_byte(1)).await;
    life.foreign(lane, 0).await;
    life.until_state(&lent, "USED").await;
    life.check_feed().await;
}

#[tokio::test(start_paused = true)]
async fn a_nonce_that_is_not_used_in_its_time_is_given_back_and_given_out_next() {
    let life = careful(2).await;
    let node = life.world.node("a").await;
    let lane = life.lanes[0];
    let lent = lend(&node, lane, 10).await;
    let behind = lend(&node, lane, 100).await;
    seconds(14).await;
    assert_eq!(life.words(&lent).await, "RESERVED", "the grace is not over");
    life.until_state(&lent, "RECYCLABLE").await;
    assert_eq!(life.words(&behind).await, "RESERVED");
    let next = lend(&node, lane, 60).await;
    assert_eq!(nonce(&next), 0, "smallest first");
    assert_eq!(nonce(&lend(&node, lane, 60).await), 2);
    // Whoever comes late is refused; what it names is written down and alerted.
    let late = submitted(&node, lane, &lent, B256::repeat_byte(3)).await;
    assert_eq!(late, Settled::LockLost { recorded: true });
    assert_eq!(node.meter("fencepost_reservation_late_total"), 1);
}

/// One endpoint has it in its pool, or in a block: it is not given back.
#[tokio::test(start_paused = true)]
async fn a_nonce_that_any_endpoint_has_seen_used_is_not_given_back() {
    let mut life = careful(2).await;
    life.rest();
    let node = life.world.node("a").await;
    let lane = life.lanes[0];
    let lent = lend(&node, lane, 10).await;
    life.foreign(lane, 0).await;
    seconds(60).await;
    assert_eq!(life.words(&lent).await, "RESERVED", "it is in a pool");
    life.work();
    life.until_state(&lent, "USED").await;
    life.check_feed().await;
    assert_eq!(nonce(&lend(&node, lane, 60).await), 1);
}

/// Its time is over, so its row is looked at again and again; none of that puts off the end that the store
/// did not take at first.
#[tokio::test(start_paused = true)]
async fn a_lent_nonce_that_was_used_in_silence_ends_when_the_store_is_back() {
    let mut life = careful(1).await;
    let script = watch(&mut life.world);
    life.rest();
    let node = life.world.node("a").await;
    let lane = life.lanes[0];
    let lent = lend(&node, lane, 10).await;
    life.foreign(lane, 0).await;
    seconds(60).await;
    fail(&script, &[("complete", store::Fault::Away); 3]);
    life.work();
    life.until_state(&lent, "USED").await;
    life.check_feed().await;
}

#[tokio::test(start_paused = true)]
async fn while_nobody_can_be_asked_nothing_is_given_back() {
    let life = careful(1).await;
    let node = life.world.node("a").await;
    let lane = life.lanes[0];
    let lent = lend(&node, lane, 10).await;
    life.fault(
        0,
        Fault::new(FaultKind::Hang(fencepost_devchain::When::Before)),
    );
    seconds(60).await;
    assert_eq!(life.words(&lent).await, "RESERVED");
    life.heal();
    life.until_state(&lent, "RECYCLABLE").await;
}

#[tokio::test(start_paused = true)]
async fn a_nonce_that_is_held_for_its_holder_is_never_given_back_by_itself() {
    let mut life = careful(1).await;
    life.world.settings.lending.on_expiry = OnExpiry::Hold;
    let node = life.world.node("a").await;
    let lane = life.lanes[0];
    let lent = lend(&node, lane, 10).await;
    seconds(100).await;
    assert_eq!(life.words(&lent).await, "RESERVED");
    let hash = life.foreign(lane, 0).await;
    assert!(matches!(
        submitted(&node, lane, &lent, hash).await,
        Settled::Done(_)
    ));
    life.until_state(&lent, "USED").await;
}

/// Holders speak to any node; the leader learns of it.
#[tokio::test(start_paused = true)]
async fn what_a_holder_says_to_another_node_reaches_the_leader() {
    let life = careful(1).await;
    let leader = life.world.node("a").await;
    let lane = life.lanes[0];
    let (kept, given) = (lend(&leader, lane, 60).await, lend(&leader, lane, 60).await);
    let other = life.world.node("b").await;
    recycle(&other, lane, &given).await;
    assert_eq!(nonce(&lend(&other, lane, 60).await), 1, "smallest first");
    let hash = life.foreign(lane, 0).await;
    submitted(&other, lane, &kept, hash).await;
    life.until_state(&kept, "USED").await;
    assert_eq!(leader.node.led(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_next_leader_gives_back_and_follows_what_was_lent_before() {
    let life = careful(1).await;
    let leader = life.world.node("a").await;
    let lane = life.lanes[0];
    let unused = lend(&leader, lane, 20).await;
    let used = lend(&leader, lane, 60).await;
    leader.kill();
    let next = life.world.node("b").await;
    submitted(&next, lane, &used, life.foreign(lane, 1).await).await;
    life.until_state(&unused, "RECYCLABLE").await;
    let row = accepted(next.ask(lane, capped(100)).await);
    assert_eq!(nonce(&row), 0);
    life.until_ended().await;
    assert_eq!(life.words(&used).await, "USED");
    life.check_feed().await;
}

/// A lent nonce is wanted now: where nobody can give one, the client is told so, and nothing is stored.
#[tokio::test(start_paused = true)]
async fn a_loan_never_waits_in_a_queue() {
    let mut life = careful(1).await;
    life.world.max_in_flight = Some(1);
    life.rest();
    let node = life.world.node("a").await;
    let lane = life.lanes[0];
    accepted(node.ask(lane, capped(100)).await);
    let verdict = node.ask(lane, loan(60)).await;
    assert_eq!(verdict, Verdict::InFlightLimit, "it takes a place too");
    accepted(node.ask(lane, capped(100)).await);
    let verdict = node.ask(lane, loan(60)).await;
    assert_eq!(verdict, Verdict::InFlightLimit, "others wait before it");
    let rows = life
        .world
        .store
        .queued(node.node.directory().seat(lane).unwrap().id, 10)
        .await;
    assert_eq!(rows.unwrap().len(), 1);
}

/// A loan that is given back just before its lane is read.
struct GivenBack {
    store: Arc<SqliteStore>,
    call: Mutex<Option<Settle>>,
}

#[async_trait]
impl Watcher for GivenBack {
    async fn before(&self, op: &'static str) -> Result<(), StoreError> {
        if op == "lane"
            && let Some(call) = self.call.lock().await.take()
        {
            self.store.settle(&call).await?;
        }
        Ok(())
    }

    async fn after(&self, _: &'static str, _: Duration) -> Result<(), StoreError> {
        Ok(())
    }
}

/// Its leader does not know that it was given back, and gives the nonce to one that waits.
#[tokio::test(start_paused = true)]
async fn a_nonce_that_another_was_given_before_its_leader_heard_of_its_return_is_the_others() {
    let mut life = careful(1).await;
    let lane = life.lanes[0];
    let given = Arc::new(GivenBack {
        store: Arc::clone(&life.world.store),
        call: Mutex::default(),
    });
    let sound = Arc::clone(&life.world.store) as Arc<dyn Store>;
    let watcher = Arc::clone(&given) as Arc<dyn Watcher>;
    life.world.seen = Some(Arc::new(Watched::new(sound, watcher)));
    let node = life.world.node("a").await;
    let lent = lend(&node, lane, 60).await;
    let seat = node.node.directory().seat(lane).unwrap();
    let waits = [(seat.id, capped(100))];
    let queued = life.world.store.enqueue(&waits, Wait::Leader, 10).await;
    assert!(matches!(queued.unwrap()[..], [Enqueued::Queued { .. }]));
    *given.call.lock().await = Some(Settle {
        reservation: lent.tx,
        lock: lent.reservation.unwrap().lock,
        act: SettleAct::Recycle,
    });
    // What it knows of free nonces is read anew.
    node.node.look_at(seat);
    life.until_state(&lent, "RECYCLABLE").await;
    let row = life.world.record(waits[0].1.tx).await;
    life.until_state(&row, "CONFIRMED").await;
    assert_eq!(nonce(&life.world.record(row.tx).await), 0);
}

/// Whatever is mined under the hash that its holder named, a nonce is used only by a transaction that has it.
#[tokio::test(start_paused = true)]
async fn a_hash_that_is_not_of_the_nonce_does_not_end_its_reservation() {
    let life = Life::new(2, 2).await;
    let node = life.world.node("a").await;
    let (lane, other) = (life.lanes[0], life.lanes[1]);
    let lent = lend(&node, lane, 600).await;
    let last = accepted(node.ask(lane, capped(100)).await);
    let wrong = life.foreign(other, 0).await;
    submitted(&node, lane, &lent, wrong).await;
    seconds(60).await;
    assert_eq!(life.words(&lent).await, "SUBMITTED");
    let mined = life.world.record(lent.tx).await.state.inclusion();
    assert_eq!(mined, None, "that is another's");
    // A new leader reads it anew, and believes it no more.
    node.kill();
    let heir = life.world.node("b").await;
    seconds(60).await;
    assert_eq!(life.words(&lent).await, "SUBMITTED");
    life.foreign(lane, 0).await;
    life.until_ended().await;
    assert_eq!(life.words(&lent).await, "USED");
    assert_eq!(life.words(&last).await, "CONFIRMED");
    drop(heir);
}
