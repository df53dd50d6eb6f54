//! Somebody else uses the key, straight at the chain. What we had meant for that nonce can never be mined:
//! it is told as stuck with the hash that took its place, ends when that is final, and everybody else of the
//! lane goes on above it.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::care::{Care, careful, told, until_state};
use super::ledger::attempts;
use super::market::GWEI;

/// Where nobody of ours is paid.
const ELSEWHERE: &str = "0x00000000000000000000000000000000000f0e19";

impl Care {
    /// Anvil knows the key too, and signs with it what pays more than ours.
    pub(crate) async fn meddle(&self, nonce: u64) -> Result<String> {
        let foreign = json!([{
            "from": self.signer.to_string(),
            "to": ELSEWHERE,
            "value": "0x1",
            "nonce": format!("{nonce:#x}"),
            "gas": "0x5208",
            "maxFeePerGas": format!("{:#x}", 900 * GWEI),
            "maxPriorityFeePerGas": format!("{:#x}", 9 * GWEI),
        }]);
        let hash = self.market.rpc.call("eth_sendTransaction", foreign).await?;
        Ok(hash.as_str().context("a hash")?.to_owned())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_transaction_takes_a_nonce_and_only_what_was_meant_for_it_fails() -> Result<()> {
    let care = Care::new(&careful("noop", "2s", "4s")).await?;
    let node = care.fleet.start("a").await?;
    // Anvil loses what waits behind one that is replaced, unless that is the first of its account.
    let mut ids = care.rich(&node, 0, 1).await?;
    care.market.pooled(1).await?;
    care.market.mine(1).await?;
    ids.extend(care.rich(&node, 1, 3).await?);
    care.market.pooled(3).await?;
    let foreign = care.meddle(1).await?;
    // One block with all of them, and one on top: not final yet.
    care.market.mine(2).await?;
    let taken = until_state(&node, &ids[1], "STUCK/NONCE_TAKEN").await?;
    names(&taken["lastError"], &foreign)?;
    let lane = care.lane(&node).await?;
    ensure!(lane["stuck"] == 1 && lane["nextNonce"] == 4, "{lane}");
    ensure!(
        told(&node, &ids[1], "STUCK/NONCE_TAKEN").await? == 1,
        "told once"
    );

    let _blocks = care.market.blocks();
    let failed = until_state(&node, &ids[1], "FAILED_FINAL/NONCE_TAKEN").await?;
    names(&failed["lastError"], &foreign)?;
    for n in [0, 2, 3] {
        let tx = until_state(&node, &ids[n], "CONFIRMED").await?;
        ensure!(tx["nonce"] == n, "{tx}");
    }
    let next = care.rich(&node, 4, 3).await?;
    for (nonce, id) in (4..).zip(&next) {
        let tx = until_state(&node, id, "CONFIRMED").await?;
        ensure!(tx["nonce"] == nonce, "{tx}");
    }
    let mined = care.market.mined(care.signer, 1).await?;
    ensure!(mined == Some(json!(foreign)), "{mined:?}");
    for id in ids.iter().chain(&next) {
        ensure!(
            attempts(&node, id).await?.len() == 1,
            "{id} was signed once"
        );
    }
    ensure!(
        told(&node, &ids[1], "FAILED_FINAL/NONCE_TAKEN").await? == 1,
        "it ended once"
    );
    care.executed([0, 2, 3, 4, 5, 6], true).await?;
    care.executed([1], false).await
}

fn names(error: &Value, hash: &str) -> Result<()> {
    let error = error.as_str().context("an error")?;
    ensure!(error.contains(hash), "{error} does not name {hash}");
    Ok(())
}

/// The node that finds it was not there when it happened.
#[tokio::test(flavor = "multi_thread")]
async fn foreign_transactions_above_the_cursor_are_passed_over() -> Result<()> {
    let care = Care::new(&careful("noop", "2s", "4s")).await?;
    let node = care.fleet.start("a").await?;
    let _blocks = care.market.blocks();
    for id in care.rich(&node, 0, 2).await? {
        until_state(&node, &id, "CONFIRMED").await?;
    }
    node.kill()?;
    care.meddle(2).await?;
    care.meddle(3).await?;
    fencepost_testkit::wait::until("both are in blocks", || async {
        Ok((care.market.count(care.signer).await? == 4).then_some(()))
    })
    .await?;
    let node = care.fleet.start("a").await?;
    let next = care.rich(&node, 2, 2).await?;
    for (nonce, id) in (4..).zip(&next) {
        let tx = until_state(&node, id, "CONFIRMED").await?;
        ensure!(tx["nonce"] == nonce, "{tx}");
    }
    let lane = care.lane(&node).await?;
    ensure!(
        lane["nextNonce"] == 6 && lane["gaps"] == json!([]) && lane["paused"].is_null(),
        "{lane}"
    );
    care.executed(0..4, true).await
}
