//! What does not move is told, once and with its reason, and still ends when the chain lets it.

use std::time::Duration;

use fencepost_app::ports::Action;
use fencepost_devchain::{FaultKind, Rejection};

use super::care::capped;
use super::life::{Life, on_send, seconds};
use super::nodes::accepted;

/// The head cannot pay for a block, the others could: only the head is stuck, and all end once it can.
#[tokio::test(start_paused = true)]
async fn a_head_in_no_block_is_told_and_ends_by_itself_when_the_fee_falls() {
    let life = Life::careful(1).await;
    let node = life.world.node("a").await;
    let lane = life.lanes[0];
    life.cost(100);
    let head = accepted(node.ask(lane, capped(10)).await);
    let others = life.send(&node, lane, 4).await;
    life.until_state(&head, "STUCK/NO_RECEIPT").await;
    seconds(30).await;
    assert_eq!(life.words(&head).await, "STUCK/NO_RECEIPT");
    for other in &others {
        assert_eq!(life.words(other).await, "TRACKING/BROADCAST");
    }
    assert_eq!(life.feed().await.len(), 1, "told once");
    assert_eq!(
        node.meter("fencepost_stuck_total{reason=\"NO_RECEIPT\"}"),
        1
    );
    assert_eq!(life.acts(&head).await, [], "nothing is done by itself");
    life.cost(1);
    life.until_ended().await;
    life.check().await;
    life.check_feed().await;
    assert_eq!(life.words(&head).await, "CONFIRMED");
    assert_eq!(life.kinds(&head).await, ["ORIGINAL"]);
}

#[tokio::test(start_paused = true)]
async fn a_rule_replaces_with_a_fee_that_is_enough_and_all_later_ones_follow() {
    let mut life = Life::careful(1).await;
    life.rule(Action::Replace);
    let node = life.world.node("a").await;
    let lane = life.lanes[0];
    life.cost(100);
    let head = accepted(node.ask(lane, capped(10)).await);
    life.send(&node, lane, 4).await;
    life.until_ended().await;
    life.check().await;
    life.check_feed().await;
    assert_eq!(life.words(&head).await, "CONFIRMED");
    assert_eq!(life.kinds(&head).await, ["ORIGINAL", "REPLACEMENT"]);
    let attempts = life.attempts(&head).await;
    let fees = attempts[1].attempt.fees.unwrap();
    assert!(fees.max_fee >= 100 * super::care::GWEI, "{fees:?}");
    let acts = life.acts(&head).await;
    assert_eq!(acts.len(), 1);
    assert_eq!(
        (acts[0].action.as_str(), acts[0].progress.word()),
        ("REPLACE", "DONE")
    );
    assert_eq!(acts[0].audit.by, "policy rules");
    assert_eq!(acts[0].fees, Some(fees));
    let done = "fencepost_remedy_total{action=\"REPLACE\",result=\"done\"}";
    assert_eq!(node.meter(done), 1);
}

#[tokio::test(start_paused = true)]
async fn a_rule_cancels_or_puts_a_placeholder_and_the_payload_is_not_executed() {
    for (action, kind, end) in [
        (Action::Cancel, "CANCEL", "FAILED_FINAL/CANCELLED"),
        (
            Action::Placeholder,
            "PLACEHOLDER",
            "FAILED_FINAL/PLACEHOLDER",
        ),
    ] {
        let mut life = Life::careful(1).await;
        life.rule(action);
        let node = life.world.node("a").await;
        let lane = life.lanes[0];
        life.cost(100);
        let head = accepted(node.ask(lane, capped(10)).await);
        let others = life.send(&node, lane, 3).await;
        life.until_ended().await;
        life.check().await;
        life.check_feed().await;
        assert_eq!(life.words(&head).await, end);
        assert_eq!(life.kinds(&head).await, ["ORIGINAL", kind]);
        for other in &others {
            assert_eq!(life.words(other).await, "CONFIRMED");
        }
    }
}

/// Bytes that every node refuses, for a cause that could pass, stay the transaction's.
#[tokio::test(start_paused = true)]
async fn bytes_that_all_nodes_refuse_for_too_long_are_told_as_refused_and_end_when_they_are_taken()
{
    let life = Life::careful(2).await;
    let node = life.world.node("a").await;
    for endpoint in 0..2 {
        life.fault(
            endpoint,
            on_send(FaultKind::Refuse {
                kind: Rejection::BelowMinimum,
                when: fencepost_devchain::When::Before,
            }),
        );
    }
    let rows = life.send(&node, life.lanes[0], 3).await;
    life.until_state(&rows[0], "STUCK/REFUSED").await;
    assert_eq!(life.feed().await.len(), 1);
    life.heal();
    life.until_ended().await;
    life.check().await;
    life.check_feed().await;
}

/// After a takeover the next head has not waited as long as it has been sent.
#[tokio::test(start_paused = true)]
async fn one_that_has_just_become_the_head_is_not_stuck_for_the_time_it_waited_behind_another() {
    let mut life = Life::careful(1).await;
    life.world.settings.stuck.age = Duration::from_secs(25);
    let node = life.world.node("a").await;
    let lane = life.lanes[0];
    life.cost(100);
    let head = accepted(node.ask(lane, capped(10)).await);
    let second = accepted(node.ask(lane, capped(10)).await);
    life.until_state(&head, "STUCK/NO_RECEIPT").await;
    seconds(20).await;
    node.remedy(&head, Action::Replace).await;
    life.until_state(&head, "CONFIRMED").await;
    node.kill();
    let next = life.world.node("b").await;
    seconds(15).await;
    assert_eq!(
        next.meter("fencepost_stuck_total{reason=\"NO_RECEIPT\"}"),
        0
    );
    life.until_state(&second, "STUCK/NO_RECEIPT").await;
}
