//! Waiting without a nonce: for a window, and not for ever.

use std::time::Duration;

use fencepost_app::lifecycle::accept::Verdict;
use fencepost_app::ports::{Audit, LaneMoves, Move, NewTx, PauseChange, PauseReason, Store};
use fencepost_domain::ids::FeedSeq;
use fencepost_domain::transition::Input;

use super::nodes::{Member, World, accepted, lane, named, pass, unnamed};

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
        world
            .until("it is its turn", async || {
                world.record(row.tx).await.state.nonce().is_some()
            })
            .await;
        let held = world.store.lane(lane(1)).await.unwrap().unwrap();
        assert_eq!(held.in_flight, 1);
        end_head(&world, &a).await;
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
    pass(Duration::from_mins(1)).await;
    let ended = world.record(short.tx).await;
    assert_eq!(ended.state.sub(), Some("EXPIRED"));
    assert_eq!(
        world.record(long.tx).await.state.sub(),
        Some("WAITING_WINDOW")
    );
    end_head(&world, &a).await;
    world
        .until("it is its turn", async || {
            world.record(long.tx).await.state.nonce().is_some()
        })
        .await;
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

/// What is known is answered in a lane that gives nothing and in which others wait, too.
#[tokio::test(start_paused = true)]
async fn a_known_request_is_answered_in_a_paused_lane_with_a_queue() {
    let mut world = World::new();
    world.max_in_flight = Some(1);
    let a = world.node("a").await;
    let first = accepted(a.ask(lane(1), named("pay-1")).await);
    accepted(a.ask(lane(1), named("pay-2")).await);
    let audit = Audit {
        by: "anna".to_owned(),
        reason: "test".to_owned(),
        details: None,
        node: None,
    };
    let pause = PauseChange::Pause(PauseReason::Operator);
    world
        .store
        .pause(first.lane_id, pause, &audit)
        .await
        .unwrap();
    end_head(&world, &a).await;
    // With and without the look at the queue that comes by itself.
    for _ in 0..20 {
        let Verdict::Known(known) = a.ask(lane(1), named("pay-1")).await else {
            panic!("it is known");
        };
        assert_eq!(known.tx, first.tx);
        pass(Duration::from_millis(70)).await;
    }
}

/// The front of the queue may go by the window but not by the pause, and more waits behind it: what is
/// new then is refused by the pause, not stored behind the queue; what is known is answered.
#[tokio::test(start_paused = true)]
async fn a_new_request_for_a_paused_lane_with_a_queue_is_refused_and_a_known_one_answered() {
    let mut world = World::new();
    world.max_in_flight = Some(1);
    let a = world.node("a").await;
    let first = accepted(a.ask(lane(1), named("pay-1")).await);
    for n in 2..=4 {
        accepted(a.ask(lane(1), named(&format!("pay-{n}"))).await);
    }
    let audit = Audit {
        by: "anna".to_owned(),
        reason: "test".to_owned(),
        details: None,
        node: None,
    };
    let pause = PauseChange::Pause(PauseReason::Operator);
    let paused = world.store.pause(first.lane_id, pause, &audit).await;
    paused.unwrap();
    end_head(&world, &a).await;
    for n in 0..20 {
        assert_eq!(
            a.ask(lane(1), named(&format!("new-{n}"))).await,
            Verdict::Paused(PauseReason::Operator)
        );
        let Verdict::Known(known) = a.ask(lane(1), named("pay-3")).await else {
            panic!("it is known");
        };
        assert_eq!(known.state.nonce(), None);
        pass(Duration::from_millis(70)).await;
    }
    assert_eq!(world.rows(lane(1)).await.len(), 4);
}

/// A request whose time passed on its way is stored and ends as expired; it gets no nonce.
#[tokio::test(start_paused = true)]
async fn a_request_that_comes_too_late_ends_without_a_nonce() {
    let world = World::new();
    let a = world.node("a").await;
    let late = NewTx {
        not_after: Some(world.now()),
        ..unnamed()
    };
    pass(Duration::from_secs(1)).await;
    let late = accepted(a.ask(lane(1), late).await);
    world
        .until("it has ended", async || {
            world.record(late.tx).await.state.sub() == Some("EXPIRED")
        })
        .await;
    let view = world.store.lane(lane(1)).await.unwrap().unwrap();
    assert_eq!(view.next_nonce.get(), 0);
}

/// A node whose clock is behind believes that there is time left; only the store's clock says that there is none.
#[tokio::test(start_paused = true)]
async fn a_node_whose_clock_is_behind_gives_nobody_more_time() {
    let mut world = World::new();
    world.behind = Duration::from_hours(1);
    let a = world.node("a").await;
    let until = |at| NewTx {
        not_after: Some(at),
        ..unnamed()
    };
    let (late, soon) = (until(world.now()), world.now() + Duration::from_hours(1));
    pass(Duration::from_secs(1)).await;
    let late = accepted(a.ask(lane(1), late).await);
    let good = accepted(a.ask(lane(1), until(soon)).await);
    world
        .until("one has ended and one has its nonce", async || {
            let given = world.record(good.tx).await.state.nonce();
            let ended = world.record(late.tx).await.state.sub() == Some("EXPIRED");
            ended && given.is_some()
        })
        .await;
    let view = world.store.lane(lane(1)).await.unwrap().unwrap();
    assert_eq!(view.next_nonce.get(), 1);
}

/// The lag is that of telling. A row that ended while nobody waited is old, not late.
#[tokio::test(start_paused = true)]
async fn a_reader_that_comes_late_is_no_lag_of_the_feed() {
    let world = World::new();
    let a = world.node("a").await;
    accepted(a.ask(lane(1), unnamed()).await);
    end_head(&world, &a).await;
    pass(Duration::from_mins(10)).await;
    let node = std::sync::Arc::clone(&a.node);
    let seen = FeedSeq::new(1).unwrap();
    let wait = Duration::from_secs(30);
    let reader = tokio::spawn(async move { node.completions(seen, 10, wait).await });
    pass(Duration::from_secs(2)).await;
    assert_eq!(a.meter("fencepost_completion_lag_seconds_count"), 0);
    accepted(a.ask(lane(1), unnamed()).await);
    end_head(&world, &a).await;
    let feed = reader.await.unwrap().unwrap();
    assert_eq!(feed.completions.len(), 1);
    assert_eq!(a.meter("fencepost_completion_lag_seconds_count"), 1);
}
