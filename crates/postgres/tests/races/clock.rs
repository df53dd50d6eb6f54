//! Rule 1, the clock: a lease is compared with the time of the comparison. `now()` is when the
//! transaction began, and a statement may have waited since.

use std::time::Duration;

use anyhow::Result;
use fencepost_app::ports::{LaneMoved, Terms};
use fencepost_store_tests::bench::Seat;
use fencepost_store_tests::builders::{id, lane, sign, txs};
use fencepost_testkit::wait;
use futures::future::try_join_all;
use tokio_postgres::Client;

use super::stage::{Stage, bid, led_by};
use super::twin::{self, edit, fill};
use super::write::{Answer, WRITES, Write};

const LET_EXPIRE: &str = "UPDATE signer_lease SET expires_at = clock_timestamp()";

async fn lane_with_work() -> Result<(Stage, Seat)> {
    let stage = Stage::new().await?;
    let a = stage.seat("a", lane(1)).await?;
    a.accept(txs([1])).await;
    Ok((stage, a))
}

/// `moves.sql` that stores bytes for the transaction, with another idea of the present.
async fn store_bytes(a: &Seat, present: &str) -> String {
    let signed = [a.plan(id(1), sign(11)).await];
    let living = "l.expires_at > clock_timestamp()";
    let sql = edit(&twin::apply(), living, &format!("l.expires_at > {present}"));
    fill(&sql, &twin::moves(a, &signed))
}

/// Someone who holds the lane's row while its lease runs out.
async fn hold_row(stage: &Stage) -> Result<Client> {
    let holder = stage.session("holder").await?;
    holder
        .batch_execute("BEGIN; SELECT FROM signer_lease FOR NO KEY UPDATE")
        .await?;
    Ok(holder)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_waited_until_its_lease_ran_out_is_fenced() -> Result<()> {
    try_join_all(WRITES.map(|write| Box::pin(write_behind(write)))).await?;
    Ok(())
}

async fn write_behind(write: Write) -> Result<()> {
    let stage = Stage::new().await?;
    let a = stage.seat("a", lane(1)).await?;
    write.prepare(&a).await?;
    let before = (stage.lane_row(&a).await?, stage.contents().await?);
    let holder = hold_row(&stage).await?;
    let writing = tokio::spawn(write.send(a.clone()));
    assert!(stage.waits("a", &writing).await?, "{write:?}: not blocked");
    holder
        .batch_execute(&format!("{LET_EXPIRE}; COMMIT"))
        .await?;
    assert_eq!(writing.await??, Answer::Fenced, "{write:?}");
    let after = (stage.lane_row(&a).await?, stage.contents().await?);
    assert_eq!(after, before, "{write:?}");
    Ok(())
}

/// Behind a statement that was undone the row is as it was, and Postgres asks the fence no second time:
/// the write lands although its lease has run out. That is safe, for a takeover needs the same row: it
/// comes after the write and finds the lease renewed, or before it and the write finds the row changed.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_outlived_its_lease_behind_an_abort_leaves_no_room_for_a_takeover()
-> Result<()> {
    let terms = Terms {
        duration: Duration::from_secs(10),
        skew: Duration::ZERO,
    };
    let stage = Stage::with(terms).await?;
    let a = stage.seat("a", lane(1)).await?;
    a.accept(txs([1])).await;
    let rival = stage.join("rival", "b", lane(1)).await?;
    let (writer, signed) = (a.clone(), a.plan(id(1), sign(11)).await);
    let soon = "UPDATE signer_lease SET expires_at = clock_timestamp() + interval '2 seconds'";
    stage.probe.batch_execute(soon).await?;
    let holder = hold_row(&stage).await?;
    // The wait is for the row, so the lease lived when it began.
    let writing = tokio::spawn(async move { writer.write(vec![signed]).await });
    stage.blocked("a").await?;
    wait::until("the lease has run out", || async {
        Ok(a.view().await.leader.is_none().then_some(()))
    })
    .await?;
    let taking = tokio::spawn(bid(rival));
    stage.blocked("rival").await?;
    holder.batch_execute("ROLLBACK").await?;
    assert_eq!(writing.await?, LaneMoved::Done(vec![]));
    assert_eq!(led_by(taking.await??), a.holder, "renewed by the write");
    assert_eq!(stage.lane_row(&a).await?.token, a.held.token.column());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn twin_by_now_a_write_that_waited_passes_its_expired_lease() -> Result<()> {
    for (present, passes) in [("clock_timestamp()", 0), ("now()", 1)] {
        let (stage, a) = lane_with_work().await?;
        let holder = hold_row(&stage).await?;
        let sql = store_bytes(&a, present).await;
        let writing = twin::send(stage.session("late").await?, sql);
        stage.blocked("late").await?;
        holder
            .batch_execute(&format!("{LET_EXPIRE}; COMMIT"))
            .await?;
        assert_eq!(writing.await??, passes, "{present}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn twin_by_now_a_transaction_that_began_earlier_passes_an_expired_lease() -> Result<()> {
    for (present, passes) in [("clock_timestamp()", 0), ("now()", 1)] {
        let (stage, a) = lane_with_work().await?;
        let sql = store_bytes(&a, present).await;
        let late = stage.session("late").await?;
        late.batch_execute("BEGIN; SELECT now()").await?;
        stage.probe.batch_execute(LET_EXPIRE).await?;
        assert_eq!(twin::send(late, sql).await??, passes, "{present}");
    }
    Ok(())
}
