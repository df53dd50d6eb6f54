//! Someone else uses the key: found from a block, never from a missing receipt, and only final when that
//! block is.

use fencepost_app::ports::Store;
use fencepost_devchain::{Fate, Plan};
use fencepost_domain::state::{Failed, State};

use super::care::capped;
use super::life::{Life, seconds};
use super::nodes::accepted;

/// A foreign transaction takes the head's nonce: the head is told with its hash, and the rest goes on.
#[tokio::test(start_paused = true)]
async fn a_nonce_that_a_foreign_transaction_has_used_is_told_with_its_hash_and_nothing_else_is_harmed()
 {
    let life = Life::careful(2).await;
    let node = life.world.node("a").await;
    let lane = life.lanes[0];
    life.cost(100);
    let head = accepted(node.ask(lane, capped(10)).await);
    let others = life.send(&node, lane, 3).await;
    life.until_state(&head, "TRACKING/BROADCAST").await;
    let foreign = life.foreign(lane, 0).await;
    life.until_state(&head, "STUCK/NONCE_TAKEN").await;
    let State::Stuck(stuck) = life.world.record(head.tx).await.state else {
        panic!("it is stuck");
    };
    assert_eq!(stuck.foreign, Some(foreign));
    life.until_ended().await;
    let State::Failed(Failed::NonceTaken { foreign: named, .. }) =
        life.world.record(head.tx).await.state
    else {
        panic!("it has failed");
    };
    assert_eq!(named, Some(foreign));
    for other in &others {
        assert_eq!(life.words(other).await, "CONFIRMED");
    }
    life.check_feed().await;
    assert_eq!(
        node.meter("fencepost_stuck_total{reason=\"NONCE_TAKEN\"}"),
        1
    );
    let after = accepted(node.ask(lane, capped(400)).await);
    assert_eq!(after.state.nonce().unwrap().get(), 4);
    life.until_ended().await;
    assert_eq!(life.words(&after).await, "CONFIRMED");
}

/// The foreign block is replaced: the nonce is ours again, and the payload is executed after all.
#[tokio::test(start_paused = true)]
async fn a_foreign_transaction_that_a_reorg_drops_gives_the_nonce_back() {
    let mut life = Life::careful(1).await;
    life.world.main.finality = fencepost_domain::finality::Rule::Confirmations(30);
    let node = life.world.node("a").await;
    let lane = life.lanes[0];
    life.cost(100);
    let head = accepted(node.ask(lane, capped(10)).await);
    life.until_state(&head, "TRACKING/BROADCAST").await;
    let below = life.chain.lock().head().header.number;
    life.foreign(lane, 0).await;
    life.until_state(&head, "STUCK/NONCE_TAKEN").await;
    life.rest();
    life.cost(1);
    let height = life.chain.lock().head().header.number;
    let plan = Plan {
        depth: height - below,
        extra: 1,
        txs: Fate::Drop,
        ..Plan::default()
    };
    life.chain.lock().reorg(&plan).unwrap();
    life.work();
    life.until_ended().await;
    assert_eq!(life.words(&head).await, "CONFIRMED");
    life.check().await;
    life.check_feed().await;
}

/// The leader dies while the foreign block is not final: the next one finds it again.
#[tokio::test(start_paused = true)]
async fn the_next_leader_follows_a_taken_nonce_to_its_end() {
    let life = Life::careful(1).await;
    let node = life.world.node("a").await;
    let lane = life.lanes[0];
    life.cost(100);
    let head = accepted(node.ask(lane, capped(10)).await);
    life.until_state(&head, "TRACKING/BROADCAST").await;
    life.foreign(lane, 0).await;
    life.until_state(&head, "STUCK/NONCE_TAKEN").await;
    node.kill();
    let next = life.world.node("b").await;
    life.until_state(&head, "FAILED_FINAL/NONCE_TAKEN").await;
    life.check_feed().await;
    drop(next);
}

/// Free nonces that the chain has used are not given to anyone.
#[tokio::test(start_paused = true)]
async fn a_free_nonce_that_someone_else_has_used_is_dropped() {
    let life = Life::careful(1).await;
    let node = life.world.node("a").await;
    let lane = life.lanes[0];
    let lent = super::loans::lend(&node, lane, 60).await;
    super::loans::recycle(&node, lane, &lent).await;
    life.foreign(lane, 0).await;
    seconds(40).await;
    let row = accepted(node.ask(lane, capped(400)).await);
    assert_eq!(row.state.nonce().unwrap().get(), 1);
    life.until_state(&row, "CONFIRMED").await;
    let view = life.world.store.lane(lane).await.unwrap().unwrap();
    assert_eq!(view.free, []);
}

/// Seen once, and gone before the second look: nothing is told of it.
#[tokio::test(start_paused = true)]
async fn one_sight_of_a_foreign_transaction_proves_nothing() {
    let mut life = Life::careful(1).await;
    life.world.main.finality = fencepost_domain::finality::Rule::Confirmations(30);
    life.world.settings.stuck.age = std::time::Duration::from_secs(300);
    let node = life.world.node("a").await;
    let lane = life.lanes[0];
    life.cost(100);
    let head = accepted(node.ask(lane, capped(10)).await);
    life.until_state(&head, "TRACKING/BROADCAST").await;
    life.rest();
    life.foreign(lane, 0).await;
    life.mine(2);
    let asked = |life: &Life| {
        let chain = life.chain.lock();
        let calls = &chain
            .stats(fencepost_devchain::EndpointId(0))
            .unwrap()
            .calls;
        calls.get("eth_getTransactionCount").copied().unwrap_or(0)
    };
    // The first look at what has used the nonce asks for the count at some blocks.
    let before = asked(&life);
    life.world
        .until("it was looked at", async || asked(&life) > before + 3)
        .await;
    let plan = Plan {
        depth: 2,
        extra: 1,
        txs: Fate::Drop,
        ..Plan::default()
    };
    life.chain.lock().reorg(&plan).unwrap();
    life.cost(1);
    life.work();
    life.until_state(&head, "TRACKING/MINED").await;
    assert_eq!(life.feed().await, []);
    assert_eq!(
        node.meter("fencepost_stuck_total{reason=\"NONCE_TAKEN\"}"),
        0
    );
}

/// The newest block is often replaced: a foreign transaction in it is no proof, however often it is seen.
#[tokio::test(start_paused = true)]
async fn a_foreign_transaction_with_nothing_on_top_proves_nothing() {
    let mut life = Life::careful(1).await;
    life.world.settings.stuck.age = std::time::Duration::from_secs(300);
    let node = life.world.node("a").await;
    let lane = life.lanes[0];
    life.cost(100);
    let head = accepted(node.ask(lane, capped(10)).await);
    life.until_state(&head, "TRACKING/BROADCAST").await;
    life.rest();
    life.foreign(lane, 0).await;
    life.mine(1);
    seconds(60).await;
    assert_eq!(life.words(&head).await, "TRACKING/BROADCAST");
    life.mine(1);
    life.until_state(&head, "STUCK/NONCE_TAKEN").await;
}
