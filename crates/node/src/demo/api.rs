//! The node's API as the demo's clients and its checks use it. Whatever passes by itself is asked again, with
//! the same request id, as a business's code would do.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqwest::{Client, RequestBuilder};
use serde::Deserialize;
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::facts::{Completion, Signer, Stored};
use crate::failure::Failure;

/// How long one try may take, the feed's long poll included.
const TRY_MAX: Duration = Duration::from_secs(5);
/// How long until the next try, first and at most.
const PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(500));
/// How long a question may remain without an answer.
const PATIENCE: Duration = Duration::from_secs(20);
/// How many questions are asked at once.
const AT_ONCE: usize = 16;
/// The largest page that a node gives.
const PAGE: usize = 1_000;

/// Where the node is, and what asks it. A clone asks the same one.
#[derive(Clone)]
pub(super) struct Api {
    http: Client,
    address: Arc<Mutex<SocketAddr>>,
}

/// An answer that no further try would change.
pub(super) struct Answered {
    pub(super) status: u16,
    pub(super) body: Value,
    /// How many tries had no such answer.
    pub(super) retries: u64,
}

#[derive(Deserialize)]
struct Stretch {
    completions: Vec<Completion>,
}

impl Api {
    pub(super) fn new(http: Client, address: SocketAddr) -> Api {
        let address = Arc::new(Mutex::new(address));
        Api { http, address }
    }

    /// From now on the node is there.
    pub(super) fn moved(&self, address: SocketAddr) {
        *self.address.lock().unwrap_or_else(PoisonError::into_inner) = address;
    }

    fn url(&self, path: &str) -> String {
        let address = *self.address.lock().unwrap_or_else(PoisonError::into_inner);
        format!("http://{address}/api/v1{path}")
    }

    /// Posts a request until it is answered or it is too late.
    pub(super) async fn post(&self, body: &Value, until: Instant) -> Option<Answered> {
        self.ask(|| self.http.post(self.url("/tx")).json(body), until)
            .await
    }

    async fn get(&self, path: &str) -> Option<Answered> {
        self.ask(|| self.http.get(self.url(path)), Instant::now() + PATIENCE)
            .await
    }

    async fn ask(&self, request: impl Fn() -> RequestBuilder, until: Instant) -> Option<Answered> {
        let (mut pause, mut retries) = (PAUSE.0, 0);
        loop {
            if let Some((status, body)) = once(request()).await {
                return Some(Answered {
                    status,
                    body,
                    retries,
                });
            }
            retries += 1;
            if Instant::now() + pause > until {
                return None;
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE.1);
        }
    }

    /// What is new in the feed. Waits a while for the first row; nothing where the node does not answer.
    pub(super) async fn feed_after(&self, seq: u64) -> Option<Vec<Completion>> {
        let path = format!("/tx/completions?after={seq}&limit={PAGE}&wait=2");
        let (status, body) = once(self.http.get(self.url(&path))).await?;
        let stretch: Stretch = serde_json::from_value(body)
            .ok()
            .filter(|_| status == 200)?;
        Some(stretch.completions)
    }

    /// The whole feed, from its start.
    pub(super) async fn feed(&self) -> Result<Vec<Completion>, Failure> {
        let mut rows: Vec<Completion> = Vec::new();
        loop {
            let after = rows.last().map_or(0, |row| row.seq);
            let path = format!("/tx/completions?after={after}&limit={PAGE}");
            let mut stretch: Stretch = self.read(&path).await?;
            if stretch.completions.is_empty() {
                return Ok(rows);
            }
            rows.append(&mut stretch.completions);
        }
    }

    /// Every transaction there is.
    pub(super) async fn stored(&self) -> Result<Vec<Stored>, Failure> {
        self.pages(&format!("/tx?limit={PAGE}"), "transactions")
            .await
    }

    /// Every signer that is led.
    pub(super) async fn signers(&self) -> Result<Vec<Signer>, Failure> {
        let signers: Vec<Value> = self
            .pages(&format!("/signers?limit={PAGE}"), "signers")
            .await?;
        let signer = |told: &Value| {
            Some(Signer {
                signer: told["signer"].as_str()?.to_lowercase(),
                next_nonce: told["nextNonce"].as_u64()?,
                token: told["leader"]["token"].as_u64()?,
            })
        };
        Ok(signers.iter().filter_map(signer).collect())
    }

    /// Whose hashes these are, for those that the node knows.
    pub(super) async fn owners(
        &self,
        hashes: &BTreeSet<String>,
    ) -> Result<BTreeMap<String, String>, Failure> {
        let asked = self.each(hashes, |hash| format!("/tx/by-hash/{hash}"));
        let known = asked.await?.into_iter().filter_map(|(hash, answered)| {
            let tx_id = answered.body["txId"].as_str();
            Some((hash, tx_id.filter(|_| answered.status == 200)?.to_owned()))
        });
        Ok(known.collect())
    }

    /// Those of these hashes whose transaction the node has seen in a block.
    pub(super) async fn mined(
        &self,
        hashes: &BTreeSet<String>,
    ) -> Result<BTreeSet<String>, Failure> {
        let asked = self.each(hashes, |hash| format!("/tx/by-hash/{hash}"));
        let mined = asked.await?.into_iter().filter(|(hash, answered)| {
            let body = &answered.body;
            body["blockHash"].is_string() && body["txHash"].as_str() == Some(hash)
        });
        Ok(mined.map(|(hash, _)| hash).collect())
    }

    /// Those of these transactions whose history has a block that was replaced.
    pub(super) async fn forked(&self, ids: &BTreeSet<String>) -> Result<BTreeSet<String>, Failure> {
        let asked = self.each(ids, |id| format!("/tx/{id}/history"));
        let forked = asked.await?.into_iter().filter(|(_, answered)| {
            let events = answered.body["events"].as_array();
            events.is_some_and(|events| events.iter().any(|it| it["newFork"] == true))
        });
        Ok(forked.map(|(id, _)| id).collect())
    }

    /// Asks for each of many, some at once.
    async fn each(
        &self,
        items: &BTreeSet<String>,
        path: impl Fn(&str) -> String,
    ) -> Result<Vec<(String, Answered)>, Failure> {
        let items: Vec<&String> = items.iter().collect();
        let mut all = Vec::with_capacity(items.len());
        for some in items.chunks(AT_ONCE) {
            let mut asking = JoinSet::new();
            for item in some {
                let (api, item, path) = (self.clone(), (*item).clone(), path(item));
                asking.spawn(async move { (item, api.get(&path).await) });
            }
            while let Some(asked) = asking.join_next().await {
                let (item, answered) = asked.map_err(|error| Failure::new("asking", error))?;
                all.push((item, answered.ok_or_else(silent)?));
            }
        }
        Ok(all)
    }

    async fn pages<T: for<'de> Deserialize<'de>>(
        &self,
        path: &str,
        list: &str,
    ) -> Result<Vec<T>, Failure> {
        let (mut items, mut next) = (Vec::new(), path.to_owned());
        loop {
            let mut page: Value = self.read(&next).await?;
            let some: Vec<T> = read(page[list].take())?;
            items.extend(some);
            match page["nextCursor"].as_str() {
                Some(cursor) => next = format!("{path}&cursor={cursor}"),
                None => return Ok(items),
            }
        }
    }

    async fn read<T: for<'de> Deserialize<'de>>(&self, path: &str) -> Result<T, Failure> {
        let answered = self.get(path).await.ok_or_else(silent)?;
        if answered.status != 200 {
            let told = format!("{path}: {} {}", answered.status, answered.body);
            return Err(Failure::new("the node refuses to tell", told));
        }
        read(answered.body)
    }
}

/// One try: a status and a body, unless trying again may help.
async fn once(request: RequestBuilder) -> Option<(u16, Value)> {
    let answer = request.timeout(TRY_MAX).send().await.ok()?;
    let status = answer.status().as_u16();
    let body = answer.text().await.ok()?;
    let passes = status >= 500 || matches!(status, 408 | 429);
    let body = serde_json::from_str(&body).ok()?;
    (!passes).then_some((status, body))
}

fn read<T: for<'de> Deserialize<'de>>(body: Value) -> Result<T, Failure> {
    let read = serde_json::from_value(body);
    read.map_err(|error| Failure::new("the node's answer is strange", error))
}

fn silent() -> Failure {
    let limit = humantime::format_duration(PATIENCE);
    Failure::new(
        "the node does not answer",
        format!("it was asked for {limit}"),
    )
}
