//! A node as a process. Dropping it kills it.

use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result, bail, ensure};
use fencepost_testkit::wait;
use reqwest::{Client, StatusCode};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::oneshot;

use super::fleet::{PHRASE_VARIABLE, POLICY_SECRET};

/// One process.
pub(crate) struct Member {
    pub(crate) url: String,
    child: Child,
    log: Arc<Mutex<Vec<String>>>,
    http: Client,
}

impl Member {
    pub(crate) async fn start(
        config: &Path,
        phrase: &str,
        variable: Option<(&str, &str)>,
        http: &Client,
    ) -> Result<Self> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fencepost"));
        command
            .args(["serve", "--config"])
            .arg(config)
            .env(
                "CLUSTER_SECRET",
                "a secret that all nodes of the cluster share",
            )
            .env("POLICY_SECRET", POLICY_SECRET)
            .env(PHRASE_VARIABLE, phrase)
            .env("RUST_LOG", "info")
            .env_remove("FENCEPOST_TRAP")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        if let Some((name, value)) = variable {
            command.env(name, value);
        }
        let mut child = command.spawn()?;
        let log = Arc::new(Mutex::new(Vec::new()));
        let lines = BufReader::new(child.stderr.take().context("its log")?).lines();
        let (ready, listening) = oneshot::channel();
        tokio::spawn(keep_log(lines, Arc::clone(&log), ready));
        let listening = tokio::time::timeout(wait::PATIENCE, listening).await;
        let Ok(Ok(listening)) = listening else {
            bail!("it never became ready: {:#?}", log.lock().unwrap());
        };
        Ok(Self {
            url: format!("http://{listening}"),
            child,
            log,
            http: http.clone(),
        })
    }

    pub(crate) async fn post(&self, body: &Value) -> Result<(StatusCode, Value)> {
        self.post_to("/api/v1/tx", body).await
    }

    pub(crate) async fn post_to(&self, path: &str, body: &Value) -> Result<(StatusCode, Value)> {
        let sent = self.http.post(format!("{}{path}", self.url)).json(body);
        let answer = sent.send().await?;
        Ok((answer.status(), answer.json().await?))
    }

    /// Posts requests in batches, and returns the transactions in their order.
    pub(crate) async fn post_all(&self, requests: &[Value]) -> Result<Vec<Value>> {
        let mut transactions = Vec::new();
        for requests in requests.chunks(1_000) {
            let url = format!("{}/api/v1/tx/batch", self.url);
            let sent = self.http.post(url).json(&json!({ "requests": requests }));
            let answer: Value = sent.send().await?.json().await?;
            let results = answer["results"].as_array().context("results")?;
            for result in results {
                let status = &result["status"];
                ensure!(status == 202 || status == 200, "{result}");
                transactions.push(result["transaction"].clone());
            }
        }
        Ok(transactions)
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Value> {
        let answer = self.http.get(format!("{}{path}", self.url)).send().await?;
        let status = answer.status();
        let body = answer.text().await?;
        ensure!(status.is_success(), "{path}: {status} {body}");
        Ok(serde_json::from_str(&body)?)
    }

    pub(crate) async fn tx(&self, id: &str) -> Result<Value> {
        self.get(&format!("/api/v1/tx/{id}")).await
    }

    /// Reads the feed from its beginning until it tells of so many.
    pub(crate) async fn completions(&self, count: usize) -> Result<Vec<Value>> {
        let mut told: Vec<Value> = Vec::new();
        let mut quiet = 0;
        while told.len() < count {
            let after = told.len();
            let path = format!("/api/v1/tx/completions?after={after}&limit=1000&wait=10");
            let answer = self.get(&path).await?;
            let more = answer["completions"].as_array().context("completions")?;
            quiet = if more.is_empty() { quiet + 1 } else { 0 };
            ensure!(
                quiet < 4,
                "only {after} of {count} ended: {:#?}",
                self.log()
            );
            told.extend(more.iter().cloned());
        }
        Ok(told)
    }

    /// Its newest lines.
    pub(crate) fn log(&self) -> Vec<String> {
        let log = self.log.lock().unwrap();
        log[log.len().saturating_sub(40)..].to_vec()
    }

    /// All that it exposes of its meters.
    pub(crate) async fn metrics(&self) -> Result<String> {
        let url = format!("{}/metrics", self.url);
        Ok(self.http.get(url).send().await?.text().await?)
    }

    /// The entries of its log at this level.
    pub(crate) fn logged(&self, level: &str) -> Vec<Value> {
        let log = self.log.lock().unwrap();
        let entries = log
            .iter()
            .filter_map(|line| serde_json::from_str(line).ok());
        entries
            .filter(|entry: &Value| entry["level"] == level)
            .collect()
    }

    /// Ends it at once, as if the machine had.
    pub(crate) fn kill(&self) -> Result<()> {
        self.signal("-KILL")
    }

    /// Asks it to stop.
    pub(crate) fn stop(&self) -> Result<()> {
        self.signal("-TERM")
    }

    fn signal(&self, signal: &str) -> Result<()> {
        let pid = self.child.id().context("it runs")?;
        let sent = std::process::Command::new("kill")
            .args([signal, &pid.to_string()])
            .status()?;
        ensure!(sent.success(), "kill {signal} {pid}");
        Ok(())
    }

    /// How it ended.
    #[cfg(debug_assertions)]
    pub(crate) async fn ended(&mut self) -> Result<std::process::ExitStatus> {
        let ended = tokio::time::timeout(wait::PATIENCE, self.child.wait()).await;
        Ok(ended.with_context(|| format!("it goes on: {:#?}", self.log()))??)
    }
}

async fn keep_log(
    mut lines: tokio::io::Lines<BufReader<tokio::process::ChildStderr>>,
    log: Arc<Mutex<Vec<String>>>,
    ready: oneshot::Sender<String>,
) {
    let mut ready = Some(ready);
    while let Ok(Some(line)) = lines.next_line().await {
        let entry: Value = serde_json::from_str(&line).unwrap_or_default();
        if entry["message"] == "ready"
            && let (Some(listening), Some(ready)) = (entry["listening"].as_str(), ready.take())
        {
            let _ = ready.send(listening.to_owned());
        }
        log.lock().unwrap().push(line);
    }
}
