//! What operators type, against a node that runs: what is printed, how commands end, and that it was done.

use anyhow::{Context, Result, ensure};
use fencepost_testkit::wait;
use serde_json::{Value, json};

use super::care::{Care, careful, payee, remedies, until_state};
use super::holder::Holder;
use super::member::Member;
use super::typed::type_in;

/// A node, and the signer that is looked after. What was accepted is not sent again by itself.
async fn desk() -> Result<(Care, Member, String)> {
    let care = Care::new(&careful("noop", "2s", "10m")).await?;
    let node = care.fleet.start("a").await?;
    let signer = care.signer.to_string();
    Ok((care, node, signer))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_sees_what_is_stuck_and_has_it_replaced() -> Result<()> {
    let (care, node, signer) = desk().await?;
    let typed = async |line: &str| type_in(&node, line).await;
    let ids = care.rich(&node, 0, 2).await?;
    let id = ids[0].as_str();
    until_state(&node, id, "STUCK/NO_RECEIPT").await?;
    let show = format!("signers show {signer}");
    let why = "why:  nonce 0 is STUCK/NO_RECEIPT: in no block for too long";
    let next = format!("next: fencepost tx remedy {id} --action REPLACE --reason …\n");
    typed(&show).await?.shows(&[why, &next])?;

    let replace = format!("tx remedy {id} --action replace --reason slow");
    let low = format!("{replace} --max-fee-per-gas 1 --max-priority-fee-per-gas 1");
    typed(&low).await?.fails(1, "fees.maxFeePerGas")?;
    let nonsense = format!("tx remedy {id} --action pray --reason slow");
    typed(&nonsense).await?.fails(2, "pray")?;
    let mute = format!("tx remedy {id} --action replace");
    typed(&mute).await?.fails(2, "--reason")?;
    ensure!(remedies(&node, id).await?.is_empty(), "nothing was stored");

    let asked = typed(&format!("{replace} --ticket OPS-7")).await?;
    asked.shows(&[id, "STUCK"])?;
    let list = format!("tx remedies {id}");
    let listed = wait::until("it is done", || async {
        let listed = typed(&list).await?.shows(&[])?;
        Ok(listed.out.contains("DONE").then_some(listed))
    });
    let listed = listed.await?;
    listed.shows(&["REPLACE", "slow", "OPS-7", "maxFeePerGas"])?;
    let told = typed(&format!("{list} --json")).await?.json()?;
    let told = &told["remedies"][0];
    ensure!(told["state"] == "DONE", "{told}");
    ensure!(told["audit"]["ticket"] == "OPS-7", "{told}");

    let _blocks = care.market.blocks();
    for id in &ids {
        until_state(&node, id, "CONFIRMED").await?;
    }
    typed(&replace).await?.fails(1, "already_final")?;
    let unknown = "tx remedies 01900000-0000-7000-8000-000000000000";
    typed(unknown).await?.fails(1, "not_found")?;
    typed(&show).await?.shows(&["next: nothing waits"])?;
    care.executed(0..2, true).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_borrows_a_nonce_keeps_it_for_longer_and_says_that_it_is_used() -> Result<()> {
    let (care, node, signer) = desk().await?;
    let typed = async |line: &str| type_in(&node, line).await;
    let _blocks = care.market.blocks();
    let reserve = format!("nonces reserve --signer {signer} --ttl 90s --json --request-id");
    let first = typed(&format!("{reserve} 'the first'")).await?.json()?;
    let again = typed(&format!("{reserve} 'the first'")).await?.json()?;
    ensure!(first == again && first["nonce"] == 0, "{first} {again}");
    let second = typed(&format!("{reserve} second")).await?.json()?;
    let ((id, lock), (_, other_lock)) = (told(&first)?, told(&second)?);
    let get = format!("nonces get {id}");
    let shown = typed(&get).await?;
    shown.shows(&[id, "RESERVED", "the first"])?;
    let shown = typed(&format!("{get} --json")).await?.json()?;
    ensure!(shown["lockToken"].is_null(), "{shown}");
    let extend = format!("nonces extend {id} --lock-token {lock} --ttl 10m --json");
    let longer = typed(&extend).await?.json()?;
    let ends = |told: &Value| told["expiresAt"].as_str().map(str::to_owned);
    ensure!(ends(&longer) > ends(&first), "{first} {longer}");

    let holder = Holder::new(&care.market.url()).await?;
    let signed = holder.sign(0, payee(9), 7).await?;
    holder.send(&signed).await?;
    let hash = signed.hash.to_string();
    let submitted = format!("nonces submitted {id} --tx-hash {hash} --lock-token");
    let wrong = typed(&format!("{submitted} {other_lock}")).await?;
    wrong.fails(1, "lock_lost")?;
    let right = typed(&format!("{submitted} {lock}")).await?;
    right.shows(&["SUBMITTED", &hash])?;
    let used = wait::until("it is used", || async {
        let shown = typed(&get).await?.shows(&[])?;
        Ok(shown.out.contains("USED").then_some(shown))
    });
    used.await?.shows(&[&hash])?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_fills_the_nonce_that_a_holder_gave_back() -> Result<()> {
    let (care, node, signer) = desk().await?;
    let typed = async |line: &str| type_in(&node, line).await;
    let _blocks = care.market.blocks();
    let waiting = behind_gap(&care, &node, 0).await?;
    let why = "nonce 0 below it is held by nobody";
    let next = format!("next: fencepost tx remedy {waiting} --action FILL");
    let shown = typed(&format!("signers show {signer}")).await?;
    shown.shows(&["STUCK/GAP", why, &next])?;
    let fill = format!("signers placeholder {signer} --reason gone --ticket OPS-8 --nonce");
    let held = typed(&format!("{fill} 1")).await?;
    held.fails(1, "nonce_not_open")?;
    let filled = typed(&format!("{fill} 0")).await?;
    filled.shows(&["placeholder"])?;
    until_state(&node, &waiting, "CONFIRMED").await?;

    let waiting = behind_gap(&care, &node, 1).await?;
    let press = format!("tx remedy {waiting} --action FILL --reason gone");
    typed(&press).await?.shows(&[&waiting])?;
    until_state(&node, &waiting, "CONFIRMED").await?;
    let done = typed(&format!("tx remedies {waiting}")).await?;
    done.shows(&["FILL", "DONE", "gone"])?;
    typed(&press).await?.fails(1, "already_final")?;
    care.executed([0, 1], true).await
}

/// A payment whose lower nonce was lent and given back.
async fn behind_gap(care: &Care, node: &Member, nth: u8) -> Result<String> {
    let reserve = format!("nonces reserve --signer {} --json", care.signer);
    let lent = type_in(node, &reserve).await?.json()?;
    let (id, lock) = told(&lent)?;
    let waiting = care.rich(node, nth, 1).await?.remove(0);
    let recycle = format!("nonces recycle {id} --lock-token {lock}");
    type_in(node, &recycle).await?.shows(&["RECYCLABLE"])?;
    until_state(node, &waiting, "STUCK/GAP").await?;
    Ok(waiting)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_reconciles_pauses_and_resumes_a_signer_and_all_of_it_is_kept() -> Result<()> {
    let (care, node, signer) = desk().await?;
    let typed = async |line: &str| type_in(&node, line).await;
    let _blocks = care.market.blocks();
    let first = care.rich(&node, 0, 1).await?;
    until_state(&node, &first[0], "CONFIRMED").await?;
    // Somebody else uses the key.
    care.meddle(1).await?;
    wait::until("it is in a block", || async {
        Ok((care.market.count(care.signer).await? == 2).then_some(()))
    })
    .await?;
    let reconcile = format!("signers reconcile {signer} --reason 'somebody meddled'");
    let would = typed(&format!("{reconcile} --dry-run")).await?;
    would.shows(&["1 → 2", "Nothing was changed"])?;
    let lane = care.lane(&node).await?;
    ensure!(lane["nextNonce"] == 1, "it was only looked at: {lane}");
    let done = typed(&reconcile).await?.shows(&["1 → 2"])?;
    ensure!(!done.out.contains("Nothing was changed"), "{done:?}");
    let lane = care.lane(&node).await?;
    ensure!(lane["nextNonce"] == 2, "{lane}");

    let why = "--reason 'the key changes hands' --ticket OPS-9";
    let paused = typed(&format!("signers pause {signer} {why}")).await?;
    paused.shows(&["OPERATOR", "next: fencepost signers resume"])?;
    let send = format!("tx send --signer {signer} --to {} --value 1000", payee(1));
    typed(&send).await?.fails(1, "signer_paused")?;
    let resumed = typed(&format!("signers resume {signer} {why}")).await?;
    resumed.shows(&["next: nothing waits"])?;
    let sent = typed(&format!("{send} --json")).await?.json()?;
    ensure!(sent["nonce"] == 2, "{sent}");
    let id = sent["txId"].as_str().context("an id")?;
    let watched = typed(&format!("tx watch {id} --timeout 30s")).await?;
    watched.shows(&["CONFIRMED"])?;

    let audit = format!("signers audit {signer}");
    let shown = typed(&audit).await?;
    shown.shows(&["PAUSE", "RESUME", "RECONCILE", "somebody meddled", "OPS-9"])?;
    let kept = typed(&format!("{audit} --json")).await?.json()?;
    let kept = kept["acts"].as_array().context("acts")?;
    let done: Vec<&Value> = kept.iter().map(|act| &act["action"]).collect();
    ensure!(done == ["RESUME", "PAUSE", "RECONCILE"], "{kept:#?}");
    ensure!(kept[1]["reason"] == "the key changes hands", "{kept:#?}");
    let ticket = json!({ "ticket": "OPS-9" });
    ensure!(kept[1]["audit"] == ticket, "{kept:#?}");
    care.executed(0..2, true).await
}

/// The id and the lock token of a reservation.
fn told(reservation: &Value) -> Result<(&str, &str)> {
    let text = |field: &str| reservation[field].as_str();
    let both = text("reservationId").zip(text("lockToken"));
    both.with_context(|| reservation.to_string())
}
