//! Signs and sends by itself, with a nonce that it borrows.
//!
//! `FENCEPOST_URL=http://127.0.0.1:8700 FENCEPOST_RPC_URL=http://127.0.0.1:8545 FENCEPOST_PRIVATE_KEY=0x… \
//!  cargo run -p fencepost-client --example with_nonce`
//!
//! The key's address must be a signer of the node; `address = "0x…"` alone, without a key, is enough there.
//! `FENCEPOST_CHAIN` names the chain where the node has several.

use std::cell::Cell;
use std::time::Duration;

use alloy_consensus::{SignableTransaction, TxEip1559, TxEnvelope};
use alloy_eips::eip2718::Encodable2718;
use alloy_primitives::{B256, U256, hex};
use alloy_signer::SignerSync;
use alloy_signer_local::PrivateKeySigner;
use anyhow::{Context, Result, bail, ensure};
use fencepost_client::{Builder, Lent, Loan, NonceError, Until};
use serde_json::{Value, json};

#[tokio::main]
async fn main() -> Result<()> {
    let client = Builder::from_env().build()?;
    let rpc = Rpc::from_env()?;
    let key = std::env::var("FENCEPOST_PRIVATE_KEY").context("FENCEPOST_PRIVATE_KEY")?;
    let key: PrivateKeySigner = key.parse().context("FENCEPOST_PRIVATE_KEY")?;
    let signer = key.address();

    // Everything that can fail before it, is done before the nonce is borrowed: later ones wait for it.
    let chain_id = rpc.number("eth_chainId").await?;
    let price = u128::from(rpc.number("eth_gasPrice").await?);
    let mut loan = Loan::default().ttl(Duration::from_secs(60));
    if let Ok(chain) = std::env::var("FENCEPOST_CHAIN") {
        loan = loan.chain(chain);
    }

    // Once the bytes may have reached a node, no error is permanent any more: they may be mined tomorrow.
    let maybe_sent = Cell::new(false);
    let send = async |lent: Lent| -> Result<B256, NonceError<String>> {
        println!("run {} with nonce {}", lent.run, lent.nonce);
        let tx = TxEip1559 {
            chain_id,
            nonce: lent.nonce,
            gas_limit: 21_000,
            max_fee_per_gas: price * 2 + 1_000_000_000,
            max_priority_fee_per_gas: 1_000_000_000,
            to: signer.into(),
            value: U256::from(1),
            ..TxEip1559::default()
        };
        let signature = key.sign_hash_sync(&tx.signature_hash());
        let signature = signature.map_err(|error| NonceError::Permanent(error.to_string()))?;
        let signed = TxEnvelope::from(tx.into_signed(signature));
        match rpc.send(&signed.encoded_2718()).await {
            Sent::Taken => Ok(*signed.tx_hash()),
            Sent::Refused(why) if !maybe_sent.get() => Err(NonceError::Permanent(why)),
            Sent::Refused(why) => Err(NonceError::Retryable(why)),
            Sent::Unclear(why) => {
                maybe_sent.set(true);
                Err(NonceError::Retryable(why))
            }
        }
    };
    let spent = client.with_nonce(signer, &loan, send).await?;
    println!("sent as {}", spent.hash);

    let id = spent.reservation.reservation_id;
    let ended = client
        .wait(id, Until::Final, Duration::from_secs(120))
        .await?;
    println!("{} in block {:?}", ended.state, ended.block_number);
    ensure!(ended.has_succeeded(), "it has ended as {}", ended.state);
    Ok(())
}

/// What came of sending.
enum Sent {
    /// A node of the chain has the bytes.
    Taken,
    /// It does not, for a reason that is known to mean that.
    Refused(String),
    /// Nobody knows. An error text that is not known proves nothing.
    Unclear(String),
}

/// Texts by which nodes refuse for certain. "replacement transaction underpriced" is none of them: a pool has a
/// transaction with this nonce, and it may be ours.
const REFUSALS: [&str; 2] = ["insufficient funds", "intrinsic gas too low"];

/// A node of the chain.
struct Rpc {
    http: reqwest::Client,
    url: String,
}

impl Rpc {
    fn from_env() -> Result<Self> {
        let url = std::env::var("FENCEPOST_RPC_URL").context("FENCEPOST_RPC_URL")?;
        let http = reqwest::Client::builder()
            .timeout(Duration::from_secs(10))
            .no_proxy();
        let http = http.build()?;
        Ok(Self { http, url })
    }

    async fn call(&self, method: &str, params: Value) -> Result<Value> {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let request = self
            .http
            .post(&self.url)
            .header("content-type", "application/json");
        let answer = request.body(body.to_string()).send().await?.text().await?;
        Ok(serde_json::from_str(&answer)?)
    }

    async fn number(&self, method: &str) -> Result<u64> {
        let answer = self.call(method, json!([])).await?;
        let Some(text) = answer["result"].as_str() else {
            bail!("{method}: {answer}");
        };
        let digits = text.strip_prefix("0x").context("not a number")?;
        Ok(u64::from_str_radix(digits, 16)?)
    }

    async fn send(&self, raw: &[u8]) -> Sent {
        let params = json!([hex::encode_prefixed(raw)]);
        let answer = match self.call("eth_sendRawTransaction", params).await {
            Ok(answer) => answer,
            Err(error) => return Sent::Unclear(error.to_string()),
        };
        if answer["result"].is_string() {
            return Sent::Taken;
        }
        let why = answer["error"]["message"].as_str().unwrap_or("no reason");
        let why = why.to_lowercase();
        if why.contains("already known") || why.contains("already imported") {
            Sent::Taken
        } else if REFUSALS.iter().any(|text| why.contains(text)) {
            Sent::Refused(why)
        } else {
            Sent::Unclear(why)
        }
    }
}
