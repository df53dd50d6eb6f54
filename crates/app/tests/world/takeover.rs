//! Leaders that die at any moment: whoever takes over finishes everything, once.

use std::time::Duration;

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
