//! Two sets of bytes for one nonce: whichever the chain takes decides, be it the older one, and a reorg may
//! change its mind. The payload is the same in both, and is executed once.

use anyhow::{Context, Result, ensure};
use reqwest::StatusCode;
use serde_json::{Value, json};

use super::care::{Care, careful, feed, remedies, told, until_state};
use super::ledger::attempts;
use super::member::Member;

/// A transaction with two attempts, neither of which is mined, and the bytes of both.
struct Pair {
    care: Care,
    node: Member,
    id: String,
    hashes: Vec<String>,
    raws: Vec<Value>,
}

impl Pair {
    async fn new() -> Result<Self> {
        // Neither is sent again while the test changes what is in the pool.
        let care = Care::new(&careful("noop", "2s", "10m")).await?;
        let node = care.fleet.start("a").await?;
        let id = care.rich(&node, 0, 1).await?.remove(0);
        care.market.pooled(1).await?;
        until_state(&node, &id, "TRACKING/BROADCAST").await?;
        let mut pair = Self {
            care,
            node,
            id,
            hashes: vec![],
            raws: vec![],
        };
        pair.keep(0).await?;
        let body = json!({ "action": "REPLACE", "reason": "it takes too long" });
        let path = format!("/api/v1/tx/{}/remedy", pair.id);
        let (status, told) = pair.node.post_to(&path, &body).await?;
        ensure!(status == StatusCode::ACCEPTED, "{status} {told}");
        pair.keep(1).await?;
        Ok(pair)
    }

    /// Waits until the pool has the n-th attempt, and keeps its bytes.
    async fn keep(&mut self, n: usize) -> Result<()> {
        let pooled = fencepost_testkit::wait::until("it is in the pool", || async {
            let hashes = attempts(&self.node, &self.id).await?;
            let Some(hash) = hashes.get(n) else {
                return Ok(None);
            };
            let raw = self.care.market.raw(hash).await?;
            Ok(raw.is_string().then(|| (hash.clone(), raw)))
        });
        let (hash, raw) = pooled.await?;
        self.hashes.push(hash);
        self.raws.push(raw);
        Ok(())
    }

    /// Waits until this attempt is told as mined.
    async fn mined(&self, n: usize) -> Result<()> {
        let wanted = &self.hashes[n];
        fencepost_testkit::wait::until("the mined one is told", || async {
            let tx = self.node.tx(&self.id).await?;
            ensure!(tx["state"] != "CONFIRMED", "{tx}");
            let there = tx["subState"] == "MINED" && tx["txHash"] == **wanted;
            Ok(there.then_some(()))
        })
        .await
        .with_context(|| format!("attempt {n}: {:#?}", self.node.log()))
    }

    /// It ends by this attempt, and everybody who asks is told the same.
    async fn ends(&self, n: usize) -> Result<()> {
        let _blocks = self.care.market.blocks();
        let tx = until_state(&self.node, &self.id, "CONFIRMED").await?;
        ensure!(
            tx["txHash"] == *self.hashes[n],
            "{tx}, not {:?}",
            self.hashes
        );
        let mined = self.care.market.mined(self.care.signer, 0).await?;
        ensure!(mined.as_ref() == Some(&tx["txHash"]), "{mined:?}, not {tx}");
        ensure!(
            attempts(&self.node, &self.id).await? == self.hashes,
            "two attempts"
        );
        let remedies = remedies(&self.node, &self.id).await?;
        ensure!(
            remedies.len() == 1 && remedies[0]["state"] == "DONE",
            "{remedies:#?}"
        );
        ensure!(
            told(&self.node, &self.id, "CONFIRMED").await? == 1,
            "it ended once"
        );
        let next = self.care.rich(&self.node, 1, 2).await?;
        for next in &next {
            until_state(&self.node, next, "CONFIRMED").await?;
        }
        for completion in feed(&self.node).await? {
            ensure!(completion["corrects"].is_null(), "{completion}");
        }
        ensure!(
            self.care.market.count(self.care.signer).await? == 3,
            "three are mined"
        );
        self.care.executed(0..3, true).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_older_bytes_are_mined_after_all_and_the_transaction_ends_by_them() -> Result<()> {
    let pair = Pair::new().await?;
    let market = &pair.care.market;
    let dropped = json!([pair.hashes[1]]);
    market.rpc.call("anvil_dropTransaction", dropped).await?;
    let older = json!([pair.raws[0]]);
    market.rpc.call("eth_sendRawTransaction", older).await?;
    market.mine(1).await?;
    pair.mined(0).await?;
    pair.ends(0).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reorg_swaps_which_of_two_is_mined_and_the_payload_is_executed_once() -> Result<()> {
    for (first, then) in [(1, 0), (0, 1)] {
        let pair = Pair::new().await?;
        let market = &pair.care.market;
        if first == 0 {
            let dropped = json!([pair.hashes[1]]);
            market.rpc.call("anvil_dropTransaction", dropped).await?;
            let older = json!([pair.raws[0]]);
            market.rpc.call("eth_sendRawTransaction", older).await?;
        }
        market.mine(1).await?;
        pair.mined(first).await?;
        pair.care.executed([0], true).await?;
        let put = json!([1, [[pair.raws[then], 0]]]);
        market.rpc.call("anvil_reorg", put).await?;
        pair.mined(then).await?;
        pair.care.executed([0], true).await?;
        let history = pair
            .node
            .get(&format!("/api/v1/tx/{}/history", pair.id))
            .await?;
        let events = history["events"].as_array().context("events")?;
        let forks = events.iter().filter(|event| event["newFork"] == true);
        ensure!(forks.count() > 0, "{events:#?}");
        let ended = pair.ends(then).await;
        ended.with_context(|| format!("from {first} to {then}"))?;
    }
    Ok(())
}
