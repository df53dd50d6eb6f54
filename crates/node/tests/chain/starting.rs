//! Where a signer that was never given a nonce here begins, on PostgreSQL and two anvils: at the count that `start`
//! names, and nowhere while endpoints disagree, until an operator sets the cursor.

use anyhow::{Context, Result, ensure};
use fencepost_testkit::anvil::Anvil;
use fencepost_testkit::postgres::shared;
use fencepost_testkit::wait;
use reqwest::StatusCode;
use serde_json::{Value, json};

use super::fleet::{CHAIN_ID, Fleet, accounts};
use super::member::Member;
use super::rpc::Rpc;
use super::typed::type_in;

/// The account sends so many to itself; anvil has its key.
async fn send(rpc: &Rpc, account: &str, count: usize) -> Result<()> {
    for _ in 0..count {
        let tx = json!([{ "from": account, "to": account, "value": "0x1" }]);
        rpc.call("eth_sendTransaction", tx).await?;
    }
    Ok(())
}

async fn first_nonce(node: &Member, signer: &str) -> Result<Value> {
    let body = json!({ "signer": signer });
    let (status, told) = node.post_to("/api/v1/nonces/reserve", &body).await?;
    ensure!(status == StatusCode::CREATED, "{told}");
    Ok(told["nonce"].clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signer_begins_where_its_start_says_and_waits_while_endpoints_disagree() -> Result<()> {
    let database = shared().await?.create_database().await?;
    let anvils = [
        Anvil::start(&["--no-mining"]).await?,
        Anvil::start(&["--no-mining"]).await?,
    ];
    let names: Vec<String> = accounts(4).await?.iter().map(ToString::to_string).collect();
    let [torn, latest, pending, fixed] = &names[..] else {
        anyhow::bail!("{names:?}");
    };
    for (n, anvil) in anvils.iter().enumerate() {
        let rpc = Rpc::new(anvil.url());
        // One is in a block and another in the pool; of the first signer the endpoints know 0 and 3.
        send(&rpc, latest, 1).await?;
        send(&rpc, pending, 1).await?;
        send(&rpc, torn, 3 * n).await?;
        rpc.call("evm_mine", json!([])).await?;
        send(&rpc, latest, 1).await?;
        send(&rpc, pending, 1).await?;
    }
    let watched = |address: &str, start: &str| {
        format!("[[signer]]\nchains = [\"main\"]\naddress = \"{address}\"\nstart = {start}\n")
    };
    let rpc = [&anvils[0], &anvils[1]].map(|anvil| anvil.url().to_owned());
    let fleet = Fleet::new(database.url(), 1)?
        .with(&watched(latest, "\"latest\""))
        .with(&watched(pending, "\"pending\""))
        .with(&watched(fixed, "42"))
        .leasing_shortly()
        .chain("main", CHAIN_ID, &rpc, "poll_interval = \"250ms\"");
    fleet.declare_new("a").await?;
    let node = fleet.start("a").await?;
    assert_eq!(first_nonce(&node, latest).await?, 1);
    assert_eq!(first_nonce(&node, pending).await?, 2);
    assert_eq!(first_nonce(&node, fixed).await?, 42);

    let body = json!({ "signer": torn, "payload": { "to": torn, "value": 1, "gas": 21_000 } });
    let (status, sent) = node.post(&body).await?;
    ensure!(status == StatusCode::ACCEPTED, "{sent}");
    ensure!(
        sent["state"] == "QUEUED" && sent["nonce"].is_null(),
        "{sent}"
    );
    let told = node.get(&format!("/api/v1/signers/{torn}")).await?;
    ensure!(told["waiting"]["reason"] == "ENDPOINTS_DISAGREE", "{told}");
    begun_by_an_operator(&node, torn).await?;
    let id = sent["txId"].as_str().context("an id")?;
    wait::until("it gets the nonce that the operator has set", || async {
        let now = node.tx(id).await?;
        Ok((now["nonce"] == 3).then_some(()))
    })
    .await
}

/// By the command line. What one endpoint has seen used is refused.
async fn begun_by_an_operator(node: &Member, signer: &str) -> Result<()> {
    let typed = async |verb: &str, more: &str| {
        type_in(
            node,
            &format!("signers {verb} {signer} {more} --reason 'x'"),
        )
        .await
    };
    typed("pause", "").await?.shows(&["OPERATOR"])?;
    let low = typed("cursor", "--next 2").await?;
    ensure!(low.err.contains("below 3"), "{low:?}");
    typed("cursor", "--next 3").await?.shows(&["3"])?;
    typed("resume", "").await?.shows(&[])?;
    Ok(())
}
