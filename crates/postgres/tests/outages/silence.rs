//! A server that takes connections and requests and never answers. No connection breaks by that, so
//! only our own patience ends a call: every one must come back within a bound, and say what is known.

use anyhow::Result;
use fencepost_app::ports::{LaneCreated, Store, StoreError};
use fencepost_store_tests::bench::only;
use futures::future::join_all;
use tokio::net::TcpListener;
use tokio::time::{Instant, timeout};

use super::every_call::Words;
use super::post::{BOUND, Post, SHORT};

#[tokio::test]
async fn every_call_ends_within_its_bound_and_says_what_is_known() -> Result<()> {
    let post = Post::new(SHORT).await?;
    let words = Words::prepare(&post.seat).await?;
    let before = post.dump().await;
    // Connections that are open fall silent, and new ones are made to nobody.
    let nobody = TcpListener::bind("127.0.0.1:0").await?;
    post.proxy.retarget(nobody.local_addr()?);
    post.proxy.hold_requests();
    let calls = words.writes(&*post.node).into_iter();
    let calls = calls.chain(words.reads(&*post.node));
    let outcomes =
        join_all(calls.map(|(call, future)| async move { (call, timeout(BOUND, future).await) }));
    // Another handle is not held up by any of it.
    let asked = Instant::now();
    let (outcomes, ()) = tokio::join!(outcomes, async {
        post.direct().ping().await.unwrap();
        assert!(asked.elapsed() < SHORT);
    });
    for (call, outcome) in outcomes {
        let answer = outcome.unwrap_or_else(|_| panic!("{call} hangs"));
        let Err(StoreError::Unavailable(_) | StoreError::OutcomeUnknown(_) | StoreError::Busy(_)) =
            answer
        else {
            panic!("{call}: {answer:?}");
        };
    }
    post.dump().await.assert_same(&before, "nobody was reached");

    // It speaks again, and the store needs nothing to notice.
    post.proxy.retarget(post.database.server().addr()?);
    post.proxy.cut();
    post.node.ping().await?;
    let me = &post.seat.holder;
    let answer = only(post.node.create(me, &words.create).await?);
    assert!(matches!(answer, LaneCreated::Done { .. }), "{answer:?}");
    Ok(())
}

/// Connections fall silent but new ones are sound: the call itself finds its way.
#[tokio::test]
async fn silent_connections_are_given_up_for_sound_ones() -> Result<()> {
    let post = Post::new(SHORT).await?;
    post.node
        .renew(&post.seat.holder, &[post.seat.held])
        .await?;
    post.proxy.hold_requests();
    let asked = Instant::now();
    post.node
        .renew(&post.seat.holder, &[post.seat.held])
        .await?;
    assert!(asked.elapsed() < BOUND);
    Ok(())
}
