//! A statement that still runs when it is sent again. Method: the first try is stopped before its
//! commit and the client, but not the server, loses the connection; only when the second waits for what the first holds may the
//! first go on. The second must then find the truth, and add nothing to it.

use anyhow::Result;

use super::deed::{Deed, once_each};
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

once_each!(check);
