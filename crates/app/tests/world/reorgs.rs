//! Blocks that are replaced: the status never claims more than the chain.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use fencepost_app::ports::{Record, Store, StoreError, Watched, Watcher};
use fencepost_devchain::{Fate, Order, Plan};
use fencepost_domain::event;
use fencepost_domain::finality::Rule;
use fencepost_domain::ids::LaneSeq;
use tokio::sync::Semaphore;

use super::life::{Life, seconds};

/// A transaction in a block with nothing on top, and nobody mining.
async fn mined(confirmations: u64) -> (Life, super::nodes::Member, Record) {
    let mut life = Life::new(1, 2).await;
    life.world.main.finality = Rule::Confirmations(confirmations);
    let node = life.world.node("a").await;
    life.rest();
    life.mine(20);
    seconds(2).await;
    let rows = life.send(&node, life.lanes[0], 1).await;
    life.until_state(&rows[0], "TRACKING/BROADCAST").await;
    life.mine(1);
    life.until_state(&rows[0], "TRACKING/MINED").await;
    (life, node, rows[0].clone())
}

async fn forks(life: &Life, row: &Record) -> usize {
    let zero = LaneSeq::default();
    let events = life.world.store.history(row.tx, zero, 1_000).await.unwrap();
    events.iter().filter(|each| each.event.new_fork).count()
}

fn plan(depth: u64, txs: Fate) -> Plan {
    Plan {
        depth,
        extra: 1,
        txs,
        ..Plan::default()
    }
}

#[tokio::test(start_paused = true)]
async fn moved_to_another_block_it_follows_at_every_depth() {
    for depth in 1..=5 {
        let (mut life, _node, row) = mined(6).await;
        life.mine(depth - 1);
        seconds(2).await;
        life.chain
            .lock()
            .reorg(&plan(depth, Fate::Later(1)))
            .unwrap();
        seconds(2).await;
        assert_eq!(life.words(&row).await, "TRACKING/MINED", "depth {depth}");
        assert_eq!(forks(&life, &row).await, 1, "depth {depth}");
        life.work();
        life.until_ended().await;
        life.check().await;
        life.check_feed().await;
        assert_eq!(life.feed().await.len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn dropped_by_a_fork_it_is_sent_again_and_ends_once() {
    for fate in [Fate::Drop, Fate::Pool] {
        for depth in 1..=5 {
            let (mut life, _node, row) = mined(6).await;
            life.mine(depth - 1);
            seconds(2).await;
            life.chain.lock().reorg(&plan(depth, fate)).unwrap();
            life.world
                .until("it is seen", async || forks(&life, &row).await == 1)
                .await;
            let now = life.words(&row).await;
            assert!(now.starts_with("TRACKING/"), "{now}");
            assert_ne!(now, "TRACKING/MINED", "{fate:?} depth {depth}");
            life.work();
            life.until_ended().await;
            life.check().await;
            assert_eq!(life.world.record(row.tx).await.attempts, 1);
            assert_eq!(life.feed().await.len(), 1);
        }
    }
}

/// Some of a lane were seen in the block that is replaced, and some were not: none waits for its time.
#[tokio::test(start_paused = true)]
async fn what_was_dropped_unseen_is_sent_again_with_what_was_seen() {
    let mut life = Life::new(1, 1).await;
    life.world.main.finality = Rule::Confirmations(6);
    life.world.settings.resubmit_interval = Some(std::time::Duration::from_mins(10));
    life.world.settings.stale_receipt_timeout = std::time::Duration::from_mins(10);
    let node = life.world.node("a").await;
    life.rest();
    life.mine(5);
    seconds(2).await;
    let rows = life.send(&node, life.lanes[0], 2).await;
    life.until_state(&rows[1], "TRACKING/BROADCAST").await;
    life.mine(1);
    life.until_state(&rows[1], "TRACKING/MINED").await;
    let more = life.send(&node, life.lanes[0], 3).await;
    life.until_state(&more[2], "TRACKING/BROADCAST").await;
    // In a block that is replaced before anyone has looked.
    life.mine(1);
    life.chain.lock().reorg(&plan(2, Fate::Drop)).unwrap();
    life.work();
    life.until_ended().await;
    life.check().await;
}

/// Another position in a block of the same height is another block.
#[tokio::test(start_paused = true)]
async fn the_same_height_in_another_order_is_another_block() {
    let (mut life, _node, row) = mined(6).await;
    let before = life.world.record(row.tx).await;
    let other = Plan {
        order: Order::Reversed,
        ..plan(1, Fate::Keep)
    };
    life.chain.lock().reorg(&other).unwrap();
    seconds(2).await;
    let after = life.world.record(row.tx).await;
    assert_ne!(before.state, after.state);
    assert_eq!(forks(&life, &row).await, 1);
    life.work();
    life.until_ended().await;
    life.check().await;
}

#[tokio::test(start_paused = true)]
async fn a_fork_back_and_forth_is_followed() {
    let (mut life, _node, row) = mined(20).await;
    for turn in 0..4 {
        let depth = 1 + 2 * turn;
        let reorg = life.chain.lock().reorg(&plan(depth, Fate::Drop)).unwrap();
        seconds(2).await;
        assert_ne!(life.words(&row).await, "TRACKING/MINED", "turn {turn}");
        life.chain.lock().switch_to(reorg.left).unwrap();
        // Longer than the other branch by then.
        life.mine(2);
        seconds(2).await;
        assert_eq!(life.words(&row).await, "TRACKING/MINED", "turn {turn}");
    }
    assert_eq!(life.feed().await, []);
    life.work();
    life.until_ended().await;
    life.check().await;
}

/// Deeper than what is final: told loudly, sent again, and ended anew with a correction.
#[tokio::test(start_paused = true)]
async fn a_final_block_that_is_replaced_is_told_and_corrected() {
    let (mut life, node, row) = mined(3).await;
    life.mine(3);
    life.until_state(&row, "CONFIRMED").await;
    life.chain.lock().reorg(&plan(5, Fate::Drop)).unwrap();
    life.until_state(&row, "STUCK/REORG_AFTER_FINAL").await;
    assert_eq!(
        node.meter("fencepost_stuck_total{reason=\"REORG_AFTER_FINAL\"}"),
        1
    );
    life.work();
    life.until_ended().await;
    life.check().await;
    life.check_feed().await;
    let feed = life.feed().await;
    let told: Vec<_> = feed.iter().map(|each| each.state.word()).collect();
    assert_eq!(told, ["CONFIRMED", "STUCK", "CONFIRMED"]);
    assert_eq!(feed[2].corrects, Some(feed[0].seq));
}

/// Deeper than all that the follower has in mind: what it knew to be final is looked at again.
#[tokio::test(start_paused = true)]
async fn a_reorg_below_the_window_of_a_new_follower_is_found() {
    let (mut life, node, row) = mined(3).await;
    life.mine(3);
    life.until_state(&row, "CONFIRMED").await;
    node.kill();
    // The next leader has led nothing yet when the blocks are replaced, but for another transaction.
    let node = life.world.node("a").await;
    seconds(1).await;
    life.send(&node, life.lanes[0], 1).await;
    life.mine(1);
    seconds(1).await;
    life.chain.lock().reorg(&plan(7, Fate::Drop)).unwrap();
    life.work();
    life.until_ended().await;
    seconds(20).await;
    life.until_ended().await;
    life.check().await;
    assert_eq!(life.feed().await.last().unwrap().state.word(), "CONFIRMED");
}

/// Whoever led the lane is gone, and nothing in it is open: the end is watched all the same.
#[tokio::test(start_paused = true)]
async fn a_final_block_is_watched_after_the_last_leader_of_an_idle_lane_was_lost() {
    let (mut life, node, row) = mined(3).await;
    life.mine(3);
    life.until_state(&row, "CONFIRMED").await;
    node.kill();
    seconds(60).await;
    life.chain.lock().reorg(&plan(5, Fate::Drop)).unwrap();
    life.mine(1);
    let _other = life.world.node("b").await;
    life.until_state(&row, "STUCK/REORG_AFTER_FINAL").await;
    life.work();
    life.until_ended().await;
    life.check().await;
    life.check_feed().await;
}

/// Lets the end that waits be written just before what is unfinished is read.
struct Between {
    end: Semaphore,
    /// An end waits.
    waits: AtomicBool,
    armed: AtomicBool,
}

#[async_trait]
impl Watcher for Between {
    async fn before(&self, op: &'static str) -> Result<(), StoreError> {
        if op == "complete" {
            self.waits.store(true, Ordering::Relaxed);
            self.end.acquire().await.unwrap().forget();
        }
        if op == "unfinished" && self.armed.swap(false, Ordering::Relaxed) {
            self.end.add_permits(1_000);
            // Virtual: the completer has all the time that it wants.
            seconds(1).await;
        }
        Ok(())
    }

    async fn after(&self, _: &'static str, _: Duration) -> Result<(), StoreError> {
        Ok(())
    }
}

/// It ends between the two reads of a lane that is read anew: it is in one of them.
#[tokio::test(start_paused = true)]
async fn an_end_that_is_written_while_its_lane_is_read_anew_is_watched() {
    let mut life = Life::new(1, 1).await;
    life.world.main.finality = Rule::Confirmations(3);
    life.world.settings.max_walk = 4;
    let between = Arc::new(Between {
        end: Semaphore::new(0),
        waits: AtomicBool::new(false),
        armed: AtomicBool::new(false),
    });
    let sound = Arc::clone(&life.world.store) as Arc<dyn Store>;
    let watcher = Arc::clone(&between) as Arc<dyn Watcher>;
    life.world.seen = Some(Arc::new(Watched::new(sound, watcher)));
    life.rest();
    life.mine(1);
    let node = life.world.node("a").await;
    let rows = life.send(&node, life.lanes[0], 1).await;
    life.until_state(&rows[0], "TRACKING/BROADCAST").await;
    life.mine(1);
    life.until_state(&rows[0], "TRACKING/MINED").await;
    life.mine(3);
    let waits = async || between.waits.load(Ordering::Relaxed);
    life.world.until("its end waits", waits).await;
    assert_eq!(life.words(&rows[0]).await, "TRACKING/MINED");
    // More blocks than are walked: the lane is read anew.
    between.armed.store(true, Ordering::Relaxed);
    life.mine(10);
    life.until_state(&rows[0], "CONFIRMED").await;
    assert!(!between.armed.load(Ordering::Relaxed));
    seconds(5).await;
    life.chain.lock().reorg(&plan(14, Fate::Drop)).unwrap();
    life.until_state(&rows[0], "STUCK/REORG_AFTER_FINAL").await;
}

/// Every block on top is told when asked for, and a fork begins a new list.
#[tokio::test(start_paused = true)]
async fn published_confirmations_have_each_block_and_are_anew_on_a_fork() {
    let mut life = Life::new(1, 1).await;
    life.world.settings.publish_confirmations = true;
    life.world.main.finality = Rule::Confirmations(4);
    let node = life.world.node("a").await;
    life.rest();
    life.mine(10);
    seconds(2).await;
    let rows = life.send(&node, life.lanes[0], 1).await;
    life.until_state(&rows[0], "TRACKING/BROADCAST").await;
    life.mine(3);
    seconds(2).await;
    life.chain.lock().reorg(&plan(3, Fate::Keep)).unwrap();
    seconds(2).await;
    life.mine(5);
    life.until_ended().await;
    let zero = LaneSeq::default();
    let events = life
        .world
        .store
        .history(rows[0].tx, zero, 1_000)
        .await
        .unwrap();
    use event::Kind::{Confirmations, Confirmed, Receipt};
    let told: Vec<&event::Event> = events.iter().map(|each| &each.event).collect();
    let height = |each: &event::Event| each.block.map(|block| block.number.get());
    let listed = |part: &[&event::Event]| -> Vec<u64> {
        let lists = part.iter().filter(|each| each.kind == Confirmations);
        let blocks = lists.flat_map(|each| each.confirmations.as_ref().unwrap().blocks());
        blocks.map(|(block, _)| block.number.get()).collect()
    };
    let first = told.iter().position(|each| each.kind == Receipt).unwrap();
    let fork = told.iter().position(|each| each.new_fork).unwrap();
    let base = height(told[first]).unwrap();
    assert_eq!(listed(&told[first..fork]), [base + 1, base + 2]);
    assert_eq!(told[fork].kind, Receipt);
    let base = height(told[fork]).unwrap();
    let heights: Vec<u64> = (base + 1..=base + 4).collect();
    assert_eq!(listed(&told[fork..]), heights);
    assert_eq!(told.last().unwrap().kind, Confirmed);
    // Readers get the list of the branch that counts, and nothing of the one before.
    let list = node.node.confirmations(rows[0].tx).await.unwrap();
    let list: Vec<u64> = list.iter().map(|each| each.block.number.get()).collect();
    assert_eq!(list, heights);
}

/// A node that has looked at the chain seldom takes a lane over, in which something ended in a block that it has
/// not seen. Then it walks more blocks than it keeps: that one is not among them, and was not replaced.
#[tokio::test(start_paused = true)]
async fn a_walk_that_is_longer_than_what_is_kept_undoes_no_end() {
    let mut life = Life::new(1, 1).await;
    let lane = life.lanes[0];
    life.rest();
    life.mine(20);
    life.world.main.poll_interval = Duration::from_mins(1);
    let seldom = life.world.node("a").await;
    seconds(2).await;
    life.world.main.poll_interval = Duration::from_millis(500);
    let often = life.world.node("b").await;
    seconds(1).await;
    let row = life.send(&often, lane, 1).await.remove(0);
    life.until_state(&row, "TRACKING/BROADCAST").await;
    life.mine(4);
    life.until_state(&row, "CONFIRMED").await;
    often.kill();
    life.mine(300);
    seconds(12).await;
    let next = life.send(&seldom, lane, 1).await.remove(0);
    life.until_state(&next, "TRACKING/BROADCAST").await;
    life.work();
    life.until_state(&next, "CONFIRMED").await;
    assert_eq!(life.words(&row).await, "CONFIRMED");
    assert_eq!(life.feed().await.len(), 2, "nothing was undone");
    life.check().await;
}
