//! A node whose clock is an hour off: `notAfter` means what the store's clock says, and people are told about the clock.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use fencepost_testkit::postgres::shared;
use fencepost_testkit::wait;
use reqwest::StatusCode;
use serde_json::{Value, json};

use super::care::{payee, until_state};
use super::fleet::{CHAIN_ID, Chain, Fleet, accounts};
use super::ledger::id;
use super::member::Member;

const CHAIN: &str = "poll_interval = \"50ms\"\nfinality.confirmations = 1";
const HOUR: i64 = 3_600;

struct Desk {
    chain: Chain,
    node: Member,
    signer: String,
}

impl Desk {
    async fn new(ahead: i64) -> Result<Self> {
        let database = shared().await?.create_database().await?;
        let signer = accounts(1).await?[0];
        let chain = Chain::start(CHAIN_ID, &[signer], Duration::from_millis(200)).await?;
        let fleet = Fleet::new(database.url(), 1)?.chain("main", CHAIN_ID, &[chain.url(0)], CHAIN);
        let node = fleet.start_ahead("a", ahead).await?;
        let signer = signer.to_string();
        Ok(Self {
            chain,
            node,
            signer,
        })
    }

    /// A request that is to be given no nonce so many seconds from now on.
    async fn ask(&self, n: u8, seconds: i64, name: Option<&str>) -> Result<(StatusCode, Value)> {
        let until = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(seconds);
        let mut body = json!({
            "signer": self.signer,
            "notAfter": until.to_string(),
            "payload": { "to": payee(n).to_string(), "value": "7" },
        });
        if let Some(name) = name {
            body["requestId"] = json!(name);
        }
        self.node.post(&body).await
    }

    /// Waits until the clocks were compared; how far the node's is ahead.
    async fn skew(&self) -> Result<f64> {
        wait::until("the clocks were compared", || async {
            let metrics = self.node.metrics().await?;
            let lines = metrics.lines();
            let mut found =
                lines.filter_map(|line| line.strip_prefix("fencepost_store_clock_skew_seconds "));
            let skew: f64 = found.next().context("the metric")?.parse()?;
            Ok((skew != 0.0).then_some(skew))
        })
        .await
    }

    fn is_paid(&self, n: u8) -> bool {
        let chain = self.chain.shared.lock();
        !chain.state().balance(&payee(n)).is_zero()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_is_an_hour_behind_gives_nobody_more_time() -> Result<()> {
    let desk = Desk::new(-HOUR).await?;
    let (status, told) = desk.ask(0, -5, Some("late")).await?;
    ensure!(status == StatusCode::ACCEPTED, "{status} {told}");
    let ended = until_state(&desk.node, &id(&told), "FAILED_FINAL/EXPIRED").await?;
    ensure!(ended["nonce"].is_null(), "{ended}");
    let (status, told) = desk.ask(1, 600, None).await?;
    ensure!(status == StatusCode::ACCEPTED, "{status} {told}");
    until_state(&desk.node, &id(&told), "CONFIRMED").await?;
    ensure!(!desk.is_paid(0) && desk.is_paid(1), "only the second");

    let skew = desk.skew().await?;
    ensure!((skew + 3_600.0).abs() < 5.0, "{skew}");
    let (status, told) = desk.ask(2, -5, None).await?;
    ensure!(
        status == StatusCode::UNPROCESSABLE_ENTITY || status == StatusCode::BAD_REQUEST,
        "{status} {told}"
    );
    let warnings = desk.node.logged("WARN");
    let told = warnings
        .iter()
        .filter(|entry| entry["ahead_seconds"].is_number());
    ensure!(told.count() == 1, "{warnings:#?}");
    let metrics = desk.node.metrics().await?;
    let allowed = "fencepost_lease_clock_skew_allowance_seconds 1.0";
    ensure!(metrics.contains(allowed), "{metrics}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_is_an_hour_ahead_takes_no_time_away() -> Result<()> {
    let desk = Desk::new(HOUR).await?;
    let (status, told) = desk.ask(0, 600, Some("in time")).await?;
    ensure!(status == StatusCode::ACCEPTED, "{status} {told}");
    until_state(&desk.node, &id(&told), "CONFIRMED").await?;
    ensure!(desk.is_paid(0), "{told}");
    let skew = desk.skew().await?;
    ensure!((skew - 3_600.0).abs() < 5.0, "{skew}");
    let (status, told) = desk.ask(1, 600, None).await?;
    ensure!(status == StatusCode::ACCEPTED, "{status} {told}");
    until_state(&desk.node, &id(&told), "CONFIRMED").await?;
    Ok(())
}
