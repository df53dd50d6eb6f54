//! A client that sent half of a statement holds its lane's row without end: the server has carried
//! the statement out and waits for the word that commits it, and no timeout reaches that. Method: the
//! proxy lets everything through but the last message, Sync.

use std::time::Duration;

use anyhow::Result;
use fencepost_app::ports::{Acquired, Bid, Holder, LaneCreated, LaneRefusal, Store, StoreError};
use fencepost_domain::ids::{LaneId, NodeId};
use fencepost_postgres::PostgresStore;
use fencepost_store_tests::bench::{leading, only, url};
use fencepost_store_tests::builders::{lane, token};
use fencepost_testkit::wait;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_postgres::error::SqlState;

use super::deed::{Deed, Plan};
use super::post::{LONG, Post, SHORT, SYNC, settings};
use super::traces::Traces;

type Creating = JoinHandle<Result<Vec<LaneCreated>, StoreError>>;

/// A create of lane 1 without its last word, the traces before it, and the backend that waits for it.
async fn half_sent(post: &Post) -> Result<(Creating, Traces, i32)> {
    let (plan, before, writer) = Deed::Create.rehearse(post).await?;
    let Plan::Create(me, batch, _) = plan else {
        panic!("{plan:?}");
    };
    post.forget_requests().await;
    post.proxy.hold_requests();
    let node = post.node.clone();
    let call = tokio::spawn(async move { node.create(&me, &[batch]).await });
    post.proxy.wait_for_request(SYNC).await?;
    let all = post.proxy.held_bytes();
    post.proxy.truncate_next_request(all - SYNC.len());
    wait::until("the lane's row is held", || async {
        Ok(is_locked(post).await?.then_some(()))
    })
    .await?;
    Ok((call, before, writer))
}

async fn is_locked(post: &Post) -> Result<bool> {
    let sql = "SELECT FROM signer_lease WHERE lane_id = $1 FOR NO KEY UPDATE SKIP LOCKED";
    let free = post.onlooker.query(sql, &[&post.seat.held.lane.0]).await?;
    Ok(free.is_empty())
}

/// The node starts again, with connections of its own: its lanes may be taken back at once.
async fn restarted(post: &Post, timeout: Duration) -> Result<(PostgresStore, Holder)> {
    let store = PostgresStore::attach(settings("again", post.database.url(), timeout)).await?;
    let node = post.seat.holder.node.clone();
    let incarnation = store.join(&node, &url("a")).await?;
    Ok((store, Holder { node, incarnation }))
}

fn bid(lane: LaneId) -> Bid {
    Bid { lane, fresh: false }
}

#[tokio::test]
async fn other_lanes_are_taken_at_once_and_this_one_when_its_blocker_is_ended() -> Result<()> {
    let post = Post::new(LONG).await?;
    let others = post.direct().open_lanes(&[lane(2), lane(3)]).await?;
    let stuck = post.seat.held.lane;
    for other in &others {
        let (me, bids) = (&post.seat.holder, [bid(*other)]);
        let lead = leading(only(post.direct().acquire(me, &url("a"), &bids).await?));
        assert_eq!(lead.token, token(1));
    }
    let (call, before, writer) = half_sent(&post).await?;
    let (again, me) = restarted(&post, SHORT).await?;

    let asked = Instant::now();
    let bids = [bid(others[0]), bid(stuck), bid(others[1])];
    let answers = again.acquire(&me, &url("a"), &bids).await?;
    assert!(asked.elapsed() < SHORT, "it waited for nobody");
    assert_eq!(answers[1], Acquired::Busy);
    for answer in [&answers[0], &answers[2]] {
        assert_eq!(leading(answer.clone()).token, token(2));
    }

    let asked = Instant::now();
    let answer = again.acquire(&me, &url("a"), &[bid(stuck)]).await?;
    let took = asked.elapsed();
    assert_eq!(leading(only(answer)).token, token(2));
    assert!((SHORT..SHORT * 3).contains(&took), "{took:?}");
    post.wait_until_gone(writer).await?;
    let added = [("tokens", 3)];
    before
        .assert_added(&post.onlooker, &added, "nothing of it landed")
        .await?;
    // Its client learns it too, by asking again under the old token.
    let told = only(call.await??);
    assert_eq!(told, LaneCreated::Refused(LaneRefusal::Fenced));
    before
        .assert_added(&post.onlooker, &added, "nor by its second try")
        .await
}

/// The broken twin: a takeover that only waits, waits as long as it may, and so does the next.
#[tokio::test]
async fn twin_a_takeover_that_ends_nobody_waits_in_vain() -> Result<()> {
    let post = Post::new(LONG).await?;
    let (call, before, writer) = half_sent(&post).await?;
    post.onlooker
        .batch_execute("SET statement_timeout = '1s'")
        .await?;
    for _ in 0..2 {
        let plain = "UPDATE signer_lease SET fencing_token = fencing_token + 1 WHERE lane_id = $1";
        let waited = Instant::now();
        let stuck = post.seat.held.lane.0;
        let error = post.onlooker.execute(plain, &[&stuck]).await.unwrap_err();
        assert_eq!(error.code(), Some(&SqlState::QUERY_CANCELED));
        assert!(waited.elapsed() >= SHORT);
        assert!(is_locked(&post).await?);
    }
    before
        .assert_added(&post.onlooker, &[], "nobody got anywhere")
        .await?;
    post.database.server().kill_backend(writer).await?;
    // With its blocker gone, the create finds its second try free.
    assert!(matches!(only(call.await??), LaneCreated::Done { .. }));
    Ok(())
}

/// Two nodes wait for one lane, the second of them behind the first: when its patience ends, it must
/// end whoever holds the lane, and not the other takeover.
#[tokio::test]
async fn takeovers_that_wait_for_each_other_end_the_holder_and_not_each_other() -> Result<()> {
    let post = Post::new(LONG).await?;
    let stuck = post.seat.held.lane;
    post.direct()
        .release(&post.seat.holder, &[post.seat.held])
        .await?;
    let holder = post.database.connect().await?;
    holder.batch_execute("BEGIN").await?;
    let row = holder.query_one("SELECT pg_backend_pid()", &[]).await?;
    let holder_pid: i32 = row.get(0);
    let lock = "SELECT FROM signer_lease WHERE lane_id = $1 FOR UPDATE";
    holder.query(lock, &[&stuck.0]).await?;

    let mut calls = Vec::new();
    for (name, timeout) in [("patient", LONG), ("hasty", SHORT)] {
        let store = PostgresStore::attach(settings(name, post.database.url(), timeout)).await?;
        let node = NodeId::new(name)?;
        let incarnation = store.join(&node, &url(name)).await?;
        let me = Holder { node, incarnation };
        calls.push(tokio::spawn(async move {
            store.acquire(&me, &url(name), &[bid(stuck)]).await
        }));
        let takeover = format!("takeover {name}");
        wait::until("the takeover waits", || async {
            let sql = "SELECT FROM pg_stat_activity
                       WHERE datname = current_database() AND application_name = $1
                         AND cardinality(pg_blocking_pids(pid)) > 0";
            let waits = post.onlooker.query(sql, &[&takeover]).await?;
            Ok((!waits.is_empty()).then_some(()))
        })
        .await?;
    }
    let mut answers = Vec::new();
    for call in calls {
        answers.push(only(call.await??));
    }
    assert_eq!(leading(answers[0].clone()).token, token(2));
    assert!(
        matches!(answers[1], Acquired::Busy | Acquired::Led(_)),
        "{answers:?}"
    );
    post.wait_until_gone(holder_pid).await
}
