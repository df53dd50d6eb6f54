//! Who leads, and what becomes of requests when that changes.

use std::time::Duration;

use fencepost_app::lifecycle::accept::{Origin, Verdict};
use fencepost_app::ports::{Record, Store};
use fencepost_domain::Address;
use fencepost_domain::ids::Lane;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::nodes::{Member, World, accepted, lane, named, nonce_of, pass, unnamed};

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
    let began = Instant::now();
    world.until_allocated(lane(1)).await;
    let took = began.elapsed();
    let bound = world.settings.lease.duration + world.settings.lease.skew + Duration::from_secs(1);
    assert!(took <= bound, "{took:?}");
    for (n, tx) in (1..).zip(queued) {
        let nonce = world.record(tx).await.state.nonce();
        assert_eq!(nonce.map(fencepost_domain::ids::Nonce::get), Some(n));
    }
    assert_eq!(nonce_of(b.ask(lane(1), unnamed()).await), Some(21));
    assert_eq!(taken(&b), [0, 1, 0], "from one whose lease ran out");
}

/// How many lanes a node has taken: inserted, stolen, retaken.
fn taken(of: &Member) -> [u64; 3] {
    ["inserted", "stolen", "retaken"].map(|result| {
        of.meter(&format!(
            "fencepost_lease_acquire_total{{result=\"{result}\"}}"
        ))
    })
}

#[tokio::test(start_paused = true)]
async fn a_node_that_stops_gracefully_is_replaced_at_once() {
    let world = World::new();
    let (a, b) = (world.node("a").await, world.node("b").await);
    assert_eq!(nonce_of(a.ask(lane(1), unnamed()).await), Some(0));
    a.stop().await;
    let began = Instant::now();
    world
        .until("b leads", async || {
            let view = world.store.lane(lane(1)).await.unwrap().unwrap();
            view.leader
                .is_some_and(|leader| leader.node.as_str() == "b")
        })
        .await;
    let took = began.elapsed();
    assert!(took <= Duration::from_millis(500), "{took:?}");
    assert_eq!(nonce_of(b.ask(lane(1), unnamed()).await), Some(1));
    assert_eq!(taken(&b), [1, 0, 0], "from nobody: it was given up");
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
    pass(Duration::from_mins(5)).await;
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

/// An answer that touches no lease must not make the node believe in it for longer.
#[tokio::test(start_paused = true)]
async fn known_requests_do_not_prolong_the_belief_in_a_lease() {
    let mut world = World::new();
    world.settings.renew_interval = Duration::from_hours(1);
    let a = world.node("a").await;
    accepted(a.ask(lane(1), named("pay-1")).await);
    pass(Duration::from_secs(8)).await;
    assert!(matches!(
        a.ask(lane(1), named("pay-1")).await,
        Verdict::Known(_)
    ));
    pass(Duration::from_millis(1_500)).await;
    let before = a.meter("fencepost_lease_acquire_total{result=\"kept\"}");
    accepted(a.ask(lane(1), unnamed()).await);
    let after = a.meter("fencepost_lease_acquire_total{result=\"kept\"}");
    assert_eq!(after, before + 1, "it has asked the store before it wrote");
}

/// They are renewed in several statements: each of them is kept, not only those of the first.
#[tokio::test(start_paused = true)]
async fn a_node_keeps_all_its_lanes_however_many_they_are() {
    let mut world = World::new();
    world.lanes = (1..=600)
        .map(|n: u64| Lane {
            signer: Address::left_padding_from(&n.to_be_bytes()),
            ..lane(1)
        })
        .collect();
    let a = world.node("a").await;
    for of in &world.lanes {
        assert_eq!(nonce_of(a.ask(*of, unnamed()).await), Some(0));
    }
    assert_eq!(taken(&a), [600, 0, 0]);
    pass(world.settings.lease.duration * 3).await;
    assert_eq!(taken(&a), [600, 0, 0], "one that ran out was taken again");
    assert_eq!(a.meter("fencepost_lease_held"), 600);
}

/// Puts requests that belong together, in order.
async fn together(member: &Member, count: usize) -> Vec<Record> {
    let node = &member.node;
    let seat = node.directory().seat(lane(1)).unwrap();
    let (mut share, mut told) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let (reply, answer) = oneshot::channel();
        share.push((node.submit(seat, unnamed(), Origin::Client), reply));
        told.push(answer);
    }
    node.settle_share(share).await;
    let mut rows = Vec::new();
    for answer in told {
        rows.push(accepted(answer.await.unwrap()));
    }
    rows
}

#[tokio::test(start_paused = true)]
async fn requests_that_came_together_keep_their_order_through_the_leader_and_through_the_queue() {
    let world = World::new();
    let (a, b) = (world.node("a").await, world.node("b").await);
    assert_eq!(nonce_of(a.ask(lane(1), unnamed()).await), Some(0));
    let led = together(&b, 700).await;
    a.kill();
    let queued = together(&b, 700).await;
    assert!(queued.iter().all(|row| row.state.nonce().is_none()));
    world.until_allocated(lane(1)).await;
    for (n, row) in (1..).zip(led.iter().chain(&queued)) {
        let nonce = world.record(row.tx).await.state.nonce();
        assert_eq!(nonce.map(fencepost_domain::ids::Nonce::get), Some(n));
    }
}
