//! A commit whose reply is lost. Method: the statement is stopped before its commit, from then on
//! replies are swallowed, it commits, and the connection breaks. The identical statement, sent again
//! on a new connection, must find it done, and the caller must hear the truth.

use anyhow::Result;

use super::deed::Deed;
use super::post::{LONG, Post};

async fn check(deed: Deed) -> Result<()> {
    let post = Post::new(LONG).await?;
    let (plan, before, _) = deed.rehearse(&post).await?;
    let (table, timing) = deed.place();
    let mut gate = post.gate(table, timing).await?;
    gate.close().await?;
    let node = post.node.clone();
    let call = tokio::spawn(async move { plan.act(&*node).await });
    gate.wait_for_waiter().await?;
    post.proxy.swallow_replies();
    gate.open().await?;
    post.proxy.wait_for_lost_reply().await?;
    let once = deed.traces();
    before
        .assert_added(&post.onlooker, once, "the first try committed")
        .await?;
    assert!(!call.is_finished(), "nobody has heard of it");
    post.proxy.cut();
    call.await??;
    before
        .assert_added(&post.onlooker, once, "after the second try")
        .await?;
    post.dump().await.assert_sound();
    Ok(())
}

#[tokio::test]
async fn a_create_finds_itself_done() -> Result<()> {
    check(Deed::Create).await
}

#[tokio::test]
async fn a_create_on_a_free_nonce_finds_itself_done() -> Result<()> {
    check(Deed::CreateOnFree).await
}

#[tokio::test]
async fn what_was_queued_finds_itself_queued() -> Result<()> {
    check(Deed::Enqueue).await
}

#[tokio::test]
async fn a_promotion_finds_itself_done() -> Result<()> {
    check(Deed::Promote).await
}

#[tokio::test]
async fn a_promotion_to_a_free_nonce_finds_itself_done() -> Result<()> {
    check(Deed::PromoteOnFree).await
}

#[tokio::test]
async fn signed_bytes_are_found_stored() -> Result<()> {
    check(Deed::Sign).await
}

#[tokio::test]
async fn a_completion_finds_its_number_in_the_feed() -> Result<()> {
    check(Deed::Complete).await
}

#[tokio::test]
async fn a_holders_hash_is_found_recorded() -> Result<()> {
    check(Deed::Submit).await
}

#[tokio::test]
async fn a_nonce_given_back_is_found_free_once() -> Result<()> {
    check(Deed::Recycle).await
}

#[tokio::test]
async fn a_remedy_is_found_asked_for() -> Result<()> {
    check(Deed::Ask).await
}

#[tokio::test]
async fn an_answer_is_found_given() -> Result<()> {
    check(Deed::Decide).await
}

#[tokio::test]
async fn a_round_is_found_closed() -> Result<()> {
    check(Deed::DecideNothing).await
}

#[tokio::test]
async fn a_lane_that_was_won_is_told_as_newly_won() -> Result<()> {
    check(Deed::Acquire).await
}
