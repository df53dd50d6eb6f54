//! A pause takes the lane's row: once it has answered, no statement that began before it can still give
//! a nonce or store an attempt.

use anyhow::{Result, bail};
use fencepost_app::ports::{
    LaneCreated, LaneMoved, LaneRefusal, PauseChange, PauseReason, Paused, Store as _, StoreError,
};
use fencepost_store_tests::bench::Seat;
use fencepost_store_tests::builders::{audit, id, lane, sign, txs};
use tokio::task::JoinHandle;

use super::stage::{Stage, assert_sound};
use super::twin::{self, LOCK, edit, fill};

/// What a pause must stop.
#[derive(Debug, Clone, Copy)]
enum Write {
    Nonces,
    Attempt,
}

/// True when it was written, false when the pause was in its way.
async fn send(seat: Seat, write: Write) -> Result<bool> {
    match write {
        Write::Nonces => match seat.create(txs([8, 9])).await {
            LaneCreated::Done { .. } => Ok(true),
            LaneCreated::Refused(LaneRefusal::Paused(PauseReason::Operator)) => Ok(false),
            other @ LaneCreated::Refused(_) => bail!("{other:?}"),
        },
        Write::Attempt => match seat.write(vec![seat.plan(id(1), sign(11)).await]).await {
            LaneMoved::Done(_) => Ok(true),
            LaneMoved::Paused(PauseReason::Operator) => Ok(false),
            other @ (LaneMoved::Fenced
            | LaneMoved::Paused(_)
            | LaneMoved::Stale(_)
            | LaneMoved::KnownHash(_)
            | LaneMoved::Busy
            | LaneMoved::UnknownLane) => bail!("{other:?}"),
        },
    }
}

async fn lane_with_work() -> Result<(Stage, Seat)> {
    let stage = Stage::new().await?;
    let a = stage.seat("a", lane(1)).await?;
    a.accept(txs([1])).await;
    Ok((stage, a))
}

async fn pause(stage: &Stage, seat: &Seat) -> Result<JoinHandle<Result<Paused, StoreError>>> {
    let operator = stage.handle("operator").await?;
    let lane = seat.held.lane;
    let change = PauseChange::Pause(PauseReason::Operator);
    Ok(tokio::spawn(async move {
        operator.pause(lane, change, &audit()).await
    }))
}

const PAUSED: Paused = Paused::Now(Some(PauseReason::Operator));

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_answers_only_after_the_write_in_flight() -> Result<()> {
    for write in [Write::Nonces, Write::Attempt] {
        let (stage, a) = lane_with_work().await?;
        let gate = &mut stage
            .gate("managed_tx", "BEFORE INSERT OR UPDATE", "a")
            .await?;
        let writing = tokio::spawn(send(a.clone(), write));
        gate.wait_for_waiter().await?;
        let pausing = pause(&stage, &a).await?;
        assert!(
            stage.waits("operator", &pausing).await?,
            "{write:?}: answered too early"
        );
        gate.open().await?;
        assert!(writing.await??, "{write:?}");
        assert_eq!(pausing.await??, PAUSED);
        assert_sound(&a).await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_waited_for_a_pause_changes_nothing() -> Result<()> {
    for write in [Write::Nonces, Write::Attempt] {
        let (stage, a) = lane_with_work().await?;
        let before = stage.lane_row(&a).await?;
        let gate = &mut stage
            .gate("signer_lease", "AFTER UPDATE", "operator")
            .await?;
        let pausing = pause(&stage, &a).await?;
        gate.wait_for_waiter().await?;
        let writing = tokio::spawn(send(a.clone(), write));
        assert!(stage.waits("a", &writing).await?, "{write:?}: not blocked");
        gate.open().await?;
        assert_eq!(pausing.await??, PAUSED);
        assert!(!writing.await??, "{write:?}");
        assert_eq!(stage.lane_row(&a).await?, before);
        assert_eq!(stage.number("SELECT count(*) FROM managed_tx").await?, 1);
        assert_eq!(stage.number("SELECT count(*) FROM tx_attempt").await?, 0);
    }
    Ok(())
}

/// The flag is looked up as another row would be: after the wait it is still the old one.
#[tokio::test(flavor = "multi_thread")]
async fn twin_a_flag_read_by_exists_gives_nonces_after_the_pause() -> Result<()> {
    let (stage, a) = lane_with_work().await?;
    let flag = "AND EXISTS (SELECT FROM signer_lease p
                             WHERE p.lane_id = i.lane_id AND p.paused IS NULL AND NOT p.held)";
    let sql = edit(&twin::create(), "AND l.paused IS NULL AND NOT l.held", flag);
    let sql = fill(&sql, &twin::creation(&a, 1, &[id(8), id(9)]));
    let gate = &mut stage
        .gate("signer_lease", "AFTER UPDATE", "operator")
        .await?;
    let pausing = pause(&stage, &a).await?;
    gate.wait_for_waiter().await?;
    let writing = twin::send(stage.session("late").await?, sql);
    stage.blocked("late").await?;
    gate.open().await?;
    assert_eq!(pausing.await??, PAUSED);
    assert_eq!(writing.await??, 1);
    let late = "SELECT count(*) FROM managed_tx m JOIN signer_lease l ON l.lane_id = m.lane_id
                  JOIN remedy r ON r.lane_id = l.lane_id AND r.action = 'PAUSE'
                 WHERE m.created_at > r.asked_at";
    assert_eq!(stage.number(late).await?, 2, "given on a paused lane");
    Ok(())
}

/// Who reads the flag and does not take the row is overtaken by the pause.
#[tokio::test(flavor = "multi_thread")]
async fn twin_a_flag_read_without_the_lock_stores_attempts_after_the_pause() -> Result<()> {
    for (taken, overtaken) in [(LOCK, false), ("", true)] {
        let (stage, a) = lane_with_work().await?;
        let signed = [a.plan(id(1), sign(11)).await];
        let sql = edit(&twin::apply(), LOCK, taken);
        let sql = fill(&sql, &twin::moves(&a, &signed));
        let gate = &mut stage.gate("managed_tx", "BEFORE UPDATE", "late").await?;
        let writing = twin::send(stage.session("late").await?, sql);
        gate.wait_for_waiter().await?;
        let pausing = pause(&stage, &a).await?;
        let answered = !stage.waits("operator", &pausing).await?;
        assert_eq!(answered, overtaken);
        assert_eq!(a.store.attempts(&[id(1)]).await?, []);
        gate.open().await?;
        assert_eq!(pausing.await??, PAUSED);
        assert_eq!(writing.await??, 1);
        assert_eq!(a.store.attempts(&[id(1)]).await?.len(), 1);
    }
    Ok(())
}
