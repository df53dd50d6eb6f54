//! Connections: what every session is set to, and what is checked before one is used.
//! A server that could lose commits is refused; one that has lost some is held.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use deadpool_postgres::{
    Hook, HookError, Manager, ManagerConfig, Object, Pool, PoolError, QueueMode, RecyclingMethod,
    Runtime,
};
use fencepost_app::ports::{StoreError, Terms};
use tokio::task::JoinSet;
use tokio::time;
use tokio_postgres::config::TargetSessionAttrs;
use tokio_postgres::{Client, Config, Error, NoTls};

use crate::fault::unreached;

/// How to reach the database and how long to wait for it.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `postgres://…`
    pub url: String,
    /// How leases last.
    pub terms: Terms,
    /// Connections that write. Too few: writers wait for each other. Too many: the server's
    /// memory, and locks are held longer.
    pub write_connections: usize,
    /// Connections that only read, so that a slow reader never holds up a writer.
    pub read_connections: usize,
    /// A statement that takes longer is ended by the server; a takeover that is blocked longer
    /// ends its blocker; a reply that is not heard within two of these counts as lost, and no
    /// statement is asked about for longer than four. Too long: one stuck statement delays a
    /// takeover that much. Too short: a busy server cannot finish what it was asked.
    pub statement_timeout: Duration,
    /// Shown in `pg_stat_activity`.
    pub application_name: String,
}

impl Settings {
    /// The defaults for a database.
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            terms: Terms::default(),
            write_connections: 8,
            read_connections: 4,
            statement_timeout: Duration::from_secs(3),
            application_name: "fencepost".to_owned(),
        }
    }

    /// The session settings that every connection starts with, sent with the handshake so that no
    /// statement can run before them.
    pub(crate) fn config(&self, extra: &str) -> Result<Config, StoreError> {
        let mut config: Config = self
            .url
            .parse()
            .map_err(|error| StoreError::Unfit(format!("store.url cannot be read: {error}")))?;
        let timeout = self.statement_timeout;
        let ms = timeout.as_millis();
        // One lane that is held must be told apart from a statement that takes long.
        let lock_ms = (timeout / 2).as_millis();
        let given = config.get_options().unwrap_or_default();
        let options = format!(
            "{given} -c synchronous_commit=on -c statement_timeout={ms} -c lock_timeout={lock_ms} \
             -c idle_in_transaction_session_timeout={ms} -c client_connection_check_interval=1000 \
             -c default_transaction_isolation=read\\ committed -c TimeZone=UTC {extra}"
        );
        config
            .options(options)
            .application_name(&self.application_name)
            .target_session_attrs(TargetSessionAttrs::ReadWrite)
            .connect_timeout(timeout)
            .keepalives_idle(Duration::from_secs(5))
            .keepalives_interval(Duration::from_secs(2))
            .keepalives_retries(3)
            .tcp_user_timeout(timeout * 2);
        Ok(config)
    }
}

/// Writers run only statements of ours that find their rows by index. Their plans are made once,
/// when tables may still be empty, and must stay right when they have grown.
const WRITER: &str =
    "-c plan_cache_mode=force_generic_plan -c enable_seqscan=off -c jit=off -c work_mem=16MB";

/// Readers look after lanes beside the writers: none of them may take all of the server's processors.
const READER: &str = "-c jit=off -c max_parallel_workers_per_gather=0";

/// By twice its own limit the server has ended a statement, and its answer would be here. A network
/// that merely swallows packets would otherwise be waited for without end.
const REPLY_TIMEOUTS: u32 = 2;
/// No call asks again after this many of them. Too many: a caller waits long for "unknown". Too few:
/// a lost reply is not asked for again.
const CALL_TIMEOUTS: u32 = 4;

/// A connection that is older is made anew. Only a new one shows that the address leads to another server now: longer,
/// and a node writes the longer to one that was left behind; shorter, and connecting is felt.
const AGE_MAX: Duration = Duration::from_mins(1);

/// The two pools and what they know of the server.
pub(crate) struct Connections {
    writers: Pool,
    readers: Pool,
    statement_timeout: Duration,
    newest: Arc<Newest>,
}

impl Connections {
    pub(crate) fn new(settings: &Settings) -> Result<Self, StoreError> {
        let newest = Arc::new(Newest::default());
        Ok(Self {
            writers: pool(settings, WRITER, settings.write_connections, &newest)?,
            readers: pool(settings, READER, settings.read_connections, &newest)?,
            statement_timeout: settings.statement_timeout,
            newest,
        })
    }

    pub(crate) async fn writer(&self) -> Result<Object, StoreError> {
        self.take(&self.writers).await
    }

    pub(crate) async fn reader(&self) -> Result<Object, StoreError> {
        self.take(&self.readers).await
    }

    /// A session outside the pools, for a statement that may wait longer than theirs. It is closed
    /// when the set is dropped, whatever it is doing.
    pub(crate) async fn session(
        &self,
        config: &Config,
    ) -> Result<(Client, JoinSet<()>), StoreError> {
        let (client, connection) = config
            .connect(NoTls)
            .await
            .map_err(|error| StoreError::Unavailable(error.into()))?;
        let mut wire = JoinSet::new();
        wire.spawn(async move {
            // Whoever waits for an answer is told.
            let _ = connection.await;
        });
        inspect(&client, &self.newest)
            .await
            .map_err(|error| unreached(PoolError::PostCreateHook(error)))?;
        Ok((client, wire))
    }

    /// The pool's own limits do not cover the inspection of a new connection.
    async fn take(&self, pool: &Pool) -> Result<Object, StoreError> {
        let limit = self.statement_timeout * REPLY_TIMEOUTS;
        match time::timeout(limit, pool.get()).await {
            Ok(client) => client.map_err(unreached),
            Err(silence) => Err(StoreError::Unavailable(silence.into())),
        }
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

/// The newest timeline that any connection has led to. A server of an older one has been left
/// behind by a failover, and so have the connections to it that are still open.
#[derive(Default)]
struct Newest(Mutex<Timeline>);

#[derive(Default, Clone, Copy)]
struct Timeline {
    number: i64,
    /// When it took the place of an older one.
    since: Option<Instant>,
}

impl Newest {
    /// Notes a server's timeline; false where a newer one is known.
    fn admit(&self, number: i64) -> bool {
        let mut newest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if number > newest.number {
            let since = (newest.number > 0).then(Instant::now);
            *newest = Timeline { number, since };
        }
        number == newest.number
    }

    fn outdates(&self, created: Instant) -> bool {
        let newest = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        newest.since.is_some_and(|since| created < since)
    }
}

fn pool(
    settings: &Settings,
    extra: &str,
    size: usize,
    newest: &Arc<Newest>,
) -> Result<Pool, StoreError> {
    let config = settings.config(extra)?;
    let how = ManagerConfig {
        recycling_method: RecyclingMethod::Fast,
    };
    let seen = Arc::clone(newest);
    let check = Hook::async_fn(move |client, _| {
        let seen = Arc::clone(&seen);
        Box::pin(async move { inspect(client, &seen).await })
    });
    let seen = Arc::clone(newest);
    let left_behind = Hook::sync_fn(move |_, metrics| {
        if seen.outdates(metrics.created) {
            return Err(HookError::message("it was made before a failover"));
        }
        if metrics.created.elapsed() > AGE_MAX {
            return Err(HookError::message("it is looked again where it leads"));
        }
        Ok(())
    });
    Pool::builder(Manager::from_config(config, NoTls, how))
        .max_size(size)
        // What was used last is used next: its session has the tables' rules and the statements' plans at hand.
        .queue_mode(QueueMode::Lifo)
        .wait_timeout(Some(settings.statement_timeout * 3 / 2))
        .create_timeout(Some(settings.statement_timeout * 3 / 2))
        .recycle_timeout(Some(settings.statement_timeout))
        .post_create(check)
        .pre_recycle(left_behind)
        .runtime(Runtime::Tokio1)
        .build()
        .map_err(|error| StoreError::Unfit(format!("no connection pool: {error}")))
}

const INSPECT: &str = "
SELECT current_setting('server_version_num')::int,
       current_setting('fsync') = 'on' AND current_setting('full_page_writes') = 'on',
       pg_is_in_recovery(),
       (SELECT system_identifier::text FROM pg_control_system()),
       CASE WHEN pg_is_in_recovery() THEN 0
       ELSE ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint END,
       to_regclass('store_identity') IS NOT NULL";

/// Rule: one primary. A new connection is used only when it leads to a server that keeps commits
/// and that is not older than one we have talked to; a server of another timeline than the store
/// remembers is a failover, and everything is held until an operator has looked.
async fn inspect(client: &Client, newest: &Newest) -> Result<(), HookError> {
    let row = client
        .query_one(INSPECT, &[])
        .await
        .map_err(HookError::Backend)?;
    let unfit = |why: String| Err(HookError::message(why));
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
        return unfit("the server is a standby".to_owned());
    }
    let timeline: i64 = row.get(4);
    if !newest.admit(timeline) {
        return unfit(format!(
            "timeline {timeline} is older than one seen before: a stale primary"
        ));
    }
    // Before the first migration there is nothing that could have been lost.
    if row.get(5) {
        let system: &str = row.get(3);
        identify(client, system, timeline)
            .await
            .map_err(HookError::Backend)?;
    }
    Ok(())
}

/// Whoever notices first holds all lanes in the same statement; tokens leap so far that none which
/// the lost writes may have given out is ever given again.
const HOLD: &str = "
WITH changed AS (
    UPDATE store_identity
       SET system_identifier = $1, timeline = $2, changed_at = clock_timestamp()
     WHERE (system_identifier, timeline) IS DISTINCT FROM ($1, $2)
    RETURNING 1
), held AS (
    UPDATE signer_lease
       SET held = true, owner_node = NULL, owner_incarnation = NULL, owner_url = NULL,
           expires_at = clock_timestamp(), fencing_token = fencing_token + 1000000,
           updated_at = clock_timestamp()
     WHERE EXISTS (SELECT FROM changed)
    RETURNING 1
), epoch AS (
    UPDATE feed_head SET epoch = epoch + 1 WHERE EXISTS (SELECT FROM changed)
)
SELECT (SELECT count(*) FROM held) FROM changed";

async fn identify(client: &Client, system: &str, timeline: i64) -> Result<(), Error> {
    // Reading first keeps the common case free of locks.
    let known = "SELECT FROM store_identity WHERE (system_identifier, timeline) = ($1, $2)";
    if client
        .query_opt(known, &[&system, &timeline])
        .await?
        .is_some()
    {
        return Ok(());
    }
    let first = "INSERT INTO store_identity (system_identifier, timeline) VALUES ($1, $2)
                 ON CONFLICT DO NOTHING";
    client.execute(first, &[&system, &timeline]).await?;
    if let Some(row) = client.query_opt(HOLD, &[&system, &timeline]).await? {
        let lanes: i64 = row.get(0);
        tracing::error!(
            lanes,
            timeline,
            "the database was failed over: all lanes are held until `signers reconcile --after-failover`"
        );
    }
    Ok(())
}
