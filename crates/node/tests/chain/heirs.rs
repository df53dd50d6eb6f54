//! A leader that dies while it carries out a remedy: claimed and not signed, signed and not stored, stored and
//! not sent. The other node goes on where the store stands: the remedy is carried out once, every set of
//! bytes is followed, and the payload is executed once.

use std::os::unix::process::ExitStatusExt;

use anyhow::{Context, Result, ensure};
use fencepost_testkit::wait;
use futures::{StreamExt, TryStreamExt, stream};
use reqwest::StatusCode;
use serde_json::{Value, json};

use super::care::{Care, careful, remedies, told, until_state};
use super::ledger::attempts;
use super::member::Member;

/// The first time is that of the bytes that are replaced.
const POINTS: [&str; 8] = [
    "before_sign:2",
    "after_sign:2",
    "before_store:2",
    "after_store:2",
    "before_send:2",
    "after_send:2",
    "before_outcome:2",
    "after_outcome:2",
];
/// How many of them are tried at once: more would only wait for the machine.
const AT_ONCE: usize = 4;
const ABORTED: i32 = 6;
const RULE: &str = "[[stuck.rule]]\naction = \"replace\"\nrounds = 2\n";

/// Without blocks nothing moves, and what was accepted is not sent again: the trap counts.
async fn fleet(policy: &str, more: &str) -> Result<Care> {
    let mut care = Care::new(&(careful(policy, "2s", "10m") + more)).await?;
    care.fleet = care.fleet.leasing_shortly();
    Ok(care)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_remedy_whose_leader_dies_at_any_step_is_carried_out_once_by_the_other_node() -> Result<()>
{
    stream::iter(POINTS)
        .map(|point| async move { asked(point).await.context(point) })
        .buffer_unordered(AT_ONCE)
        .try_collect()
        .await
}

/// By an operator, of the node that does not lead.
async fn asked(point: &str) -> Result<()> {
    let care = fleet("noop", "").await?;
    let (mut dying, heir, id) = led(&care, point).await?;
    let body = json!({ "action": "REPLACE", "reason": "it takes too long" });
    let path = format!("/api/v1/tx/{id}/remedy");
    let (status, told) = heir.post_to(&path, &body).await?;
    ensure!(status == StatusCode::ACCEPTED, "{status} {told}");
    dies(&mut dying, point).await?;
    let done = done(&heir, &id).await?;
    ensure!(done.len() == 1 && done[0]["round"] == 1, "{done:#?}");
    ensure!(done[0]["reason"] == "it takes too long", "{done:#?}");
    executed_once(&care, &heir, &id).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_that_was_written_is_carried_out_by_the_other_node() -> Result<()> {
    let point = "after_decide:1";
    let care = fleet("rules", RULE).await?;
    let (mut dying, heir, id) = led(&care, point).await?;
    dies(&mut dying, point).await?;
    let done = done(&heir, &id).await?;
    ensure!(
        done.len() == 1 && done[0]["by"] == "policy rules",
        "{done:#?}"
    );
    executed_once(&care, &heir, &id).await
}

/// Nobody knows what the policy would have said: the next round asks it again.
#[tokio::test(flavor = "multi_thread")]
async fn a_round_whose_leader_dies_before_the_decision_is_closed_and_another_follows() -> Result<()>
{
    let point = "before_decide:1";
    let care = fleet("rules", RULE).await?;
    let (mut dying, heir, id) = led(&care, point).await?;
    dies(&mut dying, point).await?;
    let rows = done(&heir, &id).await?;
    ensure!(rows.len() == 2, "{rows:#?}");
    let lost = &rows[1];
    ensure!(lost["state"] == "REFUSED" && lost["round"] == 1, "{lost}");
    let result = lost["result"].as_str().unwrap_or_default();
    ensure!(result.contains("its leader was gone"), "{lost}");
    executed_once(&care, &heir, &id).await
}

/// A node that leads and will die, another one, and a transaction that waits in the pool.
async fn led(care: &Care, point: &str) -> Result<(Member, Member, String)> {
    let dying = care.fleet.start_trapped("a", point).await?;
    let heir = care.fleet.start("b").await?;
    // Whoever is asked first leads.
    let id = care.rich(&dying, 0, 1).await?.remove(0);
    care.market.pooled(1).await?;
    until_state(&heir, &id, "TRACKING/BROADCAST").await?;
    let lane = care.lane(&heir).await?;
    ensure!(lane["leader"]["node"] == "a", "{lane}");
    Ok((dying, heir, id))
}

async fn dies(dying: &mut Member, point: &str) -> Result<()> {
    let ended = dying.ended().await?;
    let log = dying.log();
    ensure!(ended.signal() == Some(ABORTED), "{ended:?} {log:#?}");
    wait::until("its last words are read", || async {
        let last = format!("FENCEPOST_TRAP: {point}");
        Ok(dying.log().contains(&last).then_some(()))
    })
    .await
}

/// Waits until the newest remedy is done.
async fn done(heir: &Member, id: &str) -> Result<Vec<Value>> {
    let rows = wait::until("the remedy is carried out", || async {
        let rows = remedies(heir, id).await?;
        let newest = rows.first().context("a remedy")?;
        let done = newest["state"] == "DONE" && newest["action"] == "REPLACE";
        Ok(done.then_some(rows))
    });
    rows.await.with_context(|| format!("{:#?}", heir.log()))
}

/// Whichever bytes are mined, the transaction ends once, by them.
async fn executed_once(care: &Care, heir: &Member, id: &str) -> Result<()> {
    let hashes = attempts(heir, id).await?;
    ensure!(hashes.len() == 2, "{hashes:?}");
    let _blocks = care.market.blocks();
    let tx = until_state(heir, id, "CONFIRMED").await?;
    let mined = care.market.mined(care.signer, 0).await?;
    ensure!(mined.as_ref() == Some(&tx["txHash"]), "{mined:?}, not {tx}");
    let hash = tx["txHash"].as_str().context("a hash")?;
    ensure!(
        hashes.iter().any(|known| known == hash),
        "{hash} {hashes:?}"
    );
    // The lane is as good as before.
    let next = care.rich(heir, 1, 2).await?;
    for next in &next {
        until_state(heir, next, "CONFIRMED").await?;
    }
    ensure!(told(heir, id, "CONFIRMED").await? == 1, "it ended once");
    ensure!(
        care.market.count(care.signer).await? == 3,
        "three were sent"
    );
    let lane = care.lane(heir).await?;
    ensure!(
        lane["leader"]["node"] == "b" && lane["leader"]["token"] == 2,
        "{lane}"
    );
    care.executed(0..3, true).await
}
