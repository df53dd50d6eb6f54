//! Goal: with `confirmations.publish` a reader of `GET …/confirmations` and a reader of the events alone have the
//! blocks that count, after every fork and every change of leaders. Method: anvil and devchain replace blocks above,
//! at and below a transaction's when the test says so; both lists are held against what the chain itself says.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use fencepost_devchain::{EndpointId, Fate, Plan, View};
use fencepost_domain::Address;
use fencepost_testkit::anvil::Anvil;
use fencepost_testkit::postgres::{Database, shared};
use fencepost_testkit::wait;
use serde_json::{Value, json};

use super::fleet::{CHAIN_ID, Chain, Fleet, accounts};
use super::ledger::id;
use super::member::Member;
use super::rpc::{Rpc, number};

/// Blocks on top of a transaction's until it is final: more than any of the forks leaves.
const CONFIRMATIONS: u64 = 30;
const SETTINGS: &str = "poll_interval = \"100ms\"\nfinality.confirmations = 30";
const PUBLISH: &str = "[confirmations]\npublish = true\n";

struct World {
    fleet: Fleet,
    rpc: Rpc,
    signer: Address,
    _database: Database,
}

impl World {
    async fn new(urls: &[String]) -> Result<Self> {
        let database = shared().await?.create_database().await?;
        let fleet = Fleet::new(database.url(), 1)?;
        let fleet = fleet.chain("main", CHAIN_ID, urls, SETTINGS).with(PUBLISH);
        Ok(Self {
            fleet,
            rpc: Rpc::new(&urls[0]),
            signer: accounts(1).await?[0],
            _database: database,
        })
    }

    /// A transaction that waits in the pool.
    async fn pooled(&self, node: &Member) -> Result<String> {
        let request = json!({
            "signer": self.signer.to_string(),
            "payload": { "to": Address::repeat_byte(0xee).to_string(), "value": "1" },
        });
        let id = id(&node.post_all(&[request]).await?[0]);
        self.until(node, &id, "it waits in the pool", |tx| {
            tx["subState"] == "BROADCAST"
        })
        .await?;
        Ok(id)
    }

    async fn until(
        &self,
        node: &Member,
        id: &str,
        what: &str,
        fits: impl Fn(&Value) -> bool,
    ) -> Result<()> {
        let looked = wait::until(what, || async {
            let tx = node.tx(id).await?;
            Ok(fits(&tx).then_some(()))
        });
        looked.await.with_context(|| format!("{:#?}", node.log()))
    }

    /// What the chain has on top of the block that holds the transaction now, by height and hash.
    async fn canonical(&self, hash: &Value) -> Result<Option<Vec<(u64, Value)>>> {
        let receipt = self.rpc.receipt(hash).await?;
        if receipt.is_null() {
            return Ok(None);
        }
        let own = number(&receipt["blockNumber"])?;
        let head = self.rpc.head().await?.min(own + CONFIRMATIONS);
        let mut above = Vec::new();
        for height in own + 1..=head {
            let at = json!([format!("{height:#x}"), false]);
            let block = self.rpc.call("eth_getBlockByNumber", at).await?;
            above.push((height, block["hash"].clone()));
        }
        Ok(Some(above))
    }

    /// Waits until readers have what the chain has, and those who replay the events too.
    async fn check(&self, node: &Member, id: &str, what: &str) -> Result<()> {
        let looked = wait::until(what, || async {
            let tx = node.tx(id).await?;
            let expected = self.canonical(&tx["txHash"]).await?.unwrap_or_default();
            let listed = node.get(&format!("/api/v1/tx/{id}/confirmations")).await?;
            let listed = pairs(&listed["confirmations"])?;
            let replayed = replay(node, id).await?;
            Ok((listed == expected && replayed == expected).then_some(()))
        });
        if let Err(error) = looked.await {
            let listed = node.get(&format!("/api/v1/tx/{id}/confirmations")).await?;
            let events = node.get(&format!("/api/v1/tx/{id}/history")).await?;
            return Err(error.context(format!("{listed:#} {events:#}")));
        }
        Ok(())
    }
}

fn pairs(blocks: &Value) -> Result<Vec<(u64, Value)>> {
    let blocks = blocks.as_array().context("blocks")?.iter();
    blocks
        .map(|block| {
            let height = block["blockNumber"].as_u64().context("a height")?;
            Ok((height, block["blockHash"].clone()))
        })
        .collect()
}

/// The list that the events alone give. At every event it is one chain by the hashes of parents.
async fn replay(node: &Member, id: &str) -> Result<Vec<(u64, Value)>> {
    let events = node.get(&format!("/api/v1/tx/{id}/history")).await?;
    let mut list: Vec<(u64, Value)> = Vec::new();
    let mut own = Value::Null;
    for event in events["events"].as_array().context("events")? {
        if event["newFork"] == true || event["kind"] == "receipt" {
            list.clear();
        }
        if event["kind"] == "receipt" {
            own = event["blockHash"].clone();
        }
        let added = event["confirmations"].as_array().context("confirmations")?;
        for block in added {
            let below = list.last().map_or(&own, |(_, hash)| hash);
            ensure!(block["parentHash"] == *below, "two forks: {events:#}");
            let height = block["blockNumber"].as_u64().context("a height")?;
            list.push((height, block["blockHash"].clone()));
        }
    }
    Ok(list)
}

async fn forks(node: &Member) -> Result<u64> {
    let metrics = node.metrics().await?;
    let name = "fencepost_confirmations_new_fork_total ";
    let line = metrics.lines().find_map(|line| line.strip_prefix(name));
    Ok(line.context("the metric")?.trim().parse()?)
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_follow_every_reorg_of_anvil_and_of_two_leaders() -> Result<()> {
    let anvil = Anvil::start(&["--no-mining"]).await?;
    let world = World::new(&[anvil.url().to_owned()]).await?;
    let node = world.fleet.start("a").await?;
    let mine = async |blocks: u64| -> Result<()> {
        for _ in 0..blocks {
            world.rpc.call("evm_mine", json!([])).await?;
        }
        Ok(())
    };
    let reorg = async |depth: u64, put: Vec<(Value, u64)>| {
        world.rpc.call("anvil_reorg", json!([depth, put])).await
    };
    mine(10).await?;
    let id = world.pooled(&node).await?;
    mine(1).await?;
    mine(4).await?;
    world.check(&node, &id, "four blocks").await?;
    ensure!(forks(&node).await? == 0);
    for (turn, depth) in (1..).zip([2, 3, 4]) {
        reorg(depth, vec![]).await?;
        world.check(&node, &id, &format!("{depth} above")).await?;
        ensure!(forks(&node).await? == turn, "{depth} above is counted");
        mine(1).await?;
        world.check(&node, &id, "one more").await?;
    }
    // At its own block, into another of the same height, and below it.
    for deeper in [0, 2] {
        let tx = node.tx(&id).await?;
        let own = tx["blockNumber"].as_u64().context("a block")?;
        let depth = world.rpc.head().await? - own + 1 + deeper;
        let raw = json!([tx["txHash"]]);
        let raw = world.rpc.call("eth_getRawTransactionByHash", raw).await?;
        reorg(depth, vec![(raw, deeper)]).await?;
        world.check(&node, &id, &format!("{deeper} below")).await?;
        mine(1).await?;
        world.check(&node, &id, "one more on top").await?;
    }
    // Between two leaders: some that the next one has never seen, and a fork.
    node.kill()?;
    mine(2).await?;
    reorg(4, vec![]).await?;
    mine(1).await?;
    let next = world.fleet.start("b").await?;
    world.check(&next, &id, "after a takeover").await?;
    mine(CONFIRMATIONS).await?;
    world
        .until(&next, &id, "it ends", |tx| tx["state"] == "CONFIRMED")
        .await?;
    world.check(&next, &id, "at its end").await
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_follow_a_devchain_with_an_endpoint_that_is_behind_or_elsewhere() -> Result<()> {
    let accounts = accounts(1).await?;
    // Blocks come only when the test says so.
    let day = Duration::from_hours(24);
    let chain = Chain::start_with(CHAIN_ID, &accounts, day, &["first", "second"]).await?;
    let mine = |blocks: u64| {
        let mut chain = chain.shared.lock();
        for _ in 0..blocks {
            let next = chain.head().header.timestamp + 1;
            chain.mine(next);
        }
    };
    let plan = |depth, txs| Plan {
        depth,
        extra: 1,
        txs,
        ..Plan::default()
    };
    let view = |endpoint: usize, view: View| {
        let mut chain = chain.shared.lock();
        chain.set_view(EndpointId(endpoint), view)
    };
    mine(10);
    let world = World::new(&[chain.url(0), chain.url(1)]).await?;
    let node = world.fleet.start("a").await?;
    let id = world.pooled(&node).await?;
    mine(4);
    world.check(&node, &id, "three blocks").await?;
    for (depth, fate) in [
        (1, Fate::Keep),
        (2, Fate::Keep),
        (5, Fate::Keep),
        (8, Fate::Later(1)),
    ] {
        chain.shared.lock().reorg(&plan(depth, fate))?;
        world.check(&node, &id, &format!("depth {depth}")).await?;
        mine(1);
        world.check(&node, &id, "one more").await?;
    }
    for endpoint in [0, 1] {
        view(
            endpoint,
            View {
                branch: None,
                lag: 2,
            },
        )?;
        mine(1);
        let left = chain.shared.lock().reorg(&plan(2, Fate::Keep))?.left;
        view(
            endpoint,
            View {
                branch: Some(left),
                lag: 0,
            },
        )?;
        replay(&node, &id).await?;
        view(endpoint, View::default())?;
        world
            .check(&node, &id, &format!("endpoint {endpoint}"))
            .await?;
    }
    node.kill()?;
    chain.shared.lock().reorg(&plan(3, Fate::Keep))?;
    mine(2);
    let next = world.fleet.start("b").await?;
    world.check(&next, &id, "after a takeover").await
}
