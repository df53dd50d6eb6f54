//! A statement that never reached the server. Method: the writer's connection is held, the statement
//! comes as far as the proxy, and the connection breaks. The second try must then do it, once.

use anyhow::Result;

use super::deed::Deed;
use super::post::{LONG, Post};

async fn check(deed: Deed) -> Result<()> {
    let post = Post::new(LONG).await?;
    let (plan, before, _) = deed.rehearse(&post).await?;
    post.proxy.hold_requests();
    let node = post.node.clone();
    let call = tokio::spawn(async move { plan.act(&*node).await });
    post.wait_for_held_request().await?;
    before
        .assert_added(&post.onlooker, &[], "it is on its way")
        .await?;
    post.proxy.cut();
    call.await??;
    before
        .assert_added(&post.onlooker, deed.traces(), "after the second try")
        .await?;
    post.dump().await.assert_sound();
    Ok(())
}

#[tokio::test]
async fn a_create_is_done_once() -> Result<()> {
    check(Deed::Create).await
}

#[tokio::test]
async fn a_create_on_a_free_nonce_is_done_once() -> Result<()> {
    check(Deed::CreateOnFree).await
}

#[tokio::test]
async fn an_arrival_is_queued_once() -> Result<()> {
    check(Deed::Enqueue).await
}

#[tokio::test]
async fn a_promotion_is_done_once() -> Result<()> {
    check(Deed::Promote).await
}

#[tokio::test]
async fn a_promotion_to_a_free_nonce_is_done_once() -> Result<()> {
    check(Deed::PromoteOnFree).await
}

#[tokio::test]
async fn signed_bytes_are_stored_once() -> Result<()> {
    check(Deed::Sign).await
}

#[tokio::test]
async fn a_completion_is_numbered_once() -> Result<()> {
    check(Deed::Complete).await
}

#[tokio::test]
async fn a_holders_hash_is_recorded_once() -> Result<()> {
    check(Deed::Submit).await
}

#[tokio::test]
async fn a_nonce_is_given_back_once() -> Result<()> {
    check(Deed::Recycle).await
}

#[tokio::test]
async fn a_remedy_is_asked_for_once() -> Result<()> {
    check(Deed::Ask).await
}

#[tokio::test]
async fn a_lane_is_won_once() -> Result<()> {
    check(Deed::Acquire).await
}
