//! Stops a chosen session in the middle of its statement, for race tests: a trigger waits for an
//! advisory lock, the gate, which the test holds while others overtake.

use anyhow::{Result, ensure};
use tokio_postgres::Client;

use crate::postgres::{connect, unique};
use crate::wait;

/// Where in a statement the gate stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// At each row that the statement touches.
    Row,
    /// Once per statement.
    Statement,
}

/// Which statements come to the gate.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The table, as SQL.
    pub table: &'a str,
    /// As in `CREATE TRIGGER`: `BEFORE INSERT OR UPDATE`, `AFTER UPDATE OF state`.
    pub timing: &'a str,
    /// Per row or per statement.
    pub level: Level,
    /// A trigger's `WHEN`: it may look at `NEW` and `OLD` where the timing and level have them. See
    /// also [`is_session`].
    pub when: Option<&'a str>,
}

/// A condition for [`Place::when`] that only sessions with this `application_name` meet.
pub fn is_session(application_name: &str) -> String {
    format!(
        "current_setting('application_name') = '{}'",
        application_name.replace('\'', "''")
    )
}

/// A gate in one database, open at first. Dropping it opens it; the trigger stays.
#[derive(Debug)]
pub struct Gate {
    /// Holds the lock while the gate is closed.
    keeper: Client,
    key: i64,
    closed: bool,
}

impl Gate {
    /// Builds the gate in the database behind the URL. Waits for transactions that use the table.
    pub async fn install(url: &str, place: Place<'_>) -> Result<Self> {
        let keeper = connect(url).await?;
        let key = i64::try_from(unique())?;
        let Place {
            table,
            timing,
            level,
            when,
        } = place;
        let level = match level {
            Level::Row => "ROW",
            Level::Statement => "STATEMENT",
        };
        let when = when
            .map(|condition| format!("WHEN ({condition})"))
            .unwrap_or_default();
        // Whoever is through no longer holds the lock, so the gate can be closed behind it.
        keeper
            .batch_execute(&format!(
                "CREATE FUNCTION fencepost_gate_{key}() RETURNS trigger LANGUAGE plpgsql AS $$
                 BEGIN
                     PERFORM pg_advisory_lock_shared({key});
                     PERFORM pg_advisory_unlock_shared({key});
                     IF TG_OP = 'DELETE' THEN RETURN OLD; END IF;
                     RETURN NEW;
                 END $$;
                 CREATE TRIGGER fencepost_gate_{key} {timing} ON {table} FOR EACH {level} {when}
                 EXECUTE FUNCTION fencepost_gate_{key}();
                 SET lock_timeout = '{}ms'",
                wait::PATIENCE.as_millis()
            ))
            .await?;
        Ok(Self {
            keeper,
            key,
            closed: false,
        })
    }

    /// From now on, statements stop at the gate.
    pub async fn close(&mut self) -> Result<()> {
        ensure!(!self.closed, "the gate is closed already");
        self.keeper
            .execute("SELECT pg_advisory_lock($1)", &[&self.key])
            .await?;
        self.closed = true;
        Ok(())
    }

    /// Lets all pass who wait, and all who come.
    pub async fn open(&mut self) -> Result<()> {
        let row = self
            .keeper
            .query_one("SELECT pg_advisory_unlock($1)", &[&self.key])
            .await?;
        ensure!(row.get::<_, bool>(0), "the gate is open already");
        self.closed = false;
        Ok(())
    }

    /// Returns when a session waits at the gate, with the pid of its backend.
    pub async fn wait_for_waiter(&self) -> Result<i32> {
        Ok(self.wait_for_waiters(1).await?[0])
    }

    /// Returns when this many sessions wait at the gate, with the pids of their backends.
    pub async fn wait_for_waiters(&self, count: usize) -> Result<Vec<i32>> {
        wait::until("sessions wait at the gate", || async {
            let rows = self
                .keeper
                .query(
                    "SELECT pid FROM pg_locks
                     WHERE locktype = 'advisory' AND NOT granted AND objsubid = 1
                       AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
                       AND (classid::bigint << 32) | objid::bigint = $1
                     ORDER BY pid",
                    &[&self.key],
                )
                .await?;
            let pids: Vec<i32> = rows.iter().map(|row| row.get(0)).collect();
            Ok((pids.len() >= count).then_some(pids))
        })
        .await
    }
}

/// The process on the server that serves this session.
pub async fn backend_pid(client: &Client) -> Result<i32> {
    Ok(client
        .query_one("SELECT pg_backend_pid()", &[])
        .await?
        .get(0))
}

/// Returns when the backend waits for a lock that another session holds. Ask through a session of a
/// different backend.
pub async fn wait_until_blocked(client: &Client, pid: i32) -> Result<()> {
    wait::until("the backend is blocked", || async {
        let row = client
            .query_one("SELECT cardinality(pg_blocking_pids($1)) > 0", &[&pid])
            .await?;
        Ok(row.get::<_, bool>(0).then_some(()))
    })
    .await
}
