//! The head of a lane pays less than blocks cost. It is told as stuck, once, and ends by itself when blocks
//! become cheap; or a rule has it replaced, cancelled or filled, and all later ones go on.

use anyhow::{Context, Result, ensure};
use fencepost_testkit::wait;
use serde_json::Value;

use super::care::{Care, careful, feed, is, remedies, told, until_state};
use super::ledger::attempts;
use super::member::Member;

const BEHIND: u8 = 4;
/// In gwei: the head pays 2, the others 300.
const DEAR: u64 = 100;
const CHEAP: u64 = 1;

/// Anvil drops what waits behind a head that pays too little: it is back long before it is stuck too.
fn rule(action: &str) -> String {
    let careful = careful("rules", "5s", "1s");
    format!("{careful}[[stuck.rule]]\naction = \"{action}\"\nrounds = 1\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_pays_too_little_is_told_once_and_ends_by_itself_when_blocks_are_cheap()
-> Result<()> {
    let care = Care::new(&careful("noop", "2s", "6s")).await?;
    let node = care.fleet.start("a").await?;
    // Anvil drops the head from its pool, and keeps what comes later.
    let mut ids = care.poor_head(&node, 0).await?;
    care.market.cost(DEAR).await?;
    care.market.mine(1).await?;
    ids.extend(care.rich(&node, 1, BEHIND).await?);
    let blocks = care.market.blocks();
    let head = until_state(&node, &ids[0], "STUCK/NO_RECEIPT").await?;
    ensure!(head["nonce"] == 0, "{head}");
    let lane = care.lane(&node).await?;
    let shown = &lane["head"];
    ensure!(
        shown["txId"] == head["txId"] && is(shown, "STUCK/NO_RECEIPT"),
        "{lane}"
    );
    ensure!(lane["stuck"] == 1 && lane["paused"].is_null(), "{lane}");
    // It is sent again, and refused, and that is no news.
    let sent = head["submitAttempts"].as_u64().context("a number")?;
    wait::until("it was sent again", || async {
        let tx = node.tx(&ids[0]).await?;
        ensure!(is(&tx, "STUCK/NO_RECEIPT"), "{tx}");
        Ok(tx["submitAttempts"].as_u64().filter(|now| *now > sent))
    })
    .await?;
    told_once(&node, &ids[0]).await?;
    ensure!(
        remedies(&node, &ids[0]).await?.is_empty(),
        "nobody was to do anything"
    );
    for id in &ids[1..] {
        let tx = node.tx(id).await?;
        ensure!(tx["state"] == "TRACKING", "{tx}");
    }

    care.market.cost(CHEAP).await?;
    for id in &ids {
        until_state(&node, id, "CONFIRMED").await?;
        let hashes = attempts(&node, id).await?;
        ensure!(hashes.len() == 1, "{hashes:?}");
    }
    drop(blocks);
    told_once(&node, &ids[0]).await?;
    ensure!(
        told(&node, &ids[0], "CONFIRMED").await? == 1,
        "it ended once"
    );
    let all = usize::from(BEHIND) + 2;
    let feed = feed(&node).await?;
    ensure!(feed.len() == all, "{feed:#?}");
    care.executed(0..=BEHIND, true).await
}

/// In the feed, in the metrics and in the log.
async fn told_once(node: &Member, id: &str) -> Result<()> {
    let in_feed = told(node, id, "STUCK/NO_RECEIPT").await?;
    ensure!(in_feed == 1, "{in_feed} in the feed");
    let metrics = node.metrics().await?;
    let stuck: Vec<&str> = metrics
        .lines()
        .filter(|line| line.starts_with("fencepost_stuck_total{") && !line.ends_with(" 0"))
        .collect();
    ensure!(
        stuck == ["fencepost_stuck_total{reason=\"NO_RECEIPT\"} 1"],
        "{stuck:?}"
    );
    let errors = node.logged("ERROR");
    ensure!(
        errors.len() == 1 && errors[0]["tx_id"] == id && errors[0]["reason"] == "NO_RECEIPT",
        "{errors:#?}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_replaces_the_head_with_a_fee_that_is_enough_and_all_later_ones_follow() -> Result<()>
{
    let care = Care::new(&rule("replace")).await?;
    let node = care.fleet.start("a").await?;
    let ids = care.poor_head(&node, BEHIND).await?;
    care.market.cost(DEAR).await?;
    let _blocks = care.market.blocks();
    for id in &ids {
        until_state(&node, id, "CONFIRMED").await?;
    }
    let hashes = attempts(&node, &ids[0]).await?;
    ensure!(hashes.len() == 2, "{hashes:?}");
    let head = node.tx(&ids[0]).await?;
    ensure!(head["txHash"] == hashes[1], "{head}, not {hashes:?}");
    let done = one_remedy(&node, &ids[0], "REPLACE").await?;
    let paid = done["fees"]["maxFeePerGas"].as_str();
    let paid: u64 = paid.context("a fee")?.parse()?;
    ensure!(paid > DEAR * super::market::GWEI, "{done}");
    for id in &ids[1..] {
        ensure!(attempts(&node, id).await?.len() == 1, "{id}");
        ensure!(remedies(&node, id).await?.is_empty(), "{id}");
    }
    feed(&node).await?;
    care.executed(0..=BEHIND, true).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_cancels_the_head_and_its_payload_is_never_executed() -> Result<()> {
    used_up("cancel", "CANCEL", "FAILED_FINAL/CANCELLED").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_puts_a_placeholder_for_the_head_and_its_payload_is_never_executed() -> Result<()> {
    used_up("placeholder", "PLACEHOLDER", "FAILED_FINAL/PLACEHOLDER").await
}

async fn used_up(action: &str, word: &str, end: &str) -> Result<()> {
    let care = Care::new(&rule(action)).await?;
    let node = care.fleet.start("a").await?;
    let ids = care.poor_head(&node, BEHIND).await?;
    care.market.cost(DEAR).await?;
    let _blocks = care.market.blocks();
    until_state(&node, &ids[0], end).await?;
    for id in &ids[1..] {
        until_state(&node, id, "CONFIRMED").await?;
    }
    let hashes = attempts(&node, &ids[0]).await?;
    ensure!(hashes.len() == 2, "{hashes:?}");
    one_remedy(&node, &ids[0], word).await?;
    let mined = care.market.mined(care.signer, 0).await?;
    ensure!(mined == Some(Value::from(hashes[1].as_str())), "{mined:?}");
    ensure!(told(&node, &ids[0], end).await? == 1, "it ended once");
    care.executed([0], false).await?;
    care.executed(1..=BEHIND, true).await
}

/// The one that was done, by the rules and for their reason.
async fn one_remedy(node: &Member, id: &str, action: &str) -> Result<Value> {
    let mut remedies = remedies(node, id).await?;
    ensure!(remedies.len() == 1, "{remedies:#?}");
    let done = remedies.remove(0);
    let fits = done["action"] == action && done["state"] == "DONE" && done["round"] == 1;
    ensure!(fits && done["by"] == "policy rules", "{done}");
    ensure!(done["reason"] == "rule 1 fits", "{done}");
    Ok(done)
}
