//! Somebody with write access to the database changes what waits to be signed. The node notices before it signs, says so, and
//! signs nothing of the row; the rest of the lane goes on once an operator has acted or the row is mended.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use fencepost_domain::request::{Ceilings, Draft, Payload};
use fencepost_domain::{Address, U256};
use fencepost_testkit::postgres::{Database, connect, shared};
use fencepost_testkit::wait;
use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::care::{is, payee, remedies, until_state};
use super::fleet::{CHAIN_ID, Chain, Fleet, accounts};
use super::ledger::{attempts, id};
use super::member::Member;

/// So long that no block comes by itself while a test runs.
const NO_BLOCKS: Duration = Duration::from_secs(3_600);
const CHAIN: &str = "poll_interval = \"50ms\"\nfinality.confirmations = 1";
const THIEF: Address = Address::repeat_byte(0xbd);
const SEALED: &str = "row_secret_env = \"CLUSTER_SECRET\"\n";

/// A lane with room for one: the first is on its way, the others wait in the queue.
struct Desk {
    database: Database,
    chain: Chain,
    node: Member,
    ids: Vec<String>,
}

impl Desk {
    async fn new(store: &'static str) -> Result<Self> {
        let database = shared().await?.create_database().await?;
        let signer = accounts(1).await?[0];
        let chain = Chain::start(CHAIN_ID, &[signer], NO_BLOCKS).await?;
        let fleet = Fleet::new(database.url(), 1)?
            .storing(store)
            .chain("main", CHAIN_ID, &[chain.url(0)], CHAIN)
            .with("max_in_flight = 1\n");
        let node = fleet.start("a").await?;
        let mut ids = Vec::new();
        for n in 0..3 {
            let request = json!({
                "signer": signer.to_string(),
                "payload": { "to": payee(n).to_string(), "value": "7" },
            });
            let (status, told) = node.post(&request).await?;
            ensure!(status == StatusCode::ACCEPTED, "{told}");
            ids.push(id(&told));
        }
        until_state(&node, &ids[0], "TRACKING/BROADCAST").await?;
        until_state(&node, &ids[1], "QUEUED/WAITING_WINDOW").await?;
        Ok(Self {
            database,
            chain,
            node,
            ids,
        })
    }

    /// One statement, by somebody who knows the database and not the secret.
    async fn sql(&self, sql: &str, payload: &Payload) -> Result<u64> {
        let client = connect(&self.database.url()).await?;
        let (bytes, hash) = payload.canonical_and_hash();
        let hash = hash.as_slice();
        Ok(client.execute(sql, &[&bytes, &hash]).await?)
    }

    async fn swap(&self, nth: usize, to: Address) -> Result<()> {
        let id = &self.ids[nth];
        let sql =
            format!("UPDATE managed_tx SET payload = $1, payload_hash = $2 WHERE tx_id = '{id}'");
        ensure!(self.sql(&sql, &paying(to)?).await? == 1, "{id}");
        Ok(())
    }

    fn paid(&self, to: Address) -> U256 {
        self.chain.shared.lock().state().balance(&to)
    }

    /// Blocks come until it stands there.
    async fn mined_until(&self, nth: usize, words: &str) -> Result<Value> {
        wait::until(words, || async {
            // No block is older than the one before it.
            self.chain.shared.lock().mine(0);
            sleep(Duration::from_millis(50)).await;
            let tx = self.node.tx(&self.ids[nth]).await?;
            Ok(is(&tx, words).then_some(tx))
        })
        .await
        .with_context(|| format!("{:#?}", self.node.log()))
    }

    async fn remedy(&self, nth: usize, action: &str) -> Result<()> {
        let path = format!("/api/v1/tx/{}/remedy", self.ids[nth]);
        let body = json!({ "action": action, "reason": "the row was changed" });
        let (status, told) = self.node.post_to(&path, &body).await?;
        ensure!(status == StatusCode::ACCEPTED, "{status} {told}");
        Ok(())
    }

    /// The log, the metric and the signer's page name it.
    async fn is_told(&self, why: &str) -> Result<()> {
        let errors = self.node.logged("ERROR");
        let told = errors.iter().find(|entry| entry["reason"] == "TAMPERED");
        let told = told.with_context(|| format!("{errors:#?}"))?;
        for field in ["signer", "tx_id", "node_id", "token", "nonce"] {
            ensure!(!told[field].is_null(), "{field}: {told}");
        }
        ensure!(told["text"] == why, "{told}");
        let metrics = self.node.metrics().await?;
        let line = "fencepost_stuck_total{reason=\"TAMPERED\"} 1";
        ensure!(metrics.contains(line), "{metrics}");
        Ok(())
    }
}

fn paying(to: Address) -> Result<Payload> {
    let draft = Draft {
        to: Some(to.to_string()),
        value: Some("7".to_owned()),
        ..Draft::default()
    };
    let ceilings = Ceilings {
        max_fee: u128::MAX,
        max_priority_fee: u128::MAX,
    };
    Payload::parse(&draft, ceilings).map_err(|wrong| anyhow::anyhow!("{wrong:?}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queued_payload_that_was_swapped_is_not_signed_and_a_cancel_lets_the_lane_go_on()
-> Result<()> {
    let desk = Desk::new("").await?;
    // Without a secret, whoever leaves the hash alone is noticed.
    let id = &desk.ids[1];
    let sql =
        format!("UPDATE managed_tx SET payload = $1 WHERE tx_id = '{id}' AND $2::bytea <> ''");
    ensure!(desk.sql(&sql, &paying(THIEF)?).await? == 1, "it waits");
    desk.mined_until(1, "STUCK/TAMPERED").await?;
    desk.is_told("the stored payload does not match payload_hash")
        .await?;
    ensure!(
        attempts(&desk.node, id).await?.is_empty(),
        "nothing is signed"
    );
    let last = desk.node.tx(&desk.ids[2]).await?;
    ensure!(is(&last, "QUEUED/WAITING_WINDOW"), "{last}");

    desk.remedy(1, "CANCEL").await?;
    desk.mined_until(1, "FAILED_FINAL/CANCELLED").await?;
    desk.mined_until(2, "CONFIRMED").await?;
    ensure!(desk.paid(THIEF).is_zero(), "the thief was paid");
    for (n, wei) in [(0, 7), (1, 0), (2, 7)] {
        ensure!(desk.paid(payee(n)) == U256::from(wei), "{n}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_secret_a_swap_with_its_hash_is_noticed_and_a_mended_row_goes_on() -> Result<()> {
    let desk = Desk::new(SEALED).await?;
    desk.swap(1, THIEF).await?;
    desk.mined_until(1, "STUCK/TAMPERED").await?;
    desk.is_told("the stored row does not match its seal")
        .await?;
    ensure!(
        attempts(&desk.node, &desk.ids[1]).await?.is_empty(),
        "nothing is signed"
    );
    desk.swap(1, payee(1)).await?;
    desk.mined_until(1, "CONFIRMED").await?;
    desk.mined_until(2, "CONFIRMED").await?;
    ensure!(desk.paid(THIEF).is_zero(), "the thief was paid");
    ensure!(desk.paid(payee(1)) == U256::from(7), "once");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replacement_of_a_swapped_payload_is_refused_and_the_first_bytes_still_end_it()
-> Result<()> {
    let desk = Desk::new(SEALED).await?;
    desk.swap(0, THIEF).await?;
    desk.remedy(0, "REPLACE").await?;
    until_state(&desk.node, &desk.ids[0], "STUCK/TAMPERED").await?;
    desk.is_told("the stored row does not match its seal")
        .await?;
    let asked = remedies(&desk.node, &desk.ids[0]).await?;
    ensure!(asked[0]["state"] == "REFUSED", "{asked:#?}");
    ensure!(attempts(&desk.node, &desk.ids[0]).await?.len() == 1, "one");
    desk.mined_until(0, "CONFIRMED").await?;
    ensure!(desk.paid(THIEF).is_zero(), "the thief was paid");
    ensure!(desk.paid(payee(0)) == U256::from(7), "once");
    Ok(())
}
