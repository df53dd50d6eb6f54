//! Leaders that die at any moment: whoever takes over finishes everything, once.

use std::time::Duration;

use fencepost_devchain::{Fate, Plan};

use super::life::{Life, seconds};
use super::nodes::pass;

/// The leader dies at every tenth of a second of a transaction's life, and another node goes on.
#[tokio::test(start_paused = true)]
async fn whenever_the_leader_dies_another_finishes_all_of_it_once() {
    for tenth in 0..60 {
        let life = Life::new(1, 2).await;
        let first = life.world.node("a").await;
        for lane in &life.lanes {
            life.send(&first, *lane, 5).await;
        }
        pass(Duration::from_millis(tenth * 100)).await;
        first.kill();
        let _second = life.world.node("b").await;
        seconds(10).await;
        life.until_ended().await;
        life.check().await;
        life.check_feed().await;
        assert_eq!(life.feed().await.len(), 10, "killed after {tenth} tenths");
    }
}

/// Where nothing that was accepted is sent again, what was stored and never sent still is.
#[tokio::test(start_paused = true)]
async fn without_resubmits_stored_bytes_are_sent_all_the_same() {
    for tenth in 0..12 {
        let mut life = Life::new(1, 2).await;
        life.world.settings.resubmit_interval = None;
        let first = life.world.node("a").await;
        for lane in &life.lanes {
            life.send(&first, *lane, 5).await;
        }
        pass(Duration::from_millis(tenth * 20)).await;
        first.kill();
        let _second = life.world.node("b").await;
        life.until_ended().await;
        life.check().await;
    }
}

/// A final block is replaced while its lane has no leader: whoever leads it next finds out.
#[tokio::test(start_paused = true)]
async fn a_final_block_that_is_replaced_between_two_leaders_is_found() {
    let mut life = Life::new(1, 1).await;
    let lane = life.lanes[0];
    let first = life.world.node("a").await;
    let _second = life.world.node("b").await;
    life.mine(20);
    seconds(2).await;
    let ended = life.send(&first, lane, 1).await;
    life.until_state(&ended[0], "CONFIRMED").await;
    life.rest();
    // Something unfinished, so that the lane is led again.
    let open = life.send(&first, lane, 1).await;
    life.until_state(&open[0], "TRACKING/BROADCAST").await;
    seconds(2).await;
    first.kill();
    let plan = Plan {
        depth: 6,
        extra: 1,
        txs: Fate::Drop,
        ..Plan::default()
    };
    life.chain.lock().reorg(&plan).unwrap();
    seconds(4).await;
    life.work();
    life.until_state(&open[0], "CONFIRMED").await;
    life.until_ended().await;
    life.check().await;
    let feed = life.feed().await;
    let of: Vec<&str> = feed
        .iter()
        .filter(|told| told.tx == ended[0].tx)
        .map(|told| told.state.word())
        .collect();
    assert_eq!(of, ["CONFIRMED", "STUCK", "CONFIRMED"]);
}

/// The same node again, at once: it does not wait for its own lease.
#[tokio::test(start_paused = true)]
async fn a_node_that_starts_again_goes_on_at_once() {
    let life = Life::new(1, 2).await;
    let first = life.world.node("a").await;
    for lane in &life.lanes {
        life.send(&first, *lane, 5).await;
    }
    first.kill();
    let again = life.world.node("a").await;
    life.world
        .until("it leads again", async || again.node.led() == 2)
        .await;
    let rows = life.world.rows(life.lanes[0]).await;
    assert!(rows.iter().all(|row| !row.state.is_final()));
    life.until_ended().await;
    life.check().await;
}
