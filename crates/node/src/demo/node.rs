//! The node of the demo: a real process, so that it can really be killed. It never outlives the demo.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use fencepost_bench::Process;
use tempfile::TempDir;
use tokio::time::sleep;

use super::chain::{BLOCK_TIME, Chain};
use crate::dev::PHRASE;
use crate::failure::Failure;

const NODE_ID: &str = "demo";
const VARIABLE: &str = "FENCEPOST_DEMO_MNEMONIC";
/// How many blocks on top make a transaction final: more than the reorg replaces.
const CONFIRMATIONS: u64 = 4;
/// How often another port is tried: one that was free may be taken before the node listens on it.
const TRIES_MAX: u32 = 5;
/// How long a node may take until it is ready. A busy machine needs a second.
const READY_MAX: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// How much of the log is repeated when a node does not start.
const LOG_BYTES_MAX: usize = 2_000;

/// Where the node's configuration, store and log are.
pub(super) struct Home {
    directory: TempDir,
    rpc: String,
    chain_id: u64,
    signers: usize,
}

impl Home {
    pub(super) fn new(chain: &Chain) -> Result<Home, Failure> {
        let made = tempfile::Builder::new().prefix("fencepost-demo-").tempdir();
        let directory = made.map_err(|error| Failure::new("no place for the store", error))?;
        Ok(Home {
            directory,
            rpc: chain.url(),
            chain_id: chain.id(),
            signers: chain.signers().len(),
        })
    }

    pub(super) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Leaves it there.
    pub(super) fn keep(self) -> PathBuf {
        self.directory.keep()
    }

    fn configure(&self, listen: SocketAddr) -> io::Result<PathBuf> {
        let store = self.path().join("fencepost.db");
        let store = toml::Value::String(format!("sqlite://{}", store.display()));
        let (rpc, id, count) = (&self.rpc, self.chain_id, self.signers);
        // Four times in each block, so that a block is seen soon after it is there.
        let poll = humantime::format_duration(BLOCK_TIME / 4);
        let text = format!(
            "[node]\nid = \"{NODE_ID}\"\nlisten = \"{listen}\"\n\
             [store]\nurl = {store}\n\
             [[chain]]\nname = \"demo\"\nid = {id}\nrpc = [\"{rpc}\"]\npoll_interval = \"{poll}\"\n\
             finality.confirmations = {CONFIRMATIONS}\n\
             [[signer]]\nchains = [\"demo\"]\nkey.mnemonic_env = \"{VARIABLE}\"\nkey.count = {count}\n\
             [resubmit]\ninterval = \"5s\"\n[confirmations]\nstale_receipt_timeout = \"5s\"\n"
        );
        let file = self.path().join("fencepost.toml");
        fs::write(&file, text)?;
        Ok(file)
    }

    fn log(&self) -> io::Result<File> {
        let path = self.path().join("node.log");
        OpenOptions::new().create(true).append(true).open(path)
    }

    fn log_end(&self) -> String {
        let log = fs::read(self.path().join("node.log")).unwrap_or_default();
        let end = &log[log.len().saturating_sub(LOG_BYTES_MAX)..];
        String::from_utf8_lossy(end).trim().to_owned()
    }
}

/// A running node.
pub(super) struct Node {
    process: Process,
    listen: SocketAddr,
}

impl Node {
    /// Starts one and waits until it is ready, where possible on the address that clients know.
    pub(super) async fn start(
        home: &Home,
        http: &reqwest::Client,
        known: Option<SocketAddr>,
    ) -> Result<Node, Failure> {
        let mut wanted = known;
        for _ in 0..TRIES_MAX {
            let node = match wanted.take().map_or_else(free_address, Ok) {
                Ok(listen) => Node::spawn(home, listen),
                Err(error) => Err(error),
            };
            let mut node = node.map_err(|error| Failure::new("no node can be started", error))?;
            if node.is_ready(http).await? {
                return Ok(node);
            }
        }
        Err(Failure::new("the node does not start", home.log_end()))
    }

    fn spawn(home: &Home, listen: SocketAddr) -> io::Result<Node> {
        let config = home.configure(listen)?;
        let mut command = Command::new(std::env::current_exe()?);
        command
            .args(["serve", "--config"])
            .arg(config)
            .args(["--log", "info"])
            // What the caller has set for other nodes is not for this one.
            .env_clear()
            .env(VARIABLE, PHRASE)
            .current_dir(home.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(home.log()?);
        let process = Process::start(&mut command)?;
        Ok(Node { process, listen })
    }

    /// Waits until it is ready; not so if it has ended.
    async fn is_ready(&mut self, http: &reqwest::Client) -> Result<bool, Failure> {
        let began = Instant::now();
        let url = format!("http://{}/readyz", self.listen);
        while began.elapsed() < READY_MAX {
            if self.ended()?.is_some() {
                return Ok(false);
            }
            if let Ok(answer) = http.get(&url).send().await
                && answer.status().is_success()
                // Whoever has taken the port meanwhile is not our node.
                && self.ended()?.is_none()
            {
                return Ok(true);
            }
            sleep(LOOK_EVERY).await;
        }
        let limit = humantime::format_duration(READY_MAX);
        Err(Failure::new(
            "the node does not start",
            format!("it is not ready after {limit}"),
        ))
    }

    pub(super) fn listen(&self) -> SocketAddr {
        self.listen
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// How it ended, if it has.
    pub(super) fn ended(&mut self) -> Result<Option<ExitStatus>, Failure> {
        let ended = self.process.ended();
        ended.map_err(|error| Failure::new("the node cannot be watched", error))
    }

    /// Ends it as a power cut would: SIGKILL, which no process can answer.
    pub(super) fn kill(&mut self) -> io::Result<ExitStatus> {
        self.process.kill()
    }
}

fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}
