//! Retiring waits for nobody and overtakes nobody: what another statement holds is left alone, the feed is cut no further than
//! that, and one batch runs at a time.

use std::time::Duration;

use anyhow::Result;
use fencepost_app::ports::{Retire, Retired, Stage as Step, Store};
use fencepost_domain::ids::Height;
use fencepost_domain::transition::Input;
use fencepost_store_tests::bench::Seat;
use fencepost_store_tests::builders::{feed_seq, id, lane, txs};

use super::stage::Stage;

fn batch(stage: Step) -> Retire {
    Retire {
        stage,
        older_than: Duration::ZERO,
        limit: 10,
        beneath: vec![(lane(1).chain, Height::MAX)],
    }
}

/// Three that have ended.
async fn ended() -> Result<(Stage, Seat)> {
    let stage = Stage::new().await?;
    let a = stage.seat("a", lane(1)).await?;
    a.accept(txs(1..=3)).await;
    for n in 1..=3 {
        a.confirm(id(n), 10 * n).await;
    }
    Ok((stage, a))
}

fn both(n: usize) -> Retired {
    Retired {
        passed: n,
        retired: n,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_row_stops_the_batch_and_nobody_waits() -> Result<()> {
    let (stage, a) = ended().await?;
    let holder = stage.session("holder").await?;
    let hold = "BEGIN; SELECT 1 FROM managed_tx WHERE nonce = 1 FOR NO KEY UPDATE";
    holder.batch_execute(hold).await?;
    assert_eq!(a.store.retire(&batch(Step::Thin)).await?, both(1));
    assert!(a.read(id(2)).await.payload.is_some());
    assert_eq!(a.store.retire(&batch(Step::Delete)).await?, both(1));
    holder.batch_execute("COMMIT").await?;
    assert_eq!(a.store.retire(&batch(Step::Thin)).await?, both(2));
    assert_eq!(a.store.retire(&batch(Step::Delete)).await?, both(2));
    Ok(())
}

/// A reorg that brings a row back holds it: whoever deletes meanwhile must not take what it was before for what it is.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_reorg_brings_back_is_not_deleted_behind_it() -> Result<()> {
    let (stage, a) = ended().await?;
    let gate = &mut stage.gate("tx_event", "AFTER INSERT", "a").await?;
    let seat = a.clone();
    let back = tokio::spawn(async move {
        let undone = seat.plan(id(1), Input::Reorged).await;
        seat.write(vec![undone]).await
    });
    gate.wait_for_waiter().await?;
    let other = stage.handle("other").await?;
    assert_eq!(other.retire(&batch(Step::Delete)).await?, both(0));
    gate.open().await?;
    back.await?;
    assert_eq!(other.retire(&batch(Step::Delete)).await?, both(0));
    assert_eq!(
        a.read(id(1)).await.version.get(),
        6,
        "it is there, and back"
    );
    let feed = other.completions(feed_seq(0), 10).await?;
    assert_eq!((feed.floor, feed.completions.len()), (feed_seq(0), 4));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn one_batch_runs_at_a_time() -> Result<()> {
    let (stage, a) = ended().await?;
    let first = stage.session("first").await?;
    let hold = "BEGIN; SELECT 1 FROM retention FOR NO KEY UPDATE";
    first.batch_execute(hold).await?;
    for step in [Step::Thin, Step::Delete, Step::Sweep] {
        assert_eq!(a.store.retire(&batch(step)).await?, Retired::default());
    }
    first.batch_execute("COMMIT").await?;
    assert_eq!(a.store.retire(&batch(Step::Thin)).await?, both(3));
    Ok(())
}

/// A repeated request that meets its own deletion is known or new, and never refused.
#[tokio::test(flavor = "multi_thread")]
async fn deletions_hold_no_lane_up() -> Result<()> {
    let (stage, a) = ended().await?;
    let gate = &mut stage.gate("lane_floor", "AFTER INSERT", "other").await?;
    let other = stage.handle("other").await?;
    let deleting = tokio::spawn(async move { other.retire(&batch(Step::Delete)).await });
    gate.wait_for_waiter().await?;
    assert_eq!(a.accept(txs([4])).await, [3], "while it runs");
    a.confirm(id(4), 40).await;
    gate.open().await?;
    assert_eq!(deleting.await??, both(3));
    let feed = a.store.completions(feed_seq(3), 10).await?;
    assert_eq!((feed.floor, feed.head), (feed_seq(3), feed_seq(4)));
    Ok(())
}
