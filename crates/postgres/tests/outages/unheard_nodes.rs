//! Nodes that die together with the primary, and nodes that remember too little: what they acknowledged nobody else knows.

use anyhow::Result;
use fencepost_app::ports::{PauseChange, PauseReason, StoreError};
use fencepost_domain::failover::Loss;
use fencepost_domain::ids::FeedSeq;
use fencepost_domain::state::Wait;
use fencepost_postgres::Failover;
use fencepost_store_tests::builders::{audit, id, tx, txs};
use fencepost_testkit::postgres::connect;
use fencepost_testkit::wait;
use tokio::time::Instant;

use super::post::TERMS;
use super::town::{BRIEF, Node, SHORT_LEASE, Town, fail_over, held, loss, town};

/// Goal: node b pauses the lane of a and dies with the primary that alone knew of the pause. Node a led the lane without
/// a doubt, and still gives the other node one lease to report.
#[tokio::test]
async fn a_leader_waits_one_lease_for_nodes_that_may_have_acknowledged_something() -> Result<()> {
    let Town {
        primary,
        standby,
        a,
        b,
        ..
    } = town(SHORT_LEASE, Failover::Witness).await?;
    let one = a.lead(1).await?;
    one.accept(txs([1])).await;
    for node in [&a, &b] {
        node.store.beat(&node.holder, &[]).await?;
    }
    standby.wait_caught_up().await?;
    standby.stop_receiving().await?;
    let pause = PauseChange::Pause(PauseReason::Operator);
    b.store.pause(one.held.lane, pause, &audit()).await?;
    // The lease is alive when the new server is met.
    a.store.renew(&a.holder, &[one.held]).await?;
    let b_died = b;
    let _promoted = fail_over(&primary, standby, &[&a]).await?;
    drop(b_died);

    let said = a.vouch().await?;
    let met = Instant::now();
    assert_eq!((&said.gone_on[..], &said.lost[..]), (&[][..], &[][..]));
    assert_eq!(said.silent, ["b"]);
    assert_eq!(a.paused(1).await?, held());
    let said = wait::until("the lane goes on", || async {
        let said = a.store.vouch(&a.holder).await?;
        Ok(said.gone_on.contains(&one.held.lane).then_some(said))
    })
    .await?;
    println!("went on after {:?}", met.elapsed());
    assert!(met.elapsed() > SHORT_LEASE.duration / 2);
    assert_eq!(said.unheard, ["b"], "one line names it");
    assert_eq!(a.paused(1).await?, None);
    Ok(())
}

/// Goal: the only node that knew what readers were told is gone. Nobody can say that the feed is whole, so its epoch
/// changes; until then a node that was started later gives no page.
#[tokio::test]
async fn a_feed_that_no_living_node_remembers_gets_a_new_epoch() -> Result<()> {
    let Town {
        primary,
        standby,
        database,
        a,
        b,
    } = town(BRIEF, Failover::Witness).await?;
    let one = a.lead(1).await?;
    one.accept(txs([1, 2])).await;
    one.confirm(id(1), 1).await;
    standby.wait_caught_up().await?;
    standby.stop_receiving().await?;
    one.confirm(id(2), 2).await;
    assert_eq!(
        a.store
            .completions(FeedSeq::default(), 10)
            .await?
            .head
            .get(),
        2
    );
    let promoted = fail_over(&primary, standby, &[&a, &b]).await?;
    drop((a, b));

    let fresh = Node::join(&database, promoted.addr()?, "fresh", BRIEF).await?;
    let page = fresh.store.completions(FeedSeq::default(), 10).await;
    assert!(matches!(page, Err(StoreError::Unavailable(_))), "{page:?}");
    let lost = wait::until("somebody decides", || async {
        let said = fresh.store.vouch(&fresh.holder).await?;
        Ok(said.feed_lost.then_some(()))
    });
    lost.await?;
    let feed = fresh.store.completions(FeedSeq::default(), 10).await?;
    assert_eq!((feed.epoch, feed.head.get()), (2, 1));
    assert!(!fresh.store.vouch(&fresh.holder).await?.feed_lost, "once");
    Ok(())
}

/// Goal: more is missing than a node remembers. The lanes that it knows to be hit are written down all the same, and it
/// does not count as having reported.
#[tokio::test]
async fn a_node_that_remembers_too_little_reports_what_it_knows() -> Result<()> {
    let Town {
        primary,
        standby,
        a,
        b,
        database,
    } = town(TERMS, Failover::Witness).await?;
    let one = a.lead(1).await?;
    let two = a.lead(2).await?;
    one.accept(txs([1])).await;
    two.accept(txs([2])).await;
    standby.wait_caught_up().await?;
    standby.stop_receiving().await?;
    // The first is in lane 2, and forgotten by the end.
    for first in (0..10_500_u64).step_by(500) {
        let lane = if first == 0 {
            two.held.lane
        } else {
            one.held.lane
        };
        let batch: Vec<_> = (first..first + 500)
            .map(|n| (lane, tx(1_000 + n)))
            .collect();
        b.store.enqueue(&batch, Wait::Leader, 100_000).await?;
    }
    let promoted = fail_over(&primary, standby, &[&a, &b]).await?;
    let said = b.vouch().await?;
    assert!(
        matches!(
            loss(&said, one.held.lane),
            Some(Loss::Acknowledged { count: 10_000, .. })
        ),
        "{said:?}"
    );
    let client = connect(&promoted.url(database.name())).await?;
    let row = client
        .query_one(
            "SELECT (SELECT lost IS NOT NULL FROM failover_lane WHERE lane_id = $1),
                    (SELECT reported_at IS NULL FROM failover_node WHERE node_id = 'b')",
            &[&one.held.lane.0],
        )
        .await?;
    assert_eq!((row.get(0), row.get(1)), (true, true));
    a.vouch().await?;
    assert_eq!(a.paused(1).await?, held());
    assert_eq!(a.paused(2).await?, held(), "its loss is not remembered");
    Ok(())
}
