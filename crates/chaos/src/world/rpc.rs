//! Asking a chain directly.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use reqwest::Client;
use serde_json::{Value, json};

/// Longer than anvil takes to write down its state; a chain that hangs is noticed all the same.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug, Clone)]
pub(crate) struct Rpc {
    pub(crate) url: String,
    http: Client,
}

impl Rpc {
    pub(crate) fn new(url: &str) -> Result<Self> {
        Ok(Self {
            url: url.to_owned(),
            http: Client::builder().timeout(PATIENCE).build()?,
        })
    }

    pub(crate) async fn call(&self, method: &str, params: Value) -> Result<Value> {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let sent = self.http.post(&self.url).json(&body).send().await?;
        let mut answer: Value = sent.json().await?;
        if !answer["error"].is_null() {
            bail!("{method}: {}", answer["error"]);
        }
        Ok(answer["result"].take())
    }

    pub(crate) async fn head(&self) -> Result<u64> {
        number(&self.call("eth_blockNumber", json!([])).await?)
    }

    /// The block with its transactions and their receipts.
    pub(crate) async fn block(&self, height: u64) -> Result<(Value, Vec<Value>)> {
        let at = format!("{height:#x}");
        let block = self.call("eth_getBlockByNumber", json!([at, true])).await?;
        ensure!(!block.is_null(), "there is no block {height}");
        let receipts = self.call("eth_getBlockReceipts", json!([at])).await?;
        let receipts = receipts.as_array().context("receipts")?.clone();
        Ok((block, receipts))
    }
}

/// A quantity in hex.
pub(crate) fn number(quantity: &Value) -> Result<u64> {
    let hex = quantity.as_str().and_then(|text| text.strip_prefix("0x"));
    let number = hex.and_then(|hex| u64::from_str_radix(hex, 16).ok());
    number.with_context(|| format!("{quantity} is no quantity"))
}
