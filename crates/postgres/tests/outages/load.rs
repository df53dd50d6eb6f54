//! Clients under fire: one creator for each lane, each of which retries until it is answered, by the
//! rules that the port gives. What it was told is kept, to be compared with what is stored.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use anyhow::{Result, bail};
use fencepost_app::ports::{
    Acquired, Bid, Held, Holder, Key, LaneBatch, LaneCreated, LaneRefusal, NewTx, Store,
    StoreError, Stored,
};
use fencepost_domain::ids::{Nonce, TxId};
use fencepost_store_tests::bench::{only, url};
use fencepost_store_tests::builders::request;
use fencepost_store_tests::dump::Dump;
use fencepost_testkit::wait;
use tokio::task::JoinHandle;

use super::post::sit;

/// How many lanes are created on.
const LANES: u8 = 4;

/// What one creator was told of its transactions.
type Told = Vec<(TxId, Nonce)>;

/// Creators at work.
pub(crate) struct Load {
    acked: Arc<AtomicUsize>,
    enough: Arc<AtomicBool>,
    creators: Vec<JoinHandle<Result<Told>>>,
}

impl Load {
    /// Starts them on this store, one for each lane.
    pub(crate) async fn start(store: &Arc<dyn Store>) -> Result<Self> {
        let (acked, enough) = (Arc::default(), Arc::default());
        let mut creators = Vec::new();
        for n in 1..=LANES {
            let seat = sit(store, &format!("creator-{n}"), n).await?;
            let creator = Creator {
                cursor: seat.view().await.next_nonce,
                store: Arc::clone(&seat.store),
                holder: seat.holder.clone(),
                held: seat.held,
            };
            let (acked, enough) = (Arc::clone(&acked), Arc::clone(&enough));
            creators.push(tokio::spawn(creator.run(n, acked, enough)));
        }
        Ok(Self {
            acked,
            enough,
            creators,
        })
    }

    /// Returns when so many more have been acknowledged.
    pub(crate) async fn wait_for_more(&self, count: usize) -> Result<()> {
        let goal = self.acked.load(Ordering::SeqCst) + count;
        wait::until("creates are acknowledged", || async {
            if self.creators.iter().any(JoinHandle::is_finished) {
                bail!("a creator has given up");
            }
            Ok((self.acked.load(Ordering::SeqCst) >= goal).then_some(()))
        })
        .await
    }

    /// Ends it, and compares what was acknowledged with what is stored: nothing lost, nothing twice,
    /// no nonce left out.
    pub(crate) async fn verify(self, store: &dyn Store) -> Result<()> {
        self.enough.store(true, Ordering::SeqCst);
        let mut acked = Vec::new();
        for creator in self.creators {
            acked.extend(creator.await??);
        }
        let dump = Dump::of(store).await;
        dump.assert_sound();
        let mut stored: Vec<(TxId, Nonce)> = dump
            .records
            .iter()
            .filter_map(|record| Some((record.tx, record.state.nonce()?)))
            .collect();
        acked.sort_unstable();
        stored.sort_unstable();
        assert_eq!(acked, stored, "told and stored");
        assert!(dump.gaps.iter().all(Vec::is_empty), "{:?}", dump.gaps);
        Ok(())
    }
}

struct Creator {
    store: Arc<dyn Store>,
    holder: Holder,
    held: Held,
    cursor: Nonce,
}

/// What to do after an answer.
enum Next {
    Acked(Nonce),
    Again,
    /// The outcome is unknown: a fresh bid, and then a look.
    Resolve,
}

impl Creator {
    async fn run(
        mut self,
        n: u8,
        acked: Arc<AtomicUsize>,
        enough: Arc<AtomicBool>,
    ) -> Result<Told> {
        let mut told = Vec::new();
        while !enough.load(Ordering::SeqCst) {
            let nth = u64::from(n) * 1_000_000 + u64::try_from(told.len())?;
            let tx = request(nth, &format!("request-{nth}"), nth);
            let nonce = self.create(&tx).await?;
            told.push((tx.tx, nonce));
            acked.fetch_add(1, Ordering::SeqCst);
        }
        Ok(told)
    }

    /// Until it is acknowledged.
    async fn create(&mut self, tx: &NewTx) -> Result<Nonce> {
        let me = tokio::sync::Mutex::new(self);
        wait::until("a create is acknowledged", || async {
            let mut me = me.lock().await;
            match me.try_once(tx).await? {
                Next::Acked(nonce) => Ok(Some(nonce)),
                Next::Again => Ok(None),
                Next::Resolve => me.resolve(tx).await,
            }
        })
        .await
    }

    async fn try_once(&mut self, tx: &NewTx) -> Result<Next> {
        let batch = LaneBatch {
            held: self.held,
            cursor: self.cursor,
            free: vec![],
            txs: vec![tx.clone()],
        };
        Ok(match self.store.create(&self.holder, &[batch]).await {
            Ok(answers) => match only(answers) {
                LaneCreated::Done {
                    txs, next_nonce, ..
                } => {
                    self.cursor = next_nonce;
                    match only(txs) {
                        Stored::New { nonce, .. } => Next::Acked(nonce),
                        // Only an unknown outcome can make our own request known to us.
                        other @ (Stored::Known(_) | Stored::Conflict(_)) => {
                            bail!("stored by somebody else: {other:?}")
                        }
                    }
                }
                LaneCreated::Refused(LaneRefusal::Fenced) => Next::Resolve,
                LaneCreated::Refused(why) => bail!("refused: {why:?}"),
            },
            Err(StoreError::OutcomeUnknown(_)) => Next::Resolve,
            Err(StoreError::Unavailable(_) | StoreError::Busy(_)) => Next::Again,
            Err(other) => bail!("not an outage: {other:?}"),
        })
    }

    /// `None` where it is a fact that the transaction is not there.
    async fn resolve(&mut self, tx: &NewTx) -> Result<Option<Nonce>> {
        let bids = [Bid {
            lane: self.held.lane,
            fresh: true,
        }];
        let this = &*self;
        let lead = wait::until("the lane is led again", || async {
            let url = url(this.holder.node.as_str());
            match this.store.acquire(&this.holder, &url, &bids).await {
                Ok(answers) => match only(answers) {
                    Acquired::Leading(lead) => Ok(Some(lead)),
                    Acquired::Busy => Ok(None),
                    other @ (Acquired::Led(_) | Acquired::Ghost(_) | Acquired::UnknownLane) => {
                        bail!("not leading: {other:?}")
                    }
                },
                Err(error) => outage(error),
            }
        })
        .await?;
        let found = wait::until("the store answers", || async {
            match this.store.find(&Key::Id(tx.tx)).await {
                Ok(found) => Ok(Some(found)),
                Err(error) => outage(error),
            }
        })
        .await?;
        self.held.token = lead.token;
        self.cursor = lead.next_nonce;
        Ok(found.and_then(|record| record.state.nonce()))
    }
}

/// Any other error would be a wrong one.
fn outage<T>(error: StoreError) -> Result<Option<T>> {
    if let StoreError::OutcomeUnknown(_) | StoreError::Unavailable(_) | StoreError::Busy(_) = error
    {
        return Ok(None);
    }
    bail!("not an outage: {error:?}")
}
