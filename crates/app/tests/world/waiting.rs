//! Waiting without a nonce: for a window, and not for ever.

use std::time::Duration;

use fencepost_app::ports::{LaneMoves, Move, NewTx, Store};
use fencepost_domain::transition::Input;
use tokio::time::sleep;

use super::nodes::{Member, World, accepted, lane, unnamed};

/// Ends the transaction that holds the lowest nonce, as its leader could.
async fn end_head(world: &World, leader: &Member) {
    let view = world.store.lane(lane(1)).await.unwrap().unwrap();
    let head = view.head.expect("a head");
    let held = fencepost_app::ports::Held {
        lane: view.id,
        token: view.token,
    };
    let transition = head.state.clone().apply(Input::Reject).unwrap();
    let moves = LaneMoves {
        held,
        moves: vec![Move::of(&head, transition)],
    };
    let ended = world.store.complete(leader.node.holder(), &[moves]).await;
    ended.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_window_of_one_lets_them_through_one_by_one_in_order() {
    let mut world = World::new();
    world.max_in_flight = Some(1);
    let a = world.node("a").await;
    let asked: Vec<_> = (0..4).map(|_| a.put(lane(1), unnamed())).collect();
    let mut rows = Vec::new();
    for answer in asked {
        rows.push(accepted(answer.await.unwrap()));
    }
    let subs: Vec<_> = rows.iter().map(|row| row.state.sub()).collect();
    let window = Some("WAITING_WINDOW");
    assert_eq!(subs, [None, window, window, window]);
    for row in &rows {
        let record = world.record(row.tx).await;
        assert!(record.state.nonce().is_some(), "it is its turn: {record:?}");
        let held = world.store.lane(lane(1)).await.unwrap().unwrap();
        assert_eq!(held.in_flight, 1);
        end_head(&world, &a).await;
        sleep(Duration::from_secs(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_waited_past_its_time_ends_without_a_nonce() {
    let mut world = World::new();
    world.max_in_flight = Some(1);
    let a = world.node("a").await;
    accepted(a.ask(lane(1), unnamed()).await);
    let until = world.now().saturating_add(Duration::from_secs(30)).unwrap();
    let short = NewTx {
        not_after: Some(until),
        ..unnamed()
    };
    let short = accepted(a.ask(lane(1), short).await);
    let long = accepted(a.ask(lane(1), unnamed()).await);
    sleep(Duration::from_mins(1)).await;
    let ended = world.record(short.tx).await;
    assert_eq!(ended.state.sub(), Some("EXPIRED"));
    assert_eq!(
        world.record(long.tx).await.state.sub(),
        Some("WAITING_WINDOW")
    );
    end_head(&world, &a).await;
    sleep(Duration::from_secs(1)).await;
    assert!(world.record(long.tx).await.state.nonce().is_some());
}

/// What does not fit the window waits in the order in which it came, behind what does.
#[tokio::test(start_paused = true)]
async fn a_window_that_is_half_open_keeps_the_order_of_arrival() {
    let mut world = World::new();
    world.max_in_flight = Some(3);
    let a = world.node("a").await;
    let asked: Vec<_> = (0..12).map(|_| a.put(lane(1), unnamed())).collect();
    let mut rows = Vec::new();
    for answer in asked {
        rows.push(accepted(answer.await.unwrap()));
    }
    for (n, row) in (0..).zip(&rows[..3]) {
        let nonce = row.state.nonce().map(fencepost_domain::ids::Nonce::get);
        assert_eq!(nonce, Some(n), "{rows:?}");
    }
    let queue = world.store.queued(rows[0].lane_id, 100).await.unwrap();
    let waiting: Vec<_> = queue.iter().map(|row| row.tx).collect();
    let late: Vec<_> = rows[3..].iter().map(|row| row.tx).collect();
    assert_eq!(waiting, late);
}
