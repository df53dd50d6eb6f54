//! A statement that arrives late. Method: the first try is held by the network; the node takes the
//! silence for a loss and sends it again over a new connection; then the network delivers the first
//! one after all. It must apply to nothing. Where the second try could not do it either, the answer is
//! "unknown", and only a new token makes "not there" a fact: the twins show what a look-up is worth.

use anyhow::Result;
use fencepost_app::ports::{Bid, Key, PauseChange, PauseReason, Paused, StoreError};
use fencepost_store_tests::bench::{leading, only, url};
use fencepost_store_tests::builders::{audit, id};

use super::deed::Deed;
use super::post::{Post, SHORT};

async fn check(deed: Deed) -> Result<()> {
    let post = Post::new(SHORT).await?;
    let (plan, before, writer) = deed.rehearse(&post).await?;
    post.proxy.hold_requests();
    let node = post.node.clone();
    let call = tokio::spawn(async move { plan.act(&*node).await });
    post.wait_for_held_request().await?;
    call.await??;
    let once = deed.traces();
    before
        .assert_added(&post.onlooker, once, "the second try")
        .await?;
    let done = post.dump().await;
    post.proxy.release_requests();
    post.wait_until_gone(writer).await?;
    before
        .assert_added(&post.onlooker, once, "the first try, late")
        .await?;
    if deed != Deed::Acquire {
        let now = post.dump().await;
        now.assert_same(&done, "the first try, late");
    }
    post.dump().await.assert_sound();
    Ok(())
}

/// What is done about a write of unknown outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Remedy {
    /// A new token, and then a look.
    FreshBid,
    /// A look alone.
    LookUp,
}

/// The lane is paused while the first try is on its way, so that the second is refused; afterwards it
/// goes on, and the first try arrives. Returns whether the write has happened in the end.
async fn paused_meanwhile(deed: Deed, remedy: Remedy) -> Result<bool> {
    let post = Post::new(SHORT).await?;
    let (plan, before, writer) = deed.rehearse(&post).await?;
    let lane = post.seat.held.lane;
    post.proxy.hold_requests();
    let node = post.node.clone();
    let call = tokio::spawn(async move { plan.act(&*node).await });
    post.wait_for_held_request().await?;
    let pause = PauseChange::Pause(PauseReason::Operator);
    post.direct().pause(lane, pause, &audit()).await?;
    let answer = call.await?;
    assert!(
        matches!(answer, Err(StoreError::OutcomeUnknown(_))),
        "{answer:?}"
    );
    if remedy == Remedy::FreshBid {
        let bid = Bid { lane, fresh: true };
        let holder = &post.seat.holder;
        let answer = only(post.direct().acquire(holder, &url("a"), &[bid]).await?);
        assert!(leading(answer).changed());
    }
    assert!(!has_happened(&post, deed).await?, "so says a look-up");
    let resumed = post
        .direct()
        .pause(lane, PauseChange::Resume, &audit())
        .await?;
    assert_eq!(resumed, Paused::Now(None));
    post.proxy.release_requests();
    post.wait_until_gone(writer).await?;
    let happened = has_happened(&post, deed).await?;
    if !happened {
        let fresh = [("tokens", 1), ("remedies", 2)];
        before
            .assert_added(
                &post.onlooker,
                &fresh,
                "only the bid and the operator's acts",
            )
            .await?;
    }
    Ok(happened)
}

async fn has_happened(post: &Post, deed: Deed) -> Result<bool> {
    let n = if deed == Deed::CreateOnFree { 21 } else { 20 };
    let record = post.direct().find(&Key::Id(id(n))).await?;
    Ok(record.is_some_and(|record| {
        if deed == Deed::Sign {
            record.attempts > 0
        } else {
            record.state.nonce().is_some()
        }
    }))
}

async fn check_paused(deed: Deed) -> Result<()> {
    assert!(!paused_meanwhile(deed, Remedy::FreshBid).await?);
    Ok(())
}

/// The broken twin: "not there", and then it is.
async fn check_twin(deed: Deed) -> Result<()> {
    assert!(
        paused_meanwhile(deed, Remedy::LookUp).await?,
        "a look-up alone was enough: then the rule of the fresh bid is not needed"
    );
    Ok(())
}

#[tokio::test]
async fn a_create_is_not_done_again() -> Result<()> {
    check(Deed::Create).await
}

#[tokio::test]
async fn a_create_on_a_free_nonce_is_not_done_again() -> Result<()> {
    check(Deed::CreateOnFree).await
}

#[tokio::test]
async fn an_arrival_is_not_queued_again() -> Result<()> {
    check(Deed::Enqueue).await
}

#[tokio::test]
async fn a_promotion_is_not_done_again() -> Result<()> {
    check(Deed::Promote).await
}

#[tokio::test]
async fn a_promotion_to_a_free_nonce_is_not_done_again() -> Result<()> {
    check(Deed::PromoteOnFree).await
}

#[tokio::test]
async fn signed_bytes_are_not_stored_again() -> Result<()> {
    check(Deed::Sign).await
}

#[tokio::test]
async fn a_completion_is_not_numbered_again() -> Result<()> {
    check(Deed::Complete).await
}

#[tokio::test]
async fn a_holders_hash_is_not_recorded_again() -> Result<()> {
    check(Deed::Submit).await
}

#[tokio::test]
async fn a_nonce_is_not_given_back_again() -> Result<()> {
    check(Deed::Recycle).await
}

#[tokio::test]
async fn a_remedy_is_not_asked_for_again() -> Result<()> {
    check(Deed::Ask).await
}

#[tokio::test]
async fn a_question_is_not_answered_again() -> Result<()> {
    check(Deed::Decide).await
}

#[tokio::test]
async fn a_round_is_not_closed_again() -> Result<()> {
    check(Deed::DecideNothing).await
}

#[tokio::test]
async fn a_lane_is_not_won_again() -> Result<()> {
    check(Deed::Acquire).await
}

#[tokio::test]
async fn after_a_fresh_bid_a_create_that_was_not_there_never_will_be() -> Result<()> {
    check_paused(Deed::Create).await
}

#[tokio::test]
async fn after_a_fresh_bid_a_create_on_a_free_nonce_that_was_not_there_never_will_be() -> Result<()>
{
    check_paused(Deed::CreateOnFree).await
}

#[tokio::test]
async fn after_a_fresh_bid_a_promotion_that_was_not_there_never_will_be() -> Result<()> {
    check_paused(Deed::Promote).await
}

#[tokio::test]
async fn after_a_fresh_bid_bytes_that_were_not_there_never_will_be() -> Result<()> {
    check_paused(Deed::Sign).await
}

#[tokio::test]
async fn twin_a_create_that_a_look_up_did_not_find_commits_afterwards() -> Result<()> {
    check_twin(Deed::Create).await
}

#[tokio::test]
async fn twin_a_promotion_that_a_look_up_did_not_find_commits_afterwards() -> Result<()> {
    check_twin(Deed::Promote).await
}

#[tokio::test]
async fn twin_bytes_that_a_look_up_did_not_find_are_stored_afterwards() -> Result<()> {
    check_twin(Deed::Sign).await
}
