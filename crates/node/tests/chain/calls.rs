//! Somebody who knows several nodes and asks the next one where the first gave no answer, as people's code
//! does: what it says is the same each time, so saying it again is safe.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use fencepost_testkit::wait;
use reqwest::{Client, StatusCode};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::member::Member;

/// Between two tries of one call.
const PAUSE: Duration = Duration::from_millis(20);

/// The nodes that are asked in turn.
#[derive(Clone)]
pub(crate) struct Calls {
    urls: Arc<Vec<String>>,
    turn: Arc<AtomicUsize>,
    answered: Arc<AtomicUsize>,
    http: Client,
}

impl Calls {
    pub(crate) fn new(nodes: &[Member]) -> Result<Self> {
        Ok(Self {
            urls: Arc::new(nodes.iter().map(|node| node.url.clone()).collect()),
            turn: Arc::default(),
            answered: Arc::default(),
            http: Client::builder().timeout(Duration::from_secs(10)).build()?,
        })
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Result<(StatusCode, Value)> {
        let answer = self.ask(path, Some(body)).await?;
        self.answered.fetch_add(1, Ordering::Relaxed);
        Ok(answer)
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Value> {
        let (status, told) = self.ask(path, None).await?;
        ensure!(status.is_success(), "{path}: {status} {told}");
        Ok(told)
    }

    /// Asks until somebody answers for good.
    async fn ask(&self, path: &str, body: Option<&Value>) -> Result<(StatusCode, Value)> {
        let deadline = Instant::now() + wait::PATIENCE;
        loop {
            let turn = self.turn.fetch_add(1, Ordering::Relaxed);
            let url = format!("{}{path}", self.urls[turn % self.urls.len()]);
            let last = match self.try_once(&url, body).await {
                Ok((status, told)) if is_answer(status, &told) => return Ok((status, told)),
                Ok((status, told)) => format!("{status} {told}"),
                Err(error) => error.to_string(),
            };
            if Instant::now() > deadline {
                bail!("nobody answers {path}: {last}");
            }
            sleep(PAUSE).await;
        }
    }

    async fn try_once(
        &self,
        url: &str,
        body: Option<&Value>,
    ) -> reqwest::Result<(StatusCode, Value)> {
        let call = match body {
            Some(body) => self.http.post(url).json(body),
            None => self.http.get(url),
        };
        let answer = call.send().await?;
        Ok((answer.status(), answer.json().await?))
    }

    /// Waits until so many posts were answered.
    pub(crate) async fn answered(&self, count: usize) -> Result<()> {
        wait::until("calls are answered", || async {
            Ok((self.answered.load(Ordering::Relaxed) >= count).then_some(()))
        })
        .await
    }
}

/// Not "later", "elsewhere" or "nobody knows".
fn is_answer(status: StatusCode, told: &Value) -> bool {
    !status.is_server_error() && told["code"] != "not_leader"
}
