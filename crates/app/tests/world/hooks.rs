//! What tests of rare moments share: a store that can be held up, a key that refuses one nonce, and a policy
//! that says what it is told to say.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use fencepost_app::ports::{
    Advice, Held, Holder, Plight, Policy, Record, Signed, Signer, Store, StoreError, Unsignable,
    Watched, Watcher,
};
use fencepost_domain::Address;
use fencepost_domain::attempt::Unsigned;
use tokio::sync::Semaphore;

use super::life::{Life, seconds};
use super::nodes::Member;

/// A lease that is given up behind its holder's back.
struct Release {
    store: Arc<dyn Store>,
    holder: Holder,
    held: Held,
}

/// Comes between the nodes and their store.
#[derive(Default)]
pub(crate) struct Hook {
    gate: Mutex<Option<(&'static str, Arc<Semaphore>)>>,
    fails: Mutex<Option<(&'static str, u32)>>,
    releases: Mutex<Option<(&'static str, Release)>>,
}

impl Hook {
    /// For all nodes that start from now on.
    pub(crate) fn new(life: &mut Life) -> Arc<Self> {
        let hook = Arc::new(Self::default());
        let sound = Arc::clone(&life.world.store) as Arc<dyn Store>;
        let watched = Watched::new(sound, Arc::clone(&hook) as Arc<dyn Watcher>);
        life.world.seen = Some(Arc::new(watched));
        hook
    }

    /// Calls of this operation wait until there is a permit for them.
    pub(crate) fn hold(&self, op: &'static str) -> Arc<Semaphore> {
        let leave = Arc::new(Semaphore::new(0));
        *self.gate.lock().unwrap() = Some((op, Arc::clone(&leave)));
        leave
    }

    /// Calls from now on wait for nobody.
    pub(crate) fn pass(&self) {
        *self.gate.lock().unwrap() = None;
    }

    /// The next calls of this operation fail before they reach the store.
    pub(crate) fn fail(&self, op: &'static str, times: u32) {
        *self.fails.lock().unwrap() = Some((op, times));
    }

    /// How many calls are still to fail.
    pub(crate) fn to_fail(&self) -> u32 {
        self.fails.lock().unwrap().map_or(0, |(_, times)| times)
    }

    /// Just before the next call of this operation the node's lease is gone, and the node does not know it.
    pub(crate) fn release_before(&self, op: &'static str, life: &Life, node: &Member, held: Held) {
        let release = Release {
            store: Arc::clone(&life.world.store) as Arc<dyn Store>,
            holder: node.node.holder().clone(),
            held,
        };
        *self.releases.lock().unwrap() = Some((op, release));
    }

    /// The lease is still to be given up.
    pub(crate) fn is_to_release(&self) -> bool {
        self.releases.lock().unwrap().is_some()
    }
}

#[async_trait]
impl Watcher for Hook {
    async fn before(&self, op: &'static str) -> Result<(), StoreError> {
        let due = self.releases.lock().unwrap().take_if(|(of, _)| *of == op);
        if let Some((_, due)) = due {
            due.store.release(&due.holder, &[due.held]).await?;
        }
        let gate = self.gate.lock().unwrap().clone();
        if let Some((_, leave)) = gate.filter(|(of, _)| *of == op) {
            leave.acquire().await.unwrap().forget();
            return Ok(());
        }
        let mut fails = self.fails.lock().unwrap();
        match fails.as_mut().filter(|(of, left)| *of == op && *left > 0) {
            Some((_, left)) => {
                *left -= 1;
                Err(StoreError::Unavailable("away".into()))
            }
            None => Ok(()),
        }
    }

    async fn after(&self, _: &'static str, _: Duration) -> Result<(), StoreError> {
        Ok(())
    }
}

/// A key that signs nothing while it may not, and refuses the payload of one nonce once.
pub(crate) struct Picky {
    key: Arc<dyn Signer>,
    nonce: Option<u64>,
    may: AtomicBool,
    refused: AtomicBool,
}

impl Picky {
    pub(crate) fn new(life: &mut Life, nonce: Option<u64>) -> Arc<Self> {
        let picky = Arc::new(Self {
            key: life.world.signer.clone().unwrap(),
            nonce,
            may: AtomicBool::new(true),
            refused: AtomicBool::new(false),
        });
        life.world.signer = Some(Arc::clone(&picky) as Arc<dyn Signer>);
        picky
    }

    pub(crate) fn may(&self, may: bool) {
        self.may.store(may, Ordering::Relaxed);
    }
}

#[async_trait]
impl Signer for Picky {
    async fn sign(&self, account: Address, tx: &Unsigned) -> Result<Signed, Unsignable> {
        if !self.may.load(Ordering::Relaxed) {
            return Err(Unsignable::Unusable("not yet".to_owned()));
        }
        let is_payload = tx.to != Some(account);
        let is_refused = self.nonce == Some(tx.nonce.get()) && is_payload;
        if is_refused && !self.refused.swap(true, Ordering::Relaxed) {
            return Err(Unsignable::Refused("not this one".to_owned()));
        }
        self.key.sign(account, tx).await
    }
}

/// Ten transactions, of which the one with nonce 5 is rejected and gives it back: the seventh is stuck for it.
pub(crate) async fn with_gap(life: &mut Life) -> (Member, Vec<Record>) {
    let picky = Picky::new(life, Some(5));
    picky.may(false);
    let node = life.world.node("a").await;
    let rows = life.send(&node, life.lanes[0], 10).await;
    picky.may(true);
    life.until_state(&rows[5], "FAILED_FINAL/REJECTED").await;
    life.until_state(&rows[6], "STUCK/GAP").await;
    (node, rows)
}

/// A policy that says always the same, after so many seconds.
pub(crate) struct Say {
    pub(crate) advice: Advice,
    pub(crate) after: u64,
}

#[async_trait]
impl Policy for Say {
    fn name(&self) -> &'static str {
        "say"
    }

    fn is_worth_asking(&self, _: &Plight) -> bool {
        true
    }

    async fn decide(&self, _: &Plight) -> Advice {
        seconds(self.after).await;
        self.advice.clone()
    }
}

impl Life {
    /// What was asked for a transaction and how far that is, oldest first.
    pub(crate) async fn progress(&self, record: &Record) -> Vec<(String, &'static str)> {
        let acts = self.acts(record).await;
        let words = acts
            .into_iter()
            .map(|act| (act.action, act.progress.word()));
        words.collect()
    }
}
