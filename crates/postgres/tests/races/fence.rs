//! Rule 1, its twins: a fence that only reads the lane's row, or locks it too weakly, lets the old
//! leader write after a takeover has committed.
//!
//! All of them play one scenario: the old leader stores signed bytes and stops between the fence and
//! the write; the node restarts and takes the lane.

use anyhow::Result;
use fencepost_store_tests::bench::leading;
use fencepost_store_tests::builders::{id, lane, sign, txs};

use super::stage::{Stage, bid};
use super::twin::{self, LOCK, edit, fill};

/// What came of it.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    /// The takeover waited, and found the bytes.
    TakeoverWaited,
    /// The new leader led, saw no bytes, and the old leader stored some afterwards.
    OldLeaderWroteLater,
    /// The new leader led, and the old one changed nothing.
    OldLeaderFenced,
}

async fn play(apply: &str) -> Result<Seen> {
    let stage = Stage::new().await?;
    let a = stage.seat("a", lane(1)).await?;
    a.accept(txs([1])).await;
    let signed = [a.plan(id(1), sign(11)).await];
    let sql = fill(apply, &twin::moves(&a, &signed));
    let restarted = stage.join("restarted", "a", lane(1)).await?;
    let gate = &mut stage.gate("managed_tx", "BEFORE UPDATE", "old").await?;

    let writing = twin::send(stage.session("old").await?, sql);
    gate.wait_for_waiter().await?;
    let taking = tokio::spawn(bid(restarted));
    let waited = stage.waits("restarted", &taking).await?;
    assert_eq!(a.store.attempts(&[id(1)]).await?, [], "not yet stored");
    gate.open().await?;

    let lanes = writing.await??;
    let token = leading(taking.await??).token;
    let stored = a.store.attempts(&[id(1)]).await?;
    assert_eq!(stored.len(), lanes, "one attempt, or none");
    assert!(stored.iter().all(|attempt| attempt.token < token));
    Ok(match (waited, lanes) {
        (true, _) => Seen::TakeoverWaited,
        (false, 0) => Seen::OldLeaderFenced,
        (false, _) => Seen::OldLeaderWroteLater,
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fence_that_locks_the_row_makes_the_takeover_wait() -> Result<()> {
    assert_eq!(play(&twin::apply()).await?, Seen::TakeoverWaited);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn twin_a_fence_by_exists_lets_the_old_leader_write_after_the_takeover() -> Result<()> {
    let exists = "EXISTS (SELECT FROM signer_lease f
                   WHERE f.lane_id = i.lane_id AND f.owner_node = $5
                     AND f.owner_incarnation = $6::bigint AND f.fencing_token = i.token
                     AND f.expires_at > clock_timestamp())
              AND l.owner_node = $5";
    let sql = edit(&twin::apply(), "l.owner_node = $5", exists);
    let sql = edit(&sql, LOCK, "");
    assert_eq!(play(&sql).await?, Seen::OldLeaderWroteLater);
    Ok(())
}

/// A takeover is a NO KEY UPDATE: it changes no key, so a lock on the key does not stop it.
#[tokio::test(flavor = "multi_thread")]
async fn twin_a_fence_by_key_share_lets_the_old_leader_write_after_the_takeover() -> Result<()> {
    let sql = edit(&twin::apply(), LOCK, "FOR KEY SHARE OF l");
    assert_eq!(play(&sql).await?, Seen::OldLeaderWroteLater);
    Ok(())
}
