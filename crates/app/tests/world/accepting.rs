//! What a request is told, wherever it comes in.

use std::collections::BTreeSet;

use fencepost_app::lifecycle::accept::Verdict;
use fencepost_app::ports::{Audit, Body, NewTx, PauseChange, PauseReason, Store};
use fencepost_app::settings::NotLeader;

use super::nodes::{World, accepted, lane, named, nonce_of, payload, unnamed};

#[tokio::test(start_paused = true)]
async fn a_hundred_times_one_request_over_three_nodes_is_one_transaction() {
    let world = World::new();
    let nodes = [
        world.node("a").await,
        world.node("b").await,
        world.node("c").await,
    ];
    let asked: Vec<_> = (0..100)
        .map(|n| nodes[n % 3].put(lane(1), named("pay-1")))
        .collect();
    let (mut new, mut known, mut ids) = (0, 0, BTreeSet::new());
    for answer in asked {
        let told = answer.await.unwrap();
        if let Verdict::New(record) | Verdict::Known(record) = &told {
            ids.insert(record.tx);
        }
        new += usize::from(matches!(told, Verdict::New(_)));
        known += usize::from(matches!(told, Verdict::Known(_)));
    }
    assert_eq!((new, known, ids.len()), (1, 99, 1));
    let view = world.store.lane(lane(1)).await.unwrap().unwrap();
    assert_eq!(view.next_nonce.get(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_thousand_requests_of_one_signer_over_three_nodes_get_each_nonce_once() {
    let world = World::new();
    let nodes = [
        world.node("a").await,
        world.node("b").await,
        world.node("c").await,
    ];
    let asked: Vec<_> = (0..1_000)
        .map(|n| nodes[n % 3].put(lane(1), unnamed()))
        .collect();
    let mut waiting = 0;
    for answer in asked {
        waiting += usize::from(nonce_of(answer.await.unwrap()).is_none());
    }
    // Those that met an empty throne wait in the queue; the leader takes them up by itself.
    world.until_allocated(lane(1)).await;
    let rows = world.rows(lane(1)).await;
    let nonces: BTreeSet<u64> = rows
        .iter()
        .map(|row| row.state.nonce().expect("has its nonce").get())
        .collect();
    assert_eq!(nonces, (0..1_000).collect(), "{waiting} had to wait");
}

#[tokio::test(start_paused = true)]
async fn requests_of_one_desk_get_their_nonces_in_order() {
    let world = World::new();
    let a = world.node("a").await;
    let asked: Vec<_> = (0..50).map(|_| a.put(lane(1), unnamed())).collect();
    for (n, answer) in (0..).zip(asked) {
        assert_eq!(nonce_of(answer.await.unwrap()), Some(n));
    }
}

#[tokio::test(start_paused = true)]
async fn another_payload_under_a_known_name_is_a_conflict_on_every_node() {
    let world = World::new();
    let (a, b) = (world.node("a").await, world.node("b").await);
    let first = accepted(a.ask(lane(1), named("pay-1")).await);
    for node in [&a, &b] {
        let other = NewTx {
            body: Body::Managed(payload(2)),
            ..named("pay-1")
        };
        let Verdict::Conflict(record) = node.ask(lane(1), other).await else {
            panic!("not a conflict");
        };
        assert_eq!(record.tx, first.tx);
    }
    let view = world.store.lane(lane(1)).await.unwrap().unwrap();
    assert_eq!(view.next_nonce.get(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_paused_lane_gives_nothing_and_goes_on_when_it_is_resumed() {
    let world = World::new();
    let a = world.node("a").await;
    let seat = a.node.directory().seat(lane(1)).unwrap();
    let audit = Audit {
        by: "anna".to_owned(),
        reason: "test".to_owned(),
        details: None,
        node: None,
    };
    assert_eq!(nonce_of(a.ask(lane(1), unnamed()).await), Some(0));
    let pause = PauseChange::Pause(PauseReason::Operator);
    world.store.pause(seat.id, pause, &audit).await.unwrap();
    let told = a.ask(lane(1), unnamed()).await;
    assert_eq!(told, Verdict::Paused(PauseReason::Operator));
    let other = a.ask(lane(2), unnamed()).await;
    assert_eq!(nonce_of(other), Some(0), "only that lane");
    world
        .store
        .pause(seat.id, PauseChange::Resume, &audit)
        .await
        .unwrap();
    assert_eq!(nonce_of(a.ask(lane(1), unnamed()).await), Some(1));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_rejects_says_who_leads_and_still_answers_what_is_known() {
    let mut world = World::new();
    let a = world.node("a").await;
    let first = accepted(a.ask(lane(1), named("pay-1")).await);
    world.settings.not_leader = NotLeader::Reject;
    let b = world.node("b").await;
    let Verdict::NotLeader(Some(leader)) = b.ask(lane(1), unnamed()).await else {
        panic!("not rejected");
    };
    assert_eq!(leader.node.as_str(), "a");
    let Verdict::Known(known) = b.ask(lane(1), named("pay-1")).await else {
        panic!("not known");
    };
    assert_eq!(known.tx, first.tx);
}
