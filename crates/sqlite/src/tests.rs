//! What only SQLite does. The behaviour of the port is proved by the suite that both adapters run.

mod opening;
mod groups;
mod disk;
mod clocks;
mod guards;
mod inline;
pub(crate) mod plans;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use fencepost_app::ports::{
    Acquired, Audit, Bid, Body, Clock, Held, Holder, LaneBatch, LaneCreated, NewTx, Store,
    StoreError, Stored, Terms,
};
use fencepost_domain::Address;
use fencepost_domain::ids::{ChainId, Lane, LaneId, NodeId, Nonce, TxId};
use fencepost_domain::request::{Ceilings, Draft, Payload};
use jiff::{Span, Timestamp};
use uuid::Uuid;

use crate::SqliteStore;

const URL: &str = "http://127.0.0.1:8700";

/// A clock that a test sets.
struct TestClock(Mutex<Timestamp>);

impl TestClock {
    fn new() -> Arc<Self> {
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        Arc::new(Self(Mutex::new(start)))
    }

    fn jump(&self, seconds: i64) {
        let mut now = self.0.lock().unwrap();
        *now = now.checked_add(Span::new().seconds(seconds)).unwrap();
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap()
    }
}

/// A directory that goes with the test.
struct Home(PathBuf);

impl Home {
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("fencepost-sqlite-{}", Uuid::now_v7()));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn file(&self) -> PathBuf {
        self.0.join("store.db")
    }

    fn open(&self) -> Result<SqliteStore, StoreError> {
        open(&self.file())
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn open(path: &Path) -> Result<SqliteStore, StoreError> {
    SqliteStore::open(path, Terms::default(), TestClock::new())
}

fn in_memory(clock: &Arc<TestClock>) -> SqliteStore {
    let clock: Arc<dyn Clock> = clock.clone();
    SqliteStore::in_memory(Terms::default(), clock).unwrap()
}

fn nonce(n: u64) -> Nonce {
    Nonce::new(n).unwrap()
}

fn lane(n: u8) -> Lane {
    Lane {
        chain: ChainId::new(1).unwrap(),
        signer: Address::repeat_byte(n),
    }
}

fn payload(wei: u64) -> Payload {
    let draft = Draft {
        to: Some(format!("0x{}", "42".repeat(20))),
        value: Some(wei.to_string()),
        ..Draft::default()
    };
    let ceilings = Ceilings {
        max_fee: u128::MAX,
        max_priority_fee: u128::MAX,
    };
    Payload::parse(&draft, ceilings).unwrap()
}

/// A new transaction with an id of its own.
fn tx() -> NewTx {
    static NEXT: AtomicI64 = AtomicI64::new(1);
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    NewTx {
        tx: TxId(Uuid::now_v7()),
        seal: None,
        request_id: None,
        body: Body::Managed(payload(n.unsigned_abs())),
        not_after: None,
        meta: None,
        created_by: None,
    }
}

fn audit() -> Audit {
    Audit {
        by: "test".to_owned(),
        reason: "because".to_owned(),
        details: None,
        node: None,
    }
}

/// A node that leads one lane.
struct Leading {
    holder: Holder,
    held: Held,
}

async fn lead(store: &SqliteStore) -> Leading {
    let node = NodeId::new("a").unwrap();
    let incarnation = store.join(&node, URL).await.unwrap();
    let holder = Holder { node, incarnation };
    let lane = store.open_lanes(&[lane(1)]).await.unwrap()[0];
    let held = acquire(store, &holder, lane, false).await.unwrap();
    Leading { holder, held }
}

async fn acquire(
    store: &SqliteStore,
    holder: &Holder,
    lane: LaneId,
    fresh: bool,
) -> Result<Held, Acquired> {
    let bids = [Bid { lane, fresh }];
    let answers = store.acquire(holder, URL, &bids).await.unwrap();
    let answer = answers.into_iter().next().unwrap();
    if let Acquired::Leading(lead) = &answer {
        let token = lead.token;
        return Ok(Held { lane, token });
    }
    Err(answer)
}

impl Leading {
    /// Stores transactions at this cursor.
    async fn create(
        &self,
        store: &SqliteStore,
        cursor: u64,
        txs: Vec<NewTx>,
    ) -> Result<LaneCreated, StoreError> {
        let batch = LaneBatch {
            held: self.held,
            cursor: nonce(cursor),
            free: Vec::new(),
            txs,
        };
        let answers = store.create(&self.holder, &[batch]).await?;
        Ok(answers.into_iter().next().unwrap())
    }
}

/// The nonces that were given.
fn given(created: LaneCreated) -> Vec<u64> {
    let LaneCreated::Done { txs, .. } = created else {
        panic!("refused: {created:?}");
    };
    let nonce = |stored: &Stored| match stored {
        Stored::New { nonce, .. } => nonce.get(),
        Stored::Known(_) | Stored::Conflict(_) => panic!("not new: {stored:?}"),
    };
    txs.iter().map(nonce).collect()
}
