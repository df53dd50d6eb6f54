//! The server's clock jumps. Method: stored times are moved instead, which is the same seen from them.

use std::time::Duration;

use anyhow::Result;
use fencepost_app::ports::{Acquired, Bid, Holder, LaneRefusal, Renewed};
use fencepost_domain::ids::NodeId;
use fencepost_store_tests::bench::{leading, only, refused, url};
use fencepost_store_tests::builders::{token, txs};

use super::post::{LONG, Post, TERMS};

/// What node b is told when it bids for a's lane, whose lease ends so many seconds from now.
async fn bid_of_b(post: &Post, ends_in_seconds: f64) -> Result<Acquired> {
    let sql = "UPDATE signer_lease SET expires_at = clock_timestamp() + $1 * interval '1 second'";
    post.onlooker.execute(sql, &[&ends_in_seconds]).await?;
    let node = NodeId::new("b")?;
    let incarnation = post.direct().join(&node, &url("b")).await?;
    let me = Holder { node, incarnation };
    let bid = Bid {
        lane: post.seat.held.lane,
        fresh: false,
    };
    Ok(only(post.direct().acquire(&me, &url("b"), &[bid]).await?))
}

async fn check(ends_in: f64, taken: bool) -> Result<()> {
    let post = Post::new(LONG).await?;
    let answer = bid_of_b(&post, ends_in).await?;
    let a = &post.seat;
    if taken {
        assert_eq!(leading(answer).token, token(2), "{ends_in}");
        assert_eq!(refused(a.create(txs([1])).await), LaneRefusal::Fenced);
        let renewed = a.store.renew(&a.holder, &[a.held]).await?;
        assert_eq!(renewed, [Renewed::Fenced]);
    } else {
        assert!(matches!(answer, Acquired::Led(_)), "{ends_in}: {answer:?}");
    }
    Ok(())
}

fn seconds(duration: Duration) -> f64 {
    duration.as_secs_f64()
}

#[tokio::test]
async fn a_lease_from_before_the_clock_went_back_is_taken_over() -> Result<()> {
    check(seconds(TERMS.absurd()) + 60.0, true).await?;
    check(100.0 * 365.0 * 86_400.0, true).await
}

#[tokio::test]
async fn a_lease_that_may_be_real_is_respected() -> Result<()> {
    check(seconds(TERMS.absurd()) - 60.0, false).await?;
    check(seconds(TERMS.duration), false).await?;
    // Ended, but within the allowance for skew.
    check(-seconds(TERMS.skew) / 2.0, false).await
}

#[tokio::test]
async fn a_lease_that_a_clock_jump_ended_is_taken_over() -> Result<()> {
    check(-seconds(TERMS.skew) - 1.0, true).await?;
    check(-100.0 * 365.0 * 86_400.0, true).await
}
