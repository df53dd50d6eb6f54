//! A real EVM whose blocks and prices the test decides: anvil that mines only when it is told to, at the
//! base fee that it is told.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use fencepost_domain::Address;
use fencepost_testkit::anvil::Anvil;
use fencepost_testkit::wait;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};

use super::rpc::{Rpc, number};

pub(crate) const GWEI: u64 = 1_000_000_000;
/// Between two blocks, once they come by themselves.
const BLOCK: Duration = Duration::from_millis(150);

/// The chain.
pub(crate) struct Market {
    pub(crate) rpc: Arc<Rpc>,
    base_fee: Arc<AtomicU64>,
    anvil: Anvil,
}

/// Blocks come by themselves while this lives.
pub(crate) struct Blocks(JoinHandle<()>);

impl Drop for Blocks {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Market {
    /// With some blocks already, so that there is something to go back to.
    pub(crate) async fn open() -> Result<Self> {
        let anvil = Anvil::start(&["--no-mining"]).await?;
        let market = Self {
            rpc: Arc::new(Rpc::new(anvil.url())),
            base_fee: Arc::new(AtomicU64::new(GWEI)),
            anvil,
        };
        market.mine(5).await?;
        Ok(market)
    }

    pub(crate) fn url(&self) -> String {
        self.anvil.url().to_owned()
    }

    /// From now on a block costs this much.
    pub(crate) async fn cost(&self, gwei: u64) -> Result<()> {
        self.base_fee.store(gwei * GWEI, Ordering::SeqCst);
        priced(&self.rpc, &self.base_fee).await
    }

    pub(crate) async fn mine(&self, blocks: u64) -> Result<()> {
        for _ in 0..blocks {
            block(&self.rpc, &self.base_fee).await?;
        }
        Ok(())
    }

    /// Has blocks come by themselves.
    pub(crate) fn blocks(&self) -> Blocks {
        let (rpc, base_fee) = (Arc::clone(&self.rpc), Arc::clone(&self.base_fee));
        Blocks(tokio::spawn(async move {
            let mut ticks = interval(BLOCK);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                // Whoever waits for a block that never comes says so.
                let _ = block(&rpc, &base_fee).await;
            }
        }))
    }

    /// Waits until the pool holds so many that could be mined.
    pub(crate) async fn pooled(&self, count: u64) -> Result<()> {
        let at = wait::until("they wait in the pool", || async {
            let status = self.rpc.call("txpool_status", json!([])).await?;
            Ok((number(&status["pending"])? == count).then_some(()))
        });
        at.await.with_context(|| format!("{count} of them"))
    }

    pub(crate) async fn balance(&self, of: Address) -> Result<u64> {
        let params = json!([of.to_string(), "latest"]);
        number(&self.rpc.call("eth_getBalance", params).await?)
    }

    /// How many transactions of an account are in blocks.
    pub(crate) async fn count(&self, of: Address) -> Result<u64> {
        let params = json!([of.to_string(), "latest"]);
        number(&self.rpc.call("eth_getTransactionCount", params).await?)
    }

    /// The bytes of a transaction that is in the pool or in a block, or null.
    pub(crate) async fn raw(&self, hash: &str) -> Result<Value> {
        let params = json!([hash]);
        self.rpc.call("eth_getRawTransactionByHash", params).await
    }

    /// The hash of the transaction that has used a nonce, from all blocks.
    pub(crate) async fn mined(&self, of: Address, nonce: u64) -> Result<Option<Value>> {
        for height in 0..=self.rpc.head().await? {
            let params = json!([format!("{height:#x}"), true]);
            let block = self.rpc.call("eth_getBlockByNumber", params).await?;
            for tx in block["transactions"].as_array().context("transactions")? {
                let from = tx["from"].as_str().unwrap_or_default();
                let ours = from.eq_ignore_ascii_case(&of.to_string());
                if ours && number(&tx["nonce"])? == nonce {
                    return Ok(Some(tx["hash"].clone()));
                }
            }
        }
        Ok(None)
    }
}

async fn priced(rpc: &Rpc, base_fee: &AtomicU64) -> Result<()> {
    let fee = format!("{:#x}", base_fee.load(Ordering::SeqCst));
    rpc.call("anvil_setNextBlockBaseFeePerGas", json!([fee]))
        .await?;
    Ok(())
}

/// A block at the price that was set; anvil itself lets the price fall with every empty block.
async fn block(rpc: &Rpc, base_fee: &AtomicU64) -> Result<()> {
    priced(rpc, base_fee).await?;
    rpc.call("evm_mine", json!([])).await?;
    priced(rpc, base_fee).await
}
