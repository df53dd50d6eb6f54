//! Both stores and a small model, step by step through random operations: every answer the same.

mod harness;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use fencepost_app::ports::{Clock, Store, Terms};
use fencepost_sqlite::SqliteStore;
use fencepost_store_tests::{Harness, model};
use harness::{OnPostgres, TERMS};
use jiff::Timestamp;

/// A clock that stands until it is moved.
struct Standing(Mutex<Timestamp>);

impl Clock for Standing {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct InMemory {
    clock: Arc<Standing>,
    store: Arc<SqliteStore>,
}

impl InMemory {
    fn new() -> Self {
        let start = Timestamp::from_second(1_800_000_000).expect("a time");
        let clock = Arc::new(Standing(Mutex::new(start)));
        let ticking = Arc::clone(&clock) as Arc<dyn Clock>;
        let store = Arc::new(SqliteStore::in_memory(TERMS, ticking).expect("a store"));
        Self { clock, store }
    }
}

#[async_trait]
impl Harness for InMemory {
    async fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store) as Arc<dyn Store>
    }

    async fn second_handle(&self) -> Option<Arc<dyn Store>> {
        None
    }

    async fn advance(&self, by: Duration) {
        let mut now = self.clock.0.lock().unwrap_or_else(PoisonError::into_inner);
        *now = now.saturating_add(by).expect("a time");
    }

    fn terms(&self) -> Terms {
        TERMS
    }
}

#[test]
fn random_runs_agree_with_the_model_on_both_stores() {
    model::agree(OnPostgres::new, async || InMemory::new(), 32);
}
