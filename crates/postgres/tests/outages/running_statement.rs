//! A statement that still runs when it is sent again. Method: the first try is stopped before its
//! commit and the client, but not the server, loses the connection; only when the second waits for what the first holds may the
//! first go on. The second must then find the truth, and add nothing to it.

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
    let first = gate.wait_for_waiter().await?;
    post.proxy.forsake();
    post.wait_until_blocks(first).await?;
    before
        .assert_added(&post.onlooker, &[], "both are on their way")
        .await?;
    gate.open().await?;
    call.await??;
    before
        .assert_added(&post.onlooker, deed.traces(), "after both")
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
