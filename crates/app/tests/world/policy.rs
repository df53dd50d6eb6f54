//! Who decides about stuck transactions is asked once for each round, by whoever leads.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use fencepost_app::ports::{Action, Advice, Plight, Policy};
use fencepost_app::recovery::rules::{Rule, Rules};
use fencepost_domain::attempt::SignedFees;

use super::care::{GWEI, capped};
use super::life::{Life, seconds};
use super::nodes::accepted;

/// Answers after a while, and remembers what it was told.
#[derive(Default)]
struct Asked {
    told: Mutex<Vec<Plight>>,
    answers: AtomicU32,
    takes: u64,
    advice: Option<Advice>,
}

/// The policy of a node; tests keep what it has seen.
struct Ask(Arc<Asked>);

#[async_trait]
impl Policy for Ask {
    fn name(&self) -> &'static str {
        "test"
    }

    fn is_worth_asking(&self, _: &Plight) -> bool {
        true
    }

    async fn decide(&self, plight: &Plight) -> Advice {
        self.0.told.lock().unwrap().push(plight.clone());
        seconds(self.0.takes).await;
        self.0.answers.fetch_add(1, Ordering::Relaxed);
        let noop = || Advice::noop("let it be");
        self.0.advice.clone().unwrap_or_else(noop)
    }
}

fn advice(action: Action, fees: Option<SignedFees>) -> Option<Advice> {
    Some(Advice {
        action: Some(action),
        fees,
        ..Advice::noop("enough")
    })
}

#[tokio::test(start_paused = true)]
async fn it_is_told_all_that_is_known_and_asked_again_only_in_the_next_round() {
    let mut life = Life::careful(1).await;
    let asked = Arc::new(Asked::default());
    life.policy(Ask(Arc::clone(&asked)));
    let node = life.world.node("a").await;
    let lane = life.lanes[0];
    life.cost(100);
    let head = accepted(node.ask(lane, capped(10)).await);
    life.send(&node, lane, 2).await;
    life.until_state(&head, "STUCK/NO_RECEIPT").await;
    seconds(35).await;
    let told = asked.told.lock().unwrap().clone();
    let rounds: Vec<u32> = told.iter().map(|plight| plight.round).collect();
    assert_eq!(rounds, [1, 2, 3, 4]);
    let first = &told[0];
    assert_eq!(
        (first.tx, first.nonce.get(), first.backlog),
        (head.tx, 0, 3)
    );
    assert_eq!(first.hashes, [life.hash(&head, 0).await]);
    assert!(first.age.as_secs() >= 10, "{:?}", first.age);
    assert_eq!(first.chain, "main");
    let acts = life.acts(&head).await;
    assert_eq!(acts.len(), 4);
    for act in acts {
        assert_eq!((act.action.as_str(), act.progress.word()), ("NOOP", "DONE"));
        assert_eq!(act.audit.reason, "let it be");
    }
}

/// The leader dies while the policy thinks: its answer is nobody's, and the next leader opens a new round.
#[tokio::test(start_paused = true)]
async fn a_round_is_asked_once_even_if_its_leader_dies_before_the_answer() {
    let mut life = Life::careful(1).await;
    let asked = Arc::new(Asked {
        takes: 3,
        advice: advice(Action::Replace, None),
        ..Asked::default()
    });
    life.policy(Ask(Arc::clone(&asked)));
    let node = life.world.node("a").await;
    life.cost(100);
    let head = accepted(node.ask(life.lanes[0], capped(10)).await);
    life.world
        .until("it is asked", async || {
            !asked.told.lock().unwrap().is_empty()
        })
        .await;
    node.kill();
    let next = life.world.node("b").await;
    life.until_ended().await;
    life.check().await;
    let told: Vec<u32> = asked
        .told
        .lock()
        .unwrap()
        .iter()
        .map(|plight| plight.round)
        .collect();
    assert_eq!(told, [1, 2]);
    let acts = life.acts(&head).await;
    assert_eq!(acts[0].progress.word(), "REFUSED");
    assert_eq!(
        (acts[1].action.as_str(), acts[1].progress.word()),
        ("REPLACE", "DONE")
    );
    assert_eq!(life.kinds(&head).await, ["ORIGINAL", "REPLACEMENT"]);
    drop(next);
}

#[tokio::test(start_paused = true)]
async fn fees_that_nobody_may_sign_are_no_decision() {
    for (max_fee, tip) in [(501, 2), (400, 51), (10, 2), (400, 1)] {
        let mut life = Life::careful(1).await;
        let fees = SignedFees {
            max_fee: max_fee * GWEI,
            max_priority_fee: Some(tip * GWEI),
        };
        let asked = Arc::new(Asked {
            advice: advice(Action::Replace, Some(fees)),
            ..Asked::default()
        });
        life.policy(Ask(Arc::clone(&asked)));
        let node = life.world.node("a").await;
        life.cost(100);
        let head = accepted(node.ask(life.lanes[0], capped(10)).await);
        life.world
            .until("it was asked", async || {
                asked.answers.load(Ordering::Relaxed) > 0
            })
            .await;
        seconds(3).await;
        assert_eq!(life.kinds(&head).await, ["ORIGINAL"], "{fees:?}");
        let acts = life.acts(&head).await;
        assert_eq!(
            (acts[0].action.as_str(), acts[0].progress.word()),
            ("NOOP", "DONE")
        );
    }
}

/// What is behind a lent nonce waits for its holder: no policy can do anything about it.
#[tokio::test(start_paused = true)]
async fn nobody_is_asked_about_one_that_waits_for_the_holder_of_a_lower_nonce() {
    let mut life = Life::careful(1).await;
    let asked = Arc::new(Asked::default());
    life.policy(Ask(Arc::clone(&asked)));
    let node = life.world.node("a").await;
    let lane = life.lanes[0];
    super::loans::lend(&node, lane, 300).await;
    let behind = accepted(node.ask(lane, capped(10)).await);
    life.until_state(&behind, "STUCK/NO_RECEIPT").await;
    let error = life.world.record(behind.tx).await.last_error.unwrap();
    assert!(error.contains("nonce 0 below it is lent out"), "{error}");
    seconds(30).await;
    assert!(asked.told.lock().unwrap().is_empty());
}

/// What a rule may pay at most holds for all that it signs, not for replacements alone.
#[tokio::test(start_paused = true)]
async fn a_rule_that_cancels_pays_no_more_than_it_may() {
    let mut life = Life::careful(1).await;
    life.policy(Rules(vec![Rule {
        action: Some(Action::Cancel),
        bump_percent: Some(10),
        max_fee: Some(20 * GWEI),
        ..Rule::default()
    }]));
    let node = life.world.node("a").await;
    life.cost(100);
    let head = accepted(node.ask(life.lanes[0], capped(10)).await);
    seconds(60).await;
    let kinds = life.kinds(&head).await;
    assert!(
        kinds.contains(&"CANCEL"),
        "the rule was not asked: {kinds:?}"
    );
    for stored in life.attempts(&head).await {
        let paid = stored.attempt.fees.unwrap().max_fee;
        assert!(paid <= 20 * GWEI, "{:?} pays {paid}", stored.attempt.kind);
    }
}
