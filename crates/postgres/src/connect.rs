//! Connections: which servers are trusted with them, and how long anything is waited for.
//! A server that could lose commits is refused; one that has lost some is held.

use std::sync::Arc;
use std::time::Duration;

use fencepost_app::ports::{StoreError, Terms, is_for_client};
use fencepost_app::store_memory::StoreMemory;
use tokio::time;
use tokio_postgres::{Client, Error};

use crate::failover::{self, Failover, Known};
use crate::fault::unreached;
use crate::password::Password;
use crate::pool::{Object, Pool, Session, pool};
use crate::reach::{Reach, STANDBY, Unreached, Wanted};
use crate::schema;
use crate::session::Purpose;
use crate::tls::Tls;
use crate::witness::{Generation, Memory};

/// How to reach the database and how long to wait for it.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `postgres://…`
    pub url: String,
    /// The schema that holds all our tables.
    pub schema: String,
    /// What is said about TLS beside the URL, and stands above it.
    pub tls: Tls,
    /// The role's password.
    pub password: Password,
    /// How leases last.
    pub terms: Terms,
    /// Connections that write. Too few: writers wait for each other. Too many: the server's
    /// memory, and locks are held longer.
    pub write_connections: usize,
    /// Connections that only read, so that a slow reader never holds up a writer.
    pub read_connections: usize,
    /// Connections on which clients of the API read, so that no client holds up a lane that reads.
    pub client_connections: usize,
    /// A statement that takes longer is ended by the server; a takeover that is blocked longer
    /// ends its blocker; a reply that is not heard within two of these counts as lost, and no
    /// statement is asked about for longer than four. Too long: one stuck statement delays a
    /// takeover that much. Too short: a busy server cannot finish what it was asked.
    pub statement_timeout: Duration,
    /// Shown in `pg_stat_activity`.
    pub application_name: String,
    /// What happens to lanes after the database was failed over.
    pub failover: Failover,
    /// What this node knows of the store from before.
    pub kept: Arc<StoreMemory>,
}

impl Settings {
    /// The defaults for a database.
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            schema: schema::USUAL.to_owned(),
            tls: Tls::default(),
            password: Password::default(),
            terms: Terms::default(),
            write_connections: 8,
            read_connections: 4,
            client_connections: 4,
            statement_timeout: Duration::from_secs(3),
            application_name: "fencepost".to_owned(),
            failover: Failover::default(),
            kept: Arc::new(StoreMemory::unkept()),
        }
    }
}

/// By twice its own limit the server has ended a statement, and its answer would be here. A network
/// that merely swallows packets would otherwise be waited for without end.
pub(crate) const REPLY_TIMEOUTS: u32 = 2;
/// No call asks again after this many of them. Too many: a caller waits long for "unknown". Too few:
/// a lost reply is not asked for again.
const CALL_TIMEOUTS: u32 = 4;

/// The pools and what they know of the server.
pub(crate) struct Connections {
    writers: Pool,
    readers: Pool,
    /// Readers for clients of the API.
    clients: Pool,
    statement_timeout: Duration,
    reach: Arc<Reach>,
    pub(crate) memory: Arc<Memory>,
}

impl Connections {
    pub(crate) fn new(settings: &Settings) -> Result<Self, StoreError> {
        schema::check_schema(&settings.schema)
            .map_err(|why| StoreError::Unfit(format!("store.schema: {why}")))?;
        let memory = Arc::new(Memory::new(
            settings.failover,
            settings.terms,
            Arc::clone(&settings.kept),
        ));
        let reach = Arc::new(Reach::new(settings, Arc::clone(&memory))?);
        let pool = |purpose, size| pool(settings, purpose, size, &reach, &memory);
        Ok(Self {
            writers: pool(Purpose::Write, settings.write_connections)?,
            readers: pool(Purpose::Read, settings.read_connections)?,
            clients: pool(Purpose::Read, settings.client_connections)?,
            statement_timeout: settings.statement_timeout,
            reach,
            memory,
        })
    }

    pub(crate) async fn writer(&self) -> Result<Object, StoreError> {
        self.take(&self.writers).await
    }

    pub(crate) async fn reader(&self) -> Result<Object, StoreError> {
        let pool = if is_for_client() {
            &self.clients
        } else {
            &self.readers
        };
        self.take(pool).await
    }

    /// A session outside the pools. It is closed when it is dropped, whatever it is doing.
    pub(crate) async fn session(&self, wanted: &Wanted<'_>) -> Result<Session, StoreError> {
        Ok(self.reach.session(wanted).await?)
    }

    /// The pool's own limits are for one step each, and a connection that is found too old is followed by a new one.
    async fn take(&self, pool: &Pool) -> Result<Object, StoreError> {
        let limit = self.statement_timeout * REPLY_TIMEOUTS;
        match time::timeout(limit, pool.get()).await {
            Ok(client) => client.map_err(unreached),
            Err(silence) => Err(StoreError::Unavailable(silence.into())),
        }
    }

    /// The newest server's. A session that is taken after this leads to that server, or to a newer one.
    pub(crate) fn generation(&self) -> Generation {
        self.memory.generation()
    }

    /// When a call is over that begins now.
    pub(crate) fn call_deadline(&self) -> time::Instant {
        time::Instant::now() + self.statement_timeout * CALL_TIMEOUTS
    }

    /// When the reply to what is sent now counts as lost.
    pub(crate) fn reply_deadline(&self, call: time::Instant) -> time::Instant {
        call.min(time::Instant::now() + self.statement_timeout * REPLY_TIMEOUTS)
    }
}

const INSPECT: &str = "
SELECT current_setting('server_version_num')::int,
       current_setting('fsync') = 'on' AND current_setting('full_page_writes') = 'on',
       pg_is_in_recovery(),
       (SELECT system_identifier FROM pg_control_system()),
       CASE WHEN pg_is_in_recovery() THEN 0
       ELSE ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint END,
       to_regclass('store_name') IS NOT NULL";

/// What a new session has found.
pub(crate) enum Look {
    /// Our tables are not there, or older than the names of servers: the session that migrates comes first.
    Unmigrated,
    /// The server that wrote last, so far as it knows itself.
    Known(Known),
    /// A server of another timeline than the store remembers: a failover that no node has noted yet.
    Changed { system: i64, timeline: i64 },
}

/// Rule: one primary. A new connection is used only when it leads to a server that keeps commits
/// and that is not older than one we have talked to; a server of another timeline than the store
/// remembers is a failover, and lanes are held as `failover` says.
pub(crate) async fn inspect(client: &Client, memory: &Memory) -> Result<Look, Unreached> {
    let failed = |error: Error| Unreached::of(&error);
    let row = client.query_one(INSPECT, &[]).await.map_err(failed)?;
    let unfit = |why: String| Err(Unreached::unfit(why));
    let version: i32 = row.get(0);
    if version < 140_000 {
        return unfit(format!(
            "PostgreSQL 14 or newer is needed, this is {version}"
        ));
    }
    let durable: bool = row.get(1);
    if !durable {
        let why = "fsync or full_page_writes is off: acknowledged writes could be lost";
        return unfit(why.to_owned());
    }
    if row.get(2) {
        return Err(Unreached::down(STANDBY.to_owned()));
    }
    let (system, timeline): (i64, i64) = (row.get(3), row.get(4));
    // Before anything is written there.
    if memory.is_stale(system, timeline) {
        return Err(stale(timeline));
    }
    if !row.get::<_, bool>(5) {
        return Ok(Look::Unmigrated);
    }
    let known = failover::identify(client, system, timeline).await;
    Ok(match known.map_err(failed)? {
        Some(known) => Look::Known(known),
        None => Look::Changed { system, timeline },
    })
}

/// A server whose place another one has taken.
pub(crate) fn stale(timeline: i64) -> Unreached {
    Unreached::unfit(format!(
        "a stale primary: its timeline is {timeline}, and this node or another one knows a newer server of this store"
    ))
}
