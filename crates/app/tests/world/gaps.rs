//! Nonces that nobody holds: found, told, and filled only when somebody says so.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use fencepost_app::lifecycle::accept::Verdict;
use fencepost_app::ports::{Action, Body, NewTx, Record, Signed, Signer, Store, Unsignable};
use fencepost_domain::Address;
use fencepost_domain::attempt::Unsigned;
use fencepost_domain::ids::Nonce;

use super::life::{Life, seconds, transfer};
use super::nodes::{Member, accepted, unnamed};

/// A key that signs nothing until it may, and then not one nonce for its payload.
struct Picky {
    key: Arc<dyn Signer>,
    nonce: u64,
    may: AtomicBool,
}

#[async_trait]
impl Signer for Picky {
    async fn sign(&self, account: Address, tx: &Unsigned) -> Result<Signed, Unsignable> {
        if !self.may.load(Ordering::Relaxed) {
            return Err(Unsignable::Unusable("not yet".to_owned()));
        }
        let is_payload = tx.to != Some(account);
        if tx.nonce.get() == self.nonce && is_payload {
            return Err(Unsignable::Refused("not this one".to_owned()));
        }
        self.key.sign(account, tx).await
    }
}

/// Fifty transactions, of which the one in the middle is rejected and gives its nonce back.
async fn with_gap(life: &mut Life) -> (Member, Vec<Record>) {
    let key = life.world.signer.clone().unwrap();
    let picky = Arc::new(Picky {
        key,
        nonce: 25,
        may: AtomicBool::new(false),
    });
    life.world.signer = Some(Arc::clone(&picky) as Arc<dyn Signer>);
    let node = life.world.node("a").await;
    let rows = life.send(&node, life.lanes[0], 50).await;
    picky.may.store(true, Ordering::Relaxed);
    life.until_state(&rows[25], "FAILED_FINAL/REJECTED").await;
    (node, rows)
}

#[tokio::test(start_paused = true)]
async fn a_gap_in_the_middle_is_found_and_left_alone_until_a_request_takes_it() {
    let mut life = Life::careful(1).await;
    let (node, rows) = with_gap(&mut life).await;
    life.until_state(&rows[26], "STUCK/GAP").await;
    let error = life.world.record(rows[26].tx).await.last_error.unwrap();
    assert_eq!(error, "held by nobody: nonce 25");
    seconds(30).await;
    assert_eq!(life.words(&rows[24]).await, "CONFIRMED");
    assert_eq!(life.words(&rows[26]).await, "STUCK/GAP");
    let view = life.world.store.lane(life.lanes[0]).await.unwrap().unwrap();
    assert_eq!(view.free, [Nonce::new(25).unwrap()]);
    assert_eq!(node.meter("fencepost_stuck_total{reason=\"GAP\"}"), 1);
    // A placeholder is as good as a request: it takes exactly this nonce.
    let filler = NewTx {
        body: Body::Placeholder(Nonce::new(25).unwrap()),
        ..unnamed()
    };
    let filler = accepted(node.ask(life.lanes[0], filler).await);
    life.until_ended().await;
    life.check().await;
    life.check_feed().await;
    assert_eq!(life.words(&filler).await, "FAILED_FINAL/PLACEHOLDER");
    assert_eq!(life.words(&rows[26]).await, "CONFIRMED");
}

#[tokio::test(start_paused = true)]
async fn a_gap_is_filled_when_policy_says_so() {
    let mut life = Life::careful(1).await;
    life.rule(Action::Placeholder);
    let (node, rows) = with_gap(&mut life).await;
    life.until_ended().await;
    life.check().await;
    life.check_feed().await;
    for row in rows.iter().filter(|row| row.tx != rows[25].tx) {
        assert_eq!(life.words(row).await, "CONFIRMED");
    }
    let acts = life.acts(&rows[26]).await;
    assert_eq!(
        (acts[0].action.as_str(), acts[0].progress.word()),
        ("FILL", "DONE")
    );
    let all = life.world.rows(life.lanes[0]).await;
    let fillers: Vec<&Record> = all
        .iter()
        .filter(|row| row.kind == fencepost_domain::state::Kind::Placeholder)
        .collect();
    assert_eq!(fillers.len(), 1);
    drop(node);
}

#[tokio::test(start_paused = true)]
async fn the_next_request_takes_the_gap_and_all_end() {
    let mut life = Life::careful(1).await;
    let (node, rows) = with_gap(&mut life).await;
    life.until_state(&rows[26], "STUCK/GAP").await;
    let again = with_nonce(&node, &life).await;
    assert_eq!(again, 25);
}

async fn with_nonce(node: &Member, life: &Life) -> u64 {
    let row = accepted(node.ask(life.lanes[0], transfer(7)).await);
    row.state.nonce().unwrap().get()
}

/// Only what was given and is held by nobody can be filled.
#[tokio::test(start_paused = true)]
async fn a_placeholder_takes_no_nonce_that_is_held_or_was_never_given() {
    let mut life = Life::careful(1).await;
    life.rest();
    let node = life.world.node("a").await;
    let rows = life.send(&node, life.lanes[0], 2).await;
    for nonce in [0, 1, 2, 3] {
        let filler = NewTx {
            body: Body::Placeholder(Nonce::new(nonce).unwrap()),
            ..unnamed()
        };
        let verdict = node.ask(life.lanes[0], filler).await;
        assert!(matches!(verdict, Verdict::NotOpen), "{nonce}: {verdict:?}");
    }
    let view = life.world.store.lane(life.lanes[0]).await.unwrap().unwrap();
    assert_eq!((view.paused, view.next_nonce.get()), (None, 2));
    life.work();
    life.until_ended().await;
    assert_eq!(life.words(&rows[1]).await, "CONFIRMED");
}
