//! A nonce that its holder gives back while another statement of the lane already waits for the lane's
//! row: that statement has read the past, in which the nonce was not free.

use anyhow::Result;
use fencepost_app::ports::{LaneCreated, LaneRefusal, Settle, SettleAct, Settled, Store as _};
use fencepost_store_tests::bench::Seat;
use fencepost_store_tests::builders::{id, lane, loan, lock, placeholder, txs};
use tokio::task::JoinHandle;

use super::stage::{Stage, assert_sound};

async fn settle(stage: &Stage, act: SettleAct) -> Result<JoinHandle<Result<Settled>>> {
    let store = stage.handle("borrower").await?;
    let call = Settle {
        reservation: id(1),
        lock: lock(1),
        act,
    };
    Ok(tokio::spawn(async move { Ok(store.settle(&call).await?) }))
}

/// Nonce 0 is lent, 1 is ours; the borrower gives 0 back and is stopped while it holds the lane.
async fn play<F, T>(write: impl FnOnce(Seat) -> F) -> Result<(Stage, Seat, T)>
where
    F: Future<Output = Result<T>> + Send + 'static,
    T: Send + 'static,
{
    let stage = Stage::new().await?;
    let a = stage.seat("a", lane(1)).await?;
    assert_eq!(a.accept(vec![loan(1)]).await, [0]);
    assert_eq!(a.accept(txs([2])).await, [1]);
    let gate = &mut stage
        .gate("free_nonce", "BEFORE INSERT", "borrower")
        .await?;
    let giving = settle(&stage, SettleAct::Recycle).await?;
    gate.wait_for_waiter().await?;
    let writing = tokio::spawn(write(a.clone()));
    assert!(stage.waits("a", &writing).await?, "it did not wait");
    gate.open().await?;
    assert!(matches!(giving.await??, Settled::Done(_)));
    let answer = writing.await??;
    Ok((stage, a, answer))
}

/// An operator fills the nonce at the moment at which its holder gives it back. The statement that waited
/// has read the past, so the nonce is told as free for a moment; it is never given, and the lane goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_nonce_that_is_filled_while_it_is_given_back_is_given_to_nobody_else() -> Result<()> {
    let (_stage, a, filled) = play(|a: Seat| async move {
        let mut batch = a.batch(vec![placeholder(3, 0)]).await;
        batch.free = vec![];
        Ok(a.create_batch(batch).await)
    })
    .await?;
    assert!(matches!(filled, LaneCreated::Done { .. }), "{filled:?}");
    let next = a.create(txs([4])).await;
    assert_eq!(next, LaneCreated::Refused(LaneRefusal::FreeMoved));
    assert_eq!(a.view().await.free, [], "one look is enough");
    assert_eq!(a.accept(txs([4])).await, [2]);
    assert_sound(&a).await;
    Ok(())
}
