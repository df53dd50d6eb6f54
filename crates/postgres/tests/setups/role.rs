//! A plain role that owns only its schema is enough.

use std::sync::{Arc, Mutex};

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use fencepost_app::ports::{Acquired, Bid, Store};
use fencepost_postgres::{PostgresStore, Settings};
use fencepost_store_tests::bench::{leading, only, url};
use fencepost_store_tests::builders::lane;
use fencepost_testkit::postgres::{Database, shared};
use tokio_postgres::Client;
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::fmt::MakeWriter;

use super::node::{in_schema, refusal, settings, works};

/// A database whose `public` is closed, and a role of no rights with a schema of its name.
async fn plain_role(name: &str) -> Result<(Database, Client, String)> {
    let database = shared().await?.create_database().await?;
    let client = database.connect().await?;
    let role = format!("{name}_{}", database.name());
    let sql = format!(
        "CREATE ROLE {role} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOINHERIT;
         REVOKE ALL ON SCHEMA public FROM PUBLIC;
         REVOKE ALL ON DATABASE {} FROM PUBLIC;
         GRANT CONNECT ON DATABASE {0} TO {role}",
        database.name()
    );
    client.batch_execute(&sql).await?;
    Ok((database, client, role))
}

fn url_as(database: &Database, role: &str) -> String {
    database
        .url()
        .replacen("fencepost@", &format!("{role}@"), 1)
}

/// A schema that one role owns and has migrated, and another role that may only read and write its rows.
async fn two_roles(name: &str) -> Result<(Database, Client, String)> {
    let (database, client, owner) = plain_role(&format!("{name}_owner")).await?;
    let role = format!("{name}_run_{}", database.name());
    let sql = format!(
        "CREATE SCHEMA ours AUTHORIZATION {owner};
         CREATE ROLE {role} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOINHERIT;
         GRANT CONNECT ON DATABASE {} TO {role};
         GRANT USAGE ON SCHEMA ours TO {role};
         ALTER DEFAULT PRIVILEGES FOR ROLE {owner} IN SCHEMA ours
               GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO {role}",
        database.name()
    );
    client.batch_execute(&sql).await?;
    PostgresStore::open(in_schema(url_as(&database, &owner), "ours")).await?;
    Ok((database, client, role))
}

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut lines = self.0.lock().map_err(|_| std::io::ErrorKind::Other)?;
        lines.extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Lines {
    /// What this thread logs, until the guard is dropped. All other threads have a log too: where one subscriber is the
    /// only one, a line that a thread without it comes to first is switched off for every thread.
    fn of_this_thread() -> (Self, DefaultGuard) {
        let others = tracing_subscriber::fmt().with_writer(std::io::sink);
        // Another test may have been first.
        let _ = tracing::subscriber::set_global_default(others.finish());
        let lines = Self::default();
        let log = tracing_subscriber::fmt()
            .with_writer(lines.clone())
            .with_ansi(false)
            .with_max_level(tracing::Level::WARN);
        let guard = tracing::subscriber::set_default(log.finish());
        (lines, guard)
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[tokio::test]
async fn a_role_that_owns_its_schema_is_enough_and_one_line_says_what_is_missing() -> Result<()> {
    let (database, client, role) = plain_role("owner").await?;
    client
        .batch_execute(&format!("CREATE SCHEMA ours AUTHORIZATION {role}"))
        .await?;
    let (lines, guard) = Lines::of_this_thread();
    let node = in_schema(url_as(&database, &role), "ours");
    works(node.clone()).await?;
    let said = String::from_utf8(lines.0.lock().unwrap().clone())?;
    let about: Vec<_> = said.lines().filter(|line| line.contains("GRANT")).collect();
    assert_eq!(about.len(), 1, "{said}");
    for part in ["pg_signal_backend", "pg_read_all_stats", &role] {
        assert!(about[0].contains(part), "{part}: {said}");
    }
    drop(guard);
    // With both of them there is nothing to say.
    let grant =
        format!("GRANT pg_signal_backend, pg_read_all_stats TO {role}; ALTER ROLE {role} INHERIT");
    client.batch_execute(&grant).await?;
    let (lines, _guard) = Lines::of_this_thread();
    fencepost_postgres::PostgresStore::attach(node).await?;
    let said = String::from_utf8(lines.0.lock().unwrap().clone())?;
    assert!(!said.contains("GRANT"), "{said}");
    Ok(())
}

#[tokio::test]
async fn a_role_that_may_make_its_schema_makes_it() -> Result<()> {
    let (database, client, role) = plain_role("maker").await?;
    let grant = format!("GRANT CREATE ON DATABASE {} TO {role}", database.name());
    client.batch_execute(&grant).await?;
    works(in_schema(url_as(&database, &role), "ours")).await?;
    Ok(())
}

#[tokio::test]
async fn a_role_that_may_make_neither_schema_nor_tables_is_told_what_to_grant() -> Result<()> {
    let (database, client, role) = plain_role("nobody").await?;
    let why = refusal(in_schema(url_as(&database, &role), "ours")).await?;
    let wanted = format!("CREATE SCHEMA \"ours\" AUTHORIZATION \"{role}\"");
    assert!(why.contains(&wanted), "{why}");
    let why = refusal(settings(url_as(&database, &role))).await?;
    let wanted = format!("GRANT USAGE, CREATE ON SCHEMA \"public\" TO \"{role}\"");
    assert!(why.contains(&wanted), "{why}");
    let sql = "SELECT count(*) FROM pg_class WHERE relname = 'managed_tx'";
    assert_eq!(client.query_one(sql, &[]).await?.get::<_, i64>(0), 0);
    Ok(())
}

/// The role that migrates owns the tables; the role that runs reads and writes rows, and makes nothing.
#[tokio::test]
async fn a_role_that_may_only_read_and_write_rows_runs_a_migrated_store() -> Result<()> {
    let (database, client, role) = two_roles("dml").await?;
    let of_role = in_schema(url_as(&database, &role), "ours");
    let creates = format!("SELECT has_schema_privilege('{role}', 'ours', 'CREATE')");
    assert!(!client.query_one(&creates, &[]).await?.get::<_, bool>(0));
    works(of_role.clone()).await?;
    // A second start finds nothing to migrate either.
    PostgresStore::open(of_role).await?;
    Ok(())
}

#[tokio::test]
async fn a_right_that_is_missing_is_named() -> Result<()> {
    let (database, client, role) = two_roles("lacking").await?;
    let of_role = in_schema(url_as(&database, &role), "ours");
    let check = async |sql: String, named: &str, grant: &str| -> Result<()> {
        client.batch_execute(&sql).await?;
        let why = refusal(of_role.clone()).await?;
        for part in [named, grant, &role] {
            assert!(why.contains(part), "{part}: {why}");
        }
        Ok(())
    };
    let tables = format!("ALL TABLES IN SCHEMA \"ours\" TO \"{role}\"");
    let sql = format!("REVOKE DELETE, UPDATE ON ours.due_work FROM {role}");
    check(sql, "(UPDATE, DELETE on due_work)", &tables).await?;
    let sql = format!("REVOKE ALL ON ours.refinery_schema_history FROM {role}");
    check(sql, "SELECT on refinery_schema_history", &tables).await?;
    let sql = format!("REVOKE ALL ON SCHEMA ours FROM {role}");
    let grant = format!("GRANT USAGE ON SCHEMA \"ours\" TO \"{role}\"");
    check(sql, "may not use the schema ours", &grant).await
}

/// A newer program is started with the role that runs before anyone has migrated.
#[tokio::test]
async fn a_store_that_must_be_migrated_first_says_so() -> Result<()> {
    let (database, client, role) = two_roles("old").await?;
    let newest = "DELETE FROM ours.refinery_schema_history
                   WHERE version = (SELECT max(version) FROM ours.refinery_schema_history)";
    client.batch_execute(newest).await?;
    let why = refusal(in_schema(url_as(&database, &role), "ours")).await?;
    for part in [
        "run `fencepost migrate`",
        &role,
        "the tables in the schema ours are at version",
    ] {
        assert!(why.contains(part), "{part}: {why}");
    }
    Ok(())
}

/// A superuser's session holds a lane's row, and our role may not end it. The log names the session, and the worker
/// that bid for the lane is free for its other lanes.
#[tokio::test]
async fn a_takeover_that_a_session_blocks_which_may_not_be_terminated_names_it_and_goes_on()
-> Result<()> {
    let (database, client, role) = two_roles("blocked").await?;
    let patience = Duration::from_secs(1);
    let settings = Settings {
        statement_timeout: patience,
        ..in_schema(url_as(&database, &role), "ours")
    };
    let seat = works(settings.clone()).await?;
    let others = seat.store.open_lanes(&[lane(2)]).await?;
    let lock = format!(
        "BEGIN; SELECT FROM ours.signer_lease WHERE lane_id = {} FOR UPDATE",
        seat.held.lane.0
    );
    client.batch_execute(&lock).await?;
    let blocker: i32 = client
        .query_one("SELECT pg_backend_pid()", &[])
        .await?
        .get(0);
    let grant = format!("GRANT pg_read_all_stats TO {role}; ALTER ROLE {role} INHERIT");
    database.connect().await?.batch_execute(&grant).await?;

    let (lines, _guard) = Lines::of_this_thread();
    let store = PostgresStore::open(settings).await?;
    let incarnation = store.join(&seat.holder.node, &url("a")).await?;
    let holder = fencepost_app::ports::Holder {
        incarnation,
        ..seat.holder.clone()
    };
    let bid = Bid {
        lane: seat.held.lane,
        fresh: false,
    };
    let asked = Instant::now();
    let answer = only(store.acquire(&holder, &url("a"), &[bid]).await?);
    assert_eq!(answer, Acquired::Busy);
    // Not the three statement timeouts that the session would wait for a row.
    assert!(asked.elapsed() < patience * 5 / 2, "{:?}", asked.elapsed());
    let said = String::from_utf8(lines.0.lock().unwrap().clone())?;
    let line = said.lines().find(|line| line.contains("takeover blocked"));
    let line = line.context(said.clone())?;
    let superuser: String = client
        .query_one("SELECT current_user::text", &[])
        .await?
        .get(0);
    for part in [
        &format!("backend {blocker} "),
        &format!("role=\"{superuser}\""),
        "SELECT pg_backend_pid()",
    ] {
        assert!(line.contains(part), "{part}: {line}");
    }
    // It is known now: the next bid does not wait for the row.
    let asked = Instant::now();
    assert_eq!(
        only(store.acquire(&holder, &url("a"), &[bid]).await?),
        Acquired::Busy
    );
    assert!(asked.elapsed() < patience / 2, "{:?}", asked.elapsed());
    let other = Bid {
        lane: only(others),
        fresh: false,
    };
    let free = leading(only(store.acquire(&holder, &url("a"), &[other]).await?));
    assert_eq!(free.token.column(), 1);
    client.batch_execute("ROLLBACK").await?;
    let lead = leading(only(store.acquire(&holder, &url("a"), &[bid]).await?));
    assert_eq!(lead.token.column(), seat.held.token.column() + 1);
    Ok(())
}
