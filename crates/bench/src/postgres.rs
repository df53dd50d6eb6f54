//! The PostgreSQL that is measured: a server of our own with stated settings, or one that we are given. Every
//! measurement has a database of its own, and none of them is left behind.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use fencepost_testkit::postgres::{Cluster, Options, connect};
use tokio::sync::OnceCell;
use tokio_postgres::Client;
use url::Url;

use crate::process::family_cpu_seconds;

/// What differs from the defaults of PostgreSQL and of the testkit. Checkpoints are kept out of short
/// measurements; what makes a commit durable is on, as it is for users.
const SETTINGS: [(&str, &str); 7] = [
    ("fsync", "on"),
    ("synchronous_commit", "on"),
    ("full_page_writes", "on"),
    ("shared_buffers", "256MB"),
    ("max_wal_size", "4GB"),
    ("min_wal_size", "2GB"),
    ("deadlock_timeout", "1s"),
];

/// What is told of every server.
const TOLD: [&str; 10] = [
    "server_version",
    "fsync",
    "synchronous_commit",
    "full_page_writes",
    "shared_buffers",
    "max_wal_size",
    "min_wal_size",
    "wal_sync_method",
    "wal_level",
    "max_connections",
];

/// So many files of the log are made beforehand, as a server has them that has run for a while. A new one is written
/// full of zeros first, which a server that has run for a while does not do: it uses old ones again.
const LOG_FILES: usize = 64;
const FILL_LOG_FILE: &str =
    "SELECT pg_logical_emit_message(false, 'bench', ''); SELECT pg_switch_wal()";

/// Waits until each session of a database is gone.
const DISCONNECT: &str =
    "SELECT pg_terminate_backend(pid, 30000) FROM pg_stat_activity WHERE datname = $1";

/// The server.
pub(crate) struct Postgres {
    /// Stopped and removed with this.
    own: Option<Cluster>,
    /// A database from which others can be made.
    home: Url,
    postmaster: Option<u32>,
    /// Makes names of databases differ from those of other runs.
    stem: String,
    made: AtomicU64,
    model: OnceCell<String>,
}

impl Postgres {
    /// Starts one, or takes the one that is given.
    pub(crate) async fn start(given: Option<&str>) -> Result<Self> {
        let (own, home) = match given {
            Some(url) => (None, url.to_owned()),
            None => {
                let pair = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
                let settings = SETTINGS.map(pair).into();
                let cluster = Cluster::start(Options { settings }).await?;
                let url = cluster.url("postgres");
                (Some(cluster), url)
            }
        };
        let postmaster = match &own {
            Some(cluster) => cluster.server_pids().await?.first().copied(),
            None => None,
        };
        let home = Url::parse(&home).context("the store's URL")?;
        connect(home.as_str()).await.context("the store")?;
        if own.is_some() {
            let client = connect(home.as_str()).await?;
            for _ in 0..LOG_FILES {
                client.batch_execute(FILL_LOG_FILE).await?;
            }
        }
        let nanos = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos();
        Ok(Self {
            own,
            home,
            postmaster: postmaster.and_then(|pid| pid.try_into().ok()),
            stem: format!("fencepost_bench_{nanos:x}"),
            made: AtomicU64::new(0),
            model: OnceCell::new(),
        })
    }

    /// A new database with our schema and nothing in it: a copy of one that was brought up to date once.
    pub(crate) async fn database(&self) -> Result<String> {
        let model = self.model.get_or_try_init(|| self.make_model()).await?;
        if self.own.is_some() {
            // What was written before is none of the next one's, and files of the log are used again.
            self.admin().await?.batch_execute("CHECKPOINT").await?;
        }
        let name = self.copy(model).await?;
        Ok(self.url(&name))
    }

    async fn make_model(&self) -> Result<String> {
        let name = self.copy("template0").await?;
        let settings = fencepost_postgres::Settings::new(self.url(&name));
        drop(fencepost_postgres::PostgresStore::open(settings).await?);
        // Only a database to which nobody is connected can be copied.
        self.admin().await?.query(DISCONNECT, &[&name]).await?;
        Ok(name)
    }

    async fn copy(&self, model: &str) -> Result<String> {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}_{number}", self.stem);
        let line = format!("CREATE DATABASE {name} TEMPLATE {model}");
        self.admin().await?.batch_execute(&line).await?;
        Ok(name)
    }

    fn url(&self, database: &str) -> String {
        let mut url = self.home.clone();
        url.set_path(database);
        url.into()
    }

    pub(crate) async fn admin(&self) -> Result<Client> {
        connect(self.home.as_str()).await
    }

    /// CPU seconds of all its processes; unknown for a server that is not ours.
    pub(crate) fn cpu_seconds(&self) -> Option<f64> {
        self.postmaster.map(family_cpu_seconds)
    }

    /// Whose server it is, and how it is set.
    pub(crate) async fn settings(&self) -> Result<BTreeMap<&'static str, String>> {
        let admin = self.admin().await?;
        let mut told = BTreeMap::new();
        for name in TOLD {
            let row = admin
                .query_one("SELECT current_setting($1)", &[&name])
                .await?;
            told.insert(name, row.get(0));
        }
        let whose = if self.own.is_some() { "own" } else { "given" };
        told.insert("server", whose.to_owned());
        Ok(told)
    }

    /// Removes what was made. Our own server goes as a whole; somebody else's keeps nothing of ours.
    pub(crate) async fn end(self) -> Result<()> {
        if self.own.is_some() {
            return Ok(());
        }
        let admin = self.admin().await?;
        for number in 0..self.made.load(Ordering::Relaxed) {
            let line = format!(
                "DROP DATABASE IF EXISTS {}_{number} WITH (FORCE)",
                self.stem
            );
            admin.batch_execute(&line).await?;
        }
        Ok(())
    }
}
