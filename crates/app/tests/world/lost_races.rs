//! Two things happen at once, and the one that comes second finds the world changed: nobody waits for ever,
//! nothing is given twice, and no payload is replaced by a wish that was meant for something else.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use fencepost_app::ports::{
    Action, Advice, Held, Settle, SettleAct, Settled, Signed, Signer, Store, Unsignable,
};
use fencepost_devchain::{EndpointId, Fault, FaultKind, Rejection, When};
use fencepost_domain::Address;
use fencepost_domain::attempt::Unsigned;
use fencepost_domain::state::State;

use super::care::capped;
use super::hooks::{Hook, Say, with_gap};
use super::life::{Life, on_send, seconds, transfer};
use super::loans::lend;
use super::nodes::{accepted, pass};

/// Goal: the worker never waits for itself. A gap is to be filled, and the lease is lost just before the
/// placeholder is stored: the desk goes on, and the gap is filled under the next token.
#[tokio::test(start_paused = true)]
async fn a_lease_that_is_lost_while_a_gap_is_filled_stops_nobody() {
    let mut life = Life::careful(1).await;
    let hook = Hook::new(&mut life);
    let (node, rows) = with_gap(&mut life).await;
    let lane = life.lanes[0];
    let view = life.world.store.lane(lane).await.unwrap().unwrap();
    let held = Held {
        lane: view.id,
        token: view.token,
    };
    hook.release_before("create", &life, &node, held);
    let waiting = life.world.record(rows[6].tx).await;
    node.remedy(&waiting, Action::Placeholder).await;
    life.world
        .until("the lease is lost", async || !hook.is_to_release())
        .await;
    life.until_ended().await;
    assert_eq!(life.words(&rows[6]).await, "CONFIRMED");
    assert_eq!(
        life.progress(&rows[6]).await,
        [("FILL".to_owned(), "DONE")],
        "under the next token"
    );
    let later = accepted(node.ask(lane, transfer(9)).await);
    life.until_state(&later, "CONFIRMED").await;
    life.check_feed().await;
}

/// Goal: an extension that was answered with yes holds. The time of a loan is over and the chain is being
/// asked, slowly, whether it was used; meanwhile its holder extends it, at many moments.
#[tokio::test(start_paused = true)]
async fn a_loan_that_is_extended_while_the_chain_is_asked_stays_with_its_holder() {
    let mut extended = 0;
    for offset in 0..30 {
        let mut life = Life::careful(1).await;
        life.world.settings.lending.grace = Duration::from_secs(5);
        let node = life.world.node("a").await;
        let lane = life.lanes[0];
        let lent = lend(&node, lane, 10).await;
        seconds(14).await;
        let slow = Fault::late(Duration::from_millis(800));
        life.fault(0, slow.on("eth_getTransactionCount"));
        pass(Duration::from_millis(1_000 + offset * 50)).await;
        let call = Settle {
            reservation: lent.tx,
            lock: lent.reservation.unwrap().lock,
            act: SettleAct::Extend(Duration::from_secs(600)),
        };
        let settled = node.node.settle_loan(lane, &call).await.unwrap();
        let Settled::Done(row) = settled else {
            continue;
        };
        if !matches!(row.state, State::Reserved(_)) {
            continue;
        }
        extended += 1;
        seconds(5).await;
        assert_eq!(life.words(&lent).await, "RESERVED", "after {offset}");
        let next = lend(&node, lane, 60).await;
        assert_ne!(next.state.nonce(), lent.state.nonce(), "after {offset}");
    }
    assert!(extended > 0, "none came in time");
}

/// Goal: a wish for a gap is never carried out on the payload behind it. A policy thinks for long about a gap
/// that a request takes meanwhile.
#[tokio::test(start_paused = true)]
async fn a_placeholder_for_a_gap_that_has_closed_replaces_no_payload() {
    let mut life = Life::careful(1).await;
    life.policy(Say {
        advice: Advice {
            action: Some(Action::Placeholder),
            ..Advice::noop("fill it")
        },
        after: 20,
    });
    let (node, rows) = with_gap(&mut life).await;
    seconds(3).await;
    assert_eq!(
        life.progress(&rows[6]).await,
        [("DECIDE".to_owned(), "CLAIMED")]
    );
    life.rest();
    let filler = accepted(node.ask(life.lanes[0], transfer(1)).await);
    assert_eq!(filler.state.nonce().unwrap().get(), 5);
    seconds(25).await;
    assert_eq!(
        life.progress(&rows[6]).await,
        [("FILL".to_owned(), "REFUSED")]
    );
    life.work();
    life.until_ended().await;
    assert_eq!(life.kinds(&rows[6]).await, ["ORIGINAL"]);
    assert_eq!(life.words(&rows[6]).await, "CONFIRMED");
    life.check_feed().await;
}

/// A key that is slow with its first signature, and away for the second.
struct SlowFirst {
    key: Arc<dyn Signer>,
    asked: AtomicU32,
}

#[async_trait]
impl Signer for SlowFirst {
    async fn sign(&self, account: Address, tx: &Unsigned) -> Result<Signed, Unsignable> {
        let before = self.asked.fetch_add(1, Ordering::Relaxed);
        if before == 0 {
            seconds(5).await;
        }
        if before == 1 {
            return Err(Unsignable::Unusable("away".to_owned()));
        }
        self.key.sign(account, tx).await
    }
}

/// Goal: what was called off before it was signed never exists as bytes. The cancel is claimed while the key
/// is at the payload, and signed after that has come back.
#[tokio::test(start_paused = true)]
async fn a_payload_that_is_cancelled_while_the_key_signs_it_is_neither_stored_nor_sent() {
    let mut life = Life::careful(1).await;
    life.rest();
    let key = life.world.signer.clone().unwrap();
    let asked = AtomicU32::new(0);
    life.world.signer = Some(Arc::new(SlowFirst { key, asked }));
    let node = life.world.node("a").await;
    let lane = life.lanes[0];
    let row = accepted(node.ask(lane, capped(100)).await);
    seconds(1).await;
    node.remedy(&row, Action::Cancel).await;
    seconds(2).await;
    assert_eq!(
        life.progress(&row).await,
        [("CANCEL".to_owned(), "CLAIMED")]
    );
    seconds(10).await;
    assert_eq!(life.kinds(&row).await, ["CANCEL"]);
    assert_eq!(life.progress(&row).await, [("CANCEL".to_owned(), "DONE")]);
    let cancel = life.hash(&row, 0).await;
    let sends = life.chain.lock().sends_of(lane.signer);
    assert!(!sends.is_empty());
    assert!(sends.iter().all(|sent| sent.hash == cancel));
    life.work();
    life.until_state(&row, "FAILED_FINAL/CANCELLED").await;
    life.check().await;
}

/// How many times the endpoint was sent something.
fn sent(life: &Life) -> u64 {
    let chain = life.chain.lock();
    let calls = &chain.stats(EndpointId(0)).unwrap().calls;
    calls.get("eth_sendRawTransaction").copied().unwrap_or(0)
}

/// Goal: a remedy that is closed is not carried out again. The reply to a RESUBMIT closes it in the very turn
/// in which a read fails and the lane is forgotten: without care its bytes are sent at each reload.
#[tokio::test(start_paused = true)]
async fn a_remedy_that_is_closed_while_its_lane_is_read_again_is_over() {
    let mut life = Life::careful(1).await;
    life.world.settings.stuck.age = Duration::from_secs(100_000);
    life.world.settings.resubmit_interval = Some(Duration::from_secs(1_000));
    let hook = Hook::new(&mut life);
    life.rest();
    let node = life.world.node("a").await;
    let lane = life.lanes[0];
    let row = accepted(node.ask(lane, capped(100)).await);
    lend(&node, lane, 3_000).await;
    life.until_state(&row, "TRACKING/BROADCAST").await;
    seconds(1).await;
    let slow = |millis| on_send_late(Duration::from_millis(millis));
    life.fault(0, slow(500));
    life.fault(
        0,
        on_send(FaultKind::Refuse {
            kind: Rejection::IntrinsicGas,
            when: When::Before,
        }),
    );
    let seat = node.node.directory().seat(lane).unwrap();
    node.remedy(&row, Action::Resubmit).await;
    pass(Duration::from_millis(300)).await;
    // The worker waits for one read while the reply and a holder's word come in, and the next read fails.
    let leave = hook.hold("find_many");
    node.node.look_at(seat);
    pass(Duration::from_millis(400)).await;
    node.node.look_at(seat);
    hook.pass();
    hook.fail("find_many", 1);
    leave.add_permits(1);
    life.heal();
    life.fault(0, slow(50));
    seconds(2).await;
    assert_eq!(hook.to_fail(), 0, "the read has failed");
    let before = sent(&life);
    seconds(60).await;
    assert_eq!(sent(&life), before, "its interval is far longer");
    assert_eq!(life.progress(&row).await, [("RESUBMIT".to_owned(), "DONE")]);
    let other = accepted(node.ask(lane, capped(100)).await);
    life.until_state(&other, "TRACKING/BROADCAST").await;
}

fn on_send_late(by: Duration) -> Fault {
    Fault::late(by).on("eth_sendRawTransaction")
}
