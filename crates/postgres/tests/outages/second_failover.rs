//! A second failover before or after the first was judged. The second server may know nothing of the first one: both
//! may even have the same timeline.

use anyhow::Result;
use fencepost_app::ports::{LaneRefusal, PauseReason, StoreError};
use fencepost_domain::failover::Loss;
use fencepost_postgres::Failover;
use fencepost_store_tests::bench::refused;
use fencepost_store_tests::builders::{id, txs};
use fencepost_testkit::postgres::{Cluster, Standby, Stop};
use fencepost_testkit::wait;

use super::post::TERMS;
use super::town::{Node, Town, fail_over, held, loss, town};

/// Two standbys of one primary; the second never hears of the first one's promotion.
async fn twins() -> Result<(Town, Standby)> {
    let town = town(TERMS, Failover::Witness).await?;
    let second = town.primary.standby().await?;
    Ok((town, second))
}

async fn lead_to(server: &Cluster, nodes: &[&Node]) -> Result<()> {
    for node in nodes {
        node.proxy.retarget(server.addr()?);
        node.proxy.cut();
    }
    Ok(())
}

async fn timeline(server: &Cluster) -> Result<i64> {
    let sql = "SELECT ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint";
    Ok(server.admin().await?.query_one(sql, &[]).await?.get(0))
}

/// Goal: what the first promoted server acknowledged is missing on the second one, which has the same timeline number.
/// It must be reported, and no token of the first may work at the second.
#[tokio::test]
async fn a_second_server_of_the_same_timeline_is_another_failover() -> Result<()> {
    let (
        Town {
            primary,
            standby,
            a,
            b,
            ..
        },
        second,
    ) = twins().await?;
    let one = a.lead(1).await?;
    let whole = a.lead(2).await?;
    one.accept(txs([1])).await;
    whole.accept(txs([20])).await;
    standby.wait_caught_up().await?;
    second.wait_caught_up().await?;
    let first = fail_over(&primary, standby, &[&a, &b]).await?;
    for node in [&a, &b, &a] {
        node.vouch().await?;
    }
    let at_first = a.lead(1).await?;
    assert_eq!(at_first.accept(txs([2])).await, [1], "acknowledged");

    first.stop(Stop::Immediate).await?;
    let first_timeline = 2;
    let second = second.promote().await?;
    assert_eq!(timeline(&second).await?, first_timeline, "the same number");
    lead_to(&second, &[&a, &b]).await?;
    let said = a.vouch().await?;
    assert!(
        matches!(loss(&said, one.held.lane), Some(Loss::Server)),
        "{said:?}"
    );
    b.vouch().await?;
    let said = a.vouch().await?;
    assert_eq!(a.paused(1).await?, held(), "{said:?}");
    assert_eq!(
        a.paused(2).await?,
        None,
        "nothing happened to it at the first"
    );

    // Whatever the lane's token becomes here, it is not one that the first server gave.
    let again = a.lead(1).await?;
    assert_ne!(again.held.token, at_first.held.token);
    assert_eq!(
        refused(at_first.create(txs([3])).await),
        LaneRefusal::Fenced
    );

    // The first server comes back beside the second. Its number is no older, and still it was left behind.
    first.start_again().await?;
    lead_to(&first, &[&a]).await?;
    let answer = wait::until("the first server answers", || async {
        match a.store.ping().await {
            Err(StoreError::Unavailable(_)) => Ok(None),
            answer => Ok(Some(answer)),
        }
    })
    .await?;
    assert!(
        matches!(&answer, Err(StoreError::Unfit(why)) if why.contains("stale")),
        "{answer:?}"
    );
    Ok(())
}

/// Goal: a node that was told of nothing missing at the first failover still knows what it acknowledged before it.
#[tokio::test]
async fn what_was_there_after_the_first_failover_may_be_missing_after_the_second() -> Result<()> {
    let (
        Town {
            primary,
            standby,
            a,
            b,
            ..
        },
        second,
    ) = twins().await?;
    let one = a.lead(1).await?;
    one.accept(txs([1])).await;
    second.wait_caught_up().await?;
    second.stop_receiving().await?;
    b.enqueue(one.held.lane, 41).await?;
    standby.wait_caught_up().await?;
    let first = fail_over(&primary, standby, &[&a, &b]).await?;
    for node in [&a, &b, &a] {
        assert_eq!(node.vouch().await?.lost, [], "the first has everything");
    }
    first.stop(Stop::Immediate).await?;
    let second = second.promote().await?;
    lead_to(&second, &[&a, &b]).await?;
    a.vouch().await?;
    let said = b.vouch().await?;
    let first = format!("the queued request {}", id(41).0);
    assert_eq!(
        loss(&said, one.held.lane),
        Some(&Loss::Acknowledged { count: 1, first }),
        "{said:?}"
    );
    assert_eq!(b.paused(1).await?, held());
    Ok(())
}

/// Goal: a node has met the first promoted server and has not reported yet when a third one takes its place, and its
/// report is the first thing that it sends there.
#[tokio::test]
async fn a_report_that_meets_the_next_server_first_forgets_nothing() -> Result<()> {
    let Town {
        primary,
        standby,
        a,
        b,
        ..
    } = town(TERMS, Failover::Witness).await?;
    let one = a.lead(1).await?;
    one.accept(txs([1])).await;
    standby.wait_caught_up().await?;
    standby.stop_receiving().await?;
    b.enqueue(one.held.lane, 41).await?;
    let first = fail_over(&primary, standby, &[&a, &b]).await?;
    wait::until("b meets the first server", || async {
        Ok(b.store.ping().await.is_ok().then_some(()))
    })
    .await?;
    let next = first.standby().await?;
    next.wait_caught_up().await?;
    let _next = fail_over(&first, next, &[&a, &b]).await?;
    let mut said = b.vouch_first().await?;
    if said.lost.is_empty() {
        said = b.vouch_first().await?;
    }
    assert!(
        matches!(
            loss(&said, one.held.lane),
            Some(Loss::Acknowledged { count: 1, .. })
        ),
        "{said:?}"
    );
    assert_eq!(b.paused(1).await?, Some(PauseReason::Failover));
    Ok(())
}

/// Goal: a loss that an operator has reconciled is not reported once more by the next failover.
#[tokio::test]
async fn what_was_reconciled_is_no_loss_of_the_next_failover() -> Result<()> {
    use fencepost_app::ports::PauseChange;
    use fencepost_store_tests::builders::{audit, nonce};
    let Town {
        primary,
        standby,
        a,
        b,
        ..
    } = town(TERMS, Failover::Witness).await?;
    let one = a.lead(1).await?;
    one.accept(txs([1])).await;
    standby.wait_caught_up().await?;
    standby.stop_receiving().await?;
    one.accept(txs([2])).await;
    let first = fail_over(&primary, standby, &[&a, &b]).await?;
    let said = a.vouch().await?;
    assert!(
        matches!(loss(&said, one.held.lane), Some(Loss::Nonces { .. })),
        "{said:?}"
    );
    b.vouch().await?;
    let reconcile = PauseChange::Reconcile { at_least: nonce(2) };
    a.store.pause(one.held.lane, reconcile, &audit()).await?;
    assert_eq!(a.lead(1).await?.accept(txs([3])).await, [2]);
    let next = first.standby().await?;
    next.wait_caught_up().await?;
    let _next = fail_over(&first, next, &[&a, &b]).await?;
    for node in [&a, &b, &a] {
        assert_eq!(node.vouch().await?.lost, []);
    }
    assert_eq!(a.paused(1).await?, None);
    Ok(())
}
