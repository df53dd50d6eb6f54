//! Nodes without any rpc lend nonces, and PostgreSQL's clock ends what they lent: expired reservations are given back
//! and lent again, lowest first, and what was submitted is used after `reservation.used_after`; also when the leader is
//! killed in between.

use anyhow::{Context, Result, ensure};
use fencepost_testkit::postgres::shared;
use fencepost_testkit::wait;
use reqwest::StatusCode;
use serde_json::{Value, json};

use super::fleet::{Fleet, Member, signer};

const LENDING: &str = "[reservation]\ngrace = \"1s\"\nused_after = \"6s\"\n";

async fn reserve(node: &Member, seconds: u64) -> Result<Value> {
    let body = json!({ "signer": signer(1), "ttlSeconds": seconds });
    let lent = node.post_to("/api/v1/nonces/reserve", &body).await?;
    ensure!(lent.status == StatusCode::CREATED, "{lent:?}");
    Ok(lent.body)
}

async fn submitted(node: &Member, lent: &Value, hash: &str) -> Result<(StatusCode, Value)> {
    let body = json!({ "lockToken": lent["lockToken"], "txHash": hash });
    let path = format!("{}/submitted", path(lent)?);
    let told = node.post_to(&path, &body).await?;
    Ok((told.status, told.body))
}

fn path(lent: &Value) -> Result<String> {
    let id = lent["reservationId"].as_str().context("an id")?;
    Ok(format!("/api/v1/nonces/{id}"))
}

async fn until(node: &Member, lent: &Value, state: &str) -> Result<()> {
    let path = path(lent)?;
    let reached = wait::until(state, || async {
        let told = node.get(&path).await?;
        Ok((told.body["state"] == state).then_some(()))
    });
    reached.await.with_context(|| format!("{lent}"))
}

#[tokio::test]
async fn the_clock_of_the_store_ends_reservations_over_the_loss_of_the_leader() -> Result<()> {
    let database = shared().await?.create_database().await?;
    let fleet = Fleet::new(database.url())?.with(LENDING);
    let first = fleet.start("a").await?;
    let lapsed = [reserve(&first, 1).await?, reserve(&first, 1).await?];
    let kept = reserve(&first, 600).await?;
    ensure!(kept["nonce"] == 2, "{kept}");
    let sent = reserve(&first, 600).await?;
    for lent in &lapsed {
        until(&first, lent, "RECYCLABLE").await?;
    }
    let recycled = "fencepost_reservation_by_clock_total{result=\"recycled\"}";
    ensure!(first.meter(recycled).await? == 2.0);
    let hash = format!("0x{}", "ab".repeat(32));
    let (status, told) = submitted(&first, &lapsed[0], &hash).await?;
    ensure!(
        status == StatusCode::CONFLICT && told["code"] == "lock_lost",
        "{told}"
    );
    ensure!(first.meter("fencepost_reservation_late_total").await? == 1.0);

    // The lowest first, and one of them lapses while nobody leads.
    let again = reserve(&first, 2).await?;
    ensure!(again["nonce"] == 0, "{again}");
    let hash = format!("0x{}", "cd".repeat(32));
    let (status, told) = submitted(&first, &sent, &hash).await?;
    ensure!(status == StatusCode::OK, "{told}");
    first.kill().await?;
    let second = fleet.start("b").await?;
    until(&second, &again, "RECYCLABLE").await?;
    until(&second, &sent, "USED").await?;
    let feed = second.get("/api/v1/tx/completions?after=0").await?.body;
    let told = &feed["completions"];
    ensure!(
        told.as_array().is_some_and(|rows| rows.len() == 1),
        "{feed}"
    );
    ensure!(
        told[0]["state"] == "USED" && told[0]["nonce"] == 3,
        "{feed}"
    );
    for expected in [0, 1, 4] {
        let lent = reserve(&second, 600).await?;
        ensure!(lent["nonce"] == expected, "{lent}");
    }
    until(&second, &kept, "RESERVED").await
}
