//! What a chain is asked grows with its blocks, not with what is pending.

use std::time::Duration;

use anyhow::{Result, ensure};
use fencepost_devchain::GWEI;
use fencepost_domain::Address;
use fencepost_testkit::postgres::shared;
use fencepost_testkit::wait;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::fleet::{CHAIN_ID, Chain, Fleet, accounts};

const SIGNERS: u32 = 100;
const EACH: usize = 50;
const BLOCKS: u64 = 15;
/// Requests in a second that do not send anything.
const QUIET: f64 = 5.0;

/// The base fee is above what they pay, so that all of them stay where they are.
#[tokio::test(flavor = "multi_thread")]
async fn five_thousand_pending_transactions_cost_no_more_requests_than_the_blocks() -> Result<()> {
    let database = shared().await?.create_database().await?;
    let signers = accounts(SIGNERS).await?;
    let chain = Chain::start(CHAIN_ID, &signers, Duration::from_secs(1)).await?;
    chain.shared.lock().set_base_fee(Some(100 * GWEI));
    let rpc = [chain.url(0)];
    // A slow machine must not make them stale.
    let fleet = Fleet::new(database.url(), SIGNERS)?
        .chain("main", CHAIN_ID, &rpc, "")
        .with("[confirmations]\nstale_receipt_timeout = \"10m\"\n");
    let node = fleet.start("a").await?;
    let request = |signer: &Address| {
        json!({
            "signer": signer.to_string(),
            "payload": {
                "to": Address::repeat_byte(0xee).to_string(),
                "value": "1",
                "gas": "21000",
                "maxFeePerGas": "2000000000",
                "maxPriorityFeePerGas": "1000000000",
            },
        })
    };
    let rounds = (0..EACH).flat_map(|_| &signers);
    let requests: Vec<Value> = rounds.map(request).collect();
    let began = Instant::now();
    let before = chain.asked();
    node.post_all(&requests).await?;
    let all = signers.len() * EACH;
    let pooled = || {
        let chain = chain.shared.lock();
        signers
            .iter()
            .map(|signer| chain.pooled_of(*signer))
            .sum::<usize>()
    };
    wait::until("all wait in the pool", || async {
        Ok((pooled() == all).then_some(()))
    })
    .await?;
    let sent = chain.asked();
    cheap("while they are sent", began, before, sent)?;

    let began = Instant::now();
    let head = || chain.shared.lock().head().number();
    let last = head() + BLOCKS;
    wait::until("blocks pass", || async {
        Ok((head() >= last).then_some(()))
    })
    .await?;
    cheap("while they wait", began, sent, chain.asked())?;
    ensure!(pooled() == all, "{} wait", pooled());
    // What was sent a moment ago is looked for in the blocks, and nowhere else.
    ensure!(
        chain.calls("eth_getTransactionReceipt") == 0,
        "receipts were asked for"
    );
    Ok(())
}

/// Requests in a second are below 5 and the sends in a second.
fn cheap(when: &str, began: Instant, before: (u64, u64), after: (u64, u64)) -> Result<()> {
    let seconds = began.elapsed().as_secs_f64();
    let of = |count: u64| u32::try_from(count).map(f64::from);
    let (requests, sends) = (of(after.0 - before.0)?, of(after.1 - before.1)?);
    let allowed = QUIET * seconds + sends;
    eprintln!("{when}: {requests} requests and {sends} sends in {seconds:.1} s");
    ensure!(
        requests < allowed,
        "{when}: {requests} requests, {sends} sends, {seconds} s"
    );
    Ok(())
}
