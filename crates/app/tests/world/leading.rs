//! Who leads, and what becomes of requests when that changes.

use std::time::Duration;

use fencepost_app::ports::Store;
use tokio::time::{Instant, sleep};

use super::nodes::{World, accepted, lane, nonce_of, unnamed};

/// How long until every row of the lane has its nonce.
async fn until_allocated(world: &World) -> Duration {
    let began = Instant::now();
    loop {
        let rows = world.rows(lane(1)).await;
        if rows.iter().all(|row| row.state.nonce().is_some()) {
            return began.elapsed();
        }
        sleep(Duration::from_millis(10)).await;
        assert!(began.elapsed() < Duration::from_mins(1), "{rows:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn accepting_goes_on_without_the_leader_and_the_next_one_keeps_the_order() {
    let world = World::new();
    let (a, b) = (world.node("a").await, world.node("b").await);
    assert_eq!(nonce_of(a.ask(lane(1), unnamed()).await), Some(0));
    a.kill();
    let mut queued = Vec::new();
    for _ in 0..20 {
        let began = Instant::now();
        let record = accepted(b.ask(lane(1), unnamed()).await);
        assert!(began.elapsed() <= world.settings.forward_deadline);
        assert_eq!(record.state.nonce(), None, "{record:?}");
        queued.push(record.tx);
    }
    let took = until_allocated(&world).await;
    let bound = world.settings.lease.duration + world.settings.lease.skew + Duration::from_secs(1);
    assert!(took <= bound, "{took:?}");
    for (n, tx) in (1..).zip(queued) {
        let nonce = world.record(tx).await.state.nonce();
        assert_eq!(nonce.map(fencepost_domain::ids::Nonce::get), Some(n));
    }
    assert_eq!(nonce_of(b.ask(lane(1), unnamed()).await), Some(21));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_stops_gracefully_is_replaced_at_once() {
    let world = World::new();
    let (a, b) = (world.node("a").await, world.node("b").await);
    assert_eq!(nonce_of(a.ask(lane(1), unnamed()).await), Some(0));
    a.stop().await;
    let began = Instant::now();
    let mut led = false;
    while !led && began.elapsed() < Duration::from_secs(5) {
        let view = world.store.lane(lane(1)).await.unwrap().unwrap();
        led = view
            .leader
            .is_some_and(|leader| leader.node.as_str() == "b");
        sleep(Duration::from_millis(10)).await;
    }
    assert!(
        led && began.elapsed() <= Duration::from_millis(500),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(nonce_of(b.ask(lane(1), unnamed()).await), Some(1));
}

#[tokio::test(start_paused = true)]
async fn a_second_start_of_a_node_id_makes_a_ghost_of_the_first() {
    let world = World::new();
    let first = world.node("a").await;
    assert_eq!(nonce_of(first.ask(lane(1), unnamed()).await), Some(0));
    let second = world.node("a").await;
    assert_eq!(nonce_of(second.ask(lane(1), unnamed()).await), Some(1));
    let later = first.node.ghosted().await;
    assert_eq!(later, second.node.holder().incarnation);
}

#[tokio::test(start_paused = true)]
async fn leases_are_kept_while_the_node_lives() {
    let world = World::new();
    let (a, b) = (world.node("a").await, world.node("b").await);
    assert_eq!(nonce_of(a.ask(lane(1), unnamed()).await), Some(0));
    sleep(Duration::from_mins(5)).await;
    let view = world.store.lane(lane(1)).await.unwrap().unwrap();
    assert_eq!(view.token.get(), 1);
    assert_eq!(
        nonce_of(b.ask(lane(1), unnamed()).await),
        Some(1),
        "forwarded"
    );
    assert_eq!(a.node.led(), 1);
    assert_eq!(b.node.led(), 0);
}

/// The lane is taken away behind the leader's back: whatever it tries is fenced and counted, and its
/// requests find the new leader.
#[tokio::test(start_paused = true)]
async fn a_leader_that_lost_its_lane_is_fenced_and_routes_its_requests_anew() {
    let world = World::new();
    let (a, b) = (world.node("a").await, world.node("b").await);
    assert_eq!(nonce_of(a.ask(lane(1), unnamed()).await), Some(0));
    let view = world.store.lane(lane(1)).await.unwrap().unwrap();
    let held = fencepost_app::ports::Held {
        lane: view.id,
        token: view.token,
    };
    world.store.release(a.node.holder(), &[held]).await.unwrap();
    assert_eq!(
        nonce_of(b.ask(lane(1), unnamed()).await),
        Some(1),
        "b leads"
    );
    assert_eq!(
        nonce_of(a.ask(lane(1), unnamed()).await),
        Some(2),
        "through b"
    );
    assert_eq!(a.meter("fencepost_lease_fenced_total{op=\"create\"}"), 1);
    let view = world.store.lane(lane(1)).await.unwrap().unwrap();
    assert_eq!((view.token.get(), view.next_nonce.get()), (2, 3));
}
