//! A node that does not know its store, on PostgreSQL and anvil: where the chain has transactions that the store does not
//! know, it gives no nonce. The store may be an old copy, or the wrong one.

use std::time::Duration;

use anyhow::{Result, ensure};
use fencepost_testkit::anvil::Anvil;
use fencepost_testkit::postgres::shared;
use fencepost_testkit::wait;
use reqwest::StatusCode;
use serde_json::{Value, json};

use super::fleet::{CHAIN_ID, Fleet, accounts};
use super::member::Member;
use super::rpc::Rpc;
use super::typed::type_in;

/// Sends so many from the account without any node.
async fn send(rpc: &Rpc, account: &str, count: usize) -> Result<()> {
    for _ in 0..count {
        let tx = json!([{ "from": account, "to": account, "value": "0x1" }]);
        rpc.call("eth_sendTransaction", tx).await?;
    }
    Ok(())
}

fn payment(signer: &str, name: &str) -> Value {
    let payload = json!({ "to": signer, "value": "1", "gas": "21000" });
    json!({ "signer": signer, "requestId": name, "payload": payload })
}

/// Pays, and returns the nonce once it is known.
async fn nonce_of(node: &Member, signer: &str, name: &str) -> Result<u64> {
    wait::until("it has a nonce", || async {
        let (_, told) = node.post(&payment(signer, name)).await?;
        Ok(told["nonce"].as_u64())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lane_that_the_chain_is_ahead_of_is_paused_until_a_person_has_looked() -> Result<()> {
    let database = shared().await?.create_database().await?;
    let anvil = Anvil::start(&[]).await?;
    let rpc = Rpc::new(anvil.url());
    let signer = accounts(1).await?[0].to_string();
    let urls = [anvil.url().to_owned()];
    let fleet = Fleet::new(database.url(), 1)?.leasing_shortly().chain(
        "main",
        CHAIN_ID,
        &urls,
        "poll_interval = \"250ms\"",
    );
    let a = fleet.start("a").await?;
    assert_eq!(nonce_of(&a, &signer, "first").await?, 0);
    wait::until("it is mined", || async {
        let count = rpc
            .call("eth_getTransactionCount", json!([signer, "latest"]))
            .await?;
        Ok((count == "0x1").then_some(()))
    })
    .await?;
    a.kill()?;
    // As if they had been sent from a store that this one is an old copy of.
    send(&rpc, &signer, 2).await?;

    let stranger = fleet.start("b").await?;
    wait::until("the lane is paused", || async {
        let shown = stranger.get(&format!("/api/v1/signers/{signer}")).await?;
        Ok((shown["paused"] == "CURSOR_JUMP").then_some(()))
    })
    .await?;
    // Until it leads the lane, requests wait in the queue; none gets a nonce.
    let mut tries = 0;
    let refused = loop {
        let (status, told) = stranger
            .post(&payment(&signer, &format!("try-{tries}")))
            .await?;
        assert_eq!(told["nonce"], Value::Null, "{told}");
        if status == StatusCode::LOCKED {
            break told;
        }
        tries += 1;
        ensure!(tries < 1_000, "{told}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert_eq!(refused["code"], "signer_paused", "{refused}");
    for verb in ["reconcile", "resume"] {
        let typed = format!("signers {verb} {signer} --reason 'compared with the chain'");
        type_in(&stranger, &typed).await?.shows(&[])?;
    }
    let third = nonce_of(&stranger, &signer, "third").await?;
    assert!(third >= 3, "{third}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_store_is_refused_where_a_signer_was_in_use_until_it_is_declared() -> Result<()> {
    let database = shared().await?.create_database().await?;
    let anvil = Anvil::start(&[]).await?;
    let signer = accounts(1).await?[0].to_string();
    send(&Rpc::new(anvil.url()), &signer, 2).await?;
    let urls = [anvil.url().to_owned()];
    let fleet = Fleet::new(database.url(), 1)?.chain("main", CHAIN_ID, &urls, "");
    let refused = fleet.start("a").await.err().map(|error| error.to_string());
    let refused = refused.unwrap_or_default();
    for said in [
        "this may be the wrong store",
        "has sent 2 transactions",
        "migrate --new-store",
    ] {
        assert!(refused.contains(said), "{said} in {refused}");
    }
    fleet.declare_new("a").await?;
    let a = fleet.start("a").await?;
    assert_eq!(nonce_of(&a, &signer, "first").await?, 2);
    // Another node of the same store knows it from the first one.
    let b = fleet.start("b").await?;
    assert_eq!(nonce_of(&b, &signer, "second").await?, 3);
    Ok(())
}
