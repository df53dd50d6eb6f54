//! PgBouncer with its usual settings: session mode works, transaction mode is refused with the reason.

use std::time::Duration;

use anyhow::Result;
use fencepost_app::ports::Store;
use fencepost_postgres::{PostgresStore, Settings};
use fencepost_testkit::postgres::{PgBouncer, PoolMode, shared};

use super::node::{in_schema, refusal, settings, works};

#[tokio::test]
async fn session_mode_works_although_options_are_not_taken() -> Result<()> {
    let server = shared().await?;
    let database = server.create_database().await?;
    let role = format!("pooled_{}", database.name());
    let client = database.connect().await?;
    let sql = format!(
        "CREATE ROLE {role} LOGIN; CREATE SCHEMA ours AUTHORIZATION {role};
         ALTER ROLE {role} SET default_transaction_read_only = on;
         ALTER ROLE {role} SET default_transaction_isolation = serializable"
    );
    client.batch_execute(&sql).await?;
    let pooler = PgBouncer::start(server, PoolMode::Session, &["fencepost", &role]).await?;
    let url = database.url_through(pooler.addr());
    let url = url.replacen("fencepost@", &format!("{role}@"), 1);
    let seat = works(in_schema(url.clone(), "ours")).await?;
    // Sessions that others have used are as good as new.
    drop(seat);
    for _ in 0..3 {
        let again = PostgresStore::attach(in_schema(url.clone(), "ours")).await?;
        again.ping().await?;
    }
    Ok(())
}

/// Twice as long a notification is waited for that never comes.
const BRIEF: Duration = Duration::from_secs(3);

/// Whoever else uses the pooler, and whether the database is new or not.
#[tokio::test]
async fn transaction_mode_is_refused_before_anything_is_set_or_made() -> Result<()> {
    let server = shared().await?;
    let database = server.create_database().await?;
    let pooler = PgBouncer::start(server, PoolMode::Transaction, &["fencepost"]).await?;
    let url = database.url_through(pooler.addr());
    let direct = database.connect().await?;
    for round in 0..3 {
        let node = Settings {
            statement_timeout: BRIEF,
            ..settings(url.clone())
        };
        let why = refusal(node).await?;
        assert!(why.contains("transaction mode"), "{round}: {why}");
        assert!(why.contains("pool_mode = session"), "{round}: {why}");
        if round == 0 {
            let sql = "SELECT to_regclass('public.managed_tx') IS NULL";
            assert!(direct.query_one(sql, &[]).await?.get::<_, bool>(0));
            works(settings(database.url())).await?;
        }
    }
    // Another client of the pooler goes on with a session of ours, which must be as it was.
    let other = fencepost_testkit::postgres::connect(&url).await?;
    for message in other.simple_query("SHOW search_path").await? {
        if let tokio_postgres::SimpleQueryMessage::Row(row) = message {
            assert_eq!(row.get(0), Some("\"$user\", public"));
        }
    }
    Ok(())
}
