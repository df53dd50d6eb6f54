//! A question that fails behind a write. Several calls look something up after their statement has
//! committed; when that fails, "nothing was written" would be a lie. Method: the statement is stopped
//! before its commit, the node's other connections are ended and new ones refused, and it goes on.

use std::future::Future;
use std::sync::Arc;

use anyhow::Result;
use fencepost_app::ports::{Held, LaneBatch, LaneMoves, LanePromotion, Store, StoreError};
use fencepost_domain::ids::Nonce;
use fencepost_domain::state::Wait;
use fencepost_postgres::PostgresStore;
use fencepost_store_tests::bench::only;
use fencepost_store_tests::builders::{id, lane, sign, token, tx, txs};

use super::deed::{Deed, Plan};
use super::post::{LONG, Post};

/// Lets a call of this kind write, and then ask in vain. Returns what it said.
async fn ask_in_vain<T, F>(
    post: &Post,
    deed: Deed,
    call: impl FnOnce(Arc<PostgresStore>) -> F,
) -> Result<Result<T, StoreError>>
where
    T: Send + 'static,
    F: Future<Output = Result<T, StoreError>> + Send + 'static,
{
    let (table, timing) = deed.place();
    let mut gate = post.gate(table, timing).await?;
    gate.close().await?;
    let call = tokio::spawn(call(Arc::clone(&post.node)));
    gate.wait_for_waiter().await?;
    post.only_the_writer().await?;
    post.proxy.refuse();
    gate.open().await?;
    Ok(call.await?)
}

fn assert_unknown<T: std::fmt::Debug>(answer: &Result<T, StoreError>) {
    assert!(
        matches!(answer, Err(StoreError::OutcomeUnknown(_))),
        "{answer:?}"
    );
}

/// A lane that the node does not lead: the statement leaves it out, and the reason must be read.
async fn not_ours(post: &Post) -> Result<Held> {
    Ok(Held {
        lane: only(post.direct().open_lanes(&[lane(2)]).await?),
        token: token(7),
    })
}

#[tokio::test]
async fn what_a_holder_said_is_not_told_as_unsaid() -> Result<()> {
    let post = Post::new(LONG).await?;
    let (plan, before, _) = Deed::Submit.rehearse(&post).await?;
    let answer = ask_in_vain(
        &post,
        Deed::Submit,
        |node| async move { plan.act(&*node).await },
    )
    .await?;
    assert_unknown(&answer);
    before
        .assert_added(&post.onlooker, Deed::Submit.traces(), "it was written")
        .await
}

#[tokio::test]
async fn a_create_is_not_told_as_nothing_because_of_another_lane() -> Result<()> {
    let post = Post::new(LONG).await?;
    let held = not_ours(&post).await?;
    let (plan, before, _) = Deed::Create.rehearse(&post).await?;
    let Plan::Create(me, batch, _) = plan else {
        panic!("{plan:?}");
    };
    let other = LaneBatch {
        held,
        cursor: Nonce::ZERO,
        free: vec![],
        txs: txs([90]),
    };
    let answer = ask_in_vain(&post, Deed::Create, |node| async move {
        node.create(&me, &[batch, other]).await
    })
    .await?;
    assert_unknown(&answer);
    before
        .assert_added(&post.onlooker, Deed::Create.traces(), "it was written")
        .await
}

#[tokio::test]
async fn a_promotion_is_not_told_as_nothing_because_of_another_lane() -> Result<()> {
    let post = Post::new(LONG).await?;
    let held = not_ours(&post).await?;
    let (plan, before, _) = Deed::Promote.rehearse(&post).await?;
    let Plan::Promote(me, promotion, _) = plan else {
        panic!("{plan:?}");
    };
    let other = LanePromotion {
        held,
        cursor: Nonce::ZERO,
        free: vec![],
        txs: vec![id(90)],
    };
    let answer = ask_in_vain(&post, Deed::Promote, |node| async move {
        node.promote(&me, &[promotion, other]).await
    })
    .await?;
    assert_unknown(&answer);
    before
        .assert_added(&post.onlooker, Deed::Promote.traces(), "it was written")
        .await
}

#[tokio::test]
async fn signed_bytes_are_not_told_as_unstored_because_of_another_lane() -> Result<()> {
    let post = Post::new(LONG).await?;
    let held = not_ours(&post).await?;
    post.seat.accept(vec![tx(90)]).await;
    let moves = vec![post.seat.plan(id(90), sign(90)).await];
    let (plan, before, _) = Deed::Sign.rehearse(&post).await?;
    let Plan::Sign(me, batch) = plan else {
        panic!("{plan:?}");
    };
    let other = LaneMoves { held, moves };
    let answer = ask_in_vain(&post, Deed::Sign, |node| async move {
        node.apply(&me, &[batch, other]).await
    })
    .await?;
    assert_unknown(&answer);
    before
        .assert_added(&post.onlooker, Deed::Sign.traces(), "it was written")
        .await
}

/// The second of two equal items is answered by what is stored of the first.
#[tokio::test]
async fn an_arrival_is_not_told_as_nothing_because_of_its_double() -> Result<()> {
    let post = Post::new(LONG).await?;
    let (plan, before, _) = Deed::Enqueue.rehearse(&post).await?;
    let Plan::Enqueue(mut both) = plan else {
        panic!("{plan:?}");
    };
    both.push(both[0].clone());
    let answer = ask_in_vain(&post, Deed::Enqueue, |node| async move {
        node.enqueue(&both, Wait::Leader, 100).await
    })
    .await?;
    assert_unknown(&answer);
    before
        .assert_added(&post.onlooker, Deed::Enqueue.traces(), "it was written")
        .await
}
