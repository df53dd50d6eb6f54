//! The chain with a real EVM: anvil, whose blocks come from here, so that it can be reorganised and restarted
//! at a moment at which nothing final is lost.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use fencepost_testkit::anvil::Anvil;
use fencepost_testkit::proxy::Proxy;
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::rpc::Rpc;
use crate::dice::Dice;

pub(crate) const BLOCK: Duration = Duration::from_millis(900);
/// Of older blocks the states are forgotten: all of them together take minutes to write down. No reorg is so
/// deep.
const ARGUMENTS: [&str; 4] = [
    "--no-mining",
    "--no-request-size-limit",
    "--prune-history",
    "64",
];
/// So many blocks are there before anything is sent: something to go back to.
const FIRST_BLOCKS: u64 = 12;

pub(crate) struct AnvilChain {
    /// Held while a block is made or the chain is changed: blocks, reorgs and restarts never mix.
    running: Mutex<Running>,
    /// Held while no blocks are to come.
    blocks: Mutex<()>,
    ways: Vec<Arc<Proxy>>,
}

struct Running {
    rpc: Rpc,
    _anvil: Option<Anvil>,
}

async fn launch() -> Result<(Anvil, Rpc)> {
    let anvil = Anvil::start(&ARGUMENTS).await?;
    let rpc = Rpc::new(anvil.url())?;
    Ok((anvil, rpc))
}

fn address(rpc: &Rpc) -> Result<SocketAddr> {
    let address = rpc.url.strip_prefix("http://").context("a URL of anvil")?;
    Ok(address.parse()?)
}

impl AnvilChain {
    /// With one way to it for each node.
    pub(crate) async fn start(nodes: usize) -> Result<Self> {
        let (anvil, rpc) = launch().await?;
        for _ in 0..FIRST_BLOCKS {
            rpc.call("evm_mine", json!([])).await?;
        }
        let mut ways = Vec::new();
        for _ in 0..nodes {
            ways.push(Arc::new(Proxy::start_forgetful(address(&rpc)?).await?));
        }
        let running = Mutex::new(Running {
            rpc,
            _anvil: Some(anvil),
        });
        Ok(Self {
            running,
            blocks: Mutex::default(),
            ways,
        })
    }

    pub(crate) fn way(&self, node: usize) -> &Arc<Proxy> {
        &self.ways[node]
    }

    /// The way to it for those who are not a node.
    pub(crate) async fn rpc(&self) -> Rpc {
        self.running.lock().await.rpc.clone()
    }

    /// Makes blocks for ever. One that is not made is made the next time.
    pub(crate) async fn mine(&self) {
        let mut ticks = interval(BLOCK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let _may = self.blocks.lock().await;
            let running = self.running.lock().await;
            if let Err(error) = running.rpc.call("evm_mine", json!([])).await {
                eprintln!("anvil made no block: {error:#}");
            }
        }
    }

    /// Makes no blocks for a while.
    pub(crate) async fn stall(&self, lasting: Duration) -> Result<()> {
        let _none = self.blocks.lock().await;
        sleep(lasting).await;
        Ok(())
    }

    /// Replaces the newest blocks. What was in them is gone, or comes in another of the new blocks.
    pub(crate) async fn reorg(&self, depth: u64, dice: &mut Dice) -> Result<()> {
        let running = self.running.lock().await;
        let rpc = &running.rpc;
        let mut put: Vec<(Value, u64)> = Vec::new();
        if dice.chance(50) {
            let head = rpc.head().await?;
            for height in head + 1 - depth..=head {
                put.extend(raws(rpc, height, depth - 1).await?);
            }
        }
        rpc.call("anvil_reorg", json!([depth, put])).await?;
        Ok(())
    }

    /// Ends it at once and starts it again from what it had: blocks stay, what waited in its pool is lost.
    pub(crate) async fn restart(&self, away: Duration) -> Result<()> {
        let mut running = self.running.lock().await;
        let state = running.rpc.call("anvil_dumpState", json!([true])).await?;
        let head = running.rpc.head().await?;
        running._anvil = None;
        self.ways.iter().for_each(|way| way.refuse());
        self.ways.iter().for_each(|way| way.cut());
        sleep(away).await;
        let (anvil, rpc) = launch().await?;
        rpc.call("anvil_loadState", json!([state])).await?;
        let again = rpc.head().await?;
        anyhow::ensure!(again == head, "anvil had {head} blocks and has {again}");
        for way in &self.ways {
            way.retarget(address(&rpc)?);
            way.accept();
        }
        *running = Running {
            rpc,
            _anvil: Some(anvil),
        };
        Ok(())
    }
}

/// The bytes of a block's transactions, each for the new block of this number.
async fn raws(rpc: &Rpc, height: u64, at: u64) -> Result<Vec<(Value, u64)>> {
    let params = json!([format!("{height:#x}"), false]);
    let block = rpc.call("eth_getBlockByNumber", params).await?;
    let mut raws = Vec::new();
    for hash in block["transactions"].as_array().context("transactions")? {
        let raw = rpc
            .call("eth_getRawTransactionByHash", json!([hash]))
            .await?;
        raws.push((raw, at));
    }
    Ok(raws)
}
