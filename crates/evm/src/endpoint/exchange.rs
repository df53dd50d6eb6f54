//! Calls to requests and back: batches as large as the endpoint takes, smaller ones where it refuses
//! them, single calls at last. Every call gets an answer or a fault, within the deadline.

use std::collections::VecDeque;

use futures::future::join_all;
use tokio::time::{Instant, timeout_at};

use super::Endpoint;
use crate::meters::{Ended, Purpose};
use crate::rpc::{self, Answer, Batch, Call, Fault};
use crate::transport::Response;

/// A body above this is cut in two: geth takes 5 MiB, some gateways 1 MiB.
const BODY_BYTES_MAX: usize = 1024 * 1024;
/// Requests to one endpoint at once within one exchange. More would look like an attack to it.
const BATCHES_AT_ONCE: usize = 4;
const SINGLES_AT_ONCE: usize = 8;

/// Whether a call may be asked before those in front of it are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// Bytes of one lane: a later nonce before an earlier one is refused by some pools.
    Kept,
    /// Reads.
    Free,
}

/// What came of one request.
struct Asked {
    /// Which calls have which answers.
    answers: Vec<(usize, Answer)>,
    /// Which must be asked again, in smaller batches.
    again: Vec<usize>,
    /// Why nothing more should be asked now.
    stop: Option<Fault>,
}

/// Of one exchange, all that its requests share.
#[derive(Clone, Copy)]
struct Exchange<'a> {
    endpoint: &'a Endpoint,
    purpose: Purpose,
    calls: &'a [Call],
    order: Order,
    until: Instant,
}

impl Endpoint {
    /// One answer for each call, in the calls' order. What it says of the endpoint is not yet noted.
    pub(super) async fn exchange(
        &self,
        purpose: Purpose,
        calls: &[Call],
        order: Order,
        until: Instant,
    ) -> Vec<Answer> {
        let exchange = Exchange {
            endpoint: self,
            purpose,
            calls,
            order,
            until,
        };
        let mut answers: Vec<Option<Answer>> = vec![None; calls.len()];
        let mut left: VecDeque<usize> = (0..calls.len()).collect();
        let mut stop = None;
        while stop.is_none() && !left.is_empty() {
            let round = exchange.round(&mut left);
            let asked = join_all(round.into_iter().map(|chunk| exchange.ask(chunk))).await;
            for asked in asked.into_iter().rev() {
                for (place, answer) in asked.answers {
                    answers[place] = Some(answer);
                }
                asked
                    .again
                    .into_iter()
                    .rev()
                    .for_each(|place| left.push_front(place));
                stop = asked.stop.or(stop);
            }
        }
        let rest = stop.unwrap_or(Fault::Unanswered);
        let fill = |answer: Option<Answer>| answer.unwrap_or_else(|| Err(rest.clone()));
        answers.into_iter().map(fill).collect()
    }

    /// How many reads go out together, in one request or more.
    pub(crate) fn together(&self) -> usize {
        let calls_max = self.breadth();
        calls_max * at_once(Order::Free, calls_max)
    }

    fn breadth(&self) -> usize {
        let mut breadth = self
            .breadth
            .lock()
            .expect("nothing panics while it is held");
        breadth.calls(Instant::now())
    }

    fn narrow(&self, refused: usize) {
        let mut breadth = self
            .breadth
            .lock()
            .expect("nothing panics while it is held");
        breadth.narrow(refused, Instant::now());
    }
}

impl Exchange<'_> {
    /// The calls of the next requests that go out together.
    fn round(&self, left: &mut VecDeque<usize>) -> Vec<Vec<usize>> {
        let calls_max = self.endpoint.breadth();
        let at_once = at_once(self.order, calls_max);
        let mut round = Vec::new();
        while round.len() < at_once && !left.is_empty() {
            round.push(self.chunk(left, calls_max));
        }
        round
    }

    fn chunk(&self, left: &mut VecDeque<usize>, calls_max: usize) -> Vec<usize> {
        let mut chunk = Vec::new();
        let mut bytes = 0;
        while let Some(&place) = left.front() {
            bytes += self.calls[place].bytes();
            if !chunk.is_empty() && (chunk.len() == calls_max || bytes > BODY_BYTES_MAX) {
                break;
            }
            left.pop_front();
            chunk.push(place);
        }
        chunk
    }

    async fn ask(&self, chunk: Vec<usize>) -> Asked {
        match chunk[..] {
            [place] => self.ask_one(place).await,
            _ => self.ask_many(chunk).await,
        }
    }

    async fn ask_one(&self, place: usize) -> Asked {
        let id = self.endpoint.ids(1);
        let body = rpc::single(&self.calls[place], id);
        let answer = match self.post(body).await {
            Ok(response) => rpc::read_single(&response, id),
            Err(fault) => Err(fault),
        };
        self.count(answer.as_ref().err());
        let stop = answer
            .as_ref()
            .err()
            .filter(|fault| ends_it(fault))
            .cloned();
        Asked {
            answers: vec![(place, answer)],
            again: Vec::new(),
            stop,
        }
    }

    async fn ask_many(&self, chunk: Vec<usize>) -> Asked {
        let first = self.endpoint.ids(chunk.len());
        let body = rpc::batch(chunk.iter().map(|place| &self.calls[*place]), first);
        let batch = match self.post(body).await {
            Ok(response) => rpc::read_batch(&response, first, chunk.len()),
            // An answer that is too long is a batch that was too large.
            Err(fault @ Fault::TooLarge(_)) => Batch::Refused(fault),
            Err(fault) => Batch::Failed(fault),
        };
        match batch {
            Batch::Answers(answers) => {
                self.count(None);
                self.sort(&chunk, answers)
            }
            Batch::Refused(fault) => {
                self.count_refused();
                self.ask_smaller(chunk, fault).await
            }
            Batch::Failed(fault) => {
                self.count(Some(&fault));
                if fault == Fault::TimedOut {
                    // It may be the batch that takes so long.
                    self.endpoint.narrow(chunk.len());
                }
                failed(&chunk, fault)
            }
        }
    }

    /// The endpoint refused a batch. If it answers a single call, the batch was the trouble and the
    /// rest is asked in smaller ones; else the endpoint is.
    async fn ask_smaller(&self, mut chunk: Vec<usize>, why: Fault) -> Asked {
        let size = chunk.len();
        let mut asked = self.ask_one(chunk.remove(0)).await;
        if asked.stop.is_some() {
            // The batch did leave: what is said now of a connection that cannot be made does not
            // make the calls unsent.
            for (_, answer) in &mut asked.answers {
                if matches!(answer, Err(Fault::Unreached(_))) {
                    *answer = Err(why.clone());
                }
            }
            asked.answers.extend(failed(&chunk, why).answers);
        } else {
            self.endpoint.narrow(size);
            asked.again = chunk;
        }
        asked
    }

    /// Calls that only the batch kept from an answer are asked again, but for sends: later ones of the
    /// batch were taken already, so that a repetition would be out of order and help nobody.
    fn sort(&self, chunk: &[usize], answers: Vec<Answer>) -> Asked {
        let mut asked = Asked {
            answers: Vec::new(),
            again: Vec::new(),
            stop: None,
        };
        let mut is_partial = false;
        for (&place, answer) in chunk.iter().zip(answers) {
            let of_batches = answer.as_ref().is_err_and(Fault::is_of_batches);
            is_partial |= of_batches;
            match self.order {
                Order::Free if of_batches => asked.again.push(place),
                Order::Free | Order::Kept => asked.answers.push((place, answer)),
            }
        }
        if is_partial {
            self.endpoint.narrow(chunk.len());
        }
        asked
    }

    /// However a transport keeps its deadline, we keep ours.
    async fn post(&self, body: String) -> Result<Response, Fault> {
        let within = self.until.saturating_duration_since(Instant::now());
        if within.is_zero() {
            return Err(Fault::NoTime);
        }
        let posted = timeout_at(self.until, self.endpoint.transport.post(body, within)).await;
        match posted {
            Ok(answer) => answer.map_err(Fault::from),
            Err(_) => Err(Fault::TimedOut),
        }
    }

    fn count(&self, fault: Option<&Fault>) {
        let ended = match fault {
            Some(Fault::NoTime) => return,
            None | Some(Fault::Node { .. }) => Ended::Ok,
            Some(Fault::Limited | Fault::Status(400..=499)) => Ended::Refused,
            Some(Fault::TimedOut) => Ended::Timeout,
            Some(
                Fault::Status(_)
                | Fault::Unreached(_)
                | Fault::Broken(_)
                | Fault::TooLarge(_)
                | Fault::Unanswered
                | Fault::Garbled(_),
            ) => Ended::Error,
        };
        self.endpoint.meters.requested(self.purpose, ended);
    }

    fn count_refused(&self) {
        self.endpoint.meters.requested(self.purpose, Ended::Refused);
    }
}

/// How many requests go out together.
const fn at_once(order: Order, calls_max: usize) -> usize {
    match order {
        Order::Kept => 1,
        Order::Free if calls_max == 1 => SINGLES_AT_ONCE,
        Order::Free => BATCHES_AT_ONCE,
    }
}

fn failed(chunk: &[usize], fault: Fault) -> Asked {
    let answers = chunk.iter().map(|place| (*place, Err(fault.clone())));
    Asked {
        answers: answers.collect(),
        again: Vec::new(),
        stop: Some(fault),
    }
}

/// Whether the endpoint itself is in trouble, so that more requests would be in vain.
fn ends_it(fault: &Fault) -> bool {
    match fault {
        Fault::Node { .. } => fault.is_limit(),
        Fault::Limited
        | Fault::Status(_)
        | Fault::TimedOut
        | Fault::NoTime
        | Fault::Unreached(_)
        | Fault::Broken(_)
        | Fault::TooLarge(_)
        | Fault::Unanswered
        | Fault::Garbled(_) => true,
    }
}
