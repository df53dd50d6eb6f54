//! Many transactions of one signer: no more of them are in the pool than the window lets, and the chain
//! sees them in nonce order.

use std::time::Duration;

use anyhow::Result;
use fencepost_domain::Address;
use fencepost_testkit::postgres::shared;
use serde_json::json;

use super::fleet::{CHAIN_ID, Chain, Fleet, accounts};
use super::ledger::{feed_without_holes, id, one_of_each};

const WINDOW: usize = 64;
const COUNT: usize = 2_000;

#[tokio::test(flavor = "multi_thread")]
async fn the_pool_never_holds_more_than_the_window_and_sees_nonces_in_order() -> Result<()> {
    let database = shared().await?.create_database().await?;
    let signer = accounts(1).await?[0];
    let chain = Chain::start(CHAIN_ID, &[signer], Duration::from_millis(200)).await?;
    let rpc = [chain.url(0)];
    let fleet = Fleet::new(database.url(), 1)?
        .chain(
            "main",
            CHAIN_ID,
            &rpc,
            "poll_interval = \"50ms\"\nfinality.confirmations = 3",
        )
        .with(&format!("[submit]\nwindow = {WINDOW}\n"));
    let node = fleet.start("a").await?;
    let request = |n: usize| {
        json!({
            "signer": signer.to_string(),
            "requestId": n.to_string(),
            "payload": { "to": Address::repeat_byte(0xee).to_string(), "value": n.to_string() },
        })
    };
    let requests: Vec<_> = (0..COUNT).map(request).collect();
    let accepted = node.post_all(&requests).await?;
    let ids: Vec<String> = accepted.iter().map(id).collect();
    feed_without_holes(&node, COUNT).await?;
    let (most, sends) = {
        let chain = chain.shared.lock();
        (chain.pooled_max_of(signer), chain.sends_of(signer))
    };
    assert!(most <= WINDOW, "{most} waited in the pool");
    assert!(most > WINDOW / 2, "the window was not made use of: {most}");
    let nonces: Vec<u64> = sends.iter().map(|sent| sent.nonce).collect();
    let expected: Vec<u64> = (0..u64::try_from(COUNT)?).collect();
    assert_eq!(nonces, expected);
    one_of_each(&node, &chain, signer, &ids).await
}
