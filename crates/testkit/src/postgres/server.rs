//! A running server as seen through its port: databases, connections, backends.

use std::net::{SocketAddr, ToSocketAddrs};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use tokio::task::spawn_blocking;
use tokio_postgres::{Client, Config, NoTls};

use super::unique;

/// Where a PostgreSQL server listens, and as whom we come. A superuser: tests do things to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// A name, or a name and a password after a colon, as it stands in a URL.
    user: String,
    host: String,
    port: u16,
}

/// What can be done to a process of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Freezes it, with all the locks it holds.
    Stop,
    /// Thaws it.
    Continue,
    /// For a backend, this makes the postmaster restart all others as well.
    Kill,
}

/// An empty database of one test. It stays until its server goes: dropping one costs a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Database {
    server: Server,
    name: String,
}

impl Server {
    pub(super) fn local(port: u16) -> Self {
        Self {
            user: "fencepost".into(),
            host: "127.0.0.1".into(),
            port,
        }
    }

    /// Reads `postgres://user@host:port/anything`.
    pub(super) fn parse(url: &str) -> Result<Self> {
        let rest = url
            .strip_prefix("postgres://")
            .or_else(|| url.strip_prefix("postgresql://"));
        let rest = rest.context("does not start with postgres://")?;
        let authority = rest.split(['/', '?']).next().unwrap_or_default();
        let (user, address) = authority.rsplit_once('@').context("names no user")?;
        let (host, port) = address.rsplit_once(':').context("names no port")?;
        Ok(Self {
            user: user.into(),
            host: host.into(),
            port: port.parse()?,
        })
    }

    /// A URL for one of its databases.
    pub fn url(&self, database: &str) -> String {
        let Self { user, host, port } = self;
        format!("postgres://{user}@{host}:{port}/{database}")
    }

    /// The address to put a proxy in front of.
    pub fn addr(&self) -> Result<SocketAddr> {
        let mut found = (self.host.as_str(), self.port).to_socket_addrs()?;
        found
            .next()
            .with_context(|| format!("{} has no address", self.host))
    }

    /// A connection for doing things to the server, fresh for the current runtime.
    pub async fn admin(&self) -> Result<Client> {
        connect(&self.url("postgres")).await
    }

    /// A new, empty database with a name of its own. Many may be made at the same time: nobody can be
    /// connected to `template0`, the one thing that would be in the way.
    pub async fn create_database(&self) -> Result<Database> {
        let name = format!("test_{:x}", unique());
        let admin = self.admin().await?;
        admin
            .batch_execute(&format!("CREATE DATABASE {name} TEMPLATE template0"))
            .await?;
        Ok(Database {
            server: self.clone(),
            name,
        })
    }

    /// Every process that the server lists: clients and its own workers.
    pub async fn backend_pids(&self) -> Result<Vec<i32>> {
        let admin = self.admin().await?;
        let rows = admin
            .query("SELECT pid FROM pg_stat_activity ORDER BY pid", &[])
            .await?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }

    /// Ends one session from the server's side and returns when it is gone.
    pub async fn kill_backend(&self, pid: i32) -> Result<()> {
        let admin = self.admin().await?;
        let row = admin
            .query_one("SELECT pg_terminate_backend($1, 30000)", &[&pid])
            .await?;
        ensure!(row.get::<_, bool>(0), "backend {pid} did not end");
        Ok(())
    }

    /// Signals a process of a server on this machine. We must be root or the server's user.
    pub async fn signal_backend(&self, pid: i32, signal: Signal) -> Result<()> {
        let name = match signal {
            Signal::Stop => "STOP",
            Signal::Continue => "CONT",
            Signal::Kill => "KILL",
        };
        // Of `kill`, only the shell's own is on every machine.
        let line = format!("kill -{name} {pid}");
        let status =
            spawn_blocking(move || Command::new("sh").args(["-c", &line]).status()).await??;
        ensure!(status.success(), "kill -{name} {pid}: {status}");
        Ok(())
    }
}

impl Database {
    /// The name, which no other database of this server has.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The server it is on.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Where to connect.
    pub fn url(&self) -> String {
        self.server.url(&self.name)
    }

    /// Where to connect when something stands in front of the server.
    pub fn url_through(&self, proxy: SocketAddr) -> String {
        let host = proxy.ip().to_string();
        Server {
            host,
            port: proxy.port(),
            user: self.server.user.clone(),
        }
        .url(&self.name)
    }

    /// A session of its own.
    pub async fn connect(&self) -> Result<Client> {
        connect(&self.url()).await
    }
}

/// A session whose connection is driven by a task of the current runtime, until the client is dropped.
pub async fn connect(url: &str) -> Result<Client> {
    let config: Config = url.parse()?;
    let (client, connection) = config
        .connect(NoTls)
        .await
        .with_context(|| url.to_owned())?;
    // A broken connection is what many tests are about; the client reports it to its caller.
    tokio::spawn(async move {
        let _ = connection.await;
    });
    Ok(client)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_found_by_its_url() {
        let check = |url: &str, user: &str, host: &str, port: u16| {
            let expected = Server {
                user: user.into(),
                host: host.into(),
                port,
            };
            assert_eq!(Server::parse(url).unwrap(), expected);
        };
        check(
            "postgres://fencepost@127.0.0.1:5433/postgres",
            "fencepost",
            "127.0.0.1",
            5433,
        );
        check("postgresql://ci:pass@db:5432", "ci:pass", "db", 5432);
        check("postgres://u@h:1/db?sslmode=disable", "u", "h", 1);
        for wrong in ["", "http://u@h:1", "postgres://h:1/db", "postgres://u@h/db"] {
            assert!(Server::parse(wrong).is_err(), "{wrong}");
        }
    }
}
