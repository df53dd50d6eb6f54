//! A real PgBouncer in front of a server. Like PostgreSQL it refuses to run as root.

use std::env;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use tokio::net::TcpStream;

use super::home::{Home, User};
use super::{PORT_TRIES, Server, free_port};
use crate::wait;

/// Runs PgBouncer until stdin ends, which it does with the test process, however that ends.
const SCRIPT: &str = r#"
cd "$2" || exit 1
trap '' PIPE HUP INT TERM
"$1" -q pgbouncer.ini </dev/null >>programs.log 2>&1 &
cat >/dev/null
kill -KILL $!
wait $!
cd / && rm -rf "$2"
"#;

/// When a client's server session goes back to the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolMode {
    /// When the client leaves.
    Session,
    /// After each transaction.
    Transaction,
}

/// A running PgBouncer, with its usual settings: it takes no `options`.
#[derive(Debug)]
pub struct PgBouncer {
    home: Home,
    child: Child,
    port: u16,
}

impl PgBouncer {
    /// Starts one in front of all databases of a server that trusts `users`.
    pub async fn start(server: &Server, mode: PoolMode, users: &[&str]) -> Result<Self> {
        for _ in 0..PORT_TRIES {
            let mut started = Self::spawn(server, mode, users)?;
            let addr = started.addr();
            let answers = wait::until("PgBouncer answers or gives up", || async {
                if started.home.log().contains("Address already in use") {
                    return Ok(Some(false));
                }
                Ok(TcpStream::connect(addr).await.is_ok().then_some(true))
            });
            if answers.await.with_context(|| started.home.log())? {
                return Ok(started);
            }
            started.child.stdin.take();
        }
        bail!("{PORT_TRIES} free ports in a row were taken before PgBouncer could listen on them")
    }

    fn spawn(server: &Server, mode: PoolMode, users: &[&str]) -> Result<Self> {
        let program = find()?;
        let (home, port) = (Home::create()?, free_port()?);
        let to = server.addr()?;
        let mode = match mode {
            PoolMode::Session => "session",
            PoolMode::Transaction => "transaction",
        };
        let settings = format!(
            "[databases]\n* = host={} port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
             listen_port = {port}\nunix_socket_dir =\nauth_type = trust\nauth_file = users.txt\n\
             pool_mode = {mode}\ndefault_pool_size = 40\nlogfile = server.log\n",
            to.ip(),
            to.port()
        );
        let users: String = users
            .iter()
            .map(|user| format!("\"{user}\" \"\"\n"))
            .collect();
        home.write("pgbouncer.ini", &settings)?;
        home.write("users.txt", &users)?;
        let mut command = Command::new("sh");
        command
            .args(["-c", SCRIPT, "fencepost-pgbouncer"])
            .args([program.as_path(), home.path()])
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        if let Some(User { uid, gid }) = home.user {
            command.uid(uid).gid(gid);
        }
        let child = command.spawn().context("starting PgBouncer")?;
        Ok(Self { home, child, port })
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        self.child.stdin.take();
        if let Err(error) = self.child.wait() {
            eprintln!("PgBouncer: {error}");
        }
    }
}

fn find() -> Result<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from);
    let mut all = env::split_paths(&path)
        .chain(usual)
        .map(|directory| directory.join("pgbouncer"));
    all.find(|program| fs::metadata(program).is_ok_and(|meta| meta.is_file()))
        .context("no pgbouncer on PATH or in /usr/sbin: please install the package pgbouncer")
}
