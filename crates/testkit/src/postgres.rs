//! A real PostgreSQL for tests. [`Cluster`] is a server of our own that may be stopped, crashed and
//! copied; [`shared`] is the one server that all ordinary tests make their databases on.
//! Nothing here is tied to a tokio runtime: each `#[tokio::test]` has its own.

mod binaries;
mod home;
mod supervisor;
mod server;
mod standby;
mod pgbouncer;

use std::net::{Ipv4Addr, TcpListener};
use std::ops::Deref;
use std::path::Path;
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail};
use tokio::sync::OnceCell;
use tokio::task::spawn_blocking;

use home::Home;
use supervisor::Supervisor;

pub use pgbouncer::{PgBouncer, PoolMode};
pub use server::{Database, Server, Signal, connect};
pub use standby::Standby;

/// Names a server that already runs for the whole test run, as `postgres://user@host:port/postgres`.
pub const SHARED_SERVER: &str = "FENCEPOST_TEST_PG";

/// Durability is what many tests are about, so `fsync` and its friends stay on.
const SETTINGS: [(&str, &str); 11] = [
    ("fsync", "on"),
    ("synchronous_commit", "on"),
    ("full_page_writes", "on"),
    ("listen_addresses", "127.0.0.1"),
    // A whole test binary shares one server, with a few connections per test.
    ("max_connections", "300"),
    ("shared_buffers", "256MB"),
    ("wal_level", "replica"),
    ("max_wal_senders", "10"),
    ("hot_standby", "on"),
    // Tests that provoke a deadlock should not wait a second for it to be found.
    ("deadlock_timeout", "200ms"),
    ("log_line_prefix", "%m [%p] %a "),
];

/// How often a port that was free a moment ago may turn out to be taken before we give up.
const PORT_TRIES: usize = 20;

/// What a caller may change about a [`Cluster`].
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Lines for `postgresql.conf`, name and value; they win over ours.
    pub settings: Vec<(String, String)>,
}

/// How a server goes down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Rolls back and disconnects everyone, then writes a checkpoint.
    Fast,
    /// Like a power cut: no checkpoint, and the next start recovers from the log.
    Immediate,
}

/// A PostgreSQL server in its own temporary directory. Dropping it stops the server and removes the
/// directory, and so does the end of this process, however it ends.
#[derive(Debug)]
pub struct Cluster {
    server: Server,
    supervisor: Arc<Supervisor>,
}

/// Everything that can be done to a server without stopping it.
impl Deref for Cluster {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

impl Cluster {
    /// Makes a new, empty server and starts it.
    pub async fn start(options: Options) -> Result<Self> {
        Self::start_with(options, vec![]).await
    }

    /// The same with files in its data directory, name and contents: `pg_hba.conf`, `server.key`.
    pub async fn start_with(options: Options, files: Vec<(String, String)>) -> Result<Self> {
        spawn_blocking(move || {
            let supervisor = Supervisor::spawn()?;
            supervisor.order("init")?;
            let theirs = options
                .settings
                .iter()
                .map(|(name, value)| (&**name, &**value));
            configure(supervisor.home(), SETTINGS.into_iter().chain(theirs))?;
            for (name, contents) in &files {
                supervisor.home().write(&format!("data/{name}"), contents)?;
            }
            Self::first_start(supervisor, free_port)
        })
        .await?
    }

    /// The port is settled here, by trying: only the server itself can tell that a port was free.
    fn first_start(supervisor: Supervisor, mut pick: impl FnMut() -> Result<u16>) -> Result<Self> {
        let home = supervisor.home();
        let sockets = home
            .path()
            .to_str()
            .context("the directory's name is not UTF-8")?;
        configure(home, [("unix_socket_directories", sockets)])?;
        for _ in 0..PORT_TRIES {
            let port = pick()?;
            configure(home, [("port", port.to_string().as_str())])?;
            match supervisor.order("start") {
                Ok(()) => {
                    let server = Server::local(port);
                    return Ok(Self {
                        server,
                        supervisor: Arc::new(supervisor),
                    });
                }
                Err(_) if home.log().contains("Address already in use") => {
                    home.forget_log()?;
                }
                Err(error) => return Err(error),
            }
        }
        bail!("{PORT_TRIES} free ports in a row were taken before PostgreSQL could listen on them")
    }

    /// Stops the server and returns when it is down.
    pub async fn stop(&self, how: Stop) -> Result<()> {
        self.order(match how {
            Stop::Fast => "stop fast",
            Stop::Immediate => "stop immediate",
        })
        .await
    }

    /// Starts the server on the same port and data, and returns when it accepts connections.
    pub async fn start_again(&self) -> Result<()> {
        self.order("start").await
    }

    /// A crash and its recovery.
    pub async fn restart_immediate(&self) -> Result<()> {
        self.stop(Stop::Immediate).await?;
        self.start_again().await
    }

    /// The directory that holds everything of this server.
    pub fn directory(&self) -> &Path {
        self.supervisor.home().path()
    }

    /// What the server has logged so far.
    pub fn log(&self) -> String {
        self.supervisor.home().log()
    }

    /// The postmaster first, then the processes it knows about.
    pub async fn server_pids(&self) -> Result<Vec<i32>> {
        let mut pids = vec![self.supervisor.home().postmaster()?];
        pids.extend(self.backend_pids().await?);
        Ok(pids)
    }

    async fn order(&self, line: &'static str) -> Result<()> {
        let supervisor = self.supervisor.clone();
        spawn_blocking(move || supervisor.order(line)).await?
    }
}

/// The server for tests that only need a database: the one named by [`SHARED_SERVER`], else one that
/// this process starts on first use and that goes away with the process.
pub async fn shared() -> Result<&'static Server> {
    static OURS: OnceCell<Cluster> = OnceCell::const_new();
    static GIVEN: OnceCell<Server> = OnceCell::const_new();
    if let Ok(url) = std::env::var(SHARED_SERVER) {
        let parse = async || Server::parse(&url).with_context(|| format!("{SHARED_SERVER}={url}"));
        return GIVEN.get_or_try_init(parse).await;
    }
    let start = || Cluster::start(Options::default());
    Ok(OURS.get_or_try_init(start).await?)
}

/// Later lines win in `postgresql.conf`, so nothing that stands there need be removed.
fn configure<'a>(
    home: &Home,
    settings: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<()> {
    let line = |(name, value): (&str, &str)| format!("{name} = '{}'\n", value.replace('\'', "''"));
    home.append_settings(&settings.into_iter().map(line).collect::<String>())
}

/// Ports below the range from which systems serve outgoing connections: otherwise one of those could
/// sit on the port while a stopped server is about to start again.
fn free_port() -> Result<u16> {
    const FIRST: u16 = 20_000;
    const COUNT: u16 = 12_000;
    for _ in 0..COUNT {
        let port = FIRST + u16::try_from(unique() % u64::from(COUNT))?;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no free port between {FIRST} and {}", FIRST + COUNT)
}

/// A number that no other call has, in this process or in one that runs beside it.
pub(crate) fn unique() -> u64 {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let nanos = SystemTime::UNIX_EPOCH
        .elapsed()
        .unwrap_or(Duration::ZERO)
        .subsec_nanos();
    let call = CALLS.fetch_add(1, Ordering::Relaxed);
    let bits_20 = |number: u32| u64::from(number & 0xF_FFFF);
    // The time is for process ids that come round again while a server lives.
    (u64::from(process::id()) << 40) | (bits_20(call) << 20) | bits_20(nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_port_that_was_taken_in_between_is_passed_over() -> Result<()> {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let taken_port = taken.local_addr()?.port();
        let mut picks = [taken_port, taken_port, free_port()?].into_iter();
        let supervisor = Supervisor::spawn()?;
        supervisor.order("init")?;
        let pick = || picks.next().context("no port is left");
        let cluster = Cluster::first_start(supervisor, pick)?;
        cluster.create_database().await?.connect().await?;
        assert_ne!(cluster.addr()?.port(), taken_port);
        Ok(())
    }
}
