//! One lane, on which some transactions are ours and some nonces are lent. They share one cursor, and all of
//! them end: what we send, and what its holder sends.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use fencepost_domain::Address;
use fencepost_testkit::wait;
use futures::future::try_join_all;
use reqwest::StatusCode;
use serde_json::{Value, json};

use super::care::{Care, careful, feed, payee, until_state};
use super::holder::{Holder, Loan};

const MANAGED: u8 = 30;
const LENT: u8 = 10;

#[tokio::test(flavor = "multi_thread")]
async fn managed_and_lent_nonces_of_one_signer_all_end() -> Result<()> {
    let care = Care::new(&careful("noop", "2s", "4s")).await?;
    let nodes = [care.fleet.start("a").await?, care.fleet.start("b").await?];
    let _blocks = care.market.blocks();
    let holder = Holder::new(&care.market.url()).await?;
    let managed = async {
        let mut ids = Vec::new();
        for n in 0..MANAGED {
            let accepted = care.rich(&nodes[usize::from(n % 2)], n, 1).await?;
            ids.extend(accepted);
        }
        anyhow::Ok(ids)
    };
    // Each borrows, signs, sends and says so, while all others go on.
    let lent = (0..LENT).map(|n| {
        let (holder, node) = (&holder, &nodes[usize::from(n % 2)]);
        async move {
            let loan = holder.reserve(node, &format!("loan {n}")).await?;
            let paid = (borrower(n), 5_000);
            let signed = holder.spend(node, &loan, paid).await?;
            anyhow::Ok((loan, signed))
        }
    });
    let (ids, lent) = tokio::try_join!(managed, try_join_all(lent))?;

    let mut nonces = BTreeSet::new();
    for id in &ids {
        let tx = until_state(&nodes[0], id, "CONFIRMED").await?;
        nonces.insert(tx["nonce"].as_u64().context("a nonce")?);
    }
    for (loan, signed) in &lent {
        let path = format!("/api/v1/nonces/{}", loan.id);
        let used = wait::until("it is used", || async {
            let told = nodes[1].get(&path).await?;
            Ok((told["state"] == "USED").then_some(told))
        });
        let used = used
            .await
            .with_context(|| format!("{:#?}", nodes[0].log()))?;
        ensure!(used["txHash"] == signed.hash.to_string(), "{used}");
        ensure!(
            used["nonce"] == loan.nonce && used["lockToken"].is_null(),
            "{used}"
        );
        nonces.insert(loan.nonce);
    }
    let all = u64::from(MANAGED + LENT);
    ensure!(nonces.into_iter().eq(0..all), "each nonce once");
    ensure!(
        care.market.count(care.signer).await? == all,
        "all are in blocks"
    );
    let feed = feed(&nodes[0]).await?;
    let ended = |kind: &str, state: &str| {
        let of = |told: &&Value| told["kind"] == kind && told["state"] == state;
        feed.iter().filter(of).count()
    };
    ensure!(
        ended("managed", "CONFIRMED") == usize::from(MANAGED),
        "{feed:#?}"
    );
    ensure!(ended("reserved", "USED") == usize::from(LENT), "{feed:#?}");
    for n in 0..MANAGED {
        ensure!(care.market.balance(payee(n)).await? == 1_000, "{n}");
    }
    for n in 0..LENT {
        ensure!(care.market.balance(borrower(n)).await? == 5_000, "{n}");
    }
    let lane = care.lane(&nodes[0]).await?;
    ensure!(lane["nextNonce"] == all && lane["inFlight"] == 0, "{lane}");
    ensure!(lane["stuck"] == 0 && lane["head"].is_null(), "{lane}");
    Ok(())
}

/// Both are silent, and their time is soon over.
#[tokio::test(flavor = "multi_thread")]
async fn a_holder_that_says_nothing_keeps_what_it_has_used_and_loses_the_rest() -> Result<()> {
    let short = "[reservation]\nttl = \"3s\"\ngrace = \"1s\"\n";
    let care = Care::new(&(careful("noop", "2s", "1s") + short)).await?;
    let node = care.fleet.start("a").await?;
    let _blocks = care.market.blocks();
    let holder = Holder::new(&care.market.url()).await?;
    let used = holder.reserve(&node, "used").await?;
    let idle = holder.reserve(&node, "idle").await?;
    let signed = holder.sign(used.nonce, borrower(0), 5_000).await?;
    holder.send(&signed).await?;
    let until = async |loan: &Loan, state: &str| {
        let path = format!("/api/v1/nonces/{}", loan.id);
        let told = wait::until(state, || async {
            let told = node.get(&path).await?;
            let over = told["state"] == "USED" || told["state"] == "RECYCLABLE";
            Ok(over.then_some(told))
        });
        let told = told.await?;
        ensure!(told["state"] == state, "{told}");
        anyhow::Ok(told)
    };
    let told = until(&used, "USED").await?;
    ensure!(told["txHash"] == signed.hash.to_string(), "{told}");
    until(&idle, "RECYCLABLE").await?;
    // What was not used is the next one's, whatever its holder says now.
    let next = care.rich(&node, 0, 1).await?.remove(0);
    let tx = until_state(&node, &next, "CONFIRMED").await?;
    ensure!(tx["nonce"] == idle.nonce, "{tx}");
    let late = holder.sign(idle.nonce, borrower(1), 5_000).await?;
    let late = json!({ "lockToken": idle.lock, "txHash": late.hash.to_string() });
    let (status, told) = node.post_to(&idle.path("submitted"), &late).await?;
    ensure!(
        status == StatusCode::CONFLICT && told["code"] == "lock_lost",
        "{told}"
    );
    ensure!(care.market.balance(borrower(0)).await? == 5_000, "paid");
    care.executed([0], true).await
}

fn borrower(n: u8) -> Address {
    Address::repeat_byte(0xb0 + n)
}
