//! What operators and holders of nonces type, against a node that runs: what is printed, how commands end, and
//! that it was done.

use anyhow::{Context, Result, ensure};
use fencepost_testkit::wait;
use serde_json::{Value, json};

use super::care::{Care, careful, remedies, until_state};
use super::holder::Holder;
use super::member::Member;
use super::typed::type_in;

/// A node, and the signer that is looked after.
struct Desk {
    care: Care,
    node: Member,
    signer: String,
}

impl Desk {
    /// What was accepted is not sent again by itself.
    async fn new() -> Result<Self> {
        let care = Care::new(&careful("noop", "10m")).await?;
        let node = care.fleet.start("a").await?;
        let signer = care.signer.to_string();
        Ok(Self { care, node, signer })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_sees_what_is_stuck_and_has_it_replaced() -> Result<()> {
    let desk = Desk::new().await?;
    let node = &desk.node;
    let ids = desk.care.rich(node, 0, 2).await?;
    let id = ids[0].as_str();
    until_state(node, id, "STUCK/NO_RECEIPT").await?;
    let next = format!("next: fencepost tx remedy {id} --action REPLACE --reason …\n");
    let why = "why:  nonce 0 is STUCK/NO_RECEIPT: in no block for too long";
    let show = ["signers", "show", &desk.signer];
    type_in(node, &show).await?.shows(&[why, &next])?;

    let replace = ["tx", "remedy", id, "--action", "replace", "--reason"];
    let with = |more: &[&'static str]| [&replace[..], more].concat();
    let low = [
        "slow",
        "--max-fee-per-gas",
        "1",
        "--max-priority-fee-per-gas",
        "1",
    ];
    type_in(node, &with(&low))
        .await?
        .fails(1, "fees.maxFeePerGas")?;
    let nonsense = ["tx", "remedy", id, "--action", "pray", "--reason", "slow"];
    type_in(node, &nonsense).await?.fails(2, "pray")?;
    type_in(node, &replace[..5]).await?.fails(2, "--reason")?;
    ensure!(remedies(node, id).await?.is_empty(), "nothing was stored");

    let asked = type_in(node, &with(&["slow", "--ticket", "OPS-7"])).await?;
    asked.shows(&[id, "STUCK"])?;
    let listed = wait::until("it is done", || async {
        let listed = type_in(node, &["tx", "remedies", id]).await?.shows(&[])?;
        Ok(listed.out.contains("DONE").then_some(listed))
    });
    listed
        .await?
        .shows(&["REPLACE", "slow", "OPS-7", "maxFeePerGas"])?;
    let told = type_in(node, &["tx", "remedies", id, "--json"])
        .await?
        .json()?;
    let told = &told["remedies"][0];
    ensure!(
        told["state"] == "DONE" && told["audit"]["ticket"] == "OPS-7",
        "{told}"
    );

    let _blocks = desk.care.market.blocks();
    for id in &ids {
        until_state(node, id, "CONFIRMED").await?;
    }
    type_in(node, &with(&["slow"]))
        .await?
        .fails(1, "already_final")?;
    let unknown = "01900000-0000-7000-8000-000000000000";
    type_in(node, &["tx", "remedies", unknown])
        .await?
        .fails(1, "not_found")?;
    type_in(node, &show)
        .await?
        .shows(&["next: nothing waits"])?;
    desk.care.executed(0..2, true).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_borrows_nonces_and_an_operator_fills_the_one_that_came_back() -> Result<()> {
    let desk = Desk::new().await?;
    let node = &desk.node;
    let _blocks = desk.care.market.blocks();
    let reserve = [
        "nonces",
        "reserve",
        "--signer",
        &desk.signer,
        "--json",
        "--request-id",
    ];
    let named = |name: &'static str| [&reserve[..], &[name, "--ttl", "90s"]].concat();
    let first = type_in(node, &named("first")).await?.json()?;
    let again = type_in(node, &named("first")).await?.json()?;
    ensure!(first == again && first["nonce"] == 0, "{first} {again}");
    let second = type_in(node, &named("second")).await?.json()?;
    let (id, lock) = told(&first)?;
    type_in(node, &["nonces", "get", id])
        .await?
        .shows(&[id, "RESERVED", "first"])?;
    let shown = type_in(node, &["nonces", "get", id, "--json"])
        .await?
        .json()?;
    ensure!(shown["lockToken"].is_null(), "{shown}");
    let longer = [
        "nonces",
        "extend",
        id,
        "--lock-token",
        lock,
        "--ttl",
        "10m",
        "--json",
    ];
    let longer = type_in(node, &longer).await?.json()?;
    let ends = |told: &Value| told["expiresAt"].as_str().map(str::to_owned);
    ensure!(ends(&longer) > ends(&first), "{first} {longer}");

    // The first is used. Another lock token moves nothing.
    let holder = Holder::new(&desk.care.market.url()).await?;
    let signed = holder.sign(0, super::care::payee(9), 7).await?;
    holder.send(&signed).await?;
    let hash = signed.hash.to_string();
    let (other, others_lock) = told(&second)?;
    let submitted = [
        "nonces",
        "submitted",
        id,
        "--tx-hash",
        &hash,
        "--lock-token",
    ];
    let wrong = [&submitted[..], &[others_lock]].concat();
    type_in(node, &wrong).await?.fails(1, "lock_lost")?;
    let right = [&submitted[..], &[lock]].concat();
    type_in(node, &right).await?.shows(&["SUBMITTED", &hash])?;
    let used = wait::until("it is used", || async {
        let shown = type_in(node, &["nonces", "get", id]).await?.shows(&[])?;
        Ok(shown.out.contains("USED").then_some(shown))
    });
    used.await?.shows(&[&hash])?;

    // The second comes back, while somebody waits above it.
    let waiting = desk.care.rich(node, 0, 1).await?;
    let recycle = ["nonces", "recycle", other, "--lock-token", others_lock];
    type_in(node, &recycle).await?.shows(&["RECYCLABLE"])?;
    until_state(node, &waiting[0], "STUCK/GAP").await?;
    let why = "nonce 1 below it is held by nobody";
    let next = format!(
        "next: fencepost tx remedy {} --action PLACEHOLDER",
        waiting[0]
    );
    let show = ["signers", "show", &desk.signer];
    type_in(node, &show)
        .await?
        .shows(&["STUCK/GAP", why, &next])?;
    let fill = [
        "signers",
        "placeholder",
        &desk.signer,
        "--reason",
        "gone",
        "--nonce",
    ];
    type_in(node, &[&fill[..], &["2"]].concat())
        .await?
        .fails(1, "nonce_not_open")?;
    type_in(node, &[&fill[..], &["1"]].concat())
        .await?
        .shows(&["placeholder"])?;
    until_state(node, &waiting[0], "CONFIRMED").await?;
    desk.care.executed([0], true).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_reconciles_pauses_and_resumes_a_signer_and_all_of_it_is_kept() -> Result<()> {
    let desk = Desk::new().await?;
    let node = &desk.node;
    let _blocks = desk.care.market.blocks();
    let first = desk.care.rich(node, 0, 1).await?;
    until_state(node, &first[0], "CONFIRMED").await?;
    // Somebody else uses the key.
    desk.care.meddle(1).await?;
    wait::until("it is in a block", || async {
        Ok((desk.care.market.count(desk.care.signer).await? == 2).then_some(()))
    })
    .await?;
    let signer = desk.signer.as_str();
    let reconcile = [
        "signers",
        "reconcile",
        signer,
        "--reason",
        "somebody meddled",
    ];
    let look = [&reconcile[..], &["--dry-run"]].concat();
    let would = type_in(node, &look).await?;
    would.shows(&["1 → 2", "Nothing was changed"])?;
    ensure!(
        desk.care.lane(node).await?["nextNonce"] == 1,
        "only looked at"
    );
    let done = type_in(node, &reconcile).await?.shows(&["1 → 2"])?;
    ensure!(!done.out.contains("Nothing was changed"), "{done:?}");
    ensure!(desk.care.lane(node).await?["nextNonce"] == 2, "raised");

    let why = ["--reason", "the key changes hands", "--ticket", "OPS-9"];
    let verb = |verb: &'static str| [&["signers", verb, signer][..], &why].concat();
    let paused = type_in(node, &verb("pause")).await?;
    paused.shows(&["OPERATOR", "next: fencepost signers resume"])?;
    let to = super::care::payee(1).to_string();
    let send = [
        "tx", "send", "--signer", signer, "--to", &to, "--value", "1000",
    ];
    type_in(node, &send).await?.fails(1, "signer_paused")?;
    type_in(node, &verb("resume"))
        .await?
        .shows(&["next: nothing waits"])?;
    let sent = type_in(node, &[&send[..], &["--json"]].concat())
        .await?
        .json()?;
    ensure!(sent["nonce"] == 2, "{sent}");
    let id = sent["txId"].as_str().context("an id")?;
    type_in(node, &["tx", "watch", id, "--timeout", "30s"])
        .await?
        .shows(&["CONFIRMED"])?;

    let audit = ["signers", "audit", signer];
    let shown = type_in(node, &audit).await?;
    shown.shows(&["PAUSE", "RESUME", "RECONCILE", "somebody meddled", "OPS-9"])?;
    let kept = type_in(node, &[&audit[..], &["--json"]].concat())
        .await?
        .json()?;
    let kept = kept["acts"].as_array().context("acts")?;
    let done: Vec<&Value> = kept.iter().map(|act| &act["action"]).collect();
    ensure!(
        done == ["RESUME", "PAUSE", "RECONCILE"].each_ref(),
        "{kept:#?}"
    );
    let paused = &kept[1];
    ensure!(paused["reason"] == "the key changes hands", "{paused}");
    ensure!(paused["audit"] == json!({ "ticket": "OPS-9" }), "{paused}");
    desk.care.executed(0..2, true).await
}

/// The id and the lock token of a reservation.
fn told(reservation: &Value) -> Result<(&str, &str)> {
    let text = |field: &str| reservation[field].as_str();
    let both = text("reservationId").zip(text("lockToken"));
    both.with_context(|| reservation.to_string())
}
