//! Rule 4, nonces: nothing that a statement reads may decide one. A promotion that waited behind
//! another one, or behind a creation, leaves no nonce with nobody and gives none twice.

use anyhow::Result;
use fencepost_app::ports::{LaneCreated, LaneRefusal};
use fencepost_domain::ids::TxId;
use fencepost_domain::state::Wait;
use fencepost_domain::transition::Input;
use fencepost_store_tests::bench::{Seat, done, new_nonce, refused};
use fencepost_store_tests::builders::{id, lane, nonce, nonces, tx, txs};
use tokio::task::JoinHandle;

use super::stage::{Stage, assert_sound};
use super::twin::{self, PROMOTE, edit, fill};

async fn enqueue(seat: &Seat, numbers: impl IntoIterator<Item = u64>) -> Result<()> {
    let lane = seat.held.lane;
    let waiting: Vec<_> = numbers.into_iter().map(|n| (lane, tx(n))).collect();
    seat.store.enqueue(&waiting, Wait::Leader, 100).await?;
    Ok(())
}

fn promote(seat: &Seat, txs: &[TxId]) -> JoinHandle<LaneCreated> {
    let (seat, txs) = (seat.clone(), txs.to_vec());
    tokio::spawn(async move { seat.promote(txs).await })
}

fn given(answer: LaneCreated) -> Vec<u64> {
    done(answer).0.iter().map(new_nonce).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_promotion_that_waited_for_another_gives_nothing() -> Result<()> {
    for late in [&[id(1), id(2)][..], &[id(1), id(2), id(3)], &[id(1)]] {
        let stage = Stage::new().await?;
        let a = stage.seat("a", lane(1)).await?;
        let first = stage.beside(&a, "first").await?;
        enqueue(&a, 1..=4).await?;
        let gate = &mut stage.gate("managed_tx", "BEFORE UPDATE", "first").await?;
        let early = promote(&first, &[id(1), id(2)]);
        gate.wait_for_waiter().await?;
        let late = promote(&a, late);
        assert!(stage.waits("a", &late).await?, "not blocked");
        gate.open().await?;
        assert_eq!(given(early.await?), [0, 1]);
        assert_eq!(refused(late.await?), LaneRefusal::CursorMoved(nonce(2)));
        assert_eq!(given(a.promote(vec![id(3), id(4)]).await), [2, 3]);
        assert_eq!(a.store.gaps(a.held.lane, nonce(0), 10).await?, []);
        assert_sound(&a).await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_promotion_that_waited_for_a_creation_gives_nothing() -> Result<()> {
    let stage = Stage::new().await?;
    let a = stage.seat("a", lane(1)).await?;
    let first = stage.beside(&a, "first").await?;
    let gate = &mut stage.gate("managed_tx", "BEFORE INSERT", "first").await?;
    let early = tokio::spawn(async move { first.create(txs([1, 2])).await });
    gate.wait_for_waiter().await?;
    enqueue(&a, [3]).await?;
    let late = promote(&a, &[id(3)]);
    assert!(stage.waits("a", &late).await?, "not blocked");
    gate.open().await?;
    assert_eq!(given(early.await?), [0, 1]);
    assert_eq!(refused(late.await?), LaneRefusal::CursorMoved(nonce(2)));
    assert_eq!(given(a.promote(vec![id(3)]).await), [2]);
    assert_sound(&a).await;
    Ok(())
}

/// With free nonces the cursor stays where it is and says nothing about who came first.
#[tokio::test(flavor = "multi_thread")]
async fn a_free_nonce_is_given_once() -> Result<()> {
    for late in [&[id(3)][..], &[id(3), id(4)]] {
        let stage = Stage::new().await?;
        let a = stage.seat("a", lane(1)).await?;
        let first = stage.beside(&a, "first").await?;
        a.accept(txs([1, 2])).await;
        a.step(id(1), Input::Reject).await;
        a.step(id(2), Input::Reject).await;
        enqueue(&a, [3, 4]).await?;
        let gate = &mut stage.gate("managed_tx", "BEFORE UPDATE", "first").await?;
        let early = promote(&first, &[id(3)]);
        gate.wait_for_waiter().await?;
        let late = promote(&a, late);
        assert!(stage.waits("a", &late).await?, "not blocked");
        gate.open().await?;
        assert_eq!(given(early.await?), [0]);
        assert_eq!(refused(late.await?), LaneRefusal::FreeMoved);
        assert_eq!(a.view().await.free, nonces([1]));
        assert_eq!(given(a.promote(vec![id(4)]).await), [1]);
        assert_sound(&a).await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_free_nonce_is_created_with_once() -> Result<()> {
    let stage = Stage::new().await?;
    let a = stage.seat("a", lane(1)).await?;
    let first = stage.beside(&a, "first").await?;
    a.accept(txs([1])).await;
    a.step(id(1), Input::Reject).await;
    let gate = &mut stage.gate("managed_tx", "BEFORE INSERT", "first").await?;
    let early = tokio::spawn(async move { first.create(txs([2])).await });
    gate.wait_for_waiter().await?;
    let second = a.clone();
    let late = tokio::spawn(async move { second.create(txs([3])).await });
    assert!(stage.waits("a", &late).await?, "not blocked");
    gate.open().await?;
    assert_eq!(given(early.await?), [0]);
    assert_eq!(refused(late.await?), LaneRefusal::FreeMoved);
    assert_eq!(given(a.create(txs([3])).await), [1]);
    assert_sound(&a).await;
    Ok(())
}

/// `promote.sql` that takes the cursor as it comes instead of comparing it, reckons the nonces in SQL
/// from `first`, and commits whatever it found.
fn without_comparing(first: &str) -> String {
    let sql = edit(PROMOTE, "AND l.next_nonce = i.expected", "");
    let sql = edit(
        &sql,
        "SET next_nonce = i.next_nonce",
        "SET next_nonce = l.next_nonce + i.n",
    );
    let item = format!("SELECT i.lane_id, i.tx_id, {first} + i.ord - 1 AS nonce, i.ord,");
    let sql = edit(&sql, "SELECT i.*,", &item);
    let lane = "RETURNING l.lane_id, l.next_nonce - i.n AS first,";
    let sql = edit(&sql, "RETURNING l.lane_id,", lane);
    edit(&sql, "1 / (whole.queue AND whole.free)::int", "1")
}

/// Two of them, the second behind the first.
async fn play(stage: &Stage, a: &Seat, sql: &str, late: &[TxId]) -> Result<()> {
    enqueue(a, 1..=4).await?;
    let gate = &mut stage.gate("managed_tx", "BEFORE UPDATE", "first").await?;
    let statement = |txs: &[TxId]| fill(sql, &twin::promotion(a, 0, txs));
    let first = statement(&[id(1), id(2)]);
    let first = twin::send(stage.session("first").await?, first);
    gate.wait_for_waiter().await?;
    let second = twin::send(stage.session("second").await?, statement(late));
    stage.blocked("second").await?;
    gate.open().await?;
    assert_eq!(first.await??, 1);
    assert_eq!(second.await??, 1);
    Ok(())
}

/// The index over nonces is the last net; without it the repetition is stored.
#[tokio::test(flavor = "multi_thread")]
async fn twin_a_cursor_read_in_the_statement_gives_a_nonce_twice() -> Result<()> {
    let stage = Stage::new().await?;
    let a = stage.seat("a", lane(1)).await?;
    stage
        .probe
        .batch_execute("DROP INDEX managed_tx_nonce")
        .await?;
    let read = "(SELECT s.next_nonce FROM signer_lease s WHERE s.lane_id = i.lane_id)";
    play(&stage, &a, &without_comparing(read), &[id(3), id(4)]).await?;
    let twice = "SELECT count(*) - count(DISTINCT nonce) FROM managed_tx WHERE nonce IS NOT NULL";
    assert_eq!(stage.number(twice).await?, 2);
    assert_eq!(stage.lane_row(&a).await?.next_nonce, 4);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn twin_a_cursor_advanced_by_the_input_leaves_nonces_with_nobody() -> Result<()> {
    let stage = Stage::new().await?;
    let a = stage.seat("a", lane(1)).await?;
    play(
        &stage,
        &a,
        &without_comparing("lane.first"),
        &[id(1), id(2)],
    )
    .await?;
    let gaps = a.store.gaps(a.held.lane, nonce(0), 10).await?;
    assert_eq!(gaps, nonces([2, 3]));
    let row = stage.lane_row(&a).await?;
    let told = stage.number("SELECT count(*) FROM tx_event").await?;
    assert_eq!((told, row.lane_seq), (2, 4), "the history has holes too");
    Ok(())
}
