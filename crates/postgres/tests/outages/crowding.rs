//! One lane that is stuck, and more calls than connections: whoever is stuck costs its own callers
//! their time, and the others at most a turn.

use std::sync::Arc;

use anyhow::Result;
use fencepost_app::ports::{Key, LaneCreated, Store, StoreError};
use fencepost_domain::ids::Nonce;
use fencepost_postgres::{PostgresStore, Settings};
use fencepost_store_tests::bench::only;
use fencepost_store_tests::builders::{id, txs};
use fencepost_testkit::gate::{Gate, Level, Place};
use futures::future::join_all;
use tokio::time::{Instant, timeout};

use super::post::{BOUND, Post, SHORT, settings, sit};

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
    let answer = blocked.await?;
    assert!(matches!(answer, Err(StoreError::Busy(_))), "{answer:?}");
    assert_eq!(post.seat.view().await.next_nonce, Nonce::ZERO);
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
        assert!(matches!(answer, Err(StoreError::Busy(_))), "{answer:?}");
    }
    let first = first.await?;
    assert!(matches!(first, Err(StoreError::Busy(_))), "{first:?}");
    // Reads have connections of their own, and nothing was written.
    assert_eq!(post.node.find(&Key::Id(id(1))).await?, None);
    assert_eq!(post.node.find(&Key::Id(id(2))).await?, None);
    gate.open().await?;
    let answer = only(post.node.create(&other.holder, &behind).await?);
    assert!(matches!(answer, LaneCreated::Done { .. }), "{answer:?}");
    Ok(())
}
