//! Nodes as users run them: `fencepost serve` with a configuration file, a process each.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tempfile::TempDir;
use tokio::time::sleep;

use crate::process::{Process, cpu_seconds, resident_mib};

const PHRASE_VARIABLE: &str = "FENCEPOST_BENCH_MNEMONIC";
const SECRET_VARIABLE: &str = "FENCEPOST_BENCH_SECRET";
/// The phrase whose accounts anvil funds. Everybody knows it.
pub(crate) const PHRASE: &str = "test test test test test test test test test test test junk";
/// A node with a hundred thousand signers in a debug build needs most of it.
const READY_MAX: Duration = Duration::from_secs(60);
const STOP_MAX: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// How much of the log is repeated when a node does not start.
const LOG_BYTES_MAX: usize = 2_000;

/// The chain that a node sends to.
#[derive(Debug, Clone)]
pub(crate) struct ChainSpec {
    pub(crate) rpc: String,
    pub(crate) id: u64,
    pub(crate) poll: Duration,
    pub(crate) confirmations: u64,
}

/// What a node is started with. All else is as by default.
#[derive(Debug, Clone)]
pub(crate) struct Spec {
    pub(crate) name: String,
    pub(crate) store: String,
    /// Without one the node gives nonces and signs nothing.
    pub(crate) chain: Option<ChainSpec>,
    pub(crate) signers: usize,
}

impl Spec {
    fn text(&self) -> String {
        let Self { name, store, .. } = self;
        let head = format!(
            "[node]\nid = \"{name}\"\nlisten = \"127.0.0.1:0\"\ncluster_secret_env = \"{SECRET_VARIABLE}\"\n\
             [store]\nurl = \"{store}\"\n"
        );
        let Some(chain) = &self.chain else {
            let signers = signers(self.signers);
            let entries = signers.map(|signer| format!("[[signer]]\naddress = \"{signer}\"\n"));
            let entries: String = entries.collect();
            return format!(
                "{head}[nonce]\nchain_query = false\n[[chain]]\nname = \"bench\"\nid = 31337\nrpc = []\n{entries}"
            );
        };
        let ChainSpec {
            rpc,
            id,
            poll,
            confirmations,
        } = chain;
        let (poll, count) = (poll.as_millis(), self.signers);
        format!(
            "{head}[[chain]]\nname = \"bench\"\nid = {id}\nrpc = [\"{rpc}\"]\npoll_interval = \"{poll}ms\"\n\
             finality.confirmations = {confirmations}\n\
             [[signer]]\nkey.mnemonic_env = \"{PHRASE_VARIABLE}\"\nkey.count = {count}\n"
        )
    }
}

/// The addresses of nodes without a chain. Nobody has their keys, and nobody needs them.
pub(crate) fn signers(count: usize) -> impl Iterator<Item = String> {
    (1..=count).map(|number| format!("0xbe{number:038x}"))
}

/// A running node.
pub(crate) struct Node {
    process: Process,
    address: SocketAddr,
    /// How long it took until it was ready.
    pub(crate) started_in: Duration,
    /// Configuration and log.
    place: TempDir,
}

impl Node {
    /// Starts one and waits until it is ready.
    pub(crate) async fn start(spec: &Spec) -> Result<Self> {
        let place = tempfile::Builder::new()
            .prefix("fencepost-bench-")
            .tempdir()?;
        let config = place.path().join("fencepost.toml");
        fs::write(&config, spec.text())?;
        let log = place.path().join("node.log");
        let began = Instant::now();
        let mut command = Command::new(std::env::current_exe()?);
        command
            .args(["serve", "--config"])
            .arg(&config)
            // What the caller has set for other nodes is not for this one.
            .env_clear()
            .env(PHRASE_VARIABLE, PHRASE)
            .env(SECRET_VARIABLE, "a secret of the nodes of this bench")
            .current_dir(place.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log)?);
        let mut process = Process::start(&mut command).context("starting a node")?;
        let address = ready(&mut process, &log).await?;
        Ok(Self {
            process,
            address,
            started_in: began.elapsed(),
            place,
        })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn cpu_seconds(&self) -> f64 {
        cpu_seconds(self.process.id())
    }

    pub(crate) fn resident_mib(&self) -> f64 {
        resident_mib(self.process.id())
    }

    /// As if its machine had lost its power.
    pub(crate) fn kill(&mut self) -> Result<()> {
        self.process.kill()?;
        Ok(())
    }

    /// Sends the signal of a graceful stop, and does not wait.
    pub(crate) fn ask_to_stop(&self) -> Result<()> {
        self.process.ask_to_stop()
    }

    /// Stops it gracefully, so that its sessions have told the server all they counted.
    pub(crate) async fn stop(mut self) -> Result<()> {
        let stopped = self.process.stop(STOP_MAX).await;
        stopped.with_context(|| format!("a node: {}", log_end(&self.log())))
    }

    fn log(&self) -> PathBuf {
        self.place.path().join("node.log")
    }
}

/// Waits for the line that says where it listens.
async fn ready(process: &mut Process, log: &PathBuf) -> Result<SocketAddr> {
    let deadline = Instant::now() + READY_MAX;
    loop {
        let said = fs::read_to_string(log).unwrap_or_default();
        let lines = said.lines().filter(|line| line.contains("\"ready\""));
        for line in lines {
            let entry: Value = serde_json::from_str(line).unwrap_or_default();
            if let Some(listening) = entry["listening"].as_str() {
                return listening.parse().context("where a node listens");
            }
        }
        if let Some(status) = process.ended()? {
            bail!("a node ended with {status}: {}", log_end(log));
        }
        if Instant::now() > deadline {
            bail!("a node is not ready after {READY_MAX:?}: {}", log_end(log));
        }
        sleep(LOOK_EVERY).await;
    }
}

fn log_end(log: &PathBuf) -> String {
    let log = fs::read(log).unwrap_or_default();
    let end = &log[log.len().saturating_sub(LOG_BYTES_MAX)..];
    String::from_utf8_lossy(end).trim().to_owned()
}
