//! The bench that scenarios work at: a store, nodes that have joined it, and seats, which are nodes
//! that lead a lane.

use std::sync::Arc;
use std::time::Duration;

use fencepost_app::ports::{
    Acquired, Bid, Claimed, Held, Holder, Key, LaneBatch, LaneCreated, LaneMoved, LaneMoves,
    LanePromotion, LaneRefusal, LaneView, Lead, Move, NewTx, Record, Store, Stored, check,
};
use fencepost_domain::ids::{FeedSeq, Lane, LaneId, NodeId, Nonce, TxId};
use fencepost_domain::transition::{Input, Transition};

use crate::Harness;
use crate::builders::{attempt, mined, sign};
use crate::dump::Dump;

/// A store under test.
pub struct Bench<'h> {
    harness: &'h dyn Harness,
    /// The handle that the scenario uses.
    pub store: Arc<dyn Store>,
}

impl<'h> Bench<'h> {
    /// Takes the harness's store.
    pub async fn new(harness: &'h dyn Harness) -> Self {
        let store = harness.store().await;
        Self { harness, store }
    }

    /// Lets the store's clock pass.
    pub async fn advance(&self, by: Duration) {
        self.harness.advance(by).await;
    }

    /// Lets so much time pass that every lease can be taken over.
    pub async fn lapse(&self) {
        let terms = self.harness.terms();
        self.advance(terms.duration + terms.skew * 2).await;
    }

    /// A node that has just started.
    pub async fn node(&self, name: &str) -> Holder {
        let node = NodeId::new(name).unwrap();
        let incarnation = self.store.join(&node, &url(name)).await.unwrap();
        Holder { node, incarnation }
    }

    /// The ids of lanes.
    pub async fn open<const N: usize>(&self, lanes: [Lane; N]) -> [LaneId; N] {
        let ids = self.store.open_lanes(&lanes).await.unwrap();
        ids.try_into().unwrap()
    }

    /// A node that has just started and leads this lane.
    pub async fn seat(&self, name: &str, lane: Lane) -> Seat {
        let holder = self.node(name).await;
        self.seat_of(&holder, lane).await
    }

    /// A running node takes this lane.
    pub async fn seat_of(&self, holder: &Holder, lane: Lane) -> Seat {
        let [id] = self.open([lane]).await;
        let lead = leading(self.bid(holder, id, false).await);
        Seat {
            store: Arc::clone(&self.store),
            holder: holder.clone(),
            held: Held {
                lane: id,
                token: lead.token,
            },
            lane,
        }
    }

    /// One bid.
    pub async fn bid(&self, holder: &Holder, lane: LaneId, fresh: bool) -> Acquired {
        let bids = [Bid { lane, fresh }];
        let url = url(holder.node.as_str());
        only(self.store.acquire(holder, &url, &bids).await.unwrap())
    }

    /// Everything that can be read.
    pub async fn dump(&self) -> Dump {
        Dump::of(&*self.store).await
    }
}

/// Where a node of this name is reached.
#[must_use]
pub fn url(name: &str) -> String {
    format!("http://{name}:8080")
}

/// The only element.
#[must_use]
pub fn only<T>(items: Vec<T>) -> T {
    assert_eq!(items.len(), 1, "one answer for one question");
    items.into_iter().next().unwrap()
}

/// What a leader learnt.
#[must_use]
pub fn leading(answer: Acquired) -> Lead {
    let Acquired::Leading(lead) = answer else {
        panic!("not leading: {answer:?}");
    };
    lead
}

/// What became of each transaction of a lane that was written, the cursor after it, and whether free
/// nonces are left.
pub fn done(answer: LaneCreated) -> (Vec<Stored>, Nonce, bool) {
    match answer {
        LaneCreated::Done {
            txs,
            next_nonce,
            more_free,
        } => (txs, next_nonce, more_free),
        LaneCreated::Refused(why) => panic!("refused: {why:?}"),
    }
}

/// Why a lane was refused.
#[must_use]
pub fn refused(answer: LaneCreated) -> LaneRefusal {
    match answer {
        LaneCreated::Refused(why) => why,
        LaneCreated::Done { .. } => panic!("not refused: {answer:?}"),
    }
}

/// The nonce of a transaction that was stored as new.
#[must_use]
pub fn new_nonce(stored: &Stored) -> u64 {
    let Stored::New { nonce, .. } = stored else {
        panic!("not new: {stored:?}");
    };
    nonce.get()
}

/// The record of a transaction that was there already.
#[must_use]
pub fn known(stored: &Stored) -> &Record {
    let Stored::Known(record) = stored else {
        panic!("not known: {stored:?}");
    };
    record
}

/// The record of a transaction that is in the way.
#[must_use]
pub fn conflicting(stored: &Stored) -> &Record {
    let Stored::Conflict(record) = stored else {
        panic!("no conflict: {stored:?}");
    };
    record
}

/// A node that leads a lane, or believes so.
#[derive(Clone)]
pub struct Seat {
    /// The handle it uses.
    pub store: Arc<dyn Store>,
    /// Who.
    pub holder: Holder,
    /// Which lane, under which token.
    pub held: Held,
    /// Which lane.
    pub lane: Lane,
}

impl Seat {
    /// The lane as it stands.
    pub async fn view(&self) -> LaneView {
        self.store.lane(self.lane).await.unwrap().unwrap()
    }

    /// A transaction as it stands.
    pub async fn read(&self, tx: TxId) -> Record {
        self.store.find(&Key::Id(tx)).await.unwrap().unwrap()
    }

    /// A batch on top of the cursor and free nonces as they stand.
    pub async fn batch(&self, txs: Vec<NewTx>) -> LaneBatch {
        let view = self.view().await;
        LaneBatch {
            held: self.held,
            cursor: view.next_nonce,
            free: view.free,
            txs,
        }
    }

    /// Stores a batch as it is given.
    pub async fn create_batch(&self, batch: LaneBatch) -> LaneCreated {
        only(self.store.create(&self.holder, &[batch]).await.unwrap())
    }

    /// Stores transactions on top of the lane as it stands.
    pub async fn create(&self, txs: Vec<NewTx>) -> LaneCreated {
        self.create_batch(self.batch(txs).await).await
    }

    /// Stores new transactions and returns their nonces.
    pub async fn accept(&self, txs: Vec<NewTx>) -> Vec<u64> {
        let (stored, ..) = done(self.create(txs).await);
        stored.iter().map(new_nonce).collect()
    }

    /// A promotion on top of the cursor and free nonces as they stand.
    pub async fn promotion(&self, txs: Vec<TxId>) -> LanePromotion {
        let view = self.view().await;
        LanePromotion {
            held: self.held,
            cursor: view.next_nonce,
            free: view.free,
            txs,
        }
    }

    /// Gives nonces to queued transactions.
    pub async fn promote(&self, txs: Vec<TxId>) -> LaneCreated {
        let promotion = self.promotion(txs).await;
        self.promote_batch(promotion).await
    }

    /// Promotes as it is given.
    pub async fn promote_batch(&self, promotion: LanePromotion) -> LaneCreated {
        only(
            self.store
                .promote(&self.holder, &[promotion])
                .await
                .unwrap(),
        )
    }

    /// The move that this makes of a transaction as it stands, with all that belongs to it.
    pub async fn plan(&self, tx: TxId, input: Input) -> Move {
        moved(&self.read(tx).await, input).unwrap()
    }

    /// Writes moves: those that the feed tells through `complete`, others through `apply`.
    pub async fn write(&self, moves: Vec<Move>) -> LaneMoved {
        let batch = [LaneMoves {
            held: self.held,
            moves,
        }];
        only(if check::apply(&batch).is_ok() {
            self.store.apply(&self.holder, &batch).await.unwrap()
        } else {
            self.store.complete(&self.holder, &batch).await.unwrap()
        })
    }

    /// Lets something happen to a transaction as it stands, and returns what it became.
    pub async fn step(&self, tx: TxId, input: Input) -> Record {
        let plan = self.plan(tx, input).await;
        written(self.write(vec![plan]).await);
        self.read(tx).await
    }

    /// Signs, sends and mines a transaction; its n-th attempt stands for all its bytes.
    pub async fn mine(&self, tx: TxId, n: u64) -> Record {
        self.step(tx, sign(n)).await;
        self.step(tx, crate::builders::accepted()).await;
        self.step(tx, mined(n, 100)).await
    }

    /// Takes a transaction all the way to CONFIRMED.
    pub async fn confirm(&self, tx: TxId, n: u64) -> Record {
        self.mine(tx, n).await;
        self.step(tx, Input::Final).await
    }

    /// Takes due work.
    pub async fn claim_due(&self, next_in: Duration, limit: usize) -> Claimed {
        let next_in_ms = u64::try_from(next_in.as_millis()).unwrap();
        self.store
            .claim_due(&self.holder, &[self.held], next_in_ms, limit)
            .await
            .unwrap()
    }
}

/// The move that this makes of a record, with what must be written together with it; `None` where
/// the domain says no.
#[must_use]
pub fn moved(record: &Record, input: Input) -> Option<Move> {
    let Transition { to, event } = record.state.clone().apply(input.clone()).ok()?;
    let plan = Move::of(record, Transition { to, event });
    Some(if let Input::Sign(kind, hash) = input {
        let n = u64::from_be_bytes(hash[24..].try_into().unwrap());
        plan.attempt(attempt(kind, n))
    } else if let Input::Sent(outcome) = input {
        plan.sent(record.attempts, outcome)
    } else if let Input::Mined(at) = input {
        plan.receipt(format!(r#"{{"blockNumber":{}}}"#, at.block.number))
    } else {
        plan
    })
}

/// Moves were written; their numbers in the feed, where it tells them.
pub fn written(answer: LaneMoved) -> Vec<FeedSeq> {
    let LaneMoved::Done(seqs) = answer else {
        panic!("not written: {answer:?}");
    };
    seqs
}
