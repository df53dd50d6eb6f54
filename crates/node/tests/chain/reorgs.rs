//! Reorgs of a real EVM, as deep as finality allows: anvil replaces blocks, loses what was in them or
//! puts it elsewhere. Blocks come only when the test says so, so that what is told at any time can be
//! held against the chain.

use anyhow::{Context, Result, ensure};
use fencepost_domain::Address;
use fencepost_testkit::anvil::Anvil;
use fencepost_testkit::postgres::{Database, shared};
use fencepost_testkit::wait;
use serde_json::{Value, json};

use super::fleet::{CHAIN_ID, Fleet, accounts};
use super::ledger::{attempts, feed_without_holes, id};
use super::member::Member;
use super::rpc::{Rpc, number};

const SIGNERS: u32 = 2;
/// Of each signer, in each round.
const EACH: usize = 2;
/// Blocks on top of a transaction's until it is final.
const CONFIRMATIONS: u64 = 4;

struct World {
    node: Member,
    rpc: Rpc,
    signers: Vec<Address>,
    _fleet: Fleet,
    _anvil: Anvil,
    _database: Database,
}

impl World {
    async fn start() -> Result<Self> {
        let database = shared().await?.create_database().await?;
        let anvil = Anvil::start(&["--no-mining"]).await?;
        let rpc = Rpc::new(anvil.url());
        let signers = accounts(SIGNERS).await?;
        let more = format!("poll_interval = \"100ms\"\nfinality.confirmations = {CONFIRMATIONS}");
        let fleet = Fleet::new(database.url(), SIGNERS)?;
        let fleet = fleet
            .chain("main", CHAIN_ID, &[anvil.url().to_owned()], &more)
            .with("[confirmations]\npublish = true\n");
        let node = fleet.start("a").await?;
        let world = Self {
            node,
            rpc,
            signers,
            _fleet: fleet,
            _anvil: anvil,
            _database: database,
        };
        // So that there is something to go back to.
        world.mine(CONFIRMATIONS + 1).await?;
        Ok(world)
    }

    async fn mine(&self, blocks: u64) -> Result<()> {
        for _ in 0..blocks {
            self.rpc.call("evm_mine", json!([])).await?;
        }
        Ok(())
    }

    /// Sends some of each signer and waits until they are in a block; returns their ids.
    async fn mined(&self) -> Result<Vec<String>> {
        let request = |n: usize| {
            json!({
                "signer": self.signers[n % self.signers.len()].to_string(),
                "payload": { "to": Address::repeat_byte(0xee).to_string(), "value": "1" },
            })
        };
        let requests: Vec<Value> = (0..EACH * self.signers.len()).map(request).collect();
        let ids: Vec<String> = self
            .node
            .post_all(&requests)
            .await?
            .iter()
            .map(id)
            .collect();
        self.pooled(ids.len()).await?;
        self.mine(1).await?;
        self.all(&ids, "it is seen in a block", |tx| {
            tx["subState"] == "MINED"
        })
        .await?;
        Ok(ids)
    }

    async fn pooled(&self, count: usize) -> Result<()> {
        wait::until("all wait in the pool", || async {
            let status = self.rpc.call("txpool_status", json!([])).await?;
            let pending = usize::try_from(number(&status["pending"])?)?;
            Ok((pending == count).then_some(()))
        })
        .await
    }

    /// Waits until all are as they should be; on the way nothing may be claimed that is not so.
    async fn all(&self, ids: &[String], what: &str, fits: impl Fn(&Value) -> bool) -> Result<()> {
        for id in ids {
            wait::until(what, || async {
                let tx = self.claim(id).await?;
                Ok(fits(&tx).then_some(()))
            })
            .await
            .with_context(|| format!("{id}: {:#?}", self.node.log()))?;
        }
        Ok(())
    }

    /// A transaction as it is told. Whatever is told as final is on the chain, and deep enough.
    async fn claim(&self, id: &str) -> Result<Value> {
        let tx = self.node.tx(id).await?;
        if tx["state"] == "TRACKING" || tx["state"] == "ALLOCATED" {
            return Ok(tx);
        }
        ensure!(tx["state"] == "CONFIRMED", "{tx}");
        let receipt = self.rpc.receipt(&tx["txHash"]).await?;
        ensure!(receipt["blockHash"] == tx["blockHash"], "{tx} {receipt}");
        let deep = self.rpc.head().await? - number(&receipt["blockNumber"])?;
        ensure!(deep >= CONFIRMATIONS, "{tx} under {deep} blocks");
        Ok(tx)
    }

    /// The newest blocks are replaced by as many others, which hold these bytes, each in the block of
    /// its number from the fork.
    async fn reorg(&self, depth: u64, put: &[(Value, u64)]) -> Result<()> {
        self.rpc.call("anvil_reorg", json!([depth, put])).await?;
        Ok(())
    }

    async fn history(&self, id: &str) -> Result<Vec<Value>> {
        let answer = self.node.get(&format!("/api/v1/tx/{id}/history")).await?;
        Ok(answer["events"].as_array().context("events")?.clone())
    }

    /// Buries them block by block: they end when the last one is there and not before, each where it
    /// stands now, signed once, and the fork was told. `before` ended earlier.
    async fn ends(&self, ids: &[String], before: usize) -> Result<()> {
        let lowest = self
            .rpc
            .receipt(&self.node.tx(&ids[0]).await?["txHash"])
            .await?;
        let lowest = number(&lowest["blockNumber"])?;
        while self.rpc.head().await? < lowest + CONFIRMATIONS {
            self.all(ids, "it is in its block", |tx| tx["subState"] == "MINED")
                .await?;
            self.mine(1).await?;
            let head = self.rpc.head().await?;
            for id in ids {
                wait::until("the block on top of it is told", || async {
                    let events = self.history(id).await?;
                    let of = |event: &Value| event["blockNumber"] == head;
                    let ended = self.node.tx(id).await?["state"] == "CONFIRMED";
                    Ok((ended || events.iter().any(of)).then_some(()))
                })
                .await?;
            }
        }
        self.all(ids, "it is final", |tx| tx["state"] == "CONFIRMED")
            .await?;
        feed_without_holes(&self.node, before + ids.len()).await?;
        for id in ids {
            let hashes = attempts(&self.node, id).await?;
            ensure!(hashes.len() == 1, "{hashes:?}");
            let events = self.history(id).await?;
            let forks = events.iter().filter(|event| event["newFork"] == true);
            ensure!(forks.count() > 0, "{events:#?}");
        }
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_reorg_drops_is_sent_again_and_ends() -> Result<()> {
    let world = World::start().await?;
    let mut ended = 0;
    for depth in 1..CONFIRMATIONS {
        let ids = world.mined().await?;
        world.mine(depth - 1).await?;
        world.reorg(depth, &[]).await?;
        // Same bytes, back in the pool, and nobody is told that they are in a block.
        world
            .all(&ids, "its block is gone", |tx| tx["blockHash"].is_null())
            .await?;
        world.pooled(ids.len()).await?;
        world.mine(1).await?;
        world
            .all(&ids, "it is seen again", |tx| tx["subState"] == "MINED")
            .await?;
        world
            .ends(&ids, ended)
            .await
            .with_context(|| format!("depth {depth}"))?;
        ended += ids.len();
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_reorg_puts_elsewhere_ends_where_it_stands() -> Result<()> {
    let world = World::start().await?;
    let mut ended = 0;
    for depth in 1..CONFIRMATIONS {
        let ids = world.mined().await?;
        world.mine(depth - 1).await?;
        let mut put = Vec::new();
        let mut old = Vec::new();
        for id in &ids {
            let tx = world.node.tx(id).await?;
            let raw = world
                .rpc
                .call("eth_getRawTransactionByHash", json!([tx["txHash"]]))
                .await?;
            // In the last of the new blocks, which is another one than before unless it is the only one.
            put.push((raw, depth - 1));
            old.push(tx["blockHash"].clone());
        }
        world.reorg(depth, &put).await?;
        for (id, old) in ids.iter().zip(old) {
            let now = world
                .rpc
                .receipt(&world.node.tx(id).await?["txHash"])
                .await?;
            ensure!(now["blockHash"] != old, "anvil left it where it was");
            world
                .all(
                    std::slice::from_ref(id),
                    "it is seen in its new block",
                    |tx| tx["subState"] == "MINED" && tx["blockHash"] == now["blockHash"],
                )
                .await?;
        }
        world
            .ends(&ids, ended)
            .await
            .with_context(|| format!("depth {depth}"))?;
        ended += ids.len();
    }
    Ok(())
}
