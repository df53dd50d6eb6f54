//! Rule 1: a takeover and a fenced write that meet. Whoever takes the lane's row first goes first, and
//! the other one sees what it did.

use anyhow::Result;
use fencepost_store_tests::bench::{Seat, leading};
use fencepost_store_tests::builders::lane;
use futures::future::try_join_all;

use super::stage::{LaneRow, Stage, assert_sound, bid, led_by};
use super::write::{Answer, WRITES, Write};

/// Who takes the lane although its leader's lease lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rival {
    /// The same node after a restart: always at once.
    NextIncarnation,
    /// Another node: because the clock went back.
    OtherNode,
}

impl Rival {
    async fn join(self, stage: &Stage, leader: &Seat) -> Result<Seat> {
        let node = match self {
            Self::NextIncarnation => leader.holder.node.as_str(),
            Self::OtherNode => "b",
        };
        stage.join("rival", node, leader.lane).await
    }
}

async fn prepared(write: Write) -> Result<(Stage, Seat)> {
    let stage = Stage::new().await?;
    let a = stage.seat("a", lane(1)).await?;
    write.prepare(&a).await?;
    Ok((stage, a))
}

/// The write stops after it has taken the lane's row; the takeover comes, and must wait.
#[tokio::test(flavor = "multi_thread")]
async fn a_takeover_waits_for_the_write_in_flight_and_sees_its_effects() -> Result<()> {
    try_join_all(WRITES.map(|write| Box::pin(takeover_behind(write)))).await?;
    Ok(())
}

async fn takeover_behind(write: Write) -> Result<()> {
    let (stage, a) = prepared(write).await?;
    let before = stage.lane_row(&a).await?;
    let rival = Rival::NextIncarnation.join(&stage, &a).await?;
    let gate = &mut stage
        .gate(write.table(), "BEFORE INSERT OR UPDATE", "a")
        .await?;

    let writing = tokio::spawn(write.send(a.clone()));
    gate.wait_for_waiter().await?;
    let taking = tokio::spawn(bid(rival));
    assert!(stage.waits("rival", &taking).await?, "{write:?}: overtaken");
    gate.open().await?;

    assert_eq!(writing.await??, Answer::Written, "{write:?}");
    let written = stage.lane_row(&a).await?;
    let lead = leading(taking.await??);
    assert!(lead.changed());
    assert_eq!(lead.token.column(), before.token + 1, "{write:?}");
    assert_eq!(lead.next_nonce.column(), written.next_nonce, "{write:?}");
    assert_sound(&a).await;
    Ok(())
}

/// Every fenced write renews: a rival that was about to take over finds the lease alive again.
#[tokio::test(flavor = "multi_thread")]
async fn a_rival_that_waited_for_a_write_finds_the_lease_renewed() -> Result<()> {
    try_join_all(WRITES.map(|write| Box::pin(rival_behind(write)))).await?;
    Ok(())
}

async fn rival_behind(write: Write) -> Result<()> {
    let (stage, a) = prepared(write).await?;
    let before = stage.lane_row(&a).await?;
    let rival = Rival::OtherNode.join(&stage, &a).await?;
    let gate = &mut stage
        .gate(write.table(), "BEFORE INSERT OR UPDATE", "a")
        .await?;
    stage.clock_went_back(&a).await?;

    let writing = tokio::spawn(write.send(a.clone()));
    gate.wait_for_waiter().await?;
    let taking = tokio::spawn(bid(rival));
    assert!(stage.waits("rival", &taking).await?, "{write:?}: overtaken");
    gate.open().await?;

    assert_eq!(writing.await??, Answer::Written, "{write:?}");
    assert_eq!(led_by(taking.await??), a.holder, "{write:?}");
    assert_eq!(stage.lane_row(&a).await?.token, before.token);
    assert!(a.view().await.leader.is_some(), "{write:?}: not renewed");
    Ok(())
}

/// Nobody has led it yet, and whoever comes second does not see the first one's bid until it has waited for it.
#[tokio::test(flavor = "multi_thread")]
async fn of_two_that_bid_for_a_new_lane_the_second_is_told_who_leads() -> Result<()> {
    let stage = Stage::new().await?;
    let first = stage.join("first", "a", lane(1)).await?;
    let second = stage.join("second", "b", lane(1)).await?;
    let gate = &mut stage.gate("signer_lease", "AFTER UPDATE", "first").await?;

    let taking = tokio::spawn(bid(first.clone()));
    gate.wait_for_waiter().await?;
    let late = tokio::spawn(bid(second));
    assert!(stage.waits("second", &late).await?, "overtaken");
    gate.open().await?;

    assert_eq!(leading(taking.await??).token.column(), 1);
    assert_eq!(led_by(late.await??), first.holder);
    Ok(())
}

/// The takeover stops before its commit; the old leader's write comes, sees its own living lease, must
/// wait, and finds the row changed.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_waited_for_a_takeover_changes_nothing() -> Result<()> {
    for rival in [Rival::NextIncarnation, Rival::OtherNode] {
        try_join_all(WRITES.map(|write| Box::pin(write_behind(write, rival)))).await?;
    }
    Ok(())
}

async fn write_behind(write: Write, rival: Rival) -> Result<()> {
    let (stage, a) = prepared(write).await?;
    let before = stage.lane_row(&a).await?;
    let contents = stage.contents().await?;
    let new = rival.join(&stage, &a).await?;
    let gate = &mut stage.gate("signer_lease", "AFTER UPDATE", "rival").await?;
    if rival == Rival::OtherNode {
        stage.clock_went_back(&a).await?;
    }

    let taking = tokio::spawn(bid(new));
    gate.wait_for_waiter().await?;
    let writing = tokio::spawn(write.send(a.clone()));
    assert!(stage.waits("a", &writing).await?, "{write:?}: not blocked");
    gate.open().await?;

    assert_eq!(leading(taking.await??).token.column(), before.token + 1);
    assert_eq!(writing.await??, Answer::Fenced, "{write:?}, {rival:?}");
    assert_eq!(stage.contents().await?, contents, "{write:?}, {rival:?}");
    let expected = LaneRow {
        token: before.token + 1,
        ..before
    };
    assert_eq!(stage.lane_row(&a).await?, expected, "{write:?}, {rival:?}");
    Ok(())
}

/// Giving a lane up is a change of hands as well.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_waited_for_a_release_changes_nothing() -> Result<()> {
    try_join_all(WRITES.map(|write| Box::pin(write_behind_release(write)))).await?;
    Ok(())
}

async fn write_behind_release(write: Write) -> Result<()> {
    let (stage, a) = prepared(write).await?;
    let before = stage.lane_row(&a).await?;
    let contents = stage.contents().await?;
    let leaving = stage.beside(&a, "leaving").await?;
    let gate = &mut stage
        .gate("signer_lease", "AFTER UPDATE", "leaving")
        .await?;

    let held = [a.held];
    let released = tokio::spawn(async move { leaving.store.release(&leaving.holder, &held).await });
    gate.wait_for_waiter().await?;
    let writing = tokio::spawn(write.send(a.clone()));
    assert!(stage.waits("a", &writing).await?, "{write:?}: not blocked");
    gate.open().await?;

    assert_eq!(released.await??, [a.held.lane]);
    assert_eq!(writing.await??, Answer::Fenced, "{write:?}");
    assert_eq!(stage.contents().await?, contents, "{write:?}");
    assert_eq!(stage.lane_row(&a).await?, before, "{write:?}");
    Ok(())
}
