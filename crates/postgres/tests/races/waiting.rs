//! A fenced write that waited for the lane's row behind a write that took nothing from it: a renewal,
//! or a reservation's holder. After the wait only the lane's row is fresh, all else is read as of the
//! statement's start (EvalPlanQual); the write must come out right all the same.

use std::time::Duration;

use anyhow::Result;
use fencepost_app::ports::{Closing, LaneMoved, LaneMoves, Renewed, Settle, SettleAct, Settled};
use fencepost_domain::transition::Input;
use fencepost_store_tests::bench::{Seat, leading, only, written};
use fencepost_store_tests::builders::{
    accepted, feed_seq, hash, id, lane, lane_on, loan, lock, sign, tx, txs,
};
use fencepost_testkit::gate::Gate;
use futures::future::try_join_all;
use tokio::task::JoinHandle;
use tokio_postgres::error::SqlState;

use super::stage::{Stage, assert_sound, bid, seated};
use super::twin::{self, LOCK, edit, fill};
use super::write::{Answer, WRITES, Write};

/// What holds the lane's row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ahead {
    Renewal,
    Settling,
}

impl Ahead {
    /// Starts it, and returns when it stands before its commit.
    async fn start(self, stage: &Stage, a: &Seat) -> Result<(Gate, JoinHandle<Result<()>>)> {
        let ahead = stage.beside(a, "ahead").await?;
        let gate = stage.gate("signer_lease", "AFTER UPDATE", "ahead").await?;
        let task = tokio::spawn(self.run(ahead));
        gate.wait_for_waiter().await?;
        Ok((gate, task))
    }

    async fn run(self, seat: Seat) -> Result<()> {
        match self {
            Self::Renewal => {
                let renewed = seat.store.renew(&seat.holder, &[seat.held]).await?;
                assert_eq!(renewed, [Renewed::Kept]);
            }
            Self::Settling => {
                let call = Settle {
                    reservation: id(3),
                    lock: lock(3),
                    act: SettleAct::Submitted {
                        hash: hash(33),
                        due_in: Duration::ZERO,
                    },
                };
                let settled = seat.store.settle(&call).await?;
                assert!(matches!(settled, Settled::Done(_)), "{settled:?}");
            }
        }
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_write_that_waited_for_a_renewal_is_written_whole() -> Result<()> {
    try_join_all(WRITES.map(|write| Box::pin(write_behind(write, Ahead::Renewal)))).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_write_that_waited_for_a_holder_is_written_whole() -> Result<()> {
    try_join_all(WRITES.map(|write| Box::pin(write_behind(write, Ahead::Settling)))).await?;
    Ok(())
}

async fn write_behind(write: Write, ahead: Ahead) -> Result<()> {
    let stage = Stage::new().await?;
    let a = stage.seat("a", lane(1)).await?;
    write.prepare(&a).await?;
    let (mut gate, first) = ahead.start(&stage, &a).await?;
    let writing = tokio::spawn(write.send(a.clone()));
    assert!(stage.waits("a", &writing).await?, "{write:?}: not blocked");
    gate.open().await?;
    first.await??;
    assert_eq!(writing.await??, Answer::Written, "{write:?}, {ahead:?}");
    assert_sound(&a).await;
    Ok(())
}

/// Without the lock the number of the lane's events is the old one: only the key of the history stands
/// between two events of one number.
#[tokio::test(flavor = "multi_thread")]
async fn twin_events_counted_from_the_snapshot_repeat_a_number() -> Result<()> {
    for (taken, repeats) in [(LOCK, false), ("", true)] {
        let stage = Stage::new().await?;
        let a = stage.seat("a", lane(1)).await?;
        a.accept(vec![tx(1), tx(2), loan(3)]).await;
        let signed = [a.plan(id(2), sign(22)).await];
        let sql = edit(&twin::apply(), LOCK, taken);
        let sql = fill(&sql, &twin::moves(&a, &signed));
        let (mut gate, first) = Ahead::Settling.start(&stage, &a).await?;
        let writing = twin::send(stage.session("late").await?, sql);
        stage.blocked("late").await?;
        gate.open().await?;
        first.await??;
        let answer = writing.await?;
        let repeated = twin::is_refused(&answer, &SqlState::UNIQUE_VIOLATION);
        assert_eq!(repeated, repeats, "{answer:?}");
    }
    Ok(())
}

/// Completions over many lanes pass a lane whose row is held, and come back to it alone.
#[tokio::test(flavor = "multi_thread")]
async fn a_completion_over_many_lanes_goes_on_without_the_one_that_is_held() -> Result<()> {
    let stage = Stage::new().await?;
    let a = stage.seat("a", lane(1)).await?;
    let other = stage.seat_of(&a, lane(2)).await?;
    a.accept(txs([1])).await;
    other.accept(txs([2])).await;
    let ended = [
        LaneMoves {
            held: a.held,
            moves: vec![a.plan(id(1), Input::Reject).await],
        },
        LaneMoves {
            held: other.held,
            moves: vec![other.plan(id(2), Input::Reject).await],
        },
    ];
    let (mut gate, first) = Ahead::Renewal.start(&stage, &a).await?;
    let writer = a.clone();
    let writing = tokio::spawn(async move { writer.store.complete(&writer.holder, &ended).await });
    assert!(stage.waits("a", &writing).await?, "not blocked");
    let told = a.store.completions(feed_seq(0), 10).await?.completions;
    assert_eq!(only(told).tx, id(2), "the free lane has not waited");
    gate.open().await?;
    first.await??;
    let done = |n| LaneMoved::Done(vec![feed_seq(n)]);
    assert_eq!(writing.await??, [done(2), done(1)]);
    assert_sound(&a).await;
    Ok(())
}

/// Moves of several lanes in one statement, one of which has waited.
#[tokio::test(flavor = "multi_thread")]
async fn moves_over_many_lanes_wait_for_the_one_that_is_held() -> Result<()> {
    let stage = Stage::new().await?;
    let a = stage.seat("a", lane(1)).await?;
    let other = stage.seat_of(&a, lane_on(2, 1)).await?;
    a.accept(vec![tx(1), tx(2), loan(3)]).await;
    other.accept(txs([4])).await;
    let mut signed = Vec::new();
    for (seat, tx, n) in [(&other, id(4), 44), (&a, id(1), 11)] {
        signed.push(LaneMoves {
            held: seat.held,
            moves: vec![seat.plan(tx, sign(n)).await],
        });
    }
    let (mut gate, first) = Ahead::Settling.start(&stage, &a).await?;
    let writer = a.clone();
    let writing = tokio::spawn(async move { writer.store.apply(&writer.holder, &signed).await });
    assert!(stage.waits("a", &writing).await?, "not blocked");
    gate.open().await?;
    first.await??;
    assert_eq!(
        writing.await??,
        [LaneMoved::Done(vec![]), LaneMoved::Done(vec![])]
    );
    assert_eq!(a.read(id(1)).await.attempts, 1);
    assert_eq!(a.read(id(4)).await.attempts, 1);
    assert_sound(&a).await;
    Ok(())
}

/// A remedy is carried out once: a claim that read it as open must not open it again.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_waited_does_not_reopen_a_closed_remedy() -> Result<()> {
    let stage = Stage::new().await?;
    let a = stage.seat("a", lane(1)).await?;
    Write::ClaimRemedies.prepare(&a).await?;
    let claimed = a.store.claim_remedies(&a.holder, &[a.held], 10).await?;
    let remedy = only(claimed.remedies).id;
    // What the last leader claimed and did not carry out is the next one's.
    let again = stage.join("a2", "a", lane(1)).await?;
    let lead = leading(bid(again.clone()).await?);
    let again = seated(again, &lead);
    let claims = stage.beside(&again, "claims").await?;
    let closing = Closing {
        remedy,
        refused: None,
    };
    let closes = again.plan(id(1), accepted()).await.closing(closing);
    let mut gate = stage.gate("signer_lease", "AFTER UPDATE", "a2").await?;

    let closer = again.clone();
    let closed = tokio::spawn(async move { closer.write(vec![closes]).await });
    gate.wait_for_waiter().await?;
    let claiming = tokio::spawn(async move {
        let held = [claims.held];
        claims.store.claim_remedies(&claims.holder, &held, 10).await
    });
    assert!(stage.waits("claims", &claiming).await?, "not blocked");
    gate.open().await?;

    written(closed.await?);
    let claimed = claiming.await??;
    assert_eq!((claimed.remedies, claimed.fenced), (vec![], vec![]));
    let open = "SELECT count(*) FROM remedy WHERE closed_at IS NULL";
    assert_eq!(stage.number(open).await?, 0, "it is open again");
    Ok(())
}

/// What has ended is not due: a claim that read it as due must leave it as it is.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_waited_does_not_take_what_has_ended() -> Result<()> {
    let stage = Stage::new().await?;
    let a = stage.seat("a", lane(1)).await?;
    a.accept(txs([1, 2])).await;
    let claims = stage.beside(&a, "claims").await?;
    let ends = a.plan(id(1), Input::Reject).await;
    let mut gate = stage.gate("signer_lease", "AFTER UPDATE", "a").await?;

    let ending = a.clone();
    let ended = tokio::spawn(async move { ending.write(vec![ends]).await });
    gate.wait_for_waiter().await?;
    let claiming =
        tokio::spawn(async move { claims.claim_due(Duration::from_mins(1), 10).await.records });
    assert!(stage.waits("claims", &claiming).await?, "not blocked");
    gate.open().await?;

    written(ended.await?);
    assert_eq!(only(claiming.await?).tx, id(2));
    let ended = a.read(id(1)).await;
    assert_eq!(ended.version.get(), 2, "its end was its last move");
    Ok(())
}
