//! A node's way to one endpoint: late, cut before or after the request was done. And the one place where
//! bytes leave for the chain, so here it is seen whether they were stored before.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use alloy_primitives::{Bytes, keccak256};
use async_trait::async_trait;
use fencepost_devchain::EndpointId;
use fencepost_evm::{Response, Transport, TransportError};
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout_at};

use crate::gate::Gate;
use crate::rng::Rng;
use crate::sometimes::Rare;
use crate::world::World;

const SEND: &str = "eth_sendRawTransaction";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Answered,
    Unreachable,
    LostBefore,
    LostAfter,
    BrokenAfter,
    Gateway,
}

/// One node's way to one endpoint.
pub(crate) struct Wire {
    world: Arc<World>,
    gate: Arc<Gate>,
    who: String,
    endpoint: EndpointId,
    luck: Mutex<Rng>,
    cut: AtomicBool,
}

impl Wire {
    pub(crate) fn new(
        world: &Arc<World>,
        gate: &Arc<Gate>,
        who: &str,
        start: u64,
        endpoint: usize,
    ) -> Self {
        Self {
            luck: Mutex::new(world.rng(&format!("wire {who} {start} {endpoint}"))),
            world: Arc::clone(world),
            gate: Arc::clone(gate),
            who: who.to_owned(),
            endpoint: EndpointId(endpoint),
            cut: AtomicBool::new(false),
        }
    }

    /// Nothing gets through, or all does again.
    pub(crate) fn cut(&self, cut: bool) {
        self.cut.store(cut, Ordering::Relaxed);
    }

    fn way(&self) -> (Fate, Duration, Duration) {
        let rates = &self.world.profile.rates;
        let mut luck = self.luck.lock().expect("nothing panics while it is held");
        if self.world.is_healed() {
            return (Fate::Answered, luck.millis(0, 2), Duration::ZERO);
        }
        let fails = luck.chance(rates.rpc_fails);
        let kind = luck.below(5);
        let fate = match kind {
            _ if self.cut.load(Ordering::Relaxed) => Fate::Unreachable,
            _ if !fails => Fate::Answered,
            0 => Fate::Unreachable,
            1 => Fate::LostBefore,
            2 => Fate::LostAfter,
            3 => Fate::BrokenAfter,
            _ => Fate::Gateway,
        };
        let longest = if luck.chance(rates.rpc_slow) { 700 } else { 4 };
        (fate, luck.millis(0, longest), luck.millis(0, longest / 2))
    }

    async fn exchange(&self, body: String) -> Result<Response, TransportError> {
        let (fate, there, back) = self.way();
        if fate == Fate::Unreachable {
            sleep(there).await;
            return Err(TransportError::Unreachable("refused".to_owned()));
        }
        sleep(there).await;
        if fate == Fate::LostBefore {
            return std::future::pending().await;
        }
        self.arrive(&body).await;
        let is_send = body.contains(SEND);
        let answer = self.world.chain.call(self.endpoint, body).await;
        let taken = |(_, body): &(u16, String)| body.contains("\"result\":\"0x");
        if is_send && fate != Fate::Answered && answer.as_ref().is_ok_and(taken) {
            self.world.saw(Rare::AmbiguousAccepted);
        }
        sleep(back).await;
        self.gate.pass().await;
        match (fate, answer) {
            (Fate::LostAfter, _) => std::future::pending().await,
            (Fate::BrokenAfter, _) => Err(TransportError::Broken("reset".to_owned())),
            (Fate::Gateway, _) => Ok(Response {
                status: 502,
                body: b"bad gateway".to_vec(),
            }),
            (_, Err(cut)) => Err(TransportError::Broken(cut.to_string())),
            (Fate::Answered | Fate::Unreachable | Fate::LostBefore, Ok((status, body))) => {
                Ok(Response {
                    status,
                    body: body.into_bytes(),
                })
            }
        }
    }

    /// I4: bytes are stored before they get to anyone.
    async fn arrive(&self, body: &str) {
        if !body.contains(SEND) {
            return;
        }
        for raw in sent(body) {
            let hash = keccak256(&raw);
            self.world.sent(&self.who, hash, &raw).await;
        }
    }
}

fn sent(body: &str) -> Vec<Bytes> {
    let read: Value = serde_json::from_str(body).expect("our own client wrote it");
    let calls = match read {
        Value::Array(calls) => calls,
        call @ (Value::Object(_)
        | Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)) => vec![call],
    };
    let sends = calls.iter().filter(|call| call["method"] == SEND);
    let raws = sends.filter_map(|call| call["params"][0].as_str()?.parse().ok());
    raws.collect()
}

#[async_trait]
impl Transport for Wire {
    async fn post(&self, body: String, within: Duration) -> Result<Response, TransportError> {
        let end = Instant::now() + within;
        self.gate.pass().await;
        let is_send = body.contains(SEND);
        let told = timeout_at(end, self.exchange(body)).await;
        let told = told.unwrap_or(Err(TransportError::TimedOut));
        let word = match &told {
            Ok(response) if response.status == 200 => "answers",
            Ok(_) => "is a bad gateway",
            Err(TransportError::TimedOut) => "times out",
            Err(TransportError::Unreachable(_)) => "is not reached",
            Err(TransportError::Broken(_) | TransportError::TooLarge { .. }) => "breaks",
        };
        let what = if is_send {
            "send: endpoint"
        } else {
            "endpoint"
        };
        let n = self.endpoint.0;
        self.world
            .trace
            .murmur(&self.who, format_args!("{what} {n} {word}"));
        self.gate.pass().await;
        if is_send && word != "answers" {
            self.world
                .note(&self.who, format_args!("send: endpoint {n} {word}"));
        }
        told
    }
}
