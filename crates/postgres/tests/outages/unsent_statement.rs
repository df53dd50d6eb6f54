//! A statement that never reached the server. Method: the writer's connection is held, the statement
//! comes as far as the proxy, and the connection breaks. The second try must then do it, once.

use anyhow::Result;

use super::deed::{Deed, once_each};
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

once_each!(check);
