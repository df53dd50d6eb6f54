//! Keys that are slow, and keys that fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use fencepost_app::ports::{Signed, Signer, Unsignable};
use fencepost_domain::Address;
use fencepost_domain::attempt::Unsigned;
use fencepost_domain::request::Draft;

use super::life::{Life, seconds, with};
use super::nodes::accepted;

/// What a call of the key comes to.
#[derive(Clone, Copy)]
enum Act {
    After(u64),
    Refused,
    Unusable,
}

/// A key that does as it is told, call by call, and then signs at once.
struct Told {
    key: Arc<dyn Signer>,
    acts: Vec<Act>,
    calls: AtomicUsize,
}

#[async_trait]
impl Signer for Told {
    async fn sign(&self, account: Address, tx: &Unsigned) -> Result<Signed, Unsignable> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        match self.acts.get(call).copied().unwrap_or(Act::After(0)) {
            Act::After(wait) => {
                seconds(wait).await;
                self.key.sign(account, tx).await
            }
            Act::Refused => Err(Unsignable::Refused("not this one".to_owned())),
            Act::Unusable => Err(Unsignable::Unusable("away".to_owned())),
        }
    }
}

fn told(life: &mut Life, acts: Vec<Act>) {
    let key = life.world.signer.clone().unwrap();
    let calls = AtomicUsize::new(0);
    life.world.signer = Some(Arc::new(Told { key, acts, calls }));
}

fn pay(to: u8) -> fencepost_app::ports::NewTx {
    with(Draft {
        to: Some(Address::repeat_byte(to).to_string()),
        value: Some("1".to_owned()),
        gas: Some("21000".to_owned()),
        ..Draft::default()
    })
}

/// The lane is read anew while a slow key signs; the transaction is rejected, its nonce given to another,
/// and then the slow signature comes: it is the first one's bytes, and must never be the second one's.
#[tokio::test(start_paused = true)]
async fn a_late_signature_is_never_stored_for_who_has_the_nonce_now() {
    let mut life = Life::new(1, 1).await;
    life.world.settings.max_walk = 5;
    told(
        &mut life,
        vec![Act::After(0), Act::After(30), Act::Refused, Act::After(60)],
    );
    let node = life.world.node("a").await;
    let lane = life.lanes[0];
    life.rest();
    life.mine(1);
    seconds(2).await;
    // On its way, so that the lane has missed something when the chain has gone on too far.
    let first = accepted(node.ask(lane, pay(1)).await);
    life.until_state(&first, "TRACKING/BROADCAST").await;
    let slow = accepted(node.ask(lane, pay(2)).await);
    seconds(1).await;
    life.mine(20);
    life.until_state(&slow, "FAILED_FINAL/REJECTED").await;
    let next = accepted(node.ask(lane, pay(3)).await);
    assert_eq!(next.state.nonce(), slow.state.nonce());
    life.work();
    seconds(40).await;
    assert_eq!(
        life.words(&next).await,
        "ALLOCATED",
        "its own bytes are not there yet"
    );
    life.until_ended().await;
    life.check().await;
    let chain = life.chain.lock();
    let paid = |to| chain.state().balance(&Address::repeat_byte(to)).to::<u64>();
    assert_eq!((paid(1), paid(2), paid(3)), (1, 0, 1));
}

/// A key that fails for long stops its lane, with a reason, and no other; when it works again, so does the
/// lane.
#[tokio::test(start_paused = true)]
async fn a_key_that_fails_stops_only_its_lane_and_says_why() {
    let mut life = Life::new(1, 2).await;
    told(&mut life, vec![Act::Unusable; 14]);
    let node = life.world.node("a").await;
    let stuck = accepted(node.ask(life.lanes[0], pay(1)).await);
    life.until_state(&stuck, "STUCK/SIGNER_ERROR").await;
    let row = life.world.record(stuck.tx).await;
    assert!(row.last_error.unwrap().contains("away"));
    life.world
        .until("it works again", async || {
            life.words(&stuck).await == "CONFIRMED"
        })
        .await;
    life.check().await;
}
