//! Rounds of a policy and remedies that cannot be carried out yet: each ends or waits without harm, and an
//! operator can always step in.

use async_trait::async_trait;
use fencepost_app::ports::{Action, Advice, AskedRemedy, Plight, Policy};

use super::care::capped;
use super::hooks::{Hook, Picky, Say};
use super::life::{Life, seconds};
use super::nodes::accepted;

/// A head is stuck for five minutes: the first round about it ends so, all others as NOOP, and an operator can
/// still cancel it.
async fn all_rounds_end(life: &Life, first: (&str, &'static str)) {
    let node = life.world.node("a").await;
    life.cost(100);
    let head = accepted(node.ask(life.lanes[0], capped(10)).await);
    life.until_state(&head, "STUCK/NO_RECEIPT").await;
    seconds(300).await;
    let rounds = life.progress(&head).await;
    assert!(rounds.len() > 1, "it is asked again: {rounds:?}");
    assert_eq!(rounds[0], (first.0.to_owned(), first.1));
    for round in &rounds[1..] {
        assert_eq!(*round, ("NOOP".to_owned(), "DONE"));
    }
    let asked = node.remedy(&head, Action::Cancel).await;
    assert!(matches!(asked, AskedRemedy::Asked(_)), "{asked:?}");
    life.world
        .until("it is cancelled", async || {
            life.kinds(&head).await == ["ORIGINAL", "CANCEL"]
        })
        .await;
}

/// The store is away for a moment, just when the first decision is to be written.
#[tokio::test(start_paused = true)]
async fn a_decision_that_could_not_be_written_at_once_blocks_no_remedy() {
    let mut life = Life::careful(1).await;
    let hook = Hook::new(&mut life);
    hook.fail("decide_remedy", 1);
    life.policy(Say {
        advice: Advice::noop("wait"),
        after: 0,
    });
    // Nobody knows what was decided, and nobody is asked twice.
    all_rounds_end(&life, ("DECIDE", "REFUSED")).await;
    assert_eq!(hook.to_fail(), 0, "the write has failed");
}

struct Panics;

#[async_trait]
impl Policy for Panics {
    fn name(&self) -> &'static str {
        "panics"
    }

    fn is_worth_asking(&self, _: &Plight) -> bool {
        true
    }

    async fn decide(&self, _: &Plight) -> Advice {
        panic!("an embedder's mistake")
    }
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_panics_has_said_nothing() {
    let mut life = Life::careful(1).await;
    life.policy(Panics);
    all_rounds_end(&life, ("NOOP", "DONE")).await;
}

#[tokio::test(start_paused = true)]
async fn a_policy_with_too_many_details_loses_no_round() {
    let mut life = Life::careful(1).await;
    life.policy(Say {
        advice: Advice {
            details: Some(format!("\"{}\"", "x".repeat(17_000))),
            ..Advice::noop("wait")
        },
        after: 0,
    });
    all_rounds_end(&life, ("NOOP", "DONE")).await;
}

/// Goal: a remedy that waits for its key takes nothing from the bytes that are there. The key is away for five
/// minutes after a CANCEL was asked for: the original is sent on, and nothing is told of it.
#[tokio::test(start_paused = true)]
async fn a_remedy_that_waits_for_its_key_stops_no_resending_and_is_not_told_as_stuck() {
    let mut life = Life::careful(1).await;
    life.rest();
    life.world.settings.stuck.age = std::time::Duration::from_secs(100_000);
    let key = Picky::new(&mut life, None);
    let node = life.world.node("a").await;
    let row = accepted(node.ask(life.lanes[0], capped(100)).await);
    life.until_state(&row, "TRACKING/BROADCAST").await;
    key.may(false);
    node.remedy(&row, Action::Cancel).await;
    seconds(300).await;
    assert_eq!(life.feed().await, []);
    assert_eq!(life.kinds(&row).await, ["ORIGINAL"]);
    let sends = life.world.record(row.tx).await.submit_attempts;
    assert!(sends > 50, "every five seconds: {sends}");
    key.may(true);
    life.world
        .until("it is cancelled", async || {
            life.kinds(&row).await == ["ORIGINAL", "CANCEL"]
        })
        .await;
    life.work();
    life.until_state(&row, "FAILED_FINAL/CANCELLED").await;
    life.check().await;
    life.check_feed().await;
}
