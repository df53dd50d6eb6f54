//! `in_flight_until = "final"`: one nonce after the other, each given when the last one is final.

use std::time::Duration;

use fencepost_app::directory::InFlightUntil;
use fencepost_app::lifecycle::accept::Verdict;
use fencepost_app::ports::{NewTx, Record};
use fencepost_devchain::{Fate, Plan};
use fencepost_domain::ids::RequestId;

use super::life::{Life, seconds, transfer};
use super::loans::{lend, loan, recycle, submitted};
use super::nodes::{Member, accepted, pass};

/// One in flight until it is final; no blocks but those that the test mines.
async fn strict() -> Life {
    let mut life = Life::new(1, 1).await;
    life.world.max_in_flight = Some(1);
    life.world.in_flight_until = InFlightUntil::Final;
    life.world.settings.lending.grace = Duration::from_secs(5);
    life.rest();
    life.mine(20);
    life
}

/// Asks for all of them before any is answered.
async fn together(life: &Life, node: &Member, count: u64) -> Vec<Record> {
    let asked: Vec<_> = (1..=count)
        .map(|n| node.put(life.lanes[0], transfer(n)))
        .collect();
    let mut rows = Vec::new();
    for answer in asked {
        rows.push(accepted(answer.await.unwrap()));
    }
    rows
}

async fn nonces(life: &Life) -> Vec<u64> {
    let rows = life.world.rows(life.lanes[0]).await;
    let nonces = rows.iter().filter_map(|row| row.state.nonce());
    nonces.map(fencepost_domain::ids::Nonce::get).collect()
}

#[tokio::test(start_paused = true)]
async fn the_next_nonce_is_given_when_the_last_one_is_final_and_at_once() {
    let life = strict().await;
    let node = life.world.node("a").await;
    let rows = together(&life, &node, 10).await;
    assert_eq!(nonces(&life).await, [0], "one of ten");
    for (n, row) in (0..3_u64).zip(&rows) {
        life.until_state(row, "TRACKING/BROADCAST").await;
        life.mine(1);
        life.until_state(row, "TRACKING/MINED").await;
        // Longer than any look at the queue takes to come by itself.
        seconds(5).await;
        life.mine(2);
        seconds(5).await;
        assert_eq!(life.words(row).await, "TRACKING/MINED");
        assert_eq!(nonces(&life).await, (0..=n).collect::<Vec<_>>());
        life.mine(1);
        life.until_state(row, "CONFIRMED").await;
        pass(Duration::from_millis(100)).await;
        assert_eq!(nonces(&life).await, (0..=n + 1).collect::<Vec<_>>());
    }
    for row in &rows[4..] {
        assert_eq!(life.words(row).await, "QUEUED/WAITING_WINDOW");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_reorg_puts_back_has_its_place_still() {
    let mut life = strict().await;
    let node = life.world.node("a").await;
    let rows = together(&life, &node, 2).await;
    life.until_state(&rows[0], "TRACKING/BROADCAST").await;
    life.mine(2);
    life.until_state(&rows[0], "TRACKING/MINED").await;
    let dropped = Plan {
        depth: 3,
        extra: 1,
        txs: Fate::Drop,
        ..Plan::default()
    };
    life.chain.lock().reorg(&dropped).unwrap();
    seconds(10).await;
    assert_eq!(nonces(&life).await, [0]);
    life.work();
    life.until_ended().await;
    life.check().await;
}

/// An end that is undone is one that has not come: the next nonce waits for it again.
#[tokio::test(start_paused = true)]
async fn one_that_was_final_and_is_not_any_more_takes_its_place_again() {
    let mut life = strict().await;
    let node = life.world.node("a").await;
    let first = together(&life, &node, 1).await.remove(0);
    life.until_state(&first, "TRACKING/BROADCAST").await;
    life.mine(4);
    life.until_state(&first, "CONFIRMED").await;
    let deep = Plan {
        depth: 6,
        extra: 1,
        txs: Fate::Drop,
        ..Plan::default()
    };
    life.chain.lock().reorg(&deep).unwrap();
    life.until_state(&first, "STUCK/REORG_AFTER_FINAL").await;
    let next = together(&life, &node, 1).await.remove(0);
    seconds(5).await;
    assert_eq!(life.words(&next).await, "QUEUED/WAITING_WINDOW");
    life.work();
    life.until_ended().await;
    life.check().await;
}

#[tokio::test(start_paused = true)]
async fn the_next_leader_waits_for_what_the_last_one_gave() {
    let mut life = strict().await;
    let node = life.world.node("a").await;
    let rows = together(&life, &node, 3).await;
    life.until_state(&rows[0], "TRACKING/BROADCAST").await;
    life.mine(1);
    life.until_state(&rows[0], "TRACKING/MINED").await;
    node.kill();
    let next = life.world.node("b").await;
    life.world
        .until("it leads", async || next.node.led() == 1)
        .await;
    seconds(10).await;
    assert_eq!(nonces(&life).await, [0]);
    assert_eq!(life.words(&rows[1]).await, "QUEUED/WAITING_WINDOW");
    life.work();
    life.until_ended().await;
    assert_eq!(nonces(&life).await, [0, 1, 2]);
    life.check().await;
}

fn named_loan(name: &str) -> NewTx {
    NewTx {
        request_id: Some(RequestId::new(name).unwrap()),
        ..loan(600)
    }
}

#[tokio::test(start_paused = true)]
async fn a_reservation_has_the_place_until_it_is_used_or_given_back() {
    let life = strict().await;
    let node = life.world.node("a").await;
    let lane = life.lanes[0];
    let lent = accepted(node.ask(lane, named_loan("mine")).await);
    let waits = together(&life, &node, 1).await.remove(0);
    assert_eq!(life.words(&waits).await, "QUEUED/WAITING_WINDOW");
    assert_eq!(node.ask(lane, loan(60)).await, Verdict::InFlightLimit);
    // Its holder has lost the answer and asks again: it is told the same.
    let Verdict::Known(known) = node.ask(lane, named_loan("mine")).await else {
        panic!("it is known");
    };
    assert_eq!(known.reservation, lent.reservation);
    let hash = life.foreign(lane, 0).await;
    submitted(&node, lane, &lent, hash).await;
    life.mine(1);
    seconds(5).await;
    assert_eq!(life.words(&lent).await, "SUBMITTED/MINED");
    assert_eq!(life.words(&waits).await, "QUEUED/WAITING_WINDOW");
    life.mine(3);
    life.until_state(&lent, "USED").await;
    life.until_state(&waits, "TRACKING/BROADCAST").await;
    assert_eq!(node.ask(lane, loan(60)).await, Verdict::InFlightLimit);
    life.mine(4);
    life.until_state(&waits, "CONFIRMED").await;
    let given_back = lend(&node, lane, 60).await;
    let next = together(&life, &node, 1).await.remove(0);
    recycle(&node, lane, &given_back).await;
    life.until_state(&next, "TRACKING/BROADCAST").await;
    assert_eq!(nonces(&life).await, [0, 1, 2]);
}

/// What its holder neither used nor gave back does not keep the lane for ever.
#[tokio::test(start_paused = true)]
async fn a_reservation_that_expires_makes_room() {
    let life = strict().await;
    let node = life.world.node("a").await;
    let lent = lend(&node, life.lanes[0], 10).await;
    let waits = together(&life, &node, 1).await.remove(0);
    life.until_state(&lent, "RECYCLABLE").await;
    life.until_state(&waits, "TRACKING/BROADCAST").await;
    assert_eq!(nonces(&life).await, [0]);
}
