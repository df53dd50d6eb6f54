//! Connections: what every session is set to, and what is checked before one is used.
//! A server that could lose commits is refused; one that has lost some is held.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use deadpool_postgres::{
    Hook, HookError, Manager, ManagerConfig, Object, Pool, RecyclingMethod, Runtime,
};
use fencepost_app::ports::{StoreError, Terms};
use tokio_postgres::config::TargetSessionAttrs;
use tokio_postgres::{Client, Config, NoTls};

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
    /// ends its blocker. Too long: one stuck statement delays a takeover that much.
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
        let given = config.get_options().unwrap_or_default();
        let options = format!(
            "{given} -c synchronous_commit=on -c statement_timeout={ms} -c lock_timeout={ms} \
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

const READER: &str = "-c jit=off";

/// The two pools and what they know of the server.
pub(crate) struct Connections {
    pub(crate) writers: Pool,
    pub(crate) readers: Pool,
}

impl Connections {
    pub(crate) fn new(settings: &Settings) -> Result<Self, StoreError> {
        let seen = Arc::new(AtomicI64::new(0));
        Ok(Self {
            writers: pool(settings, WRITER, settings.write_connections, &seen)?,
            readers: pool(settings, READER, settings.read_connections, &seen)?,
        })
    }

    pub(crate) async fn writer(&self) -> Result<Object, StoreError> {
        self.writers.get().await.map_err(unreached)
    }

    pub(crate) async fn reader(&self) -> Result<Object, StoreError> {
        self.readers.get().await.map_err(unreached)
    }
}

fn pool(
    settings: &Settings,
    extra: &str,
    size: usize,
    seen: &Arc<AtomicI64>,
) -> Result<Pool, StoreError> {
    let config = settings.config(extra)?;
    let how = ManagerConfig {
        recycling_method: RecyclingMethod::Fast,
    };
    let seen = Arc::clone(seen);
    let check = Hook::async_fn(move |client, _| {
        let seen = Arc::clone(&seen);
        Box::pin(async move { inspect(client, &seen).await.map_err(HookError::message) })
    });
    Pool::builder(Manager::from_config(config, NoTls, how))
        .max_size(size)
        .wait_timeout(Some(settings.statement_timeout * 2))
        .create_timeout(Some(settings.statement_timeout * 2))
        .recycle_timeout(Some(settings.statement_timeout))
        .post_create(check)
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
async fn inspect(client: &Client, seen: &AtomicI64) -> Result<(), String> {
    let row = client
        .query_one(INSPECT, &[])
        .await
        .map_err(|error| error.to_string())?;
    let version: i32 = row.get(0);
    if version < 140_000 {
        return Err(format!(
            "PostgreSQL 14 or newer is needed, this is {version}"
        ));
    }
    let durable: bool = row.get(1);
    if !durable {
        return Err("fsync or full_page_writes is off: acknowledged writes could be lost".into());
    }
    if row.get(2) {
        return Err("the server is a standby".into());
    }
    let timeline: i64 = row.get(4);
    let newest = seen.fetch_max(timeline, Ordering::SeqCst);
    if timeline < newest {
        return Err(format!(
            "timeline {timeline} is older than {newest}: a stale primary"
        ));
    }
    // Before the first migration there is nothing that could have been lost.
    if row.get(5) {
        let system: &str = row.get(3);
        identify(client, system, timeline)
            .await
            .map_err(|error| error.to_string())?;
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

async fn identify(
    client: &Client,
    system: &str,
    timeline: i64,
) -> Result<(), tokio_postgres::Error> {
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
