//! A policy's answer that comes after a takeover: the old leader's must change nothing, for the new one
//! has claimed the question and may have answered it otherwise.
//!
//! The twins play the scenario of `fence` with the statement that decides: the old leader stops between
//! the fence and the write, and the node restarts and takes the lane.

use anyhow::Result;
use fencepost_app::ports::{Act, Action, Acts, Decided, Decision, Progress};
use fencepost_store_tests::bench::{Seat, leading, only};
use fencepost_store_tests::builders::{audit, id, lane};

use super::stage::{Stage, bid, seated};
use super::twin::{self, DECIDE, LOCK, edit, fill};
use super::write::Write;

async fn question(seat: &Seat) -> Result<Act> {
    Ok(only(seat.store.acts(Acts::Tx(id(1)), None, 10).await?))
}

async fn decide(seat: &Seat, action: Option<Action>) -> Result<Decision> {
    let decided = Decided {
        remedy: question(seat).await?.id,
        action,
        fees: None,
        raw: None,
        severity: None,
        after: None,
        audit: audit(),
    };
    let (me, held) = (&seat.holder, seat.held);
    Ok(seat.store.decide_remedy(me, held, &decided).await?)
}

/// At no point of a takeover can the old leader answer: not before the new one has claimed the
/// question, not while it is claimed, not after it was answered.
#[tokio::test(flavor = "multi_thread")]
async fn after_a_takeover_the_old_leaders_answer_changes_nothing() -> Result<()> {
    let stage = Stage::new().await?;
    let old = stage.seat("a", lane(1)).await?;
    Write::Decide.prepare(&old).await?;
    let new = stage.join("new", "a", lane(1)).await?;
    let lead = leading(bid(new.clone()).await?);
    let new = seated(new, &lead);
    let too_late = async || -> Result<()> {
        let contents = stage.contents().await?;
        let row = stage.lane_row(&old).await?;
        for action in [None, Some(Action::Cancel)] {
            assert_eq!(decide(&old, action).await?, Decision::Fenced);
        }
        assert_eq!(stage.contents().await?, contents);
        assert_eq!(stage.lane_row(&old).await?, row);
        Ok(())
    };
    too_late().await?;
    assert_eq!(decide(&new, None).await?, Decision::Gone, "not claimed");
    let claimed = new
        .store
        .claim_remedies(&new.holder, &[new.held], 10)
        .await?;
    assert_eq!(only(claimed.remedies).action, Action::Decide);
    too_late().await?;
    let answer = decide(&new, Some(Action::Resubmit)).await?;
    assert_eq!(answer, Decision::Written);
    too_late().await?;
    let decided = question(&new).await?;
    assert_eq!(decided.action, "RESUBMIT");
    assert_eq!(decided.claimed, Some((new.holder.node, new.held.token)));
    Ok(())
}

/// What came of it.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    /// The takeover waited, and found the answer.
    TakeoverWaited,
    /// The new leader led and saw a question, and the old leader answered it afterwards.
    OldLeaderAnsweredLater,
}

async fn play(sql: &str) -> Result<Seen> {
    let stage = Stage::new().await?;
    let a = stage.seat("a", lane(1)).await?;
    Write::Decide.prepare(&a).await?;
    let asked = question(&a).await?;
    let sql = fill(sql, &twin::decision(&a, asked.id));
    let restarted = stage.join("restarted", "a", lane(1)).await?;
    let gate = &mut stage.gate("remedy", "BEFORE UPDATE", "old").await?;

    let deciding = twin::send(stage.session("old").await?, sql);
    gate.wait_for_waiter().await?;
    let taking = tokio::spawn(bid(restarted));
    let waited = stage.waits("restarted", &taking).await?;
    assert_eq!(question(&a).await?, asked, "not yet answered");
    gate.open().await?;

    assert_eq!(deciding.await??, 1, "it believes to lead");
    let token = leading(taking.await??).token;
    let decided = question(&a).await?;
    assert_eq!(decided.action, "CANCEL");
    assert_eq!(decided.progress, Progress::Claimed);
    assert!(decided.claimed.is_some_and(|(_, claimed)| claimed < token));
    Ok(match waited {
        true => Seen::TakeoverWaited,
        false => Seen::OldLeaderAnsweredLater,
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_takeover_waits_for_the_answer_in_flight() -> Result<()> {
    assert_eq!(play(DECIDE).await?, Seen::TakeoverWaited);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn twin_a_fence_that_only_reads_lets_the_old_leader_answer_after_the_takeover() -> Result<()>
{
    for weak in ["", "FOR KEY SHARE OF l"] {
        let sql = edit(DECIDE, LOCK, weak);
        assert_eq!(play(&sql).await?, Seen::OldLeaderAnsweredLater, "{weak:?}");
    }
    Ok(())
}
