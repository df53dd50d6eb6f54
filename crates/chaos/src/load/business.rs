//! A business: it sends alone and in batches, sends again when it is not told, changes its mind about what an
//! id means, and sometimes gives up not knowing.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::call::{answer, post};
use super::request::Request;
use crate::dice::Dice;
use crate::note::{Answer, Meaning, Micros, Note, now};
use crate::world::World;

/// How long a patient client tries.
const PATIENCE: Duration = Duration::from_secs(60);
/// The load waits while more than this is under way: what is measured is faults, not a queue.
const UNDER_WAY_MAX: u64 = 3_000;
/// Requests that are remembered for sending them again.
const REMEMBERED: usize = 500;
/// How many of them are fresh.
const FRESH: usize = 60;
const BATCH_MAX: u64 = 100;

/// What somebody does when the answer is not good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Temper {
    /// Comes again with the same id until it is told.
    Patient,
    /// Gives up at the first doubt, and never knows.
    GivesUpInDoubt,
    /// Gives up when told that nothing was stored.
    GivesUpRefused,
}

/// Requests that were acknowledged, newest last, of all businesses.
#[derive(Debug, Default)]
pub(crate) struct Known(Mutex<VecDeque<(Request, String)>>);

impl Known {
    fn add(&self, request: Request, tx: String) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REMEMBERED {
            known.pop_front();
        }
        known.push_back((request, tx));
    }

    /// One of the newest, which has hardly ended yet.
    pub(crate) fn fresh(&self, dice: &mut Dice) -> Option<(Request, String)> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let from = known.len().saturating_sub(FRESH);
        known.get(from + dice.index(known.len() - from)).cloned()
    }

    /// Any of them, with its transaction.
    pub(crate) fn any(&self, dice: &mut Dice) -> Option<(Request, String)> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(dice.index(known.len())).cloned()
    }
}

pub(crate) struct Business {
    pub(crate) world: Arc<World>,
    pub(crate) known: Arc<Known>,
    pub(crate) name: String,
    pub(crate) dice: Dice,
    /// Requests in a second, on average.
    pub(crate) rate: u64,
    pub(crate) count: u64,
}

impl Business {
    /// Sends until the world closes, and then ends what it has begun.
    pub(crate) async fn run(mut self) {
        while !self.world.closing.load(Ordering::Relaxed) {
            if self.is_too_much() {
                sleep(Duration::from_millis(100)).await;
                continue;
            }
            let began = Instant::now();
            let sent = match self.dice.below(100) {
                0..45 => {
                    let size = 10 + self.dice.below(BATCH_MAX - 9);
                    self.send(size).await
                }
                45..88 => self.send(1).await,
                88..95 => self.again().await,
                _rest => self.contradict().await,
            };
            let due = Duration::from_millis(sent * 1_000 / self.rate.max(1));
            sleep(due.saturating_sub(began.elapsed())).await;
        }
    }

    fn is_too_much(&self) -> bool {
        let acked = self.world.acked.load(Ordering::Relaxed);
        acked.saturating_sub(self.world.completed.load(Ordering::Relaxed)) > UNDER_WAY_MAX
    }

    fn request(&mut self) -> Request {
        self.count += 1;
        let id = format!("{}-{}", self.name, self.count);
        let lane = loop {
            let lane = self.dice.index(self.world.lanes.len());
            // A lane that lends is held up now and then, and gets less.
            if !self.world.lanes[lane].lends || self.dice.chance(25) {
                break lane;
            }
        };
        Request::new(&self.world, id, lane, &mut self.dice)
    }

    async fn send(&mut self, count: u64) -> u64 {
        let requests: Vec<Request> = (0..count).map(|_| self.request()).collect();
        let temper = match self.dice.below(100) {
            0..4 => Temper::GivesUpInDoubt,
            4..7 => Temper::GivesUpRefused,
            _most => Temper::Patient,
        };
        let node = self.dice.index(self.world.nodes.len());
        self.insist(requests, temper, node).await;
        count
    }

    /// One request for this lane at once, by somebody patient who begins at this node.
    pub(crate) async fn probe(mut self, lane: usize, node: usize) {
        self.count += 1;
        let id = format!("{}-{}", self.name, self.count);
        let request = Request::new(&self.world, id, lane, &mut self.dice);
        self.insist(vec![request], Temper::Patient, node).await;
    }

    /// Sends until all are told or it gives up; at another node each time.
    async fn insist(&mut self, mut requests: Vec<Request>, temper: Temper, first: usize) {
        let deadline = Instant::now() + PATIENCE;
        let mut node = first;
        let mut rest = 50;
        while !requests.is_empty() && Instant::now() < deadline {
            let sent = now();
            let answers = self.attempt(node, &requests).await;
            let mut again = Vec::new();
            for (request, answer) in requests.into_iter().zip(answers) {
                self.told(&request, sent, node, &answer);
                let gives_up = match (answer.meaning(), temper) {
                    (Meaning::Done, _) => {
                        self.world.acked.fetch_add(1, Ordering::Relaxed);
                        if let Some(tx) = answer.tx {
                            self.known.add(request, tx);
                        }
                        continue;
                    }
                    (Meaning::Doubt, Temper::GivesUpInDoubt)
                    | (Meaning::Refused, Temper::GivesUpRefused) => true,
                    (Meaning::Doubt, Temper::Patient | Temper::GivesUpRefused)
                    | (Meaning::Refused, Temper::Patient | Temper::GivesUpInDoubt) => false,
                };
                if !gives_up {
                    again.push(request);
                }
            }
            requests = again;
            node = (node + 1) % self.world.nodes.len();
            if !requests.is_empty() {
                sleep(Duration::from_millis(rest + self.dice.below(50))).await;
                rest = (rest * 2).min(1_000);
            }
        }
    }

    fn told(&self, request: &Request, sent: Micros, node: usize, answer: &Answer) {
        self.world.journal.note(&Note::Told {
            at: now(),
            sent,
            request: request.id.clone(),
            node,
            answer: answer.clone(),
        });
    }

    /// One answer for each request.
    async fn attempt(&self, node: usize, requests: &[Request]) -> Vec<Answer> {
        if let [request] = requests {
            let heard = post(&self.world, node, "/api/v1/tx", &request.body).await;
            return vec![heard.answer];
        }
        let bodies: Vec<&Value> = requests.iter().map(|request| &request.body).collect();
        let body = json!({ "requests": bodies });
        let heard = post(&self.world, node, "/api/v1/tx/batch", &body).await;
        let result = |n: usize| {
            let result = &heard.body["results"][n];
            let status = result["status"].as_u64();
            match status.and_then(|status| u16::try_from(status).ok()) {
                Some(status) if status < 300 => answer(status, &result["transaction"]),
                Some(status) => answer(status, &result["problem"]),
                // The batch as a whole was not taken.
                None => heard.answer.clone(),
            }
        };
        (0..requests.len()).map(result).collect()
    }

    /// Something that was acknowledged is sent once more.
    async fn again(&mut self) -> u64 {
        if let Some((request, _)) = self.known.any(&mut self.dice) {
            let node = self.dice.index(self.world.nodes.len());
            let sent = now();
            let heard = post(&self.world, node, "/api/v1/tx", &request.body).await;
            self.told(&request, sent, node, &heard.answer);
        }
        1
    }

    /// An id that is known is used for something else.
    async fn contradict(&mut self) -> u64 {
        if let Some((request, _)) = self.known.any(&mut self.dice) {
            let node = self.dice.index(self.world.nodes.len());
            let (body, value) = request.contradicted(&self.world);
            let heard = post(&self.world, node, "/api/v1/tx", &body).await;
            self.world.journal.note(&Note::Conflict {
                at: now(),
                request: request.id,
                value,
                answer: heard.answer,
            });
        }
        1
    }
}
