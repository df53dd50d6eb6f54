//! Asking anvil, and telling it what to do.

use anyhow::{Context, Result, ensure};
use reqwest::Client;
use serde_json::{Value, json};

/// An endpoint that tests ask themselves.
pub(crate) struct Rpc {
    url: String,
    http: Client,
}

impl Rpc {
    pub(crate) fn new(url: &str) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        Self {
            url: url.to_owned(),
            http: Client::new(),
        }
    }

    pub(crate) async fn call(&self, method: &str, params: Value) -> Result<Value> {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let sent = self.http.post(&self.url).json(&body).send().await?;
        let mut answer: Value = sent.json().await?;
        ensure!(answer["error"].is_null(), "{method} {params}: {answer}");
        Ok(answer["result"].take())
    }

    pub(crate) async fn head(&self) -> Result<u64> {
        number(&self.call("eth_blockNumber", json!([])).await?)
    }

    /// A receipt, or null.
    pub(crate) async fn receipt(&self, hash: &Value) -> Result<Value> {
        self.call("eth_getTransactionReceipt", json!([hash])).await
    }
}

/// A quantity in hex.
pub(crate) fn number(quantity: &Value) -> Result<u64> {
    let hex = quantity.as_str().and_then(|text| text.strip_prefix("0x"));
    let number = hex.and_then(|hex| u64::from_str_radix(hex, 16).ok());
    number.with_context(|| format!("{quantity} is no quantity"))
}
