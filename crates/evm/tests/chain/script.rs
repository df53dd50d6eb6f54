//! Endpoints that do as they are told, and remember what they were asked.

use fencepost_app::ports::Chain;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use fencepost_domain::ids::{ChainId, Height};
use fencepost_domain::{B256, Bytes, keccak256};
use fencepost_evm::{ChainConfig, Chains, Meters, Response, Transport, TransportError};
use serde_json::{Value, json};

pub(crate) const CHAIN: u64 = 7;

/// What the node answers to a method: a result, or an error's code and text.
pub(crate) type Said = Result<Value, (i64, &'static str)>;
type Handler = Arc<dyn Fn(&Value) -> Said + Send + Sync>;

/// How the wire behaves.
#[derive(Clone)]
pub(crate) enum Wire {
    Up,
    /// Never answers.
    Hangs,
    /// Answers after this time.
    Slow(Duration),
    /// Takes the request, and then never answers.
    Swallows,
    /// No connection.
    Down,
    /// This, whatever is asked.
    Says(u16, String),
}

/// How the node treats batches.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Batches {
    Good,
    /// HTTP status for batches above this size.
    Status(u16, usize),
    /// One error object for batches above this size.
    OneError(usize),
    /// An error for every item of batches above this size.
    EachError(usize),
    /// Answers in the wrong order.
    Backwards,
    /// Leaves the last answer out.
    DropsLast,
    /// Gives the first answer twice, under one id, with the second's content.
    Doubles,
}

pub(crate) struct Node {
    wire: Mutex<Wire>,
    /// How the wire behaves after the next request.
    next: Mutex<Option<Wire>>,
    batches: Mutex<Batches>,
    handlers: Mutex<HashMap<&'static str, Handler>>,
    /// The methods of each request, in order.
    requests: Mutex<Vec<Vec<String>>>,
    /// The raw bytes that it was sent.
    raws: Mutex<Vec<String>>,
    pub(crate) under_way: AtomicUsize,
    pub(crate) under_way_max: AtomicUsize,
}

impl Node {
    /// Of our chain, with a head at 100, that takes everything.
    pub(crate) fn new() -> Arc<Self> {
        let node = Arc::new(Self {
            wire: Mutex::new(Wire::Up),
            next: Mutex::new(None),
            batches: Mutex::new(Batches::Good),
            handlers: Mutex::default(),
            requests: Mutex::default(),
            raws: Mutex::default(),
            under_way: AtomicUsize::new(0),
            under_way_max: AtomicUsize::new(0),
        });
        node.on("eth_chainId", |_| Ok(json!(format!("{CHAIN:#x}"))));
        node.on("web3_clientVersion", |_| Ok(json!("Geth/v1.16.0/linux")));
        node.head(100);
        node.on("eth_sendRawTransaction", |params| {
            let raw: Bytes = params[0].as_str().unwrap().parse().unwrap();
            Ok(json!(keccak256(raw).to_string()))
        });
        node.on("eth_getTransactionCount", |_| Ok(json!("0x5")));
        node
    }

    /// From now on it answers so to this method.
    pub(crate) fn on(
        &self,
        method: &'static str,
        says: impl Fn(&Value) -> Said + Send + Sync + 'static,
    ) {
        self.handlers.lock().unwrap().insert(method, Arc::new(says));
    }

    pub(crate) fn says(&self, method: &'static str, said: Said) {
        self.on(method, move |_| said.clone());
    }

    /// Its newest block; safe is two below, finalized ten.
    pub(crate) fn head(&self, head: u64) {
        self.says("eth_blockNumber", Ok(json!(format!("{head:#x}"))));
        self.on("eth_getBlockByNumber", move |params| {
            let height = match params[0].as_str().unwrap() {
                "latest" => head,
                "safe" => head.saturating_sub(2),
                "finalized" => head.saturating_sub(10),
                hex => u64::from_str_radix(&hex[2..], 16).unwrap(),
            };
            Ok(if height <= head {
                block(height)
            } else {
                Value::Null
            })
        });
    }

    pub(crate) fn wire(&self, wire: Wire) {
        *self.wire.lock().unwrap() = wire;
    }

    /// The next request meets the wire as it is, later ones this.
    pub(crate) fn then(&self, wire: Wire) {
        *self.next.lock().unwrap() = Some(wire);
    }

    pub(crate) fn batches(&self, batches: Batches) {
        *self.batches.lock().unwrap() = batches;
    }

    /// The requests since the last call of this, each as its methods joined.
    pub(crate) fn requests(&self) -> Vec<String> {
        let requests = std::mem::take(&mut *self.requests.lock().unwrap());
        requests.iter().map(|methods| methods.join("+")).collect()
    }

    /// How often a method was asked for since the last call of this or of `requests`.
    pub(crate) fn asked(&self, method: &str) -> usize {
        let requests = std::mem::take(&mut *self.requests.lock().unwrap());
        requests
            .iter()
            .flatten()
            .filter(|name| *name == method)
            .count()
    }

    pub(crate) fn raws(&self) -> Vec<String> {
        self.raws.lock().unwrap().clone()
    }

    fn answer(&self, call: &Value) -> Value {
        let method = call["method"].as_str().unwrap();
        let handler = self.handlers.lock().unwrap().get(method).cloned();
        let missing = || Err((-32601, "the method does not exist"));
        let said = handler.map_or_else(missing, |handler| handler(&call["params"]));
        if method == "eth_sendRawTransaction" {
            let raw = call["params"][0].as_str().unwrap().to_owned();
            self.raws.lock().unwrap().push(raw);
        }
        match said {
            Ok(result) => json!({"jsonrpc": "2.0", "id": call["id"], "result": result}),
            Err((code, message)) => {
                json!({"jsonrpc": "2.0", "id": call["id"], "error": {"code": code, "message": message}})
            }
        }
    }

    fn batch(&self, calls: &[Value]) -> Response {
        let error =
            |id: &Value| json!({"id": id, "error": {"code": -32600, "message": "batch too large"}});
        let mode = *self.batches.lock().unwrap();
        let all = || -> Vec<Value> { calls.iter().map(|call| self.answer(call)).collect() };
        let body = match mode {
            Batches::Status(status, max) if calls.len() > max => {
                return response(status, &json!("no"));
            }
            Batches::OneError(max) if calls.len() > max => error(&Value::Null),
            Batches::EachError(max) if calls.len() > max => {
                calls.iter().map(|call| error(&call["id"])).collect()
            }
            Batches::Good | Batches::Status(..) | Batches::OneError(_) | Batches::EachError(_) => {
                Value::Array(all())
            }
            Batches::Backwards => all().into_iter().rev().collect(),
            Batches::DropsLast => {
                let mut all = all();
                all.pop();
                Value::Array(all)
            }
            Batches::Doubles => {
                let mut all = all();
                let mut twin = all[all.len() - 1].clone();
                twin["id"] = all[0]["id"].clone();
                all.push(twin);
                Value::Array(all)
            }
        };
        response(200, &body)
    }

    fn reply(&self, body: &str) -> Response {
        let body: Value = serde_json::from_str(body).unwrap();
        match body.as_array() {
            Some(calls) => self.batch(calls),
            None => response(200, &self.answer(&body)),
        }
    }

    fn note(&self, body: &str) {
        let body: Value = serde_json::from_str(body).unwrap();
        let name = |call: &Value| call["method"].as_str().unwrap().to_owned();
        let methods = match body.as_array() {
            Some(calls) => calls.iter().map(name).collect(),
            None => vec![name(&body)],
        };
        self.requests.lock().unwrap().push(methods);
    }
}

fn response(status: u16, body: &Value) -> Response {
    Response {
        status,
        body: body.to_string().into_bytes(),
    }
}

struct UnderWay<'a>(&'a Node);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::SeqCst);
    }
}

#[async_trait]
impl Transport for Node {
    async fn post(&self, body: String, _within: Duration) -> Result<Response, TransportError> {
        let now = self.under_way.fetch_add(1, Ordering::SeqCst) + 1;
        self.under_way_max.fetch_max(now, Ordering::SeqCst);
        let _guard = UnderWay(self);
        self.note(&body);
        let wire = self.wire.lock().unwrap().clone();
        if let Some(next) = self.next.lock().unwrap().take() {
            *self.wire.lock().unwrap() = next;
        }
        // A real wire answers later than at once.
        tokio::task::yield_now().await;
        match wire {
            Wire::Up => Ok(self.reply(&body)),
            Wire::Hangs => std::future::pending().await,
            Wire::Slow(time) => {
                tokio::time::sleep(time).await;
                Ok(self.reply(&body))
            }
            Wire::Swallows => {
                self.reply(&body);
                std::future::pending().await
            }
            Wire::Down => Err(TransportError::Unreachable("refused".to_owned())),
            Wire::Says(status, text) => Ok(Response {
                status,
                body: text.into_bytes(),
            }),
        }
    }
}

pub(crate) fn chain() -> ChainId {
    ChainId::new(CHAIN).unwrap()
}

pub(crate) fn height(n: u64) -> Height {
    Height::new(n).unwrap()
}

pub(crate) fn block_hash(height: u64) -> B256 {
    keccak256(height.to_be_bytes())
}

pub(crate) fn block(height: u64) -> Value {
    json!({
        "number": format!("{height:#x}"),
        "hash": block_hash(height).to_string(),
        "parentHash": block_hash(height.wrapping_sub(1)).to_string(),
        "transactions": [B256::repeat_byte(1).to_string()],
        "baseFeePerGas": "0x7",
    })
}

pub(crate) fn config(nodes: &[Arc<Node>]) -> ChainConfig {
    let endpoints = nodes.iter().map(|node| node.clone() as Arc<dyn Transport>);
    ChainConfig::new(chain(), "main", endpoints.collect())
}

pub(crate) fn chains(nodes: &[Arc<Node>]) -> Chains {
    Chains::new(vec![config(nodes)], &Meters::default())
}

/// The states of all endpoints of the one chain.
pub(crate) fn states(chains: &Chains) -> Vec<&'static str> {
    let health = chains.health();
    health[0]
        .endpoints
        .iter()
        .map(|endpoint| endpoint.state)
        .collect()
}

/// Lets what is in the background go on until it waits for something else.
pub(crate) async fn settle() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}
