//! One lane that is stuck, and more calls than connections: whoever is stuck costs its own callers
//! their time, and the others at most a turn.

use std::sync::Arc;

use anyhow::Result;
use fencepost_app::ports::{
    Key, LaneCreated, LaneMoved, LaneMoves, LaneRefusal, Store, StoreError,
};
use fencepost_domain::ids::Nonce;
use fencepost_postgres::{PostgresStore, Settings};
use fencepost_store_tests::bench::{Seat, only};
use fencepost_store_tests::builders::{id, nonce, sign, txs};
use fencepost_testkit::gate::{Gate, Level, Place};
use futures::future::join_all;
use tokio::time::{Instant, timeout};

use super::post::{BOUND, Post, SHORT, settings, sit, take};

/// A lane whose row is held costs its own callers their time, and nobody else any.
#[tokio::test]
async fn a_blocked_lane_delays_no_other() -> Result<()> {
    let post = Post::new(SHORT).await?;
    let through = post.database.url_through(post.proxy.addr());
    let node = PostgresStore::attach(Settings {
        write_connections: 2,
        ..settings("node", through, SHORT)
    });
    let node: Arc<PostgresStore> = Arc::new(node.await?);
    let other = sit(&post.seat.store, "b", 2).await?;
    let when = format!("NEW.lane_id = {}", post.seat.held.lane.0);
    let place = Place {
        table: "signer_lease",
        timing: "AFTER UPDATE",
        level: Level::Row,
        when: Some(&when),
    };
    let mut gate = Gate::install(&post.database.url(), place).await?;
    let batches = [post.seat.batch(txs([1])).await, other.batch(txs([2])).await];
    gate.close().await?;
    let (blocked, me) = (Arc::clone(&node), post.seat.holder.clone());
    let [stuck, free] = batches;
    let blocked = tokio::spawn(async move { blocked.create(&me, &[stuck]).await });
    gate.wait_for_waiter().await?;
    let asked = Instant::now();
    node.create(&other.holder, &[free]).await?;
    assert!(asked.elapsed() < SHORT, "it waited for the other lane");
    assert_eq!(blocked.await??, [LaneCreated::Refused(LaneRefusal::Busy)]);
    assert_eq!(post.seat.view().await.next_nonce, Nonce::ZERO);
    Ok(())
}

/// A batch over two lanes of which one is held: that one is told busy, the other is written.
#[tokio::test]
async fn a_blocked_lane_does_not_fail_the_batch_it_is_in() -> Result<()> {
    let post = Post::new(SHORT).await?;
    let (node, me) = (&post.node, &post.seat.holder);
    let other = take(&post.seat.store, me.clone(), 2).await?;
    post.seat.accept(txs([1])).await;
    other.accept(txs([2])).await;
    let moves = |seat: &Seat, step| LaneMoves {
        held: seat.held,
        moves: vec![step],
    };
    let signed = [
        moves(&post.seat, post.seat.plan(id(1), sign(11)).await),
        moves(&other, other.plan(id(2), sign(12)).await),
    ];
    let batches = [post.seat.batch(txs([3])).await, other.batch(txs([4])).await];

    let mut blocker = post.database.connect().await?;
    let held = blocker.transaction().await?;
    let row = "SELECT FROM signer_lease WHERE lane_id = $1 FOR NO KEY UPDATE";
    held.execute(row, &[&post.seat.held.lane.0]).await?;

    let created = timeout(BOUND, node.create(me, &batches)).await??;
    assert_eq!(created[0], LaneCreated::Refused(LaneRefusal::Busy));
    assert!(
        matches!(created[1], LaneCreated::Done { .. }),
        "{created:?}"
    );
    let moved = timeout(BOUND, node.apply(me, &signed)).await??;
    assert_eq!(moved, [LaneMoved::Busy, LaneMoved::Done(vec![])]);

    held.rollback().await?;
    assert_eq!(post.seat.view().await.next_nonce, nonce(1));
    assert_eq!(other.view().await.next_nonce, nonce(2));
    Ok(())
}

/// More calls than connections, while the statement on the only one is stuck: each ends in its time.
#[tokio::test]
async fn callers_without_a_connection_wait_their_turn_within_a_bound() -> Result<()> {
    let post = Post::new(SHORT).await?;
    let other = sit(&post.seat.store, "b", 2).await?;
    let mut gate = post.gate("signer_lease", "AFTER UPDATE").await?;
    let stuck = [post.seat.batch(txs([1])).await];
    let behind: Vec<_> = [other.batch(txs([2])).await].into();
    gate.close().await?;
    let (node, me) = (Arc::clone(&post.node), post.seat.holder.clone());
    let first = tokio::spawn(async move { node.create(&me, &stuck).await });
    gate.wait_for_waiter().await?;
    let waiting = (0..4).map(|_| timeout(BOUND, post.node.create(&other.holder, &behind)));
    for answer in join_all(waiting).await {
        let answer = answer.expect("within its bound");
        // Either no connection came free, or it waited at the gate itself.
        let busy = match &answer {
            Ok(lanes) => *lanes == [LaneCreated::Refused(LaneRefusal::Busy)],
            Err(error) => matches!(error, StoreError::Busy(_)),
        };
        assert!(busy, "{answer:?}");
    }
    assert_eq!(first.await??, [LaneCreated::Refused(LaneRefusal::Busy)]);
    // Reads have connections of their own, and nothing was written.
    assert_eq!(post.node.find(&Key::Id(id(1))).await?, None);
    assert_eq!(post.node.find(&Key::Id(id(2))).await?, None);
    gate.open().await?;
    let answer = only(post.node.create(&other.holder, &behind).await?);
    assert!(matches!(answer, LaneCreated::Done { .. }), "{answer:?}");
    Ok(())
}
