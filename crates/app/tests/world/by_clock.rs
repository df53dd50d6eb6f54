//! Nonces only: nodes without a chain lend nonces, and the store's clock alone ends what was lent.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use fencepost_app::directory::InFlightUntil;
use fencepost_app::lifecycle::accept::Verdict;
use fencepost_app::ports::{READ_LIMIT_MAX, Record, Settled, Store, StoreError, Watched, Watcher};
use fencepost_app::settings::OnExpiry;
use fencepost_domain::B256;
use fencepost_domain::ids::FeedSeq;
use fencepost_domain::state::State;

use super::life::{Life, words};
use super::loans::{lend, loan, recycle, submitted};
use super::nodes::{Member, World, accepted, lane, pass, unnamed};

const USED_AFTER: Duration = Duration::from_secs(30);
const HASH: B256 = B256::repeat_byte(7);

/// Without a chain; a reservation is given back 5 s after its time.
fn nonces_only() -> World {
    let mut world = World::new();
    world.settings.lending.used_after = USED_AFTER;
    world
}

pub(crate) async fn state(world: &World, row: &Record) -> String {
    words(&world.record(row.tx).await.state)
}

pub(crate) async fn until(world: &World, row: &Record, expected: &str) {
    let there = async || state(world, row).await == expected;
    world.until(expected, there).await;
}

fn nonce(row: &Record) -> u64 {
    row.state.nonce().unwrap().get()
}

pub(crate) fn counted(node: &Member, result: &str) -> u64 {
    node.meter(&format!(
        "fencepost_reservation_by_clock_total{{result=\"{result}\"}}"
    ))
}

#[tokio::test(start_paused = true)]
async fn expired_reservations_are_given_back_after_their_grace_and_lent_again_lowest_first() {
    let world = nonces_only();
    let node = world.node("a").await;
    let mut lent = Vec::new();
    for seconds in [12, 10, 300, 11] {
        lent.push(lend(&node, lane(1), seconds).await);
    }
    pass(Duration::from_secs(14)).await;
    assert_eq!(
        state(&world, &lent[1]).await,
        "RESERVED",
        "it has its grace"
    );
    for place in [0, 1, 3] {
        until(&world, &lent[place], "RECYCLABLE").await;
    }
    assert_eq!(state(&world, &lent[2]).await, "RESERVED");
    for expected in [0, 1, 3, 4] {
        assert_eq!(nonce(&lend(&node, lane(1), 300).await), expected);
    }
    assert_eq!(counted(&node, "recycled"), 3);
}

#[tokio::test(start_paused = true)]
async fn what_was_submitted_is_used_after_its_time_and_told() {
    let world = nonces_only();
    let node = world.node("a").await;
    let lent = lend(&node, lane(1), 10).await;
    pass(Duration::from_secs(5)).await;
    let settled = submitted(&node, lane(1), &lent, HASH).await;
    assert!(matches!(settled, Settled::Done(_)), "{settled:?}");
    // Past the time and the grace of the reservation, which its hash has ended.
    pass(USED_AFTER - Duration::from_secs(1)).await;
    assert_eq!(state(&world, &lent).await, "SUBMITTED");
    until(&world, &lent, "USED").await;
    let feed = world.store.completions(FeedSeq::ZERO, 10).await.unwrap();
    let told: Vec<_> = feed.completions.iter().map(|row| row.tx).collect();
    assert_eq!(told, [lent.tx]);
    assert_eq!(counted(&node, "used"), 1);
    assert_eq!(nonce(&lend(&node, lane(1), 10).await), 1, "it is used");
}

#[tokio::test(start_paused = true)]
async fn a_reservation_that_is_held_stays_its_holders() {
    let mut world = nonces_only();
    world.settings.lending.on_expiry = OnExpiry::Hold;
    let node = world.node("a").await;
    let lent = lend(&node, lane(1), 10).await;
    pass(Duration::from_mins(10)).await;
    assert_eq!(state(&world, &lent).await, "RESERVED");
    assert_eq!(counted(&node, "held"), 1, "once, not at each look");
    recycle(&node, lane(1), &lent).await;
    assert_eq!(nonce(&lend(&node, lane(1), 10).await), 0);
}

#[tokio::test(start_paused = true)]
async fn a_hash_that_comes_after_the_nonce_was_given_back_is_recorded_and_alerted() {
    let world = nonces_only();
    let node = world.node("a").await;
    let lent = lend(&node, lane(1), 10).await;
    until(&world, &lent, "RECYCLABLE").await;
    let late = submitted(&node, lane(1), &lent, HASH).await;
    assert_eq!(late, Settled::LockLost { recorded: true });
    assert_eq!(node.meter("fencepost_reservation_late_total"), 1);
}

/// Whoever leads next ends what the last one lent: an expiry and a use.
#[tokio::test(start_paused = true)]
async fn the_next_leader_ends_what_was_lent_before() {
    let world = nonces_only();
    let leader = world.node("a").await;
    let unused = lend(&leader, lane(1), 20).await;
    let used = lend(&leader, lane(1), 20).await;
    submitted(&leader, lane(1), &used, HASH).await;
    leader.kill();
    let next = world.node("b").await;
    until(&world, &unused, "RECYCLABLE").await;
    until(&world, &used, "USED").await;
    assert_eq!(nonce(&lend(&next, lane(1), 10).await), 0);
}

/// A managed transaction waits for a node that has a chain; the clock does not touch it.
#[tokio::test(start_paused = true)]
async fn transactions_are_left_alone() {
    let world = nonces_only();
    let node = world.node("a").await;
    let row = accepted(node.ask(lane(1), unnamed()).await);
    let lent = lend(&node, lane(1), 10).await;
    until(&world, &lent, "RECYCLABLE").await;
    pass(Duration::from_mins(30)).await;
    assert_eq!(state(&world, &row).await, "ALLOCATED");
}

/// With a strict limit too the clock makes room.
#[tokio::test(start_paused = true)]
async fn the_clock_makes_room_for_the_next_reservation() {
    let mut world = nonces_only();
    world.max_in_flight = Some(1);
    world.in_flight_until = InFlightUntil::Final;
    let node = world.node("a").await;
    let first = lend(&node, lane(1), 10).await;
    assert_eq!(node.ask(lane(1), loan(10)).await, Verdict::InFlightLimit);
    until(&world, &first, "RECYCLABLE").await;
    let second = lend(&node, lane(1), 10).await;
    assert_eq!(nonce(&second), 0);
    submitted(&node, lane(1), &second, HASH).await;
    assert_eq!(node.ask(lane(1), loan(10)).await, Verdict::InFlightLimit);
    until(&world, &second, "USED").await;
    assert_eq!(nonce(&lend(&node, lane(1), 10).await), 1);
}

/// A hold is over once its holder has named a hash.
#[tokio::test(start_paused = true)]
async fn a_reservation_that_was_held_is_used_after_its_time_too() {
    let mut world = nonces_only();
    world.settings.lending.on_expiry = OnExpiry::Hold;
    let node = world.node("a").await;
    let lent = lend(&node, lane(1), 10).await;
    let held = async || counted(&node, "held") == 1;
    world.until("it is held", held).await;
    let settled = submitted(&node, lane(1), &lent, HASH).await;
    assert!(matches!(settled, Settled::Done(_)), "{settled:?}");
    pass(USED_AFTER - Duration::from_secs(1)).await;
    assert_eq!(state(&world, &lent).await, "SUBMITTED");
    until(&world, &lent, "USED").await;
}

/// More transactions than a leader has in mind wait below the reservations.
#[tokio::test(start_paused = true)]
async fn reservations_above_a_long_backlog_end_as_well() {
    let world = nonces_only();
    let node = world.node("a").await;
    let many: Vec<_> = (0..300).map(|_| node.put(lane(1), unnamed())).collect();
    for asked in many {
        accepted(asked.await.unwrap());
    }
    let unused = lend(&node, lane(1), 10).await;
    let used = lend(&node, lane(1), 10).await;
    submitted(&node, lane(1), &used, HASH).await;
    until(&world, &unused, "RECYCLABLE").await;
    until(&world, &used, "USED").await;
    assert_eq!(nonce(&lend(&node, lane(1), 10).await), 300);
}

/// Only the store's clock says when a reservation is over: not that of the node that has read it.
#[tokio::test(start_paused = true)]
async fn a_node_whose_clock_is_behind_ends_reservations_in_time() {
    let mut world = nonces_only();
    world.behind = Duration::from_hours(1);
    let first = world.node("a").await;
    let unused = lend(&first, lane(1), 40).await;
    let used = lend(&first, lane(1), 40).await;
    submitted(&first, lane(1), &used, HASH).await;
    first.stop().await;
    let _next = world.node("b").await;
    pass(Duration::from_secs(25)).await;
    assert_eq!(state(&world, &used).await, "SUBMITTED");
    until(&world, &used, "USED").await;
    assert_eq!(state(&world, &unused).await, "RESERVED");
    until(&world, &unused, "RECYCLABLE").await;
}

/// With a chain too.
#[tokio::test(start_paused = true)]
async fn a_node_with_a_chain_whose_clock_is_behind_ends_reservations_in_time() {
    let mut life = Life::new(1, 1).await;
    life.world.settings.lending.grace = Duration::from_secs(5);
    life.world.behind = Duration::from_hours(1);
    let first = life.world.node("a").await;
    let unused = lend(&first, life.lanes[0], 20).await;
    first.stop().await;
    let _next = life.world.node("b").await;
    life.until_state(&unused, "RECYCLABLE").await;
}

/// Counts reads of rows by their ids.
#[derive(Default)]
struct Reads(AtomicU32);

#[async_trait]
impl Watcher for Reads {
    async fn before(&self, op: &'static str) -> Result<(), StoreError> {
        if op == "find_many" {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    async fn after(&self, _: &'static str, _: Duration) -> Result<(), StoreError> {
        Ok(())
    }
}

/// More than one read takes were submitted and wait for `used_after`. One further reservation is open: it is read again
/// and again, and a later one expires. The others cost nothing meanwhile.
#[tokio::test(start_paused = true)]
async fn submitted_reservations_are_neither_read_nor_written_while_they_wait() {
    let mut world = nonces_only();
    world.settings.lending.used_after = Duration::from_mins(10);
    let reads = Arc::new(Reads::default());
    let sound = Arc::clone(&world.store) as Arc<dyn Store>;
    let watched = Watched::new(sound, Arc::clone(&reads) as Arc<dyn Watcher>);
    world.seen = Some(Arc::new(watched));
    let node = world.node("a").await;
    let many = READ_LIMIT_MAX + 50;
    let asked: Vec<_> = (0..many).map(|_| node.put(lane(1), loan(300))).collect();
    for (n, asked) in asked.into_iter().enumerate() {
        let lent = accepted(asked.await.unwrap());
        let hash = B256::from(fencepost_domain::U256::from(n + 1));
        submitted(&node, lane(1), &lent, hash).await;
    }
    let open = lend(&node, lane(1), 300).await;
    for seconds in [5, 10, 15] {
        lend(&node, lane(1), seconds).await;
    }
    pass(Duration::from_secs(5)).await;
    let versions = async || {
        let query = fencepost_app::ports::PageQuery {
            lane: Some(lane(1)),
            limit: READ_LIMIT_MAX,
            ..fencepost_app::ports::PageQuery::default()
        };
        let rows = world.store.page(&query).await.unwrap();
        let rows = rows.into_iter();
        let rows = rows.filter(|row| matches!(row.state, State::Submitted(_)));
        rows.map(|row| (row.tx, row.version)).collect::<Vec<_>>()
    };
    let before = versions().await;
    assert!(before.len() > READ_LIMIT_MAX / 2, "{}", before.len());
    reads.0.store(0, Ordering::Relaxed);
    pass(Duration::from_secs(40)).await;
    let read = reads.0.load(Ordering::Relaxed);
    assert!(read <= 25, "{read} reads in 40 s");
    assert_eq!(versions().await, before, "they were rewritten");
    assert_eq!(state(&world, &open).await, "RESERVED");
}
