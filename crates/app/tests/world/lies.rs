//! Endpoints that lie, hang and disagree: nothing is declared failed, and all ends once the truth is back.

use std::time::Duration;

use fencepost_app::lifecycle::accept::Verdict;
use fencepost_app::ports::{PauseReason, Store};
use fencepost_devchain::{EndpointId, Fate, Fault, FaultKind, Plan, View, When};

use super::life::{Life, seconds, transfer};
use super::nodes::accepted;

#[tokio::test(start_paused = true)]
async fn null_receipts_of_mined_transactions_end_nothing() {
    let life = Life::new(1, 1).await;
    let node = life.world.node("a").await;
    for method in ["eth_getTransactionReceipt", "eth_getBlockReceipts"] {
        life.fault(0, Fault::new(FaultKind::Null).on(method));
    }
    let rows = life.send(&node, life.lanes[0], 20).await;
    seconds(30).await;
    for row in &rows {
        let now = life.words(row).await;
        assert!(now.starts_with("TRACKING/"), "{now}");
    }
    assert_eq!(life.feed().await, []);
    life.heal();
    life.until_ended().await;
    life.check().await;
    life.check_feed().await;
}

#[tokio::test(start_paused = true)]
async fn a_stale_replica_and_heads_that_go_back_change_nothing() {
    let life = Life::new(1, 1).await;
    let node = life.world.node("a").await;
    life.fault(0, Fault::new(FaultKind::Stale(3)).every(2));
    life.send(&node, life.lanes[0], 20).await;
    life.until_ended().await;
    life.check().await;
    life.check_feed().await;
    let rows = life.world.rows(life.lanes[0]).await;
    assert!(
        rows.iter()
            .all(|row| row.state.name().word() == "CONFIRMED")
    );
}

#[tokio::test(start_paused = true)]
async fn a_pool_that_forgets_is_sent_the_same_bytes_again() {
    let mut life = Life::new(1, 1).await;
    life.rest();
    let node = life.world.node("a").await;
    let rows = life.send(&node, life.lanes[0], 10).await;
    life.until_state(&rows[9], "TRACKING/BROADCAST").await;
    assert_eq!(life.chain.lock().drop_all(EndpointId(0)).unwrap(), 10);
    life.work();
    life.until_ended().await;
    life.check().await;
    for row in life.world.rows(life.lanes[0]).await {
        assert_eq!(row.attempts, 1);
        assert!(row.submit_attempts >= 2);
    }
}

/// Two endpoints on two forks: nothing becomes final while they disagree about its block.
#[tokio::test(start_paused = true)]
async fn nothing_is_final_while_endpoints_disagree_about_its_block() {
    let mut life = Life::new(2, 1).await;
    let node = life.world.node("a").await;
    life.rest();
    life.mine(5);
    seconds(2).await;
    let rows = life.send(&node, life.lanes[0], 1).await;
    life.until_state(&rows[0], "TRACKING/BROADCAST").await;
    life.mine(1);
    life.until_state(&rows[0], "TRACKING/MINED").await;
    // The second endpoint stays on the branch that is left, the first follows the new one.
    let left = {
        let mut chain = life.chain.lock();
        let plan = Plan {
            depth: 1,
            extra: 1,
            txs: Fate::Keep,
            ..Plan::default()
        };
        let left = chain.reorg(&plan).unwrap().left;
        let view = View {
            branch: Some(left),
            lag: 0,
        };
        chain.set_view(EndpointId(1), view).unwrap();
        for time in 0..20 {
            chain.mine_as(EndpointId(1), 1_900_000_000 + time).unwrap();
        }
        left
    };
    life.mine(20);
    seconds(20).await;
    assert_eq!(life.words(&rows[0]).await, "TRACKING/MINED", "{left:?}");
    assert!(node.meter("fencepost_finality_disputed_total") > 0);
    life.chain
        .lock()
        .set_view(EndpointId(1), View::default())
        .unwrap();
    life.until_ended().await;
    life.check().await;
    life.check_feed().await;
}

/// A provider that tells an absurd count pauses the lane; it does not kill it.
#[tokio::test(start_paused = true)]
async fn an_absurd_count_pauses_the_lane() {
    let life = Life::new(1, 2).await;
    let node = life.world.node("a").await;
    let lane = life.lanes[0];
    life.send(&node, lane, 3).await;
    life.until_ended().await;
    life.fault(0, Fault::new(FaultKind::Count(1_000_000)));
    seconds(60).await;
    let told = node.ask(lane, transfer(1)).await;
    assert_eq!(told, Verdict::Paused(PauseReason::CursorJump));
    let view = life.world.store.lane(lane).await.unwrap().unwrap();
    assert_eq!(
        (view.next_nonce.get(), view.paused),
        (3, Some(PauseReason::CursorJump))
    );
}

/// A hanging endpoint delays nothing that another does.
#[tokio::test(start_paused = true)]
async fn a_hanging_endpoint_delays_nothing() {
    let life = Life::new(2, 1).await;
    let node = life.world.node("a").await;
    life.send(&node, life.lanes[0], 1).await;
    life.until_ended().await;
    life.fault(0, Fault::new(FaultKind::Hang(When::Before)));
    let began = tokio::time::Instant::now();
    let row = accepted(node.ask(life.lanes[0], transfer(7)).await);
    life.until_state(&row, "CONFIRMED").await;
    // Three blocks on top, the next block, and a few deadlines of a second.
    assert!(
        began.elapsed() < Duration::from_secs(12),
        "{:?}",
        began.elapsed()
    );
    life.check().await;
}

#[tokio::test(start_paused = true)]
async fn while_the_chain_is_out_of_reach_requests_are_accepted_and_end_later() {
    let life = Life::new(1, 2).await;
    let node = life.world.node("a").await;
    life.send(&node, life.lanes[0], 1).await;
    life.until_ended().await;
    life.fault(0, Fault::new(FaultKind::Disconnect(When::Before)));
    let known = accepted(node.ask(life.lanes[0], transfer(7)).await);
    assert_eq!(life.words(&known).await, "ALLOCATED");
    // Of a lane without a history nobody else knows where it stands.
    let new = accepted(node.ask(life.lanes[1], transfer(7)).await);
    assert_eq!(life.words(&new).await, "QUEUED/WAITING_LEADER");
    seconds(30).await;
    life.heal();
    life.until_ended().await;
    life.check().await;
}
