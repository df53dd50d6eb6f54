//! A transaction is called stuck, and acted on, only when it has waited long enough for its own sake; and
//! what is stuck is told, once.

use std::time::Duration;

use fencepost_app::ports::{Action, Settle, SettleAct, Store};
use fencepost_devchain::{EndpointId, Fate, Fault, FaultKind, Plan, Rejection, When};
use fencepost_domain::Address;
use fencepost_domain::attempt::SignedFees;
use fencepost_domain::finality::Rule;
use fencepost_domain::ids::Nonce;
use fencepost_domain::request::Draft;
use tokio::time::Instant;

use super::care::{GWEI, capped};
use super::hooks::{Hook, with_gap};
use super::life::{Life, on_send, seconds, with};
use super::loans::{lend, recycle};
use super::nodes::accepted;

/// How long one waits before it is stuck in these tests, less the time between two looks of a test.
const AGE: Duration = Duration::from_millis(9_980);

/// Refused for long, then accepted: the wait for a block begins with the acceptance.
#[tokio::test(start_paused = true)]
async fn what_is_accepted_after_refusals_has_its_full_time_for_a_block() {
    let mut life = Life::careful(1).await;
    let node = life.world.node("a").await;
    life.fault(
        0,
        on_send(FaultKind::Refuse {
            kind: Rejection::BelowMinimum,
            when: When::Before,
        }),
    );
    let rows = life.send(&node, life.lanes[0], 1).await;
    life.until_state(&rows[0], "STUCK/REFUSED").await;
    life.rest();
    life.heal();
    life.until_state(&rows[0], "TRACKING/BROADCAST").await;
    let accepted = Instant::now();
    life.until_state(&rows[0], "STUCK/NO_RECEIPT").await;
    assert!(accepted.elapsed() >= AGE, "{:?}", accepted.elapsed());
    assert_eq!(life.feed().await.len(), 2);
}

/// Mined long ago, and thrown out of its block: a rule that cancels what is stuck waits from then on.
#[tokio::test(start_paused = true)]
async fn what_a_reorg_drops_has_its_full_time_for_another_block() {
    let mut life = Life::careful(1).await;
    life.world.main.finality = Rule::Confirmations(60);
    life.rule(Action::Cancel);
    let node = life.world.node("a").await;
    let row = accepted(node.ask(life.lanes[0], capped(100)).await);
    life.until_state(&row, "TRACKING/MINED").await;
    seconds(15).await;
    life.rest();
    let record = life.world.record(row.tx).await;
    let mined_in = record.state.inclusion().unwrap().block.number.get();
    let height = life.chain.lock().head().header.number;
    let plan = Plan {
        depth: height - mined_in + 1,
        extra: 1,
        txs: Fate::Pool,
        ..Plan::default()
    };
    life.chain.lock().reorg(&plan).unwrap();
    let dropped = Instant::now();
    life.world
        .until("it is cancelled", async || {
            life.kinds(&row).await.len() == 2
        })
        .await;
    assert!(dropped.elapsed() >= AGE, "{:?}", dropped.elapsed());
    assert_eq!(life.kinds(&row).await, ["ORIGINAL", "CANCEL"]);
}

/// Goal: what only waited for the holder of a lower nonce is not blamed for it. Its wait begins when that
/// nonce is used.
#[tokio::test(start_paused = true)]
async fn what_waited_for_a_lent_nonce_has_its_full_time_once_that_is_used() {
    let mut life = Life::careful(1).await;
    life.rule(Action::Cancel);
    let node = life.world.node("a").await;
    let lane = life.lanes[0];
    let lent = lend(&node, lane, 300).await;
    let behind = accepted(node.ask(lane, capped(100)).await);
    life.until_state(&behind, "STUCK/NO_RECEIPT").await;
    seconds(20).await;
    assert_eq!(life.kinds(&behind).await, ["ORIGINAL"]);
    life.cost(200);
    let hash = life.foreign(lane, 0).await;
    let call = Settle {
        reservation: lent.tx,
        lock: lent.reservation.unwrap().lock,
        act: SettleAct::Submitted {
            hash,
            due_in: Duration::ZERO,
        },
    };
    let said = Instant::now();
    node.node.settle_loan(lane, &call).await.unwrap();
    life.until_state(&lent, "USED").await;
    life.world
        .until("it is cancelled", async || {
            life.kinds(&behind).await.len() == 2
        })
        .await;
    assert!(said.elapsed() >= AGE, "{:?}", said.elapsed());
    assert_eq!(life.kinds(&behind).await, ["ORIGINAL", "CANCEL"]);
}

/// Goal: tries are counted for the newest bytes, also by the next leader. The head has new bytes when its
/// leader dies; the old ones were tried often enough.
#[tokio::test(start_paused = true)]
async fn new_bytes_have_all_their_tries_under_the_next_leader() {
    let mut life = Life::careful(1).await;
    life.world.settings.stuck.age = Duration::from_secs(600);
    life.world.settings.stuck.attempts = 5;
    let node = life.world.node("a").await;
    life.cost(100);
    let head = accepted(node.ask(life.lanes[0], capped(10)).await);
    life.until_state(&head, "STUCK/NO_RECEIPT").await;
    life.cost(400);
    seconds(2).await;
    let fees = SignedFees {
        max_fee: 20 * GWEI,
        max_priority_fee: Some(2 * GWEI),
    };
    node.remedy_with(&head, Action::Replace, Some(fees)).await;
    life.world
        .until("it is replaced", async || {
            life.kinds(&head).await.len() == 2
        })
        .await;
    node.kill();
    let before = life.world.record(head.tx).await.submit_attempts;
    let _next = life.world.node("b").await;
    life.until_state(&head, "STUCK/NO_RECEIPT").await;
    let tried = life.world.record(head.tx).await.submit_attempts - before;
    assert!(tried >= 5, "only {tried} times");
}

/// An operator asks while nobody leads: the next leader looks at the chain first, and then fills.
#[tokio::test(start_paused = true)]
async fn a_gap_whose_filling_was_asked_of_nobody_is_filled_by_the_next_leader() {
    let mut life = Life::careful(1).await;
    let (node, rows) = with_gap(&mut life).await;
    node.kill();
    let next = life.world.node("b").await;
    let waiting = life.world.record(rows[6].tx).await;
    next.remedy(&waiting, Action::Placeholder).await;
    life.until_ended().await;
    assert_eq!(life.progress(&rows[6]).await, [("FILL".to_owned(), "DONE")]);
    assert_eq!(life.kinds(&rows[6]).await, ["ORIGINAL"]);
    assert_eq!(life.words(&rows[6]).await, "CONFIRMED");
    life.check().await;
    life.check_feed().await;
}

/// Nothing of it was ever sent, and all behind it wait: that is told too, once.
#[tokio::test(start_paused = true)]
async fn a_head_that_cannot_be_signed_for_want_of_an_estimate_is_told_as_stuck() {
    let life = Life::careful(1).await;
    let node = life.world.node("a").await;
    let error = FaultKind::Error {
        code: -32000,
        message: "no estimate today".to_owned(),
        when: When::Before,
    };
    life.fault(0, Fault::new(error).on("eth_estimateGas"));
    let unestimated = with(Draft {
        to: Some(Address::repeat_byte(9).to_string()),
        value: Some("1".to_owned()),
        ..Draft::default()
    });
    let row = accepted(node.ask(life.lanes[0], unestimated).await);
    life.until_state(&row, "STUCK/SIGNER_ERROR").await;
    seconds(300).await;
    assert_eq!(life.words(&row).await, "STUCK/SIGNER_ERROR");
    assert_eq!(life.feed().await.len(), 1);
    life.heal();
    // It is tried again after 75 seconds at the latest.
    seconds(75).await;
    life.until_state(&row, "CONFIRMED").await;
    life.check_feed().await;
}

/// A foreign transaction with a free nonce is in a pool and never gets into a block: the nonce stays ours to
/// give, or all behind it would wait for ever.
#[tokio::test(start_paused = true)]
async fn a_free_nonce_that_is_only_in_a_pool_is_not_dropped() {
    let mut life = Life::careful(1).await;
    let node = life.world.node("a").await;
    let lane = life.lanes[0];
    let lent = lend(&node, lane, 60).await;
    recycle(&node, lane, &lent).await;
    life.rest();
    life.foreign(lane, 0).await;
    seconds(40).await;
    let row = accepted(node.ask(lane, capped(100)).await);
    assert_eq!(row.state.nonce(), Some(Nonce::ZERO));
    seconds(1).await;
    let dropped = life.chain.lock().drop_all(EndpointId(0)).unwrap();
    assert_eq!(dropped, 1, "the foreign one was in the pool");
    life.work();
    life.until_state(&row, "CONFIRMED").await;
    let view = life.world.store.lane(lane).await.unwrap().unwrap();
    assert_eq!(view.free, []);
    life.check().await;
}

/// The store is away while something gets stuck: a person is called once, when it is written.
#[tokio::test(start_paused = true)]
async fn what_gets_stuck_is_counted_when_it_is_written_and_not_for_each_try() {
    let mut life = Life::careful(1).await;
    let hook = Hook::new(&mut life);
    let node = life.world.node("a").await;
    life.cost(100);
    let head = accepted(node.ask(life.lanes[0], capped(10)).await);
    seconds(5).await;
    hook.fail("complete", 100);
    life.until_state(&head, "STUCK/NO_RECEIPT").await;
    assert_eq!(hook.to_fail(), 0, "the writes have failed");
    let counted = node.meter("fencepost_stuck_total{reason=\"NO_RECEIPT\"}");
    assert_eq!((counted, life.feed().await.len()), (1, 1));
}
