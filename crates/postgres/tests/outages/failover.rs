//! An asynchronous standby is promoted without the primary's last commits. Nothing may be given out
//! again that those commits gave out: every lane is held, every leader fenced, tokens leap, the feed
//! begins a new epoch, until an operator has reconciled with the chain.

use std::sync::Arc;

use anyhow::Result;
use fencepost_app::ports::{
    Bid, Key, LaneCreated, LaneMoved, LaneRefusal, PauseChange, PauseReason, Paused, Store,
    StoreError,
};
use fencepost_domain::ids::FeedSeq;
use fencepost_domain::transition::Input;
use fencepost_postgres::PostgresStore;
use fencepost_store_tests::bench::{Seat, leading, only, refused, url, written};
use fencepost_store_tests::builders::{
    self, accepted, audit, feed_seq, id, lane, mined, nonce, sign, token, tx, txs,
};
use fencepost_store_tests::dump::Dump;
use fencepost_testkit::postgres::{Cluster, Options, Standby, Stop, connect};
use futures::future::join_all;

use super::post::{LONG, Post, direct, settings, sit};
use super::traces::Traces;

/// The newest token that the lost commits gave out.
const LOST_TOKEN: u64 = 4;

/// A primary whose standby has missed the tail: two more nonces of lane 1, one of them signed for,
/// the first of lane 2, three more tokens of lane 1 and one completion.
async fn tail_missing() -> Result<(Cluster, Standby, Post)> {
    let primary = Cluster::start(Options::default()).await?;
    let standby = primary.standby().await?;
    let mut post = Post::on(primary.create_database().await?, LONG).await?;
    let a = post.seat.clone();
    a.accept(txs([1, 2, 3])).await;
    a.confirm(id(1), 1).await;
    a.step(id(2), sign(2)).await;
    let b = sit(&a.store, "b", 2).await?;
    standby.wait_caught_up().await?;
    standby.stop_receiving().await?;
    b.accept(txs([20])).await;
    a.accept(txs([4, 5])).await;
    a.step(id(4), sign(4)).await;
    a.step(id(2), accepted()).await;
    a.step(id(2), mined(2, 100)).await;
    a.step(id(2), Input::Final).await;
    for n in 2..=LOST_TOKEN {
        let bid = Bid {
            lane: a.held.lane,
            fresh: true,
        };
        let lead = a.store.acquire(&a.holder, &url("a"), &[bid]).await?;
        post.seat.held.token = leading(only(lead)).token;
        assert_eq!(post.seat.held.token, token(n));
    }
    Ok((primary, standby, post))
}

#[tokio::test]
async fn after_a_failover_all_is_held_until_it_is_reconciled_with_the_chain() -> Result<()> {
    let (primary, standby, post) = tail_missing().await?;
    primary.stop(Stop::Immediate).await?;
    let promoted = standby.promote().await?;
    assert_eq!(twin_fence_alone(&promoted, &post).await?, 0, "it was given");
    post.proxy.retarget(promoted.addr()?);
    post.proxy.cut();
    // Several nodes come back at once, and the hold happens once.
    let to = promoted.url(post.database.name());
    let nodes = (0..4).map(|_| PostgresStore::attach(settings("other", to.clone(), LONG)));
    let (found, ..) = tokio::join!(post.node.ping(), join_all(nodes));
    found?;
    let node: Arc<dyn Store> = Arc::clone(&post.node) as Arc<dyn Store>;
    let old = Seat {
        store: Arc::clone(&node),
        ..post.seat.clone()
    };

    let views = node.lanes(None, 10).await?;
    for (view, before) in views.iter().zip([1, 1]) {
        assert_eq!(view.paused, Some(PauseReason::Failover));
        assert_eq!(view.leader, None);
        assert!(view.token > token(before + 1_000_000));
        assert!(view.token > token(LOST_TOKEN));
        assert_eq!(view.token, views[0].token, "each leapt once, as far");
    }
    let feed = node.completions(FeedSeq::default(), 10).await?;
    assert_eq!((feed.epoch, feed.head), (2, feed_seq(1)));
    assert_eq!(node.find(&Key::Id(id(4))).await?, None, "it was lost");

    // The leader of before is fenced, whatever it does.
    assert_eq!(refused(old.create(txs([6])).await), LaneRefusal::Fenced);
    let sent = old.plan(id(2), accepted()).await;
    assert_eq!(old.write(vec![sent]).await, LaneMoved::Fenced);

    // A new lease lets it follow what was sent, but neither sign nor give nonces.
    let new = sit(&node, "a", 1).await?;
    let bid = Bid {
        lane: new.held.lane,
        fresh: false,
    };
    let lead = only(node.acquire(&new.holder, &url("a"), &[bid]).await?);
    assert_eq!(leading(lead).paused, Some(PauseReason::Failover));
    new.step(id(2), accepted()).await;
    let held = PauseReason::Failover;
    let answer = new.create(txs([6])).await;
    assert_eq!(answer, LaneCreated::Refused(LaneRefusal::Paused(held)));
    let bytes = new.plan(id(3), sign(3)).await;
    assert_eq!(new.write(vec![bytes]).await, LaneMoved::Paused(held));
    let lane = new.held.lane;
    let resumed = node.pause(lane, PauseChange::Resume, &audit()).await?;
    assert_eq!(resumed, Paused::Now(Some(held)), "resuming is not enough");

    // The chain has seen five: none of those is given again.
    let count = PauseChange::Reconcile { at_least: nonce(5) };
    assert_eq!(node.pause(lane, count, &audit()).await?, Paused::Now(None));
    assert_eq!(new.accept(txs([6])).await, [5]);
    let bytes = new.plan(id(3), sign(3)).await;
    assert_eq!(written(new.write(vec![bytes]).await), []);
    assert_eq!(node.gaps(lane, nonce(0), 10).await?, [nonce(3), nonce(4)]);
    let other = node.lane(builders::lane(2)).await?;
    let other = other.and_then(|view| view.paused);
    assert_eq!(other, Some(held), "each lane is its own");
    Dump::of(&*node).await.assert_sound();

    // Connections that come later find the server they know.
    let later = PostgresStore::attach(settings("later", to, LONG)).await?;
    assert_eq!(later.completions(FeedSeq::default(), 10).await?.epoch, 2);
    Ok(())
}

/// The broken twin: the nonce that b's statement would get on the new primary if the fence were all
/// that is asked. Its token is the newest there, and its lease is alive.
async fn twin_fence_alone(promoted: &Cluster, post: &Post) -> Result<i64> {
    let mut client = connect(&promoted.url(post.database.name())).await?;
    let tried = client.transaction().await?;
    let sql = "UPDATE signer_lease SET next_nonce = next_nonce + 1
                WHERE owner_node = 'b' AND owner_incarnation = 1 AND fencing_token = 1
                  AND expires_at > clock_timestamp() AND paused IS NULL AND NOT held
               RETURNING next_nonce - 1";
    let given = tried.query_one(sql, &[]).await?.get(0);
    tried.rollback().await?;
    Ok(given)
}

/// The old primary goes on running beside the new one, and the node still has connections to it. Once
/// it has seen the new one it must neither write over those nor make others.
#[tokio::test]
async fn a_node_that_has_seen_the_new_primary_leaves_the_old_one_alone() -> Result<()> {
    let (primary, standby, post) = tail_missing().await?;
    let a = Seat {
        store: Arc::clone(&post.node) as Arc<dyn Store>,
        ..post.seat.clone()
    };
    a.accept(txs([7])).await;
    let promoted = standby.promote().await?;
    post.proxy.retarget(promoted.addr()?);
    // One is read over the old connection; the other needs a new one, which leads to the new primary.
    let (old, new) = tokio::join!(post.node.ping(), post.node.ping());
    old.and(new)?;
    let before = Traces::read(&post.onlooker).await?;
    let answer = a.create(vec![tx(8)]).await;
    assert_eq!(refused(answer), LaneRefusal::Fenced);
    before
        .assert_added(&post.onlooker, &[], "nothing went to the old primary")
        .await?;

    post.proxy.retarget(primary.addr()?);
    post.proxy.cut();
    let answer = post.node.lane(lane(1)).await;
    assert!(
        matches!(&answer, Err(StoreError::Unfit(why)) if why.contains("stale")),
        "{answer:?}"
    );
    let answer = post.node.create(&a.holder, &[]).await;
    assert!(answer.is_ok(), "nothing to do needs no server: {answer:?}");
    let batch = post.seat.batch(txs([9])).await;
    let answer = post.node.create(&a.holder, &[batch]).await;
    assert!(matches!(answer, Err(StoreError::Unfit(_))), "{answer:?}");
    // A node that knows nothing of the failover cannot tell: this is what fencing the old primary is for.
    direct(&post.database).await?.ping().await?;

    post.proxy.retarget(promoted.addr()?);
    post.node.ping().await?;
    Ok(())
}
