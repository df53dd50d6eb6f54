//! A statement of any kind may be the first that a node sends to the promoted server. What that server then acknowledges
//! belongs to it, and is no loss of the server before it.

use anyhow::Result;
use fencepost_app::ports::Acquired;
use fencepost_domain::ids::FeedSeq;
use fencepost_postgres::Failover;
use fencepost_store_tests::builders::{id, txs};
use fencepost_testkit::wait;

use super::post::TERMS;
use super::town::{Town, fail_over, town};

/// Followers bid with each request that they take, so the leader's lane is bid for by both.
#[tokio::test]
async fn a_bid_that_meets_the_new_server_first_is_no_loss() -> Result<()> {
    let Town {
        primary,
        standby,
        a,
        b,
        ..
    } = town(TERMS, Failover::Witness).await?;
    let one = a.lead(1).await?;
    let two = b.lead(2).await?;
    one.accept(txs([1])).await;
    two.accept(txs([20])).await;
    standby.wait_caught_up().await?;
    let _promoted = fail_over(&primary, standby, &[&a, &b]).await?;

    for node in [&b, &a] {
        for lane in [one.held.lane, two.held.lane] {
            node.bid(lane, false).await?;
        }
    }
    let said = [a.vouch_first().await?, b.vouch_first().await?];
    for said in &said {
        assert_eq!(said.lost, [], "nothing was lost");
    }
    let more = [a.vouch_first().await?, b.vouch_first().await?];
    for (seat, n) in [(&one, 1), (&two, 2)] {
        let gone_on = said.iter().chain(&more).flat_map(|said| &said.gone_on);
        assert!(
            gone_on.into_iter().any(|lane| *lane == seat.held.lane),
            "{said:?} {more:?}"
        );
        assert_eq!(a.paused(n).await?, None);
    }
    Ok(())
}

/// The reader of the feed is answered by the first connection to the new server.
#[tokio::test]
async fn a_page_of_the_feed_that_meets_the_new_server_first_is_not_counted_for_the_old_one()
-> Result<()> {
    let Town {
        primary,
        standby,
        a,
        b,
        ..
    } = town(TERMS, Failover::Witness).await?;
    let one = a.lead(1).await?;
    one.accept(txs([1, 2])).await;
    one.confirm(id(1), 1).await;
    standby.wait_caught_up().await?;
    let _promoted = fail_over(&primary, standby, &[&a, &b]).await?;
    // Both nodes are awaited, and neither has read further than the new server goes.
    assert!(matches!(
        a.bid(one.held.lane, false).await?,
        Acquired::Leading(_)
    ));
    let _ = b.store.completions(FeedSeq::default(), 10).await;
    assert!(!a.vouch_first().await?.feed_lost);
    assert!(!b.vouch_first().await?.feed_lost);
    a.vouch_first().await?;
    let feed = wait::until("the feed is decided", || async {
        Ok(b.store.completions(FeedSeq::default(), 10).await.ok())
    })
    .await?;
    assert_eq!((feed.epoch, feed.completions.len()), (1, 1));
    Ok(())
}
