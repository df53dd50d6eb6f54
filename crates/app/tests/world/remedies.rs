//! What somebody wants done is done once, by whoever leads; and whichever attempt is mined decides.

use std::sync::Arc;

use async_trait::async_trait;
use fencepost_app::ports::{Action, AskedRemedy, Signed, Signer, Unsignable};
use fencepost_devchain::{EndpointId, FaultKind, When};
use fencepost_domain::Address;
use fencepost_domain::attempt::{SignedFees, Unsigned};

use super::care::{GWEI, capped};
use super::faults::{Fault, fail, watch};
use super::life::{Life, seconds};
use super::nodes::{Member, accepted};
use fencepost_app::ports::Record;

/// A life without blocks, and a transaction in the pools.
async fn waiting(life: &mut Life, node: &Member) -> Record {
    life.rest();
    let row = accepted(node.ask(life.lanes[0], capped(10)).await);
    life.until_state(&row, "TRACKING/BROADCAST").await;
    row
}

#[tokio::test(start_paused = true)]
async fn after_a_cancel_the_payload_is_never_sent_again() {
    let mut life = Life::careful(1).await;
    let node = life.world.node("a").await;
    let lane = life.lanes[0];
    let row = waiting(&mut life, &node).await;
    let original = life.hash(&row, 0).await;
    assert!(matches!(
        node.remedy(&row, Action::Cancel).await,
        AskedRemedy::Asked(_)
    ));
    life.world
        .until("the cancel is stored", async || {
            life.kinds(&row).await.len() == 2
        })
        .await;
    let cancel = life.hash(&row, 1).await;
    life.world
        .until("it is sent", async || life.sends(lane, cancel) == 1)
        .await;
    let before = life.sends(lane, original);
    // The pool forgets everything: what goes out again is the cancel.
    life.chain.lock().drop_all(EndpointId(0)).unwrap();
    seconds(20).await;
    assert_eq!(life.sends(lane, original), before);
    assert_eq!(life.sends(lane, cancel), 2);
    // Called off once, it stays so: more is paid for the cancel.
    assert!(matches!(
        node.remedy(&row, Action::Replace).await,
        AskedRemedy::Asked(_)
    ));
    life.world
        .until("a dearer one is stored", async || {
            life.kinds(&row).await.len() == 3
        })
        .await;
    assert_eq!(life.kinds(&row).await, ["ORIGINAL", "CANCEL", "CANCEL"]);
    life.work();
    life.until_ended().await;
    life.check().await;
    life.check_feed().await;
    assert_eq!(life.words(&row).await, "FAILED_FINAL/CANCELLED");
    assert_eq!(life.sends(lane, original), before);
}

/// A node still holds the cancelled bytes and mines them: that is the truth, and is told as such.
#[tokio::test(start_paused = true)]
async fn cancelled_bytes_that_are_mined_all_the_same_are_followed_to_their_true_end() {
    let mut life = Life::careful(1).await;
    let node = life.world.node("a").await;
    let row = waiting(&mut life, &node).await;
    node.remedy(&row, Action::Cancel).await;
    life.world
        .until("the cancel is stored", async || {
            life.kinds(&row).await.len() == 2
        })
        .await;
    let original = life.hash(&row, 0).await;
    let time = life.chain.lock().head().header.timestamp + 1;
    life.chain.lock().mine_with(&[original], time).unwrap();
    life.work();
    life.until_ended().await;
    life.check_feed().await;
    assert_eq!(life.words(&row).await, "CONFIRMED");
    let row = life.world.record(row.tx).await;
    assert_eq!(row.state.inclusion().unwrap().hash, original);
}

#[tokio::test(start_paused = true)]
async fn one_remedy_runs_at_a_time_and_none_for_what_is_in_a_block() {
    let mut life = Life::careful(1).await;
    let slow = life.world.signer.clone().unwrap();
    life.world.signer = Some(Arc::new(Slow(slow)));
    let node = life.world.node("a").await;
    let row = waiting(&mut life, &node).await;
    let AskedRemedy::Asked(first) = node.remedy(&row, Action::Cancel).await else {
        panic!("it was not asked");
    };
    assert_eq!(
        node.remedy(&row, Action::Replace).await,
        AskedRemedy::Running(first)
    );
    life.mine(1);
    life.until_state(&row, "TRACKING/MINED").await;
    life.world
        .until("the remedy is over", async || {
            life.acts(&row)
                .await
                .iter()
                .all(|act| act.closed_at.is_some())
        })
        .await;
    let acts = life.acts(&row).await;
    assert_eq!(acts[0].progress.word(), "REFUSED");
    assert_eq!(acts[0].result.as_deref(), Some("it is in a block"));
    assert_eq!(life.kinds(&row).await, ["ORIGINAL"]);
    life.work();
    life.until_ended().await;
    assert_eq!(life.words(&row).await, "CONFIRMED");
    assert_eq!(
        node.remedy(&row, Action::Cancel).await,
        AskedRemedy::AlreadyFinal
    );
}

/// Notes the gas of all that is signed.
struct Noting(Arc<dyn Signer>, std::sync::Mutex<Vec<u64>>);

#[async_trait]
impl Signer for Noting {
    async fn sign(&self, account: Address, tx: &Unsigned) -> Result<Signed, Unsignable> {
        self.1.lock().unwrap().push(tx.gas);
        self.0.sign(account, tx).await
    }
}

/// Chains count differently, and accounts may have code: 21,000 is not enough for all. A node that will not
/// say must not keep the nonce from being used up.
#[tokio::test(start_paused = true)]
async fn a_cancel_has_the_gas_that_the_chain_asks_for() {
    let error = FaultKind::Error {
        code: -32000,
        message: "no estimate today".to_owned(),
        when: When::Before,
    };
    for (said, gas) in [(FaultKind::Count(50_000), 60_000), (error, 21_000)] {
        let mut life = Life::careful(1).await;
        let noting = Arc::new(Noting(
            life.world.signer.clone().unwrap(),
            std::sync::Mutex::default(),
        ));
        life.world.signer = Some(Arc::clone(&noting) as Arc<dyn Signer>);
        let node = life.world.node("a").await;
        let row = waiting(&mut life, &node).await;
        let fault = fencepost_devchain::Fault::new(said).on("eth_estimateGas");
        life.fault(0, fault);
        node.remedy(&row, Action::Cancel).await;
        life.work();
        life.until_ended().await;
        assert_eq!(life.kinds(&row).await, ["ORIGINAL", "CANCEL"]);
        let signed = noting.1.lock().unwrap().clone();
        assert_eq!(signed.last(), Some(&gas), "{signed:?}");
    }
}

/// Signs what pays more than the first bytes do only after a while.
struct Slow(Arc<dyn Signer>);

#[async_trait]
impl Signer for Slow {
    async fn sign(&self, account: Address, tx: &Unsigned) -> Result<Signed, Unsignable> {
        if tx.fees.max_fee > 10 * GWEI {
            seconds(5).await;
        }
        self.0.sign(account, tx).await
    }
}

/// The leader dies at each tenth of a second between the claim and the send: whoever comes next does it,
/// once, with everything followed.
#[tokio::test(start_paused = true)]
async fn a_remedy_whose_leader_dies_on_the_way_is_carried_out_once_by_the_next() {
    for tenths in [1, 2, 5, 20, 49, 50, 51, 52, 55, 60] {
        let mut life = Life::careful(1).await;
        let slow = life.world.signer.clone().unwrap();
        life.world.signer = Some(Arc::new(Slow(slow)));
        let node = life.world.node("a").await;
        let other = life.world.node("b").await;
        let row = waiting(&mut life, &node).await;
        other.remedy(&row, Action::Replace).await;
        super::nodes::pass(std::time::Duration::from_millis(tenths * 100)).await;
        node.kill();
        life.world
            .until("it is replaced", async || life.kinds(&row).await.len() == 2)
            .await;
        seconds(20).await;
        assert_eq!(
            life.kinds(&row).await,
            ["ORIGINAL", "REPLACEMENT"],
            "{tenths}"
        );
        let acts = life.acts(&row).await;
        assert_eq!(acts.len(), 1);
        assert_eq!(acts[0].progress.word(), "DONE");
        life.work();
        life.until_ended().await;
        life.check().await;
        life.check_feed().await;
        assert_eq!(life.executed(life.lanes[0]), 1);
        drop(other);
    }
}

/// The reorg swaps which of the two attempts is mined; the state follows the chain each time.
#[tokio::test(start_paused = true)]
async fn whichever_attempt_the_chain_has_is_the_one_that_is_told() {
    for action in [Action::Replace, Action::Cancel] {
        let mut life = Life::careful(1).await;
        let node = life.world.node("a").await;
        let row = waiting(&mut life, &node).await;
        node.remedy(&row, action).await;
        life.world
            .until("it is replaced", async || life.kinds(&row).await.len() == 2)
            .await;
        let (old, new) = (life.hash(&row, 0).await, life.hash(&row, 1).await);
        let time = life.chain.lock().head().header.timestamp + 1;
        life.chain.lock().mine_with(&[old], time).unwrap();
        life.until_state(&row, "TRACKING/MINED").await;
        let seen = life.world.record(row.tx).await.state.inclusion().unwrap();
        assert_eq!(seen.hash, old);
        super::care::swap(&life, old, new);
        life.world
            .until("the other is seen", async || {
                let at = life.world.record(row.tx).await.state.inclusion();
                at.is_some_and(|at| at.hash == new)
            })
            .await;
        life.work();
        life.until_ended().await;
        life.check().await;
        life.check_feed().await;
        let end = match action {
            Action::Cancel => "FAILED_FINAL/CANCELLED",
            Action::Decide
            | Action::Resubmit
            | Action::Replace
            | Action::Placeholder
            | Action::Fill => "CONFIRMED",
        };
        assert_eq!(life.words(&row).await, end);
        assert_eq!(life.feed().await.len(), 1, "told once, when it was final");
        assert_eq!(life.executed(life.lanes[0]), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn an_operators_fees_are_signed_as_they_are_or_not_at_all() {
    let mut life = Life::careful(1).await;
    let node = life.world.node("a").await;
    let row = waiting(&mut life, &node).await;
    let fees = |max_fee: u128, tip: u128| SignedFees {
        max_fee: max_fee * GWEI,
        max_priority_fee: Some(tip * GWEI),
    };
    node.remedy_with(&row, Action::Replace, Some(fees(10, 2)))
        .await;
    life.world
        .until("it is refused", async || {
            life.acts(&row).await[0].progress.word() == "REFUSED"
        })
        .await;
    assert_eq!(life.kinds(&row).await, ["ORIGINAL"]);
    node.remedy_with(&row, Action::Replace, Some(fees(20, 3)))
        .await;
    life.world
        .until("it is replaced", async || life.kinds(&row).await.len() == 2)
        .await;
    let attempts = life.attempts(&row).await;
    assert_eq!(attempts[1].attempt.fees, Some(fees(20, 3)));
    life.work();
    life.until_ended().await;
    life.check().await;
}

/// At the ceiling nothing higher may be paid: the same bytes are sent again, and that is all.
#[tokio::test(start_paused = true)]
async fn at_the_ceiling_a_replacement_sends_the_same_bytes_again() {
    let mut life = Life::careful(1).await;
    life.world.main.ceilings.max_fee = 10 * GWEI;
    let node = life.world.node("a").await;
    let row = waiting(&mut life, &node).await;
    let original = life.hash(&row, 0).await;
    life.chain.lock().drop_all(EndpointId(0)).unwrap();
    let before = life.sends(life.lanes[0], original);
    node.remedy(&row, Action::Replace).await;
    life.world
        .until("it is over", async || {
            let acts = life.acts(&row).await;
            acts.iter().all(|act| act.progress.word() == "DONE")
        })
        .await;
    assert!(life.sends(life.lanes[0], original) > before);
    assert_eq!(life.kinds(&row).await, ["ORIGINAL"]);
}

#[tokio::test(start_paused = true)]
async fn a_transaction_that_waits_for_its_nonce_is_cancelled_at_once() {
    let mut life = Life::careful(1).await;
    life.world.max_in_flight = Some(1);
    let node = life.world.node("a").await;
    waiting(&mut life, &node).await;
    let queued = accepted(node.ask(life.lanes[0], capped(10)).await);
    assert_eq!(life.words(&queued).await, "QUEUED/WAITING_WINDOW");
    node.remedy(&queued, Action::Resubmit).await;
    life.world
        .until("it is refused", async || {
            life.acts(&queued).await[0].progress.word() == "REFUSED"
        })
        .await;
    assert_eq!(life.words(&queued).await, "QUEUED/WAITING_WINDOW");
    node.remedy(&queued, Action::Cancel).await;
    life.until_state(&queued, "FAILED_FINAL/CANCELLED").await;
    life.work();
    life.until_ended().await;
    life.check_feed().await;
}

/// A key that fails keeps the remedy waiting; it is carried out when the key works again.
#[tokio::test(start_paused = true)]
async fn an_unsigned_transaction_is_cancelled_before_its_payload_is_ever_signed() {
    let mut life = Life::careful(1).await;
    let key = life.world.signer.clone().unwrap();
    let away = Arc::new(Away(key, std::sync::atomic::AtomicBool::new(true)));
    life.world.signer = Some(Arc::clone(&away) as Arc<dyn Signer>);
    let node = life.world.node("a").await;
    let row = accepted(node.ask(life.lanes[0], capped(10)).await);
    seconds(3).await;
    node.remedy(&row, Action::Cancel).await;
    seconds(3).await;
    away.1.store(false, std::sync::atomic::Ordering::Relaxed);
    life.until_ended().await;
    life.check().await;
    assert_eq!(life.kinds(&row).await, ["CANCEL"]);
    assert_eq!(life.words(&row).await, "FAILED_FINAL/CANCELLED");
}

/// A key that cannot be used for a while.
struct Away(Arc<dyn Signer>, std::sync::atomic::AtomicBool);

#[async_trait]
impl Signer for Away {
    async fn sign(&self, account: Address, tx: &Unsigned) -> Result<Signed, Unsignable> {
        if self.1.load(std::sync::atomic::Ordering::Relaxed) {
            return Err(Unsignable::Unusable("away".to_owned()));
        }
        self.0.sign(account, tx).await
    }
}

/// Whatever the store does while a remedy is carried out, it is carried out, and once.
#[tokio::test(start_paused = true)]
async fn a_remedy_is_carried_out_once_whatever_the_store_does_meanwhile() {
    let ops = [
        "claim_remedies",
        "apply",
        "attempts",
        "find_many",
        "claim_due",
    ];
    for op in ops {
        for fault in [Fault::Away, Fault::Lost, Fault::Doubtful] {
            for count in [1, 3] {
                let mut life = Life::careful(1).await;
                let script = watch(&mut life.world);
                let slow = life.world.signer.clone().unwrap();
                life.world.signer = Some(Arc::new(Slow(slow)));
                let node = life.world.node("a").await;
                let row = waiting(&mut life, &node).await;
                node.remedy(&row, Action::Replace).await;
                // While the key takes its time the lane is written, and read anew when that fails.
                fail(&script, &vec![(op, fault); count]);
                life.send(&node, life.lanes[0], 3).await;
                let what = format!("{op} {fault:?} {count}");
                life.world
                    .until(&what, async || life.kinds(&row).await.len() == 2)
                    .await;
                life.work();
                life.until_ended().await;
                life.check().await;
                life.check_feed().await;
                assert_eq!(
                    life.kinds(&row).await,
                    ["ORIGINAL", "REPLACEMENT"],
                    "{what}"
                );
                let acts = life.acts(&row).await;
                assert_eq!(acts.len(), 1, "{what}");
                assert_eq!(acts[0].progress.word(), "DONE", "{what}");
            }
        }
    }
}

/// The same for what a policy has decided.
#[tokio::test(start_paused = true)]
async fn a_decision_is_carried_out_once_whatever_the_store_does_meanwhile() {
    let ops = [
        "ask_remedy",
        "claim_remedies",
        "decide_remedy",
        "apply",
        "complete",
        "acts",
    ];
    for op in ops {
        for fault in [Fault::Away, Fault::Lost, Fault::Doubtful] {
            let mut life = Life::careful(1).await;
            life.rule(Action::Cancel);
            let script = watch(&mut life.world);
            let node = life.world.node("a").await;
            life.cost(100);
            let row = accepted(node.ask(life.lanes[0], capped(10)).await);
            life.until_state(&row, "TRACKING/BROADCAST").await;
            fail(&script, &[(op, fault); 2]);
            life.until_ended().await;
            life.check().await;
            life.check_feed().await;
            let what = format!("{op} {fault:?}");
            assert_eq!(life.kinds(&row).await, ["ORIGINAL", "CANCEL"], "{what}");
            let acts = life.acts(&row).await;
            let done = acts.iter().filter(|act| act.action == "CANCEL");
            assert_eq!(done.count(), 1, "{what}: {acts:#?}");
        }
    }
}
