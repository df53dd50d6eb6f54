//! Whatever an endpoint answers, the adapter says something: it never panics, never hangs, and never
//! takes an answer for an acceptance that is not one.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use fencepost_app::ports::{Chain, CountMode, Source};
use fencepost_domain::attempt::Outcome;
use fencepost_domain::ids::{Lane, Nonce};
use fencepost_domain::request::{Ceilings, Draft, Payload};
use fencepost_domain::state::Block;
use fencepost_domain::{Address, B256, Bytes};
use fencepost_evm::{ChainConfig, Chains, Meters, Response, Transport, TransportError};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::script::{Node, block, block_hash, chain, height};

/// Tells its chain, and then answers with garbage of one kind or another, one after the other.
struct Mad {
    sane: Arc<Node>,
    answers: Mutex<Vec<Garbage>>,
}

#[derive(Debug, Clone)]
enum Garbage {
    /// These bytes, with this status.
    Bytes(u16, Vec<u8>),
    /// A proper envelope around this, for every call.
    Results(Value),
    /// A proper envelope around this error.
    Errors(Value),
    /// A part of the right answer, cut here.
    Cut(usize),
}

#[async_trait]
impl Transport for Mad {
    async fn post(&self, body: String, within: Duration) -> Result<Response, TransportError> {
        let calls: Value = serde_json::from_str(&body).unwrap();
        let text = body.clone();
        if text.contains("eth_chainId") {
            return self.sane.post(body, within).await;
        }
        let garbage = {
            let mut answers = self.answers.lock().unwrap();
            answers.rotate_left(1);
            answers[0].clone()
        };
        let wrapped = |key: &str, value: &Value| {
            let one = |call: &Value| json!({"jsonrpc": "2.0", "id": call["id"], key: value});
            let all = match calls.as_array() {
                Some(calls) => calls.iter().map(one).collect(),
                None => one(&calls),
            };
            (200, all.to_string().into_bytes())
        };
        let (status, body) = match garbage {
            Garbage::Bytes(status, bytes) => (status, bytes),
            Garbage::Results(value) => wrapped("result", &value),
            Garbage::Errors(value) => wrapped("error", &value),
            Garbage::Cut(at) => {
                let mut right = self.sane.post(body, within).await?;
                right.body.truncate(at % right.body.len());
                (right.status, right.body)
            }
        };
        Ok(Response { status, body })
    }
}

fn words() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("0x".to_owned()),
        Just("0x0".to_owned()),
        Just("0x7".to_owned()),
        Just("0xffffffffffffffffffffffffffffffffffffffff".to_owned()),
        Just(B256::repeat_byte(1).to_string()),
        Just(block_hash(7).to_string()),
        Just("0x08c379a0".to_owned() + &"f".repeat(128)),
        ".{0,12}",
    ]
}

/// Keys that are looked for, so that random objects come near to real ones.
fn keys() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "number",
        "hash",
        "parentHash",
        "transactions",
        "transactionHash",
        "blockHash",
        "blockNumber",
        "status",
        "revertReason",
        "from",
        "nonce",
        "baseFeePerGas",
        "gasUsedRatio",
        "reward",
        "code",
        "message",
        "data",
        "logs",
    ])
    .prop_map(ToOwned::to_owned)
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        words().prop_map(Value::from),
    ];
    let tree = leaf.prop_recursive(4, 40, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Value::Array),
            prop::collection::vec((keys(), inner), 0..8)
                .prop_map(|fields| fields.into_iter().collect::<Value>()),
        ]
    });
    prop_oneof![4 => tree, 1 => nearly_right()]
}

/// A real answer with one field replaced.
fn nearly_right() -> impl Strategy<Value = Value> {
    let block = block(7);
    let receipt = json!({"transactionHash": B256::repeat_byte(1).to_string(), "blockHash": block_hash(7).to_string(),
        "blockNumber": "0x7", "status": "0x0", "logs": []});
    let history = json!({"baseFeePerGas": ["0x1"], "gasUsedRatio": [0.5], "reward": [["0x1"]]});
    let real = prop::sample::select(vec![block, receipt, history]);
    (real, keys(), words()).prop_map(|(mut real, key, word)| {
        real[key] = Value::from(word);
        real
    })
}

fn garbage() -> impl Strategy<Value = Garbage> {
    let status = prop_oneof![8 => Just(200_u16), 1 => 100..600_u16];
    prop_oneof![
        2 => (status.clone(), prop::collection::vec(any::<u8>(), 0..60))
            .prop_map(|(status, bytes)| Garbage::Bytes(status, bytes)),
        2 => (status, json_value())
            .prop_map(|(status, value)| Garbage::Bytes(status, value.to_string().into_bytes())),
        5 => json_value().prop_map(Garbage::Results),
        2 => json_value().prop_map(Garbage::Errors),
        1 => any::<usize>().prop_map(Garbage::Cut),
    ]
}

fn payload() -> Payload {
    let draft = Draft {
        to: Some("0x00000000000000000000000000000000000000aa".to_owned()),
        ..Draft::default()
    };
    let ceilings = Ceilings {
        max_fee: u128::MAX,
        max_priority_fee: u128::MAX,
    };
    Payload::parse(&draft, ceilings).unwrap()
}

/// Asks everything, each time of an endpoint that has just told its chain.
async fn ask_everything(answers: Vec<Garbage>) {
    let fresh = || {
        let mad = Mad {
            sane: Node::new(),
            answers: Mutex::new(answers.clone()),
        };
        let config = ChainConfig::new(chain(), "main", vec![Arc::new(mad) as Arc<dyn Transport>]);
        Chains::new(vec![config], &Meters::default())
    };
    let lane = Lane {
        chain: chain(),
        signer: Address::ZERO,
    };
    let block = Block {
        number: height(7),
        hash: block_hash(7),
    };
    let hashes: Vec<_> = (1..12).map(B256::repeat_byte).collect();
    let heights = [height(7), height(8)];
    let raws: Vec<Bytes> = (1..4_u8).map(|n| Bytes::from(vec![n])).collect();
    for reply in fresh().send(chain(), &raws).await {
        // Only an error that says so can be an acceptance: no garbage holds these bytes' hash.
        assert!(reply.outcome != Outcome::Accepted || reply.why.is_some());
        assert!(reply.text.is_none_or(|text| text.chars().count() <= 300));
    }
    let _ = fresh().tip(chain()).await;
    let _ = fresh().quote(chain()).await;
    let _ = fresh().count(lane, CountMode::Latest).await;
    let _ = fresh().estimate(lane, &payload()).await;
    let _ = fresh().balance(lane).await;
    let _ = fresh().consumer(lane, Nonce::new(3).unwrap()).await;
    if let Ok(blocks) = fresh().blocks(chain(), Source(0), &heights).await {
        assert_eq!(blocks.len(), 2);
    }
    if let Ok(witnesses) = fresh().witnesses(chain(), &heights).await {
        assert_eq!(witnesses.len(), 2);
    }
    for count in [1, 11] {
        let found = fresh()
            .receipts_in(chain(), Source(0), block, &hashes[..count])
            .await;
        if let Ok(receipts) = found {
            assert_eq!(receipts.len(), count);
            assert!(
                receipts
                    .iter()
                    .flatten()
                    .all(|receipt| receipt.block == block)
            );
        }
    }
    if let Ok(receipts) = fresh().receipts(chain(), &hashes).await {
        let right = receipts.iter().zip(&hashes);
        assert!(
            right
                .filter_map(|(r, hash)| Some((r.as_ref()?, hash)))
                .all(|(r, hash)| r.hash == *hash)
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_answer_makes_it_panic_hang_or_lie(answers in prop::collection::vec(garbage(), 1..5)) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(ask_everything(answers));
    }
}
