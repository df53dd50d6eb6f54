//! What operators and policies say, over a network that loses and delays: their last word stands, and
//! what the leader took on is never forgotten.

use anyhow::Result;
use fencepost_app::ports::{
    Action, AskedRemedy, Bid, Held, NewRemedy, PauseChange, PauseReason, Paused, Store, StoreError,
};
use fencepost_store_tests::bench::{leading, only, url};
use fencepost_store_tests::builders::{audit, id, tx};
use fencepost_testkit::postgres::connect;

use super::post::{LONG, Post, SHORT};
use super::traces::Traces;

const PAUSE: PauseChange = PauseChange::Pause(PauseReason::Operator);

async fn is_paused(post: &Post) -> bool {
    post.seat.view().await.paused.is_some()
}

#[tokio::test]
async fn a_pause_whose_reply_is_lost_is_done_and_audited_once() -> Result<()> {
    let post = Post::new(LONG).await?;
    let lane = post.seat.held.lane;
    let before = Traces::read(&post.onlooker).await?;
    let mut gate = post.gate("signer_lease", "AFTER UPDATE").await?;
    gate.close().await?;
    let node = post.node.clone();
    let call = tokio::spawn(async move { node.pause(lane, PAUSE, &audit()).await });
    gate.wait_for_waiter().await?;
    post.proxy.swallow_replies();
    gate.open().await?;
    post.proxy.wait_for_lost_reply().await?;
    post.proxy.cut();
    assert_eq!(call.await??, Paused::Now(Some(PauseReason::Operator)));
    before
        .assert_added(&post.onlooker, &[("remedies", 1)], "one audit")
        .await
}

/// Resumed, and paused again for good reasons: the network then delivers the first resumption.
#[tokio::test]
async fn a_resumption_that_arrives_late_does_not_lift_a_later_pause() -> Result<()> {
    let post = Post::new(SHORT).await?;
    let lane = post.seat.held.lane;
    post.node.pause(lane, PAUSE, &audit()).await?;
    let writer = post.only_the_writer().await?;
    post.proxy.hold_requests();
    let node = post.node.clone();
    let resume = tokio::spawn(async move { node.pause(lane, PauseChange::Resume, &audit()).await });
    post.wait_for_held_request().await?;
    assert_eq!(resume.await??, Paused::Now(None));
    post.direct().pause(lane, PAUSE, &audit()).await?;
    let paused = Traces::read(&post.onlooker).await?;
    post.proxy.release_requests();
    post.wait_until_gone(writer).await?;
    assert!(is_paused(&post).await);
    paused
        .assert_added(&post.onlooker, &[], "the late resumption")
        .await
}

/// The broken twin: the same without a name for the act.
#[tokio::test]
async fn twin_a_nameless_resumption_that_arrives_late_lifts_a_later_pause() -> Result<()> {
    let post = Post::new(SHORT).await?;
    let lane = post.seat.held.lane;
    post.direct().pause(lane, PAUSE, &audit()).await?;
    let client = connect(&post.database.url_through(post.proxy.addr())).await?;
    let row = client.query_one("SELECT pg_backend_pid()", &[]).await?;
    let late: i32 = row.get(0);
    let plain = format!(
        "UPDATE signer_lease SET paused = NULL WHERE lane_id = {}",
        lane.0
    );
    post.proxy.hold_requests();
    let resume = plain.clone();
    let first = tokio::spawn(async move { client.batch_execute(&resume).await });
    post.proxy.wait_for_request(b"SET paused = NULL").await?;
    post.onlooker.batch_execute(&plain).await?;
    post.direct().pause(lane, PAUSE, &audit()).await?;
    assert!(is_paused(&post).await);
    post.proxy.release_requests();
    first.await??;
    post.wait_until_gone(late).await?;
    assert!(!is_paused(&post).await, "nobody wanted that");
    Ok(())
}

fn remedy(action: Action) -> NewRemedy {
    NewRemedy {
        tx: id(1),
        round: 1,
        action,
        fees: None,
        audit: audit(),
    }
}

/// Claimed under a token that does not change, a remedy is not shown again. So a claim whose reply is
/// lost must be told as unknown: the fresh bid that follows brings it back.
#[tokio::test]
async fn a_remedy_whose_claim_was_not_heard_of_is_claimed_again_after_a_fresh_bid() -> Result<()> {
    let post = Post::new(LONG).await?;
    let (me, held) = (post.seat.holder.clone(), post.seat.held);
    post.seat.accept(vec![tx(1)]).await;
    post.direct().ask_remedy(&remedy(Action::Cancel)).await?;
    let mut gate = post.gate("remedy", "AFTER UPDATE").await?;
    gate.close().await?;
    let (node, leader) = (post.node.clone(), me.clone());
    let call = tokio::spawn(async move { node.claim_remedies(&leader, &[held], 10).await });
    gate.wait_for_waiter().await?;
    post.proxy.swallow_replies();
    gate.open().await?;
    post.proxy.wait_for_lost_reply().await?;
    post.proxy.cut();
    let answer = call.await?;
    assert!(
        matches!(answer, Err(StoreError::OutcomeUnknown(_))),
        "{answer:?}"
    );
    let bid = Bid {
        lane: held.lane,
        fresh: true,
    };
    let lead = leading(only(post.node.acquire(&me, &url("a"), &[bid]).await?));
    let held = Held {
        token: lead.token,
        ..held
    };
    let claimed = post.node.claim_remedies(&me, &[held], 10).await?;
    assert_eq!(only(claimed.remedies).record.tx, id(1));
    Ok(())
}

/// While our question is on its way, somebody else asks for the same round: theirs is not ours.
#[tokio::test]
async fn another_ones_remedy_is_not_taken_for_our_lost_one() -> Result<()> {
    let post = Post::new(LONG).await?;
    post.seat.accept(vec![tx(1), tx(2)]).await;
    let mut warm = remedy(Action::Cancel);
    warm.tx = id(2);
    post.node.ask_remedy(&warm).await?;
    post.only_the_writer().await?;
    post.proxy.hold_requests();
    let node = post.node.clone();
    let ours = tokio::spawn(async move { node.ask_remedy(&remedy(Action::Cancel)).await });
    post.wait_for_held_request().await?;
    let theirs = post.direct().ask_remedy(&remedy(Action::Resubmit)).await?;
    let AskedRemedy::Asked(theirs) = theirs else {
        panic!("{theirs:?}");
    };
    post.proxy.cut();
    assert_eq!(ours.await??, AskedRemedy::Running(theirs));
    Ok(())
}
