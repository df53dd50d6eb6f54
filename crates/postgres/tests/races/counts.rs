//! Rule 4, counts: a statement that moved less than was sent raises inside itself. After the commit it
//! is too late to count.
//!
//! A leader gives a reservation back, among other moves, while its holder says that it was used.

use std::time::Duration;

use anyhow::Result;
use fencepost_app::ports::{LaneMoved, Move, Settle, SettleAct, Settled, Store as _};
use fencepost_domain::transition::Input;
use fencepost_store_tests::bench::Seat;
use fencepost_store_tests::builders::{hash, id, lane, loan, lock, sign, tx};
use fencepost_testkit::gate::Gate;
use tokio::task::JoinHandle;

use super::stage::{Stage, assert_sound};
use super::twin::{self, GUARD, edit, fill};

async fn lane_with_reservation() -> Result<(Stage, Seat, Vec<Move>)> {
    let stage = Stage::new().await?;
    let a = stage.seat("a", lane(1)).await?;
    a.accept(vec![loan(1), tx(2)]).await;
    let moves = vec![
        a.plan(id(1), Input::Recycle).await,
        a.plan(id(2), sign(22)).await,
    ];
    Ok((stage, a, moves))
}

/// The holder's words, up to their commit.
async fn settle(stage: &Stage) -> Result<(Gate, JoinHandle<Result<()>>)> {
    let holder = stage.handle("holder").await?;
    let gate = stage.gate("signer_lease", "AFTER UPDATE", "holder").await?;
    let task = tokio::spawn(async move {
        let call = Settle {
            reservation: id(1),
            lock: lock(1),
            act: SettleAct::Submitted {
                hash: hash(11),
                due_in: Duration::ZERO,
            },
        };
        let settled = holder.settle(&call).await?;
        assert!(matches!(settled, Settled::Done(_)), "{settled:?}");
        Ok(())
    });
    gate.wait_for_waiter().await?;
    Ok((gate, task))
}

#[tokio::test(flavor = "multi_thread")]
async fn moves_of_which_one_came_too_late_are_not_written_at_all() -> Result<()> {
    let (stage, a, moves) = lane_with_reservation().await?;
    let (mut gate, settling) = settle(&stage).await?;
    let writer = a.clone();
    let writing = tokio::spawn(async move { writer.write(moves).await });
    assert!(stage.waits("a", &writing).await?, "not blocked");
    gate.open().await?;
    settling.await??;
    assert_eq!(writing.await?, LaneMoved::Stale(vec![id(1)]));
    assert_eq!(a.store.attempts(&[id(2)]).await?, []);
    assert_eq!(
        stage.lane_row(&a).await?.lane_seq,
        3,
        "two accepted, one submitted"
    );
    assert_sound(&a).await;
    Ok(())
}

/// `moves.sql` that commits whatever it moved.
fn uncounted() -> String {
    edit(&twin::apply(), GUARD, "(SELECT count(*) FROM moved) >= 0")
}

/// Runs it behind the holder.
async fn play(sql: &str) -> Result<(Stage, Seat)> {
    let (stage, a, moves) = lane_with_reservation().await?;
    let sql = fill(sql, &twin::moves(&a, &moves));
    let (mut gate, settling) = settle(&stage).await?;
    let writing = twin::send(stage.session("uncounted").await?, sql);
    stage.blocked("uncounted").await?;
    gate.open().await?;
    settling.await??;
    let lanes = writing.await??;
    assert_eq!(
        lanes, 1,
        "it has committed before it knows that one is missing"
    );
    Ok((stage, a))
}

#[tokio::test(flavor = "multi_thread")]
async fn twin_counting_after_the_commit_leaves_a_hole_in_the_history() -> Result<()> {
    let joined =
        "new_fork, note, confirmations)\n      JOIN moved ON moved.tx_id = i.tx_id\n     WHERE";
    let sql = edit(
        &uncounted(),
        "new_fork, note, confirmations)\n     WHERE",
        joined,
    );
    let (stage, a) = play(&sql).await?;
    let told = stage.number("SELECT count(*) FROM tx_event").await?;
    assert_eq!((told, stage.lane_row(&a).await?.lane_seq), (4, 5));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn twin_counting_after_the_commit_tells_what_never_happened() -> Result<()> {
    let (stage, a) = play(&uncounted()).await?;
    let told = "SELECT count(*) FROM tx_event WHERE kind = 'recycled'";
    assert_eq!(stage.number(told).await?, 1);
    let holds = a.read(id(1)).await.state;
    assert_eq!(holds.hash(), Some(hash(11)), "it was submitted");
    Ok(())
}
