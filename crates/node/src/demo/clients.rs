//! The demo's clients: those who ask for transactions, and one who reads how they end. They know nothing of
//! reorgs and crashes, and go on through them.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use super::api::Api;
use super::facts::{Answer, Completion, is_final};
use super::request::Request;

/// How long all the posting takes. Shorter, and there is nothing left to post after the crash.
const SPREAD: Duration = Duration::from_secs(14);
/// How long the reader rests when the node does not answer.
const REST: Duration = Duration::from_millis(50);

/// What clients have heard so far.
#[derive(Default)]
pub(super) struct Heard {
    pub(super) answers: Vec<Answer>,
    /// Tries without an answer.
    pub(super) retries: u64,
    /// Requests that have both of their answers, or will never have.
    pub(super) settled: usize,
    pub(super) feed: Vec<Completion>,
}

impl Heard {
    /// How many requests were accepted.
    pub(super) fn accepted(&self) -> usize {
        let answers = self.answers.iter().filter(|it| it.created.is_some());
        answers.map(|it| it.request).collect::<BTreeSet<_>>().len()
    }

    /// The transactions that were told as final.
    pub(super) fn told(&self) -> BTreeSet<String> {
        let told = self.feed.iter().filter(|row| is_final(&row.state));
        told.map(|row| row.tx_id.clone()).collect()
    }

    /// Their hashes.
    pub(super) fn told_hashes(&self) -> BTreeSet<String> {
        let told = self.feed.iter().filter(|row| is_final(&row.state));
        told.filter_map(|row| row.tx_hash.clone()).collect()
    }

    /// The transactions that were accepted and are not told as final.
    pub(super) fn open(&self) -> BTreeSet<String> {
        let created = self.answers.iter().filter_map(|it| it.created.as_ref());
        let accepted: BTreeSet<String> = created.map(|it| it.tx_id.clone()).collect();
        accepted.difference(&self.told()).cloned().collect()
    }
}

/// What clients have heard, for all who look at it.
#[derive(Clone, Default)]
pub(super) struct Board(Arc<Mutex<Heard>>);

impl Board {
    pub(super) fn with<T>(&self, look: impl FnOnce(&mut Heard) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Posts all requests, evenly over some time, each of them twice. Those that have no answer by then are
/// given up.
pub(super) async fn post_all(api: Api, board: Board, requests: Vec<Request>, until: Instant) {
    let began = Instant::now();
    let count = u32::try_from(requests.len()).unwrap_or(u32::MAX);
    let mut posting = JoinSet::new();
    for (number, request) in (0..).zip(requests) {
        sleep_until(began + SPREAD * number / count).await;
        let (api, board) = (api.clone(), board.clone());
        posting.spawn(async move {
            let number = usize::try_from(number).unwrap_or(usize::MAX);
            let once = || post(&api, &board, number, &request, until);
            if number % 2 == 0 {
                tokio::join!(once(), once());
            } else {
                once().await;
                once().await;
            }
            board.with(|heard| heard.settled += 1);
        });
    }
    while posting.join_next().await.is_some() {}
}

async fn post(api: &Api, board: &Board, number: usize, request: &Request, until: Instant) {
    let Some(answered) = api.post(&request.body(), until).await else {
        return;
    };
    let status = answered.status;
    let accepted = matches!(status, 200 | 202).then_some(answered.body);
    let created = accepted.and_then(|body| serde_json::from_value(body).ok());
    board.with(|heard| {
        heard.retries += answered.retries;
        heard.answers.push(Answer {
            request: number,
            status,
            created,
        });
    });
}

/// Reads the feed as it grows, for ever.
pub(super) async fn read_feed(api: Api, board: Board) {
    let mut seen = 0;
    loop {
        match api.feed_after(seen).await {
            Some(mut rows) => {
                seen = rows.last().map_or(seen, |row| row.seq);
                board.with(|heard| heard.feed.append(&mut rows));
            }
            None => sleep(REST).await,
        }
    }
}
