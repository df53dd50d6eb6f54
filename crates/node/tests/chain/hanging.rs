//! Endpoints that take requests and never answer. They delay only what needs them.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use fencepost_devchain::{EndpointId, Fault, FaultKind, When};
use fencepost_domain::Address;
use fencepost_testkit::postgres::shared;
use fencepost_testkit::wait;
use futures::future::try_join_all;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::fleet::{Chain, Fleet, accounts};
use super::member::Member;

const SIGNERS: u32 = 4;
const BLOCK: Duration = Duration::from_millis(250);
/// What a transaction takes that nothing delays is a few blocks; an endpoint is waited for five seconds.
const SOON: Duration = Duration::from_secs(4);

/// Nobody answers any more at this endpoint.
fn hang(chain: &Chain, endpoint: usize) -> Result<()> {
    let fault = Fault::new(FaultKind::Hang(When::default()));
    chain.shared.lock().add_fault(EndpointId(endpoint), fault)?;
    Ok(())
}

fn request(chain: &str, signer: &Address) -> Value {
    json!({
        "chain": chain,
        "signer": signer.to_string(),
        "payload": { "to": Address::repeat_byte(0xee).to_string(), "value": "1" },
    })
}

/// How long one transaction of each signer takes, the slowest of them.
async fn slowest(node: &Member, chain: &str, signers: &[Address]) -> Result<Duration> {
    let lives = signers.iter().map(|signer| async move {
        let began = Instant::now();
        let (status, tx) = node.post(&request(chain, signer)).await?;
        ensure!(status.is_success(), "{tx}");
        let id = tx["txId"].as_str().context("an id")?;
        wait::until("it is confirmed", || async {
            Ok((node.tx(id).await?["state"] == "CONFIRMED").then_some(()))
        })
        .await?;
        anyhow::Ok(began.elapsed())
    });
    let lives = try_join_all(lives).await?;
    lives.into_iter().max().context("a life")
}

/// One worker for all lanes: if it waited for any chain, all would.
#[tokio::test(flavor = "multi_thread")]
async fn a_chain_that_hangs_delays_nothing_on_another_chain() -> Result<()> {
    let database = shared().await?.create_database().await?;
    let signers = accounts(SIGNERS).await?;
    let dead = Chain::start(1_001, &signers, BLOCK).await?;
    let well = Chain::start(1_002, &signers, BLOCK).await?;
    let more = "poll_interval = \"100ms\"\nfinality.confirmations = 2";
    let fleet = Fleet::new(database.url(), SIGNERS)?
        .chain("dead", dead.id, &[dead.url(0)], more)
        .chain("well", well.id, &[well.url(0)], more)
        .with("[writer]\nworkers = 1\n");
    let node = fleet.start("a").await?;
    // All lanes have their leaders, and some work is under way where nobody will answer.
    slowest(&node, "dead", &signers).await?;
    slowest(&node, "well", &signers).await?;
    hang(&dead, 0)?;
    for signer in &signers {
        let (status, tx) = node.post(&request("dead", signer)).await?;
        ensure!(status.is_success(), "{tx}");
    }
    for _ in 0..3 {
        let took = slowest(&node, "well", &signers).await?;
        ensure!(took < SOON, "{took:?} beside a chain that hangs");
    }
    // It was the chain that held them up, and nothing else.
    dead.shared.lock().clear_faults(EndpointId(0), None)?;
    let told = node.completions(signers.len() * 6).await?;
    let ended = told.iter().filter(|told| told["state"] == "CONFIRMED");
    assert_eq!(ended.count(), signers.len() * 6);
    Ok(())
}

/// The one that hangs is asked first, and bytes go to both.
#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_hangs_delays_nothing_that_another_can_do() -> Result<()> {
    let database = shared().await?.create_database().await?;
    let signers = accounts(SIGNERS).await?;
    let chain = Chain::start_with(1_003, &signers, BLOCK, &["hanging", "well"]).await?;
    let more = "poll_interval = \"100ms\"\nfinality.confirmations = 2";
    let urls = [chain.url(0), chain.url(1)];
    let fleet = Fleet::new(database.url(), SIGNERS)?.chain("main", chain.id, &urls, more);
    let node = fleet.start("a").await?;
    slowest(&node, "main", &signers).await?;
    hang(&chain, 0)?;
    // Whoever reads from it when it begins to hang finds that out by waiting, once.
    let first = slowest(&node, "main", &signers).await?;
    ensure!(
        first < SOON + Duration::from_secs(5),
        "{first:?} until it was given up"
    );
    for _ in 0..3 {
        let took = slowest(&node, "main", &signers).await?;
        ensure!(took < SOON, "{took:?} beside an endpoint that hangs");
    }
    Ok(())
}
