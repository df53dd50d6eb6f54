//! A nonce that was lent in the middle of fifty transactions and given back: nobody holds it, and all above
//! it wait. It is found and shown; an operator has it filled, or a rule does.

use anyhow::{Context, Result, ensure};
use fencepost_testkit::wait;
use reqwest::StatusCode;
use serde_json::{Value, json};

use super::care::{Care, careful, feed, remedies, told, until_state};
use super::holder::Holder;
use super::market::Blocks;
use super::member::Member;

const COUNT: u8 = 50;
/// The nonce in the middle.
const GAP: u8 = 25;

/// Fifty transactions around a nonce that nobody holds.
struct Holed {
    care: Care,
    node: Member,
    /// By nonce, without the gap.
    ids: Vec<String>,
    _blocks: Blocks,
}

impl Holed {
    async fn new(sections: &str) -> Result<Self> {
        let care = Care::new(sections).await?;
        let node = care.fleet.start("a").await?;
        let holder = Holder::new(&care.market.url()).await?;
        let mut ids = care.rich(&node, 0, GAP).await?;
        let loan = holder.reserve(&node, "in the middle").await?;
        ensure!(loan.nonce == u64::from(GAP), "{loan:?}");
        ids.extend(care.rich(&node, GAP, COUNT - GAP).await?);
        let body = json!({ "lockToken": loan.lock });
        let (status, told) = node.post_to(&loan.path("recycle"), &body).await?;
        ensure!(
            status == StatusCode::OK && told["state"] == "RECYCLABLE",
            "{told}"
        );
        let _blocks = care.market.blocks();
        Ok(Self {
            care,
            node,
            ids,
            _blocks,
        })
    }

    /// The first above the gap.
    fn next(&self) -> &str {
        &self.ids[usize::from(GAP)]
    }

    /// All fifty are executed, and the gap by a transfer of nothing.
    async fn ends(&self) -> Result<Value> {
        for id in &self.ids {
            until_state(&self.node, id, "CONFIRMED").await?;
        }
        let signer = self.care.signer;
        let path = format!("/api/v1/tx/by-nonce?signer={signer}&nonce={GAP}");
        let filler = wait::until("the filler has ended", || async {
            let filler = self.node.get(&path).await?;
            Ok((filler["state"] == "FAILED_FINAL").then_some(filler))
        });
        let filler = filler.await?;
        ensure!(filler["kind"] == "placeholder", "{filler}");
        ensure!(filler["subState"] == "PLACEHOLDER", "{filler}");
        let mined = self.care.market.mined(signer, u64::from(GAP)).await?;
        ensure!(
            mined.as_ref() == Some(&filler["txHash"]),
            "{mined:?} {filler}"
        );
        ensure!(
            self.care.market.count(signer).await? == u64::from(COUNT) + 1,
            "all"
        );
        let lane = self.care.lane(&self.node).await?;
        ensure!(
            lane["gaps"] == json!([]) && lane["freeNonces"] == json!([]),
            "{lane}"
        );
        ensure!(lane["stuck"] == 0 && lane["head"].is_null(), "{lane}");
        self.care.executed(0..COUNT, true).await?;
        feed(&self.node).await?;
        Ok(filler)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gap_is_shown_and_left_alone_until_an_operator_fills_it() -> Result<()> {
    let holed = Holed::new(&careful("noop", "2s", "1s")).await?;
    let (care, node) = (&holed.care, &holed.node);
    let stuck = until_state(node, holed.next(), "STUCK/GAP").await?;
    ensure!(stuck["lastError"] == "held by nobody: nonce 25", "{stuck}");
    let lane = care.lane(node).await?;
    ensure!(lane["gaps"] == json!([GAP]), "{lane}");
    ensure!(
        lane["freeNonces"] == json!([GAP]) && lane["stuck"] == 1,
        "{lane}"
    );
    ensure!(lane["head"]["txId"] == holed.next(), "{lane}");
    let why = lane["head"]["why"].as_str().context("why")?;
    ensure!(why.contains("nonce 25 below it is held by nobody"), "{why}");
    // Blocks pass and it is looked at again, and nothing is done about it.
    let head = care.market.rpc.head().await?;
    wait::until("blocks pass", || async {
        let now = care.market.rpc.head().await?;
        Ok((now > head + 20).then_some(()))
    })
    .await?;
    ensure!(
        care.market.count(care.signer).await? == u64::from(GAP),
        "none above it"
    );
    ensure!(
        told(node, holed.next(), "STUCK/GAP").await? == 1,
        "told once"
    );
    ensure!(
        remedies(node, holed.next()).await?.is_empty(),
        "nothing was done"
    );
    let path = format!("/api/v1/signers/{}/placeholder", care.signer);
    let body = json!({ "nonce": GAP, "reason": "the holder is gone" });
    let (status, filler) = node.post_to(&path, &body).await?;
    ensure!(
        status == StatusCode::ACCEPTED && filler["nonce"] == GAP,
        "{filler}"
    );
    // There is nothing to fill any more.
    let (status, again) = node.post_to(&path, &body).await?;
    ensure!(status == StatusCode::CONFLICT, "{status} {again}");
    let ended = holed.ends().await?;
    ensure!(ended["txId"] == filler["txId"], "{ended}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gap_is_filled_by_itself_where_a_rule_says_so() -> Result<()> {
    let rule = "[[stuck.rule]]\nreasons = [\"GAP\"]\naction = \"placeholder\"\n";
    let holed = Holed::new(&(careful("rules", "2s", "1s") + rule)).await?;
    holed.ends().await?;
    let done = remedies(&holed.node, holed.next()).await?;
    let done = done.last().context("a remedy")?;
    ensure!(
        done["action"] == "FILL" && done["state"] == "DONE",
        "{done}"
    );
    ensure!(done["by"] == "policy rules", "{done}");
    let all = format!("/api/v1/tx?signer={}&limit=100", holed.care.signer);
    let all = holed.node.get(&all).await?;
    let all = all["transactions"].as_array().context("a page")?;
    let fillers = all.iter().filter(|tx| tx["kind"] == "placeholder");
    ensure!(fillers.count() == 1, "one nonce needs one filler");
    Ok(())
}
