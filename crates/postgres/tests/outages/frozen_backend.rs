//! A backend that is stopped inside its fenced statement, with the lane's row in its hands. A frozen
//! process cannot be ended by a signal that it does not read: the lane waits for it, others do not,
//! and when it wakes it must die before it can commit. On a server of its own, since a frozen backend
//! may hold what others need.

use std::fs;

use anyhow::Result;
use fencepost_app::ports::{Acquired, Bid, Holder, LaneCreated, LaneRefusal, Store, StoreError};
use fencepost_domain::ids::LaneId;
use fencepost_postgres::PostgresStore;
use fencepost_store_tests::bench::{leading, only, url};
use fencepost_store_tests::builders::{lane, token};
use fencepost_testkit::postgres::{Cluster, Options, Signal};
use fencepost_testkit::wait;
use tokio::time::Instant;

use super::deed::{Deed, Plan};
use super::post::{LONG, Post, SHORT, settings};

fn bid(lane: LaneId) -> Bid {
    Bid { lane, fresh: false }
}

async fn wait_until_frozen(pid: i32) -> Result<()> {
    wait::until("the backend is frozen", || async {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        let state = stat
            .rsplit(") ")
            .next()
            .and_then(|rest| rest.chars().next());
        Ok((state == Some('T')).then_some(()))
    })
    .await
}

#[tokio::test]
async fn a_frozen_statement_delays_only_its_lane_and_dies_when_it_wakes() -> Result<()> {
    let cluster = Cluster::start(Options::default()).await?;
    let post = Post::on(cluster.create_database().await?, LONG).await?;
    let stuck = post.seat.held.lane;
    let other = only(post.direct().open_lanes(&[lane(2)]).await?);
    let (plan, before, frozen) = Deed::Create.rehearse(&post).await?;
    let Plan::Create(old, batch, _) = plan else {
        panic!("{plan:?}");
    };
    let mut gate = post.gate("signer_lease", "AFTER UPDATE").await?;
    gate.close().await?;
    let node = post.node.clone();
    let call = tokio::spawn(async move { node.create(&old, &[batch]).await });
    assert_eq!(gate.wait_for_waiter().await?, frozen);
    cluster.signal_backend(frozen, Signal::Stop).await?;
    wait_until_frozen(frozen).await?;
    gate.open().await?;

    let again = PostgresStore::attach(settings("again", post.database.url(), SHORT)).await?;
    let name = post.seat.holder.node.clone();
    let incarnation = again.join(&name, &url("a")).await?;
    let me = Holder {
        node: name,
        incarnation,
    };
    let asked = Instant::now();
    let answers = again
        .acquire(&me, &url("a"), &[bid(stuck), bid(other)])
        .await?;
    assert!(asked.elapsed() < SHORT, "it waited for nobody");
    assert_eq!(answers[0], Acquired::Busy);
    assert_eq!(leading(answers[1].clone()).token, token(1));

    // The blocker is told to end, and does not: the bid gives up within its bound.
    let asked = Instant::now();
    let answer = again.acquire(&me, &url("a"), &[bid(stuck)]).await;
    let took = asked.elapsed();
    assert!(matches!(answer, Err(StoreError::Busy(_))), "{answer:?}");
    assert!((SHORT * 2..SHORT * 5).contains(&took), "{took:?}");

    // Reading goes on all the while.
    assert!(again.lane(post.seat.lane).await?.is_some());

    cluster.signal_backend(frozen, Signal::Continue).await?;
    post.wait_until_gone(frozen).await?;
    let asked = Instant::now();
    let answer = only(again.acquire(&me, &url("a"), &[bid(stuck)]).await?);
    assert!(asked.elapsed() < SHORT, "the lane is free at once");
    assert_eq!(leading(answer).token, token(2));
    let told = only(call.await??);
    assert_eq!(told, LaneCreated::Refused(LaneRefusal::Fenced));
    let added = [("tokens", 2)];
    before
        .assert_added(&post.onlooker, &added, "nothing of it landed")
        .await
}
