//! Clients that post without pause, each request under a name of its own, and come again with the
//! same name when they got no good answer, as people's code does.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Result;
use fencepost_testkit::wait;
use reqwest::Client;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::fleet::{Fleet, request};

/// Between two tries of one request.
const PAUSE: Duration = Duration::from_millis(20);

/// What clients saw: the transaction of each name, and the longest time without a good answer.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) acked: BTreeMap<String, String>,
    pub(crate) slowest: Duration,
    /// Names that were told two different transactions.
    pub(crate) changed: Vec<String>,
}

pub(crate) struct Load {
    clients: JoinSet<Seen>,
    shared: Arc<Shared>,
}

/// What the clients share.
#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    answered: AtomicUsize,
}

impl Load {
    /// Starts clients that go round these nodes, all for the first signer.
    pub(crate) fn start(fleet: &Fleet, urls: &[&str], clients: usize) -> Self {
        Self::over(fleet, urls, clients, &[1])
    }

    /// The same for several signers in turn: each client keeps to one.
    pub(crate) fn over(fleet: &Fleet, urls: &[&str], clients: usize, signers: &[u8]) -> Self {
        let shared = Arc::new(Shared::default());
        let urls: Vec<String> = urls.iter().map(|url| format!("{url}/api/v1/tx")).collect();
        let mut set = JoinSet::new();
        for n in 0..clients {
            set.spawn(client(
                (n, signers[n % signers.len()]),
                fleet.http.clone(),
                urls.clone(),
                Arc::clone(&shared),
            ));
        }
        Self {
            clients: set,
            shared,
        }
    }

    /// Waits until so many more good answers were given.
    pub(crate) async fn goes_on(&self, more: usize) -> Result<()> {
        let before = self.shared.answered.load(Ordering::Relaxed);
        wait::until("clients get good answers", || async {
            let answered = self.shared.answered.load(Ordering::Relaxed);
            Ok((answered >= before + more).then_some(()))
        })
        .await
    }

    /// Lets every client finish what it has begun.
    pub(crate) async fn stop(self) -> Result<Seen> {
        self.shared.stop.store(true, Ordering::Relaxed);
        let mut all = Seen::default();
        for seen in self.clients.join_all().await {
            all.acked.extend(seen.acked);
            all.slowest = all.slowest.max(seen.slowest);
            all.changed.extend(seen.changed);
        }
        Ok(all)
    }
}

async fn client(
    (n, signer): (usize, u8),
    http: Client,
    urls: Vec<String>,
    shared: Arc<Shared>,
) -> Seen {
    let mut seen = Seen::default();
    let mut turn = n;
    for count in 0.. {
        if shared.stop.load(Ordering::Relaxed) {
            break;
        }
        let name = format!("client-{n}-{count}");
        let body = request(signer, Some(&name));
        let began = Instant::now();
        // Twice, so that what was told once is told again.
        for _ in 0..2 {
            loop {
                let url = &urls[turn % urls.len()];
                turn += 1;
                if let Some(tx) = post(&http, url, &body).await {
                    if seen.acked.get(&name).is_some_and(|before| *before != tx) {
                        seen.changed.push(name.clone());
                    }
                    seen.acked.insert(name.clone(), tx);
                    shared.answered.fetch_add(1, Ordering::Relaxed);
                    break;
                }
                sleep(PAUSE).await;
            }
        }
        seen.slowest = seen.slowest.max(began.elapsed());
    }
    seen
}

async fn post(http: &Client, url: &str, body: &serde_json::Value) -> Option<String> {
    let response = http.post(url).json(body).send().await.ok()?;
    if !response.status().is_success() {
        return None;
    }
    let body: serde_json::Value = response.json().await.ok()?;
    body["txId"].as_str().map(str::to_owned)
}
