//! Endpoints of a chain: one that answers what an input says, line by line, and an honest one.
//!
//! A line begins with a letter: `r` a result and `e` an error, in an envelope for every call that is
//! asked; `o` a result in one envelope whatever is asked; `b` bytes as they are; `s` a status of three
//! digits and bytes; `h` no answer, `d` no connection, `k` a broken one; anything else is honest. The
//! lines are gone through again and again.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use fencepost_domain::{B256, Bytes, keccak256};
use fencepost_evm::{Response, Transport, TransportError};
use serde_json::{Value, json};

/// The chain's id.
pub const CHAIN: u64 = 7;
/// The newest block of the honest one.
pub const HEAD: u64 = 100;
/// What the honest one has counted of every account.
pub const COUNT: u64 = 5;
/// More lines are not read: an input is short.
const LINES_MAX: usize = 64;

/// Answers as an input says. Only what chain it is of it tells honestly, or nothing more would be asked.
pub struct Said {
    lines: Vec<Vec<u8>>,
    next: Mutex<usize>,
}

impl Said {
    /// Of the lines of an input.
    pub fn new(input: &[u8]) -> Self {
        let lines = input.split(|byte| *byte == b'\n').take(LINES_MAX);
        Self {
            lines: lines.map(<[u8]>::to_vec).collect(),
            next: Mutex::new(0),
        }
    }

    /// Every text that stands in any of the answers; none where one of them is honest, which may say
    /// anything that is true, or is not JSON, of which nobody can say what it says.
    pub fn texts(&self) -> Option<BTreeSet<String>> {
        let mut texts = BTreeSet::new();
        for line in &self.lines {
            let json = match line.split_first() {
                Some((b'r' | b'e' | b'o' | b'b', rest)) => rest,
                Some((b's', rest)) => rest.get(3..).unwrap_or_default(),
                Some((b'h' | b'd' | b'k', _)) => continue,
                Some(_) | None => return None,
            };
            gather(&serde_json::from_slice(json).ok()?, &mut texts);
        }
        Some(texts)
    }

    fn line(&self) -> &[u8] {
        let mut next = self.next.lock().expect("nobody panics with it");
        let line = &self.lines[*next % self.lines.len()];
        *next += 1;
        line
    }
}

fn gather(value: &Value, texts: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => drop(texts.insert(text.to_ascii_lowercase())),
        Value::Array(items) => items.iter().for_each(|item| gather(item, texts)),
        Value::Object(fields) => fields.values().for_each(|field| gather(field, texts)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[async_trait]
impl Transport for Said {
    async fn post(&self, body: String, within: Duration) -> Result<Response, TransportError> {
        if body.contains("eth_chainId") {
            return Honest.post(body, within).await;
        }
        // A real wire answers later than at once.
        tokio::task::yield_now().await;
        let (kind, rest) = self.line().split_first().unwrap_or((&b'.', &[]));
        let (status, body) = match kind {
            b'r' => (200, enveloped(&body, "result", rest)),
            b'e' => (200, enveloped(&body, "error", rest)),
            b'o' => (200, envelope(1, "result", rest)),
            b'b' => (200, rest.to_vec()),
            b's' => {
                let (digits, rest) = rest.split_at(rest.len().min(3));
                let digits = std::str::from_utf8(digits).unwrap_or_default();
                (digits.parse().unwrap_or(500), rest.to_vec())
            }
            b'h' => std::future::pending().await,
            b'd' => return Err(TransportError::Unreachable("refused".to_owned())),
            b'k' => return Err(TransportError::Broken("reset".to_owned())),
            _ => return Honest.post(body, within).await,
        };
        Ok(Response { status, body })
    }
}

fn enveloped(asked: &str, key: &str, what: &[u8]) -> Vec<u8> {
    let asked: Value = serde_json::from_str(asked).expect("what we ask is JSON");
    let Some(calls) = asked.as_array() else {
        return envelope(asked["id"].as_u64().unwrap_or_default(), key, what);
    };
    let one = |call: &Value| envelope(call["id"].as_u64().unwrap_or_default(), key, what);
    let all: Vec<_> = calls.iter().map(one).collect();
    [b"[".as_slice(), &all.join(&b','), b"]"].concat()
}

fn envelope(id: u64, key: &str, what: &[u8]) -> Vec<u8> {
    let mut text = format!(r#"{{"jsonrpc":"2.0","id":{id},"{key}":"#).into_bytes();
    text.extend(what);
    text.push(b'}');
    text
}

/// Tells the truth about a chain in which every account has sent a little.
pub struct Honest;

#[async_trait]
impl Transport for Honest {
    async fn post(&self, body: String, _: Duration) -> Result<Response, TransportError> {
        let asked: Value = serde_json::from_str(&body).expect("what we ask is JSON");
        let answer = match asked.as_array() {
            Some(calls) => calls.iter().map(honest).collect(),
            None => honest(&asked),
        };
        Ok(Response {
            status: 200,
            body: answer.to_string().into_bytes(),
        })
    }
}

fn honest(call: &Value) -> Value {
    let first = call["params"][0].as_str().unwrap_or_default();
    let result = match call["method"].as_str().unwrap_or_default() {
        "eth_chainId" => json!(format!("{CHAIN:#x}")),
        "web3_clientVersion" => json!("Geth/v1.16.0/linux"),
        "eth_blockNumber" => json!(format!("{HEAD:#x}")),
        "eth_getBlockByNumber" => block(first),
        "eth_getTransactionCount" => json!(format!("{COUNT:#x}")),
        "eth_getBalance" | "eth_gasPrice" | "eth_maxPriorityFeePerGas" => json!("0x7"),
        "eth_estimateGas" => json!("0x5208"),
        "eth_sendRawTransaction" => {
            let raw: Bytes = first.parse().expect("what we send is hex");
            json!(keccak256(raw).to_string())
        }
        _ => Value::Null,
    };
    json!({ "jsonrpc": "2.0", "id": call["id"], "result": result })
}

fn block(tag: &str) -> Value {
    let height = match tag {
        "latest" => HEAD,
        "safe" | "finalized" => HEAD - 10,
        hex => u64::from_str_radix(hex.trim_start_matches("0x"), 16).unwrap_or(u64::MAX),
    };
    if height > HEAD {
        return Value::Null;
    }
    json!({
        "number": format!("{height:#x}"),
        "hash": block_hash(height).to_string(),
        "parentHash": block_hash(height.wrapping_sub(1)).to_string(),
        "transactions": [B256::repeat_byte(1).to_string()],
        "baseFeePerGas": "0x7",
    })
}

/// The honest one's block at a height.
pub fn block_hash(height: u64) -> B256 {
    keccak256(height.to_be_bytes())
}
