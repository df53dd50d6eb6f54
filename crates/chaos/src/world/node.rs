//! One `fencepost serve`: a process that is killed, frozen and started again, and that is started again by
//! whoever watches over it when it ends by itself.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use fencepost_testkit::proxy::Proxy;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStderr, Command};
use tokio::sync::{MutexGuard, oneshot};
use tokio::time::{Instant, sleep, timeout};

use super::config::{PHRASE, PHRASE_VARIABLE, SECRET_VARIABLE};

/// How long a start may take on a busy machine.
const READY: Duration = Duration::from_secs(40);
/// How long starts are tried: a database that is down ends them.
const STARTS: Duration = Duration::from_secs(120);
/// Between two of them.
const REST: Duration = Duration::from_millis(300);
/// A graceful stop that takes longer has failed: `node.drain_limit` is 10 seconds.
const STOP: Duration = Duration::from_secs(25);

/// The ways of a node to its store. Those to the chains are theirs.
pub(crate) struct Ways {
    pub(crate) store: Arc<Proxy>,
}

pub(crate) struct Node {
    pub(crate) name: &'static str,
    pub(crate) ways: Ways,
    program: PathBuf,
    config: PathBuf,
    log: PathBuf,
    /// Held by whoever does something to the process, so that faults of one process come one after another.
    child: tokio::sync::Mutex<Option<Child>>,
    url: Mutex<String>,
    /// Starts that ended before the node was ready.
    pub(crate) false_starts: AtomicU64,
}

/// A process in the hands of one who does something to it.
pub(crate) struct Held<'a> {
    node: &'a Node,
    child: MutexGuard<'a, Option<Child>>,
}

impl Node {
    pub(crate) fn new(
        name: &'static str,
        ways: Ways,
        program: PathBuf,
        config: PathBuf,
        log: PathBuf,
    ) -> Self {
        Self {
            name,
            ways,
            program,
            config,
            log,
            child: tokio::sync::Mutex::default(),
            url: Mutex::default(),
            false_starts: AtomicU64::new(0),
        }
    }

    /// Where it listens, or listened last.
    pub(crate) fn url(&self) -> String {
        let url = self.url.lock().unwrap_or_else(PoisonError::into_inner);
        url.clone()
    }

    pub(crate) async fn hold(&self) -> Held<'_> {
        Held {
            node: self,
            child: self.child.lock().await,
        }
    }

    /// What it has logged so far, over all its starts.
    pub(crate) fn log(&self) -> Result<String> {
        let bytes = std::fs::read(&self.log)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    async fn start_once(&self) -> Result<Child> {
        let mut child = Command::new(&self.program)
            .args(["serve", "--config"])
            .arg(&self.config)
            .env(SECRET_VARIABLE, "a secret that the nodes of this run share")
            .env(PHRASE_VARIABLE, PHRASE)
            // Ours, when somebody wants to know more.
            .env(
                "RUST_LOG",
                std::env::var("RUST_LOG").unwrap_or("info".into()),
            )
            .env_remove("FENCEPOST_TRAP")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            // A terminal's Ctrl-C is for us; we end the nodes.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| self.program.display().to_string())?;
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.log)?;
        let (ready, listening) = oneshot::channel();
        let said = child.stderr.take().context("its log is piped")?;
        tokio::spawn(keep_log(said, log, ready));
        let Ok(Ok(listening)) = timeout(READY, listening).await else {
            bail!("{} did not become ready", self.name);
        };
        *self.url.lock().unwrap_or_else(PoisonError::into_inner) = format!("http://{listening}");
        Ok(child)
    }
}

async fn keep_log(said: ChildStderr, mut log: File, ready: oneshot::Sender<String>) {
    let mut ready = Some(ready);
    let mut lines = BufReader::new(said).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        if ready.is_some() && line.contains("\"ready\"") {
            let entry: Value = serde_json::from_str(&line).unwrap_or_default();
            if let Some(listening) = entry["listening"].as_str()
                && let Some(ready) = ready.take()
            {
                let _ = ready.send(listening.to_owned());
            }
        }
        if writeln!(log, "{line}").is_err() {
            eprintln!("a node's log is lost");
        }
    }
}

impl Held<'_> {
    /// Starts it, again and again while the store is away.
    pub(crate) async fn start(&mut self) -> Result<()> {
        let deadline = Instant::now() + STARTS;
        loop {
            match self.node.start_once().await {
                Ok(child) => {
                    *self.child = Some(child);
                    return Ok(());
                }
                Err(error) if Instant::now() > deadline => return Err(error),
                Err(_) => {
                    self.node.false_starts.fetch_add(1, Ordering::Relaxed);
                    sleep(REST).await;
                }
            }
        }
    }

    pub(crate) fn signal(&self, name: &str) -> Result<()> {
        let child = self.child.as_ref().context("it runs")?;
        let pid = child.id().context("it has not been waited for")?;
        let sent = std::process::Command::new("kill")
            .args([&format!("-{name}"), &pid.to_string()])
            .status()?;
        ensure!(sent.success(), "kill -{name} {pid}");
        Ok(())
    }

    /// As if the machine had lost its power.
    pub(crate) async fn kill(&mut self) -> Result<()> {
        if let Some(mut child) = self.child.take() {
            child.kill().await?;
        }
        Ok(())
    }

    /// Asks it to stop, and waits until it has.
    pub(crate) async fn stop(&mut self) -> Result<()> {
        self.signal("TERM")?;
        let mut child = self.child.take().context("it runs")?;
        match timeout(STOP, child.wait()).await {
            Ok(ended) => {
                let ended = ended?;
                ensure!(ended.success(), "{} stopped with {ended}", self.node.name);
                Ok(())
            }
            Err(_) => {
                child.kill().await?;
                bail!("{} did not stop within {STOP:?}", self.node.name)
            }
        }
    }

    /// How it ended, if it did although nobody had ended it.
    pub(crate) fn ended(&mut self) -> Result<Option<String>> {
        let ended = match self.child.as_mut() {
            Some(child) => child.try_wait()?.map(|status| status.to_string()),
            None => None,
        };
        if ended.is_some() {
            *self.child = None;
        }
        Ok(ended)
    }
}
