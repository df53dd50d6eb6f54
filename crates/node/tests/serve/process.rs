//! Processes of the built program: a node of its own in a directory of its own, and commands.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};

use anyhow::{Context, Result, bail, ensure};
use fencepost_testkit::wait;
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader, sink};
use tokio::process::{Child, ChildStderr, Command};
use tokio::time::timeout;

pub(crate) const SIGNER: &str = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed";
/// A signer whose key nodes here have in their environment.
pub(crate) const KEYED: &str = "0x1a642f0E3c3aF545E7AcBD38b07251B3990914F1";

fn fencepost(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fencepost"));
    command
        .args(arguments)
        .stdin(Stdio::null())
        .kill_on_drop(true);
    // What the caller has set is not part of the test.
    for name in [
        "FENCEPOST_URL",
        "FENCEPOST_API_KEY",
        "FENCEPOST_CONFIG",
        "RUST_LOG",
    ] {
        command.env_remove(name);
    }
    command
}

/// Runs a command to its end: its exit code, and all that it said.
pub(crate) async fn run(arguments: &[&str]) -> Result<(Option<i32>, String)> {
    let ended = timeout(wait::PATIENCE, fencepost(arguments).output()).await??;
    let said = [ended.stdout, ended.stderr].concat();
    Ok((ended.status.code(), String::from_utf8(said)?))
}

pub(crate) fn client() -> reqwest::Client {
    // Another test may have been first.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .no_proxy()
        .timeout(wait::PATIENCE)
        .build()
        .unwrap()
}

/// Writes a file that only its owner can read, as nodes want their secrets.
pub(crate) fn private(file: &str, text: &str) -> Result<()> {
    std::fs::write(file, text)?;
    Ok(std::fs::set_permissions(
        file,
        Permissions::from_mode(0o600),
    )?)
}

/// A directory with a configuration.
pub(crate) struct Home(TempDir);

impl Home {
    /// With a store in it.
    pub(crate) fn new() -> Result<Self> {
        let home = Self(TempDir::new()?);
        let store = home.0.path().join("fencepost.db");
        home.write(&format!("sqlite://{}", store.display()))?;
        Ok(home)
    }

    /// With a store elsewhere.
    pub(crate) fn on(store: &str) -> Result<Self> {
        let home = Self(TempDir::new()?);
        home.write(store)?;
        Ok(home)
    }

    /// With a store in it, and a chain that is asked. Its signer is only watched.
    pub(crate) fn asking(rpc: &str) -> Result<Self> {
        let home = Self::new()?;
        let text = std::fs::read_to_string(home.config())?;
        let text = text.replace("id = 1", &format!("id = 1, rpc = [\"{rpc}\"]"));
        std::fs::write(home.config(), text)?;
        Ok(home)
    }

    /// The same, with a signer that has a key beside it.
    pub(crate) fn signing(rpc: &str) -> Result<Self> {
        let home = Self::asking(rpc)?;
        let text = std::fs::read_to_string(home.config())?;
        let keyed = format!("signer = [{{ address = \"{KEYED}\", key.env = \"KEYED\" }}, ");
        std::fs::write(home.config(), text.replace("signer = [", &keyed))?;
        Ok(home)
    }

    fn write(&self, store: &str) -> Result<()> {
        let text = format!(
            "nonce.chain_query = false\nstore.url = \"{store}\"\n\
             chain = [{{ name = \"main\", id = 1 }}]\n\
             signer = [{{ address = \"{SIGNER}\" }}]\n",
        );
        Ok(std::fs::write(self.config(), text)?)
    }

    pub(crate) fn config(&self) -> String {
        self.0.path().join("fencepost.toml").display().to_string()
    }

    /// With a WebSocket endpoint for its chain, which must have `rpc`.
    pub(crate) fn announce(&self, ws: &str) -> Result<()> {
        let text = std::fs::read_to_string(self.config())?;
        let text = text.replace("rpc =", &format!("ws = \"{ws}\", rpc ="));
        Ok(std::fs::write(self.config(), text)?)
    }

    /// Adds lines to the configuration.
    pub(crate) fn add(&self, lines: &str) -> Result<()> {
        let text = std::fs::read_to_string(self.config())?;
        Ok(std::fs::write(self.config(), format!("{text}{lines}\n"))?)
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn has_store(&self) -> bool {
        self.0.path().join("fencepost.db").exists()
    }

    /// A node on any free port, ready.
    pub(crate) async fn serve(&self) -> Result<Node> {
        let (node, mut log) = self.serve_with_log().await?;
        // A log that nobody reads would fill its pipe and stop the node.
        tokio::spawn(async move { tokio::io::copy(&mut log, &mut sink()).await });
        Ok(node)
    }

    /// The same, with its log behind the line that it is ready.
    pub(crate) async fn serve_with_log(&self) -> Result<(Node, BufReader<ChildStderr>)> {
        self.serve_logging("info").await
    }

    /// The same, where the log has what the filter lets through.
    pub(crate) async fn serve_logging(
        &self,
        filter: &str,
    ) -> Result<(Node, BufReader<ChildStderr>)> {
        let mut serve = fencepost(&["serve", "--log", filter, "--config", &self.config()]);
        Self::serve_by(&mut serve).await
    }

    /// The same by a command that starts it.
    pub(crate) async fn serve_by(command: &mut Command) -> Result<(Node, BufReader<ChildStderr>)> {
        let mut child = command
            .env("FENCEPOST__NODE__LISTEN", "127.0.0.1:0")
            .env("KEYED", "01".repeat(32))
            .stderr(Stdio::piped())
            .spawn()?;
        let log = child.stderr.take().context("its log")?;
        let mut log = BufReader::new(log);
        let (url, said) = timeout(wait::PATIENCE, ready(&mut log)).await??;
        Ok((Node { url, said, child }, log))
    }
}

/// Waits for the line that says where the node listens. Returns that, and all lines up to it.
async fn ready(log: &mut BufReader<ChildStderr>) -> Result<(String, String)> {
    let mut said = String::new();
    loop {
        let begun = said.len();
        if log.read_line(&mut said).await? == 0 {
            bail!("it never became ready: {said}");
        }
        let entry: Value = serde_json::from_str(&said[begun..])?;
        if let (true, Some(listening)) = (entry["message"] == "ready", entry["listening"].as_str())
        {
            return Ok((format!("http://{listening}"), said));
        }
    }
}

/// A running node.
pub(crate) struct Node {
    pub(crate) url: String,
    /// What it had logged when it was ready.
    pub(crate) said: String,
    child: Child,
}

impl Node {
    pub(crate) async fn get(&self, path: &str) -> Result<Value> {
        let answer = client().get(format!("{}{path}", self.url)).send().await?;
        Ok(serde_json::from_str(&answer.text().await?)?)
    }

    pub(crate) async fn post(&self, request: &Value) -> Result<Value> {
        let to = format!("{}/api/v1/tx", self.url);
        let answer = client().post(to).json(request).send().await?;
        let status = answer.status();
        let body = answer.text().await?;
        ensure!(status == 202, "{status} {body}");
        Ok(serde_json::from_str(&body)?)
    }

    pub(crate) async fn metrics(&self) -> Result<String> {
        Ok(client()
            .get(format!("{}/metrics", self.url))
            .send()
            .await?
            .text()
            .await?)
    }

    /// Waits until a meter is there.
    pub(crate) async fn until_meter(&self, begin: &str) -> Result<String> {
        wait::until(begin, || async {
            let metrics = self.metrics().await?;
            Ok(metrics
                .lines()
                .any(|line| line.starts_with(begin))
                .then_some(metrics))
        })
        .await
    }

    pub(crate) fn pid(&self) -> Result<u32> {
        self.child.id().context("it runs")
    }

    pub(crate) fn signal(&self, name: &str) -> Result<()> {
        let pid = self.pid()?.to_string();
        let sent = std::process::Command::new("kill")
            .args([&format!("-{name}"), &pid])
            .status()?;
        ensure!(sent.success(), "kill -{name} {pid}");
        Ok(())
    }

    /// Waits for its end.
    pub(crate) async fn ended(&mut self) -> Result<ExitStatus> {
        Ok(timeout(wait::PATIENCE, self.child.wait()).await??)
    }
}
