//! `max_in_flight = 1` with `in_flight_until = "final"`, on anvil and PostgreSQL: over a batch, reservations and the
//! loss of the leader each nonce is given after the one before it is final. The lane's events, whose numbers are the
//! order of commits, prove it.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use fencepost_testkit::anvil::Anvil;
use fencepost_testkit::postgres::{connect, shared};
use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::fleet::{CHAIN_ID, Fleet, accounts};
use super::member::Member;

const STRICT: &str = "max_in_flight = 1\nin_flight_until = \"final\"\n";
const COUNT: usize = 5;
/// What a nonce's life in the lane's events begins and ends with.
const LIVES: &str = "
    SELECT m.nonce,
           min(e.lane_seq) FILTER (WHERE e.to_state IN ('ALLOCATED', 'RESERVED')) AS given,
           max(e.lane_seq) FILTER (WHERE e.to_state IN ('CONFIRMED', 'USED', 'FAILED_FINAL')) AS ended
      FROM managed_tx m JOIN tx_event e ON e.tx_id = m.tx_id
     WHERE m.nonce IS NOT NULL
     GROUP BY m.nonce ORDER BY m.nonce";

fn requests(signer: &str) -> Vec<Value> {
    let request = |n: usize| {
        json!({
            "signer": signer,
            "requestId": format!("payment {n}"),
            "payload": { "to": signer, "value": n.to_string() },
        })
    };
    (0..COUNT).map(request).collect()
}

async fn reserve(node: &Member, signer: &str) -> Result<(StatusCode, Value)> {
    let body = json!({ "signer": signer, "ttlSeconds": 600 });
    node.post_to("/api/v1/nonces/reserve", &body).await
}

#[tokio::test(flavor = "multi_thread")]
async fn each_nonce_is_given_after_the_last_one_is_final() -> Result<()> {
    let database = shared().await?.create_database().await?;
    let anvil = Anvil::start(&["--block-time", "1"]).await?;
    let signer = accounts(1).await?[0].to_string();
    let more = "poll_interval = \"100ms\"\nfinality.confirmations = 2";
    let fleet = Fleet::new(database.url(), 1)?
        .with(STRICT)
        .leasing_shortly()
        .chain("main", CHAIN_ID, &[anvil.url().to_owned()], more);
    let first = fleet.start("a").await?;
    let txs = first.post_all(&requests(&signer)).await?;
    let nonces: Vec<&Value> = txs.iter().map(|tx| &tx["nonce"]).collect();
    ensure!(nonces[0] == 0, "{nonces:?}");
    ensure!(
        nonces[1..].iter().all(|nonce| nonce.is_null()),
        "{nonces:?}"
    );
    let waits = txs[1..].iter().all(|tx| tx["subState"] == "WAITING_WINDOW");
    ensure!(waits, "{txs:?}");
    let (status, problem) = reserve(&first, &signer).await?;
    ensure!(status == StatusCode::CONFLICT, "{problem}");
    ensure!(problem["code"] == "in_flight_limit", "{problem}");
    ensure!(problem["retryAfterSeconds"] == 1, "{problem}");
    let two = json!({ "signer": signer, "count": 2 });
    let (status, problem) = first.post_to("/api/v1/nonces/reserve", &two).await?;
    ensure!(status == StatusCode::UNPROCESSABLE_ENTITY, "{problem}");
    first.completions(2).await?;
    first.kill()?;
    let second = fleet.start("b").await?;
    second.completions(COUNT).await?;

    // A reservation has the place too, and one that waits gets it when that is given back.
    let (status, lent) = reserve(&second, &signer).await?;
    ensure!(status == StatusCode::CREATED, "{lent}");
    let late = json!({ "signer": signer, "payload": { "to": signer, "value": "1" } });
    let (_, late) = second.post(&late).await?;
    sleep(Duration::from_secs(2)).await;
    let path = format!("/api/v1/tx/{}", late["txId"].as_str().context("an id")?);
    let waiting = second.get(&path).await?;
    ensure!(waiting["subState"] == "WAITING_WINDOW", "{waiting}");
    let path = format!(
        "/api/v1/nonces/{}/recycle",
        lent["reservationId"].as_str().context("an id")?
    );
    let (status, told) = second
        .post_to(&path, &json!({ "lockToken": lent["lockToken"] }))
        .await?;
    ensure!(status == StatusCode::OK, "{told}");
    second.completions(COUNT + 1).await?;

    let rows = connect(&database.url()).await?.query(LIVES, &[]).await?;
    ensure!(rows.len() == COUNT + 1, "{} nonces", rows.len());
    let mut before: i64 = 0;
    for row in rows {
        let (nonce, given, ended): (i64, i64, i64) = (row.get(0), row.get(1), row.get(2));
        ensure!(
            before < given,
            "nonce {nonce} was given before the last one was final"
        );
        before = ended;
    }
    Ok(())
}
