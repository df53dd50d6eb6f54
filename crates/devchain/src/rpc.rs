//! JSON-RPC over the chain: text in, text out, and how long to wait before it is told. Nothing here waits;
//! who carries the answer does.

mod answer;
mod call;
mod control;
mod error;
mod fees;
mod json;
mod params;
mod reads;
mod request;

use std::time::Duration;

use crate::chain::Devchain;
use crate::endpoint::EndpointId;
use crate::fault::{FaultKind, Target, When};

use error::RpcError;
use request::{Body, Call, Incoming};

/// How a request ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// With this.
    Reply {
        /// The HTTP status.
        status: u16,
        /// The body. Empty when nothing was asked that has an answer.
        body: String,
    },
    /// Never.
    Hang,
    /// With a cut connection.
    Disconnect,
}

/// How a request ends, and how much later than at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// How.
    pub answer: Answer,
    /// How much later.
    pub delay: Duration,
}

/// What the transport faults make of a request.
#[derive(Default)]
struct Transport {
    delay: Duration,
    before: Option<Answer>,
    after: Option<Answer>,
}

impl Devchain {
    /// Answers the body of one HTTP request to an endpoint.
    pub fn handle(&mut self, endpoint: EndpointId, body: &str) -> Outcome {
        let incoming = request::read(body, self.config().batch_max);
        let is_control = incoming.is_control();
        if !is_control && let Ok(at) = self.at_mut(endpoint) {
            at.stats.requests += 1;
        }
        let mut transport = Transport::default();
        if !is_control {
            transport = self.transport(endpoint, &incoming);
        }
        let delay = transport.delay;
        if let Some(answer) = transport.before {
            return Outcome { answer, delay };
        }
        let body = self.answer_all(endpoint, &incoming);
        let answer = transport.after.unwrap_or(reply(body));
        Outcome { answer, delay }
    }

    fn answer_all(&mut self, endpoint: EndpointId, incoming: &Incoming<'_>) -> String {
        match &incoming.body {
            Body::Refused(error) => answer::error(None, error),
            Body::One(call) => self.answer_one(endpoint, call).unwrap_or_default(),
            Body::Batch(calls) => {
                let answers = calls
                    .iter()
                    .filter_map(|call| self.answer_one(endpoint, call));
                answer::batch(answers)
            }
        }
    }

    /// The answer to one call; notifications have none.
    fn answer_one(
        &mut self,
        endpoint: EndpointId,
        call: &Result<Call<'_>, RpcError>,
    ) -> Option<String> {
        let call = match call {
            Ok(call) => call,
            Err(error) => return Some(answer::error(None, error)),
        };
        let result = self.answer_call(endpoint, call);
        let id = call.id?;
        Some(match result {
            Ok(result) => answer::result(id, &result),
            Err(error) => answer::error(Some(id), &error),
        })
    }

    fn transport(&mut self, endpoint: EndpointId, incoming: &Incoming<'_>) -> Transport {
        let mut done = Transport::default();
        let Ok(at) = self.at_mut(endpoint) else {
            return done;
        };
        if at.faults.is_empty() {
            return done;
        }
        let asks_about = at.faults.iter().any(|(_, fault)| fault.asks_about());
        let targets: Vec<Target<'_>> = incoming.targets(asks_about).collect();
        for (_, fault) in &mut at.faults {
            let is_batch_fault = fault.kind == FaultKind::RefuseBatches;
            let matches = fault.is_of_transport()
                && (!is_batch_fault || matches!(incoming.body, Body::Batch(_)))
                && (fault.is_of_all() || targets.iter().any(|target| fault.matches(target)))
                && done.before.is_none();
            if matches && fault.strikes() {
                done.add(&fault.kind);
            }
        }
        at.faults.retain(|(_, fault)| !fault.is_used_up());
        done
    }
}

impl Transport {
    fn add(&mut self, kind: &FaultKind) {
        let (when, answer) = match kind {
            FaultKind::Late(millis) => {
                self.delay = self.delay.saturating_add(Duration::from_millis(*millis));
                return;
            }
            FaultKind::Hang(when) => (*when, Answer::Hang),
            FaultKind::Disconnect(when) => (*when, Answer::Disconnect),
            FaultKind::Http { status, body, when } => {
                let (status, body) = (*status, body.clone());
                (*when, Answer::Reply { status, body })
            }
            FaultKind::RefuseBatches => {
                let error = RpcError::new(-32600, "batch requests are not supported");
                (When::Before, reply(answer::error(None, &error)))
            }
            FaultKind::Forget
            | FaultKind::Refuse { .. }
            | FaultKind::Error { .. }
            | FaultKind::Null
            | FaultKind::Stale(_)
            | FaultKind::Pruned(_)
            | FaultKind::Count(_)
            | FaultKind::ChainId(_) => return,
        };
        match when {
            When::Before => self.before = Some(answer),
            When::After => self.after = self.after.take().or(Some(answer)),
        }
    }
}

fn reply(body: String) -> Answer {
    Answer::Reply { status: 200, body }
}
