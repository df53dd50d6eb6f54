//! Numbered migrations, embedded, applied under an advisory lock: nodes that start together on an
//! empty database wait for each other and all come up.

use fencepost_domain::mutant::Mutant;
use std::error::Error;
use std::time::Duration;

use fencepost_app::ports::StoreError;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use crate::connect::{Connections, Settings};
use crate::fault::refused;
use crate::reach::Wanted;
use crate::rights;
use crate::schema;
use crate::session::Purpose;

mod embedded {
    refinery::embed_migrations!("migrations");
}

/// A migration of a large table may take long; one that waits longer than this waits for a node
/// that hangs while it holds the lock, and starting must say so.
const PATIENCE: Duration = Duration::from_mins(15);

pub(crate) async fn migrate(
    settings: &Settings,
    connections: &Connections,
) -> Result<(), StoreError> {
    match tokio::time::timeout(PATIENCE, run(settings, connections)).await {
        Ok(done) => done,
        Err(late) => Err(StoreError::Unavailable(late.into())),
    }
}

/// A fresh connection: migrations wait for the lock longer than any statement may take.
async fn run(settings: &Settings, connections: &Connections) -> Result<(), StoreError> {
    let wanted = Wanted {
        settings,
        purpose: Purpose::Migrate,
        prefix: "",
        heard: None,
    };
    let mut client = connections.session(&wanted).await?;
    let unavailable = |error: tokio_postgres::Error| StoreError::Unavailable(error.into());
    schema::lock(&client, &settings.schema).await?;
    schema::refuse_to_pass_over(&client, &settings.schema).await?;
    schema::prepare(&client, &settings.schema).await?;
    // A role that may not make tables can run a store that another role has migrated.
    if is_current(&client, &settings.schema).await? {
        return Ok(());
    }
    // A lock that is waited for stands before everyone who comes later: a backup that reads a table for hours
    // would stop all who use it. So it is waited for briefly, well within what statements wait, and asked for anew.
    let brief = settings.statement_timeout / 8;
    let brief = format!("SET lock_timeout = {}", brief.as_millis().max(1));
    client.batch_execute(&brief).await.map_err(unavailable)?;
    let applied = loop {
        let applied = embedded::migrations::runner()
            .run_async(&mut **client)
            .await;
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
    Ok(())
}

/// Whether exactly the migrations of this program were applied. Reading them needs no right to make tables, which
/// the library that applies them asks for even when there is nothing to do.
async fn is_current(client: &Client, schema: &str) -> Result<bool, StoreError> {
    let rights = "SELECT c.oid IS NOT NULL, coalesce(has_table_privilege(c.oid, 'SELECT'), false),
                         has_schema_privilege($1, 'CREATE'), current_user::text
                    FROM (SELECT to_regclass('refinery_schema_history')) AS c(oid)";
    let row = client
        .query_one(rights, &[&schema])
        .await
        .map_err(refused)?;
    let (exists, readable, creates): (bool, bool, bool) = (row.get(0), row.get(1), row.get(2));
    let role: String = row.get(3);
    if !exists {
        return Ok(false);
    }
    if !readable {
        return Err(rights::missing_on_tables(
            &role,
            schema,
            "SELECT on refinery_schema_history",
        ));
    }
    let sql =
        "SELECT version::bigint, checksum::text FROM refinery_schema_history ORDER BY version";
    let rows = client.query(sql, &[]).await.map_err(refused)?;
    let applied: Vec<(i64, String)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    let runner = embedded::migrations::runner();
    let mut ours: Vec<(i64, String)> = runner
        .get_migrations()
        .iter()
        .map(|one| (i64::from(one.version()), one.checksum().to_string()))
        .collect();
    ours.sort_unstable();
    if applied == ours {
        return Ok(true);
    }
    if creates {
        return Ok(false);
    }
    let newest = |all: &[(i64, String)]| all.last().map_or(0, |(version, _)| *version);
    let (there, wanted) = (newest(&applied), newest(&ours));
    Err(StoreError::Unfit(format!(
        "the tables in the schema {schema} are at version {there}, this program needs version {wanted}, and the role \
         {role} may not change them: run `fencepost migrate` of this version with the role that owns them"
    )))
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
