//! Numbered migrations, embedded, applied under an advisory lock: nodes that start together on an
//! empty database wait for each other and all come up.

use fencepost_domain::mutant::Mutant;
use std::error::Error;
use std::time::Duration;

use fencepost_app::ports::StoreError;
use tokio_postgres::NoTls;
use tokio_postgres::error::SqlState;

use crate::connect::Settings;

mod embedded {
    refinery::embed_migrations!("migrations");
}

/// Any number that no other program uses for the same database will do.
const LOCK: i64 = 0x6665_6e63_6570_6f73;

/// A migration of a large table may take long; one that waits longer than this waits for a node
/// that hangs while it holds the lock, and starting must say so.
const PATIENCE: Duration = Duration::from_mins(15);

pub(crate) async fn migrate(settings: &Settings) -> Result<(), StoreError> {
    match tokio::time::timeout(PATIENCE, run(settings)).await {
        Ok(done) => done,
        Err(late) => Err(StoreError::Unavailable(late.into())),
    }
}

/// A fresh connection: migrations wait for the lock longer than any statement may take. Later
/// settings win, so those of the URL stay.
async fn run(settings: &Settings) -> Result<(), StoreError> {
    let config = settings.config("-c statement_timeout=0 -c lock_timeout=0")?;
    let unavailable = |error: tokio_postgres::Error| StoreError::Unavailable(error.into());
    let (mut client, connection) = config.connect(NoTls).await.map_err(unavailable)?;
    let wire = tokio::spawn(connection);
    client
        .execute("SELECT pg_advisory_lock($1)", &[&LOCK])
        .await
        .map_err(unavailable)?;
    // A lock that is waited for stands before everyone who comes later: a backup that reads a table for hours
    // would stop all who use it. So it is waited for briefly, well within what statements wait, and asked for anew.
    let brief = settings.statement_timeout / 8;
    let brief = format!("SET lock_timeout = {}", brief.as_millis().max(1));
    client.batch_execute(&brief).await.map_err(unavailable)?;
    let applied = loop {
        let applied = embedded::migrations::runner().run_async(&mut client).await;
        match applied {
            Err(error) if is_held(&error) => {
                tracing::warn!("a migration waits for a table that others use");
                tokio::time::sleep(settings.statement_timeout).await;
            }
            applied => break applied,
        }
    };
    if Mutant::FeedBySequence.is_on() {
        let sequence = "CREATE SEQUENCE IF NOT EXISTS mutant_feed";
        client.batch_execute(sequence).await.map_err(unavailable)?;
    }
    // The lock goes with the connection.
    drop(client);
    let report =
        applied.map_err(|error| StoreError::Unfit(format!("migration failed: {error}")))?;
    for migration in report.applied_migrations() {
        tracing::info!(
            version = migration.version(),
            name = migration.name(),
            "migrated"
        );
    }
    wire.await
        .map_err(|error| StoreError::Unavailable(error.into()))?
        .map_err(unavailable)
}

/// Others had the table for longer than is waited: nothing has happened.
fn is_held(error: &refinery::Error) -> bool {
    let mut cause = error.source();
    while let Some(error) = cause {
        let answer = error.downcast_ref::<tokio_postgres::Error>();
        let code = answer.and_then(tokio_postgres::Error::code);
        if let Some(&SqlState::LOCK_NOT_AVAILABLE | &SqlState::T_R_DEADLOCK_DETECTED) = code {
            return true;
        }
        cause = error.source();
    }
    false
}
