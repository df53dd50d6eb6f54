//! The embedded store keeps the port's promises: every scenario of the suite, on a file as in
//! production and in memory as in simulations.

#![allow(clippy::unwrap_used)] // A harness that cannot be set up fails its test.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use fencepost_app::ports::{Clock, Store, Terms};
use fencepost_sqlite::SqliteStore;
use fencepost_store_tests::{Harness, conformance};
use jiff::Timestamp;
use uuid::Uuid;

/// A clock that only the harness moves.
struct Hands(Mutex<Timestamp>);

impl Clock for Hands {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap()
    }
}

struct Embedded {
    store: Arc<SqliteStore>,
    clock: Arc<Hands>,
    /// Where the file is, if there is one.
    home: Option<PathBuf>,
}

impl Embedded {
    fn in_memory() -> Self {
        let clock = Self::clock();
        let store = SqliteStore::in_memory(Terms::default(), Arc::clone(&clock) as _).unwrap();
        Self {
            store: Arc::new(store),
            clock,
            home: None,
        }
    }

    fn on_a_file() -> Self {
        let home = std::env::temp_dir().join(format!("fencepost-{}", Uuid::now_v7()));
        std::fs::create_dir(&home).unwrap();
        let clock = Self::clock();
        let file = home.join("store.db");
        let store = SqliteStore::open(file, Terms::default(), Arc::clone(&clock) as _).unwrap();
        Self {
            store: Arc::new(store),
            clock,
            home: Some(home),
        }
    }

    fn clock() -> Arc<Hands> {
        let start = "2026-01-01T00:00:00.123456Z".parse().unwrap();
        Arc::new(Hands(Mutex::new(start)))
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        if let Some(home) = &self.home {
            // A directory that stays behind is litter, not a failure.
            let _ = std::fs::remove_dir_all(home);
        }
    }
}

#[async_trait]
impl Harness for Embedded {
    async fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store) as Arc<dyn Store>
    }

    /// One process has one handle; the suite shares it.
    async fn second_handle(&self) -> Option<Arc<dyn Store>> {
        None
    }

    async fn advance(&self, by: Duration) {
        let mut now = self.clock.0.lock().unwrap();
        *now += by;
    }

    fn terms(&self) -> Terms {
        Terms::default()
    }
}

mod memory {
    use super::*;
    conformance!(Embedded::in_memory());
}

mod file {
    use super::*;
    conformance!(Embedded::on_a_file());
}

#[test]
fn random_runs_agree_with_the_model() {
    let memory = async || Embedded::in_memory();
    let file = async || Embedded::on_a_file();
    fencepost_store_tests::model::agree(memory, file, 64);
}
