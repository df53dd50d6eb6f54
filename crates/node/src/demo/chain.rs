//! The chain of the demo. It lives in the demo's own process: it survives the node's crash, and can be asked
//! for the truth without asking the node.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fencepost_devchain::{
    Answer, Config, Devchain, EndpointId, Fate, Plan, Server, ServerConfig, Shared,
};
use fencepost_domain::{Address, B256, U256};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::facts::Mined;
use super::request::{Payload, lower};
use crate::failure::Failure;

/// The time between two blocks. Shorter, and the story is over before it is read; longer, and it is long.
pub(super) const BLOCK_TIME: Duration = Duration::from_millis(500);
/// How many blocks are replaced: less than make a transaction final.
pub(super) const REORG_DEPTH: u64 = 2;
/// The most that a reorg undoes. More would have to be asked for longer than a block takes.
const UNDONE_MAX: usize = 48;
const MAIN: EndpointId = EndpointId(0);

/// A running chain.
pub(super) struct Chain {
    shared: Shared,
    server: Server,
    signers: Vec<Address>,
}

#[derive(Deserialize)]
struct RpcBlock {
    hash: String,
    transactions: Vec<RpcTx>,
}

#[derive(Deserialize)]
struct RpcTx {
    hash: String,
    from: String,
    to: Option<String>,
    nonce: String,
    value: String,
    input: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RpcReceipt {
    transaction_hash: String,
    status: String,
}

impl Chain {
    /// Starts it, with funds for the signers.
    pub(super) async fn start(signers: Vec<Address>) -> Result<Chain, Failure> {
        let each = U256::from(10_000) * U256::from(10).pow(U256::from(18));
        let shared = Shared::new(Devchain::new(Config {
            accounts: signers.iter().map(|signer| (*signer, each)).collect(),
            ..Config::default()
        }));
        let config = ServerConfig {
            block_interval: Some(BLOCK_TIME),
            ..ServerConfig::default()
        };
        let started = Server::start(shared.clone(), config).await;
        let server = started.map_err(|error| Failure::new("the chain cannot listen", error))?;
        Ok(Chain {
            shared,
            server,
            signers,
        })
    }

    pub(super) fn url(&self) -> String {
        self.server.url(MAIN)
    }

    pub(super) fn id(&self) -> u64 {
        self.shared.lock().config().chain_id
    }

    pub(super) fn signers(&self) -> &[Address] {
        &self.signers
    }

    /// How many transactions of the signers are in blocks.
    pub(super) fn mined_count(&self) -> u64 {
        let chain = self.shared.lock();
        let state = chain.state();
        self.signers.iter().map(|signer| state.nonce(signer)).sum()
    }

    /// What is in the newest blocks, or enough of it.
    pub(super) fn newest(&self) -> Result<BTreeSet<String>, Failure> {
        let newest = newest(&mut self.shared.lock())?;
        Ok(newest.into_iter().take(UNDONE_MAX).collect())
    }

    /// Replaces the newest blocks, and makes one more. Those of these transactions that were in them are gone,
    /// from the pool too; the others are in the new ones, or in the pool where they do not fit any more.
    /// Nothing is done where none would be gone.
    pub(super) fn reorg(&self, without: &BTreeSet<String>) -> Result<BTreeSet<String>, Failure> {
        let mut chain = self.shared.lock();
        let newest = newest(&mut chain)?;
        let undone: BTreeSet<String> = newest.intersection(without).cloned().collect();
        if undone.is_empty() {
            return Ok(undone);
        }
        let hashes = undone.iter().filter_map(|hash| hash.parse::<B256>().ok());
        let plan = Plan {
            depth: REORG_DEPTH,
            extra: 1,
            only: hashes.map(|hash| (hash, Fate::Drop)).collect(),
            ..Plan::default()
        };
        let done = chain.reorg(&plan);
        done.map_err(|error| Failure::new("the chain could not be reorganised", error))?;
        Ok(undone)
    }

    /// Whether all of these are in blocks.
    pub(super) fn has_mined(&self, wanted: &BTreeSet<String>) -> bool {
        let chain = self.shared.lock();
        let mined = self
            .signers
            .iter()
            .flat_map(|signer| chain.mined_of(*signer));
        let mined: BTreeSet<String> = mined.map(|tx| tx.hash.to_string()).collect();
        wanted.is_subset(&mined)
    }

    /// How often each hash was taken into the pool.
    pub(super) fn sends(&self) -> BTreeMap<String, u64> {
        let chain = self.shared.lock();
        let mut sends = BTreeMap::new();
        for sent in self
            .signers
            .iter()
            .flat_map(|signer| chain.sends_of(*signer))
        {
            *sends.entry(sent.hash.to_string()).or_default() += 1;
        }
        sends
    }

    /// Everything in blocks that the signers sent, as the chain answers over JSON-RPC.
    pub(super) fn mined(&self) -> Result<Vec<Mined>, Failure> {
        let signers: BTreeSet<String> = self.signers.iter().map(|it| lower(*it)).collect();
        let mut mined = blocks(&mut self.shared.lock(), 1)?;
        mined.retain(|tx| signers.contains(&tx.payload.signer));
        Ok(mined)
    }

    pub(super) async fn stop(self) {
        self.server.stop().await;
    }
}

/// The hashes in the blocks that a reorg would replace.
fn newest(chain: &mut Devchain) -> Result<BTreeSet<String>, Failure> {
    let from = chain.head().number().saturating_sub(REORG_DEPTH) + 1;
    let newest = blocks(chain, from)?.into_iter();
    Ok(newest.map(|tx| tx.hash).collect())
}

/// What the canonical blocks from this one on hold.
fn blocks(chain: &mut Devchain, from: u64) -> Result<Vec<Mined>, Failure> {
    let mut mined = Vec::new();
    for number in from..=chain.head().number() {
        let named = format!("{number:#x}");
        let block: RpcBlock = ask(chain, "eth_getBlockByNumber", json!([named, true]))?;
        let receipts: Vec<RpcReceipt> = ask(chain, "eth_getBlockReceipts", json!([named]))?;
        for (tx, receipt) in block.transactions.into_iter().zip(receipts) {
            let unreadable = || Failure::new("the chain cannot be read", tx.hash.clone());
            if receipt.transaction_hash != tx.hash {
                return Err(unreadable());
            }
            let nonce = quantity(&tx.nonce).and_then(|nonce| u64::try_from(nonce).ok());
            mined.push(Mined {
                nonce: nonce.ok_or_else(unreadable)?,
                payload: Payload {
                    signer: tx.from.to_lowercase(),
                    value: quantity(&tx.value).ok_or_else(unreadable)?,
                    to: tx.to.unwrap_or_default().to_lowercase(),
                    data: tx.input.to_lowercase(),
                },
                hash: tx.hash,
                block_number: number,
                block_hash: block.hash.clone(),
                is_success: receipt.status == "0x1",
            });
        }
    }
    Ok(mined)
}

fn ask<T: DeserializeOwned>(
    chain: &mut Devchain,
    method: &str,
    params: Value,
) -> Result<T, Failure> {
    let asked = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let failed = |why: String| Failure::new(format!("the chain does not answer {method}"), why);
    match chain.handle(MAIN, &asked.to_string()).answer {
        Answer::Reply { body, .. } => {
            let read: Result<Value, _> = serde_json::from_str(&body);
            let mut read = read.map_err(|error| failed(error.to_string()))?;
            let result = serde_json::from_value(read["result"].take());
            result.map_err(|error| failed(error.to_string()))
        }
        Answer::Hang | Answer::Disconnect => Err(failed("it has a fault".to_owned())),
    }
}

fn quantity(text: &str) -> Option<u128> {
    u128::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}
