//! What a stuck policy may decide beyond an action: bytes and payloads of its own, how urgent it is, and where the
//! transaction stands afterwards.

use std::sync::Arc;

use async_trait::async_trait;
use fencepost_app::ports::{Action, Advice, AskedRemedy, Instead, Plight, Policy, Record, Store};
use fencepost_domain::attempt::{SignedFees, Unsigned};
use fencepost_domain::decision::{After, Severity};
use fencepost_domain::ids::{ChainId, LaneSeq, Nonce};
use fencepost_domain::request::Payload;
use fencepost_domain::{Address, Bytes, U256};
use tokio::sync::watch;

use super::care::{GWEI, capped};
use super::hooks::{Hook, Say};
use super::life::{Life, seconds};
use super::nodes::{Member, accepted, payload};

const OTHER: Address = Address::repeat_byte(0x77);

/// Decides so, a few seconds after it was asked.
fn says(life: &mut Life, advice: Advice) {
    life.policy(Say { advice, after: 3 });
}

fn decides(action: Action) -> Advice {
    Advice {
        action: Some(action),
        ..Advice::noop("the business knows")
    }
}

/// A head that pays too little for the blocks that come.
async fn poor_head(life: &Life) -> (Member, Record) {
    let node = life.world.node("a").await;
    life.cost(100);
    let head = accepted(node.ask(life.lanes[0], capped(10)).await);
    (node, head)
}

async fn first_round(life: &Life, head: &Record) -> (String, String) {
    life.world
        .until("the round is over", async || {
            let acts = life.acts(head).await;
            acts.first().is_some_and(|act| act.closed_at.is_some())
        })
        .await;
    let act = life.acts(head).await.remove(0);
    (act.action, act.audit.reason)
}

/// Bytes for the head's nonce that somebody else has signed with the same key.
async fn signed_elsewhere(life: &Life, change: impl FnOnce(&mut Unsigned)) -> Bytes {
    let own = payload(1);
    let mut unsigned = Unsigned {
        chain: ChainId::new(1).unwrap(),
        nonce: Nonce::ZERO,
        to: own.to(),
        value: own.value().unwrap(),
        data: Bytes::new(),
        gas: 21_000,
        fees: SignedFees {
            max_fee: 400 * GWEI,
            max_priority_fee: Some(40 * GWEI),
        },
        access: None,
    };
    change(&mut unsigned);
    let signer = life.world.signer.clone().unwrap();
    let signed = signer.sign(life.lanes[0].signer, &unsigned).await;
    signed.unwrap().raw
}

#[tokio::test(start_paused = true)]
async fn another_payload_is_signed_only_where_that_is_allowed() {
    for action in [Action::Replace, Action::Cancel, Action::Placeholder] {
        let mut life = Life::careful(1).await;
        let advice = Advice {
            instead: Some(Instead::Payload(Payload::nothing(OTHER))),
            ..decides(action)
        };
        says(&mut life, advice);
        let (_node, head) = poor_head(&life).await;
        let (done, reason) = first_round(&life, &head).await;
        assert_eq!(done, "NOOP", "{action:?}");
        assert!(reason.contains("stuck.allow_other_payload"), "{reason}");
        seconds(5).await;
        assert_eq!(life.kinds(&head).await, ["ORIGINAL"], "{action:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn another_payload_that_is_mined_ends_the_transaction_as_substituted() {
    for action in [Action::Replace, Action::Cancel, Action::Placeholder] {
        let mut life = Life::careful(1).await;
        life.world.settings.allow_other_payload = true;
        let advice = Advice {
            instead: Some(Instead::Payload(Payload::nothing(OTHER))),
            severity: Some(Severity::Critical),
            ..decides(action)
        };
        says(&mut life, advice);
        let (node, head) = poor_head(&life).await;
        life.until_state(&head, "FAILED_FINAL/SUBSTITUTED").await;
        assert_eq!(life.kinds(&head).await, ["ORIGINAL", "SUBSTITUTE"]);
        let mined = life.chain.lock().mined_of(life.lanes[0].signer);
        assert_eq!(mined.len(), 1, "{action:?}");
        let notes = notes(&life, &head).await;
        let note = format!("{} (critical): the business knows", action.word());
        assert!(notes.contains(&note), "{notes:?}");
        let line = format!(
            "fencepost_stuck_decisions_total{{action=\"{}\",severity=\"critical\"}}",
            action.word()
        );
        assert_eq!(node.meter(&line), 1, "{line}");
        life.check_feed().await;
    }
}

async fn notes(life: &Life, head: &Record) -> Vec<String> {
    let events = life
        .world
        .store
        .history(head.tx, LaneSeq::default(), 100)
        .await;
    let events = events.unwrap().into_iter();
    events.filter_map(|each| each.event.note).collect()
}

/// The same payload, signed elsewhere with more fees, is an ordinary replacement: the hash is the one they know.
#[tokio::test(start_paused = true)]
async fn bytes_that_were_signed_elsewhere_are_stored_and_sent_as_they_are() {
    let mut life = Life::careful(1).await;
    let raw = signed_elsewhere(&life, |_| {}).await;
    says(
        &mut life,
        Advice {
            instead: Some(Instead::Raw(raw.clone())),
            ..decides(Action::Replace)
        },
    );
    let (_node, head) = poor_head(&life).await;
    life.until_state(&head, "CONFIRMED").await;
    assert_eq!(life.kinds(&head).await, ["ORIGINAL", "REPLACEMENT"]);
    assert_eq!(life.attempts(&head).await[1].attempt.raw, raw);
    life.check().await;
    life.check_feed().await;
}

#[tokio::test(start_paused = true)]
async fn bytes_that_are_not_for_this_nonce_or_pay_wrongly_are_no_decision() {
    type Change = fn(&mut Unsigned);
    let wrong: [(Change, &str); 6] = [
        (|tx| tx.nonce = Nonce::new(1).unwrap(), "has nonce 1"),
        (|tx| tx.chain = ChainId::new(5).unwrap(), "is for chain 5"),
        (
            |tx| tx.fees.max_fee = 501 * GWEI,
            "above the chain's ceilings",
        ),
        (
            |tx| tx.fees.max_priority_fee = Some(51 * GWEI),
            "above the chain's ceilings",
        ),
        (|tx| tx.fees.max_fee = 10 * GWEI, "too low"),
        (|tx| tx.value = U256::from(2), "stuck.allow_other_payload"),
    ];
    for (change, why) in wrong {
        let mut life = Life::careful(1).await;
        let raw = signed_elsewhere(&life, change).await;
        says(
            &mut life,
            Advice {
                instead: Some(Instead::Raw(raw)),
                ..decides(Action::Replace)
            },
        );
        let (_node, head) = poor_head(&life).await;
        let (done, reason) = first_round(&life, &head).await;
        assert_eq!(done, "NOOP", "{why}");
        assert!(reason.contains(why), "{why}: {reason}");
        assert_eq!(life.kinds(&head).await, ["ORIGINAL"], "{why}");
    }
}

/// The leader dies after the decision was written and before its bytes were stored. The next one stores and sends the
/// same bytes: it neither asks again nor signs anything else.
#[tokio::test(start_paused = true)]
async fn the_next_leader_sends_the_bytes_that_were_decided_on() {
    let mut life = Life::careful(1).await;
    let hook = Hook::new(&mut life);
    // Bytes that the node would not sign by itself.
    let raw = signed_elsewhere(&life, |tx| tx.gas = 30_000).await;
    says(
        &mut life,
        Advice {
            instead: Some(Instead::Raw(raw.clone())),
            after: Some(After::Stuck),
            ..decides(Action::Replace)
        },
    );
    let (node, head) = poor_head(&life).await;
    life.until_state(&head, "STUCK/NO_RECEIPT").await;
    let _held = hook.hold("apply");
    life.world
        .until("it is decided", async || {
            let acts = life.acts(&head).await;
            acts.first().is_some_and(|act| act.action == "REPLACE")
        })
        .await;
    assert_eq!(life.kinds(&head).await, ["ORIGINAL"]);
    node.kill();
    hook.pass();
    let _next = life.world.node("b").await;
    life.until_state(&head, "CONFIRMED").await;
    assert_eq!(life.attempts(&head).await[1].attempt.raw, raw);
    let acts = life.acts(&head).await;
    assert_eq!(acts.len(), 1, "nobody was asked again: {acts:?}");
    assert_eq!(acts[0].claimed.as_ref().unwrap().0.as_str(), "b");
}

#[tokio::test(start_paused = true)]
async fn a_policy_says_where_the_transaction_stands_afterwards() {
    let mut life = Life::careful(1).await;
    says(
        &mut life,
        Advice {
            after: Some(After::Stuck),
            ..decides(Action::Replace)
        },
    );
    let (_node, head) = poor_head(&life).await;
    life.until_state(&head, "STUCK/NO_RECEIPT").await;
    life.rest();
    life.world
        .until("it is replaced", async || {
            life.kinds(&head).await == ["ORIGINAL", "REPLACEMENT"]
        })
        .await;
    life.until_state(&head, "STUCK/NO_RECEIPT").await;
    life.work();
    life.until_state(&head, "CONFIRMED").await;
    life.check_feed().await;

    // Without anything done, the alarm is over until it has waited once more.
    let mut life = Life::careful(1).await;
    says(
        &mut life,
        Advice {
            severity: Some(Severity::Warning),
            after: Some(After::Track),
            ..Advice::noop("fees will fall")
        },
    );
    let (_node, head) = poor_head(&life).await;
    life.until_state(&head, "STUCK/NO_RECEIPT").await;
    life.until_state(&head, "TRACKING/AMBIGUOUS").await;
    let notes = notes(&life, &head).await;
    let note = "NOOP (warning): fees will fall".to_owned();
    assert!(notes.contains(&note), "{notes:?}");
    life.until_state(&head, "STUCK/NO_RECEIPT").await;
}

/// Remembers that it was asked, and about what state.
struct Listens(watch::Sender<Vec<(String, u32)>>);

#[async_trait]
impl Policy for Listens {
    fn name(&self) -> &'static str {
        "test"
    }

    fn is_worth_asking(&self, _: &Plight) -> bool {
        true
    }

    async fn decide(&self, plight: &Plight) -> Advice {
        let state = format!(
            "{}/{}",
            plight.state.word(),
            plight.sub_state.unwrap_or_default()
        );
        self.0
            .send_modify(|asked| asked.push((state, plight.round)));
        Advice {
            details: Some(r#"{"case":7}"#.to_owned()),
            ..decides(Action::Cancel)
        }
    }
}

/// An operator has the policy asked about one that is not stuck, and its decision is carried out. The question
/// outlives a leader that dies before it has claimed it.
#[tokio::test(start_paused = true)]
async fn a_policy_is_asked_when_an_operator_wants_it() {
    let mut life = Life::careful(1).await;
    life.world.settings.stuck.age = std::time::Duration::from_secs(100_000);
    let hook = Hook::new(&mut life);
    let (asked, heard) = watch::channel(Vec::new());
    life.policy(Listens(asked));
    life.rest();
    let (node, head) = poor_head(&life).await;
    life.until_state(&head, "TRACKING/BROADCAST").await;
    let _held = hook.hold("claim_remedies");
    let answer = node.remedy(&head, Action::Decide).await;
    assert!(matches!(answer, AskedRemedy::Asked(_)), "{answer:?}");
    seconds(1).await;
    node.kill();
    hook.pass();
    let _next = life.world.node("b").await;
    life.world
        .until("it is cancelled", async || {
            life.kinds(&head).await == ["ORIGINAL", "CANCEL"]
        })
        .await;
    assert_eq!(
        *heard.borrow(),
        [("TRACKING/BROADCAST".to_owned(), 1)],
        "it was asked once"
    );
    let act = life.acts(&head).await.remove(0);
    assert_eq!(act.action, "CANCEL");
    assert_eq!(act.audit.by, "policy test, asked by ops");
    assert_eq!(act.audit.reason, "the business knows (asked: it is late)");
    let kept = r#"{"asked":{"ticket":"OPS-7"},"policy":{"case":7}}"#;
    assert_eq!(act.audit.details.as_deref(), Some(kept));
    life.work();
    life.until_state(&head, "FAILED_FINAL/CANCELLED").await;
}

/// Only what a policy has put in the payload's place is paid better: the payload itself is not signed again.
#[tokio::test(start_paused = true)]
async fn replacing_a_substitute_pays_more_for_the_substitute() {
    let mut life = Life::careful(1).await;
    life.world.settings.allow_other_payload = true;
    let substitute = Arc::new(std::sync::atomic::AtomicBool::new(true));
    struct Once(Arc<std::sync::atomic::AtomicBool>);
    #[async_trait]
    impl Policy for Once {
        fn name(&self) -> &'static str {
            "test"
        }
        fn is_worth_asking(&self, _: &Plight) -> bool {
            self.0.load(std::sync::atomic::Ordering::Relaxed)
        }
        async fn decide(&self, _: &Plight) -> Advice {
            self.0.store(false, std::sync::atomic::Ordering::Relaxed);
            Advice {
                instead: Some(Instead::Payload(Payload::nothing(OTHER))),
                ..decides(Action::Cancel)
            }
        }
    }
    life.policy(Once(substitute));
    let (node, head) = poor_head(&life).await;
    life.rest();
    life.world
        .until("it is substituted", async || {
            life.kinds(&head).await == ["ORIGINAL", "SUBSTITUTE"]
        })
        .await;
    node.remedy(&head, Action::Replace).await;
    life.world
        .until("it is paid better", async || {
            life.kinds(&head).await == ["ORIGINAL", "SUBSTITUTE", "SUBSTITUTE"]
        })
        .await;
    life.work();
    life.until_state(&head, "FAILED_FINAL/SUBSTITUTED").await;
}
