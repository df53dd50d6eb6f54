//! The suite's harness on a real PostgreSQL: a fresh database each time.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use fencepost_app::ports::{Store, Terms};
use fencepost_postgres::{PostgresStore, Settings};
use fencepost_store_tests::Harness;
use fencepost_testkit::postgres::{Database, shared};

pub(crate) struct OnPostgres {
    database: Database,
    store: Arc<PostgresStore>,
}

/// Minutes, so that a slow machine loses no lease in the middle of a scenario, but shorter than the
/// suite's reservations: the clock of a server cannot be stopped, and `advance` makes stored times
/// older instead.
pub(crate) const TERMS: Terms = Terms {
    duration: Duration::from_mins(5),
    skew: Duration::from_secs(30),
};

impl OnPostgres {
    pub(crate) async fn new() -> Self {
        let server = shared().await.expect("a PostgreSQL for the tests");
        let database = server.create_database().await.expect("a database");
        let store = Arc::new(
            PostgresStore::open(settings(&database))
                .await
                .expect("a store"),
        );
        Self { database, store }
    }
}

fn settings(database: &Database) -> Settings {
    Settings {
        terms: TERMS,
        write_connections: 4,
        read_connections: 2,
        statement_timeout: Duration::from_secs(20),
        ..Settings::new(database.url())
    }
}

#[async_trait]
impl Harness for OnPostgres {
    async fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store) as Arc<dyn Store>
    }

    async fn second_handle(&self) -> Option<Arc<dyn Store>> {
        let store = PostgresStore::attach(settings(&self.database))
            .await
            .expect("a handle");
        Some(Arc::new(store))
    }

    async fn advance(&self, by: Duration) {
        let older = [
            "UPDATE signer_lease SET expires_at = expires_at - $1::bigint * interval '1 microsecond'",
            "UPDATE due_work SET due_at = due_at - $1::bigint * interval '1 microsecond'",
            "UPDATE node SET heartbeat_at = heartbeat_at - $1::bigint * interval '1 microsecond'",
            "UPDATE managed_tx SET reserve_expires_at = reserve_expires_at - $1::bigint * interval '1 microsecond'",
            "UPDATE managed_tx SET updated_at = updated_at - $1::bigint * interval '1 microsecond'",
            "UPDATE tx_completion SET at = at - $1::bigint * interval '1 microsecond'",
        ];
        let client = self.database.connect().await.expect("a connection");
        let micros = i64::try_from(by.as_micros()).expect("a time that fits");
        // What was told is never rewritten, but by a clock.
        let unguarded = "SET session_replication_role = replica";
        client.batch_execute(unguarded).await.expect("a superuser");
        for sql in older {
            client.execute(sql, &[&micros]).await.expect("older times");
        }
    }

    fn terms(&self) -> Terms {
        TERMS
    }
}
