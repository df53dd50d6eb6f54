//! Sends one wei and follows it to its end.
//!
//! `FENCEPOST_URL=http://127.0.0.1:8700 cargo run -p fencepost-client --example send_and_wait`
//!
//! `FENCEPOST_SIGNER` names the signer; else it is the first that the node shows. `FENCEPOST_API_KEY` is the key.

use std::time::Duration;

use alloy_primitives::{Address, U256};
use anyhow::{Context, Result, ensure};
use fencepost_client::{Builder, Client, NewTransaction, Payload, SignerFilter, Until};

#[tokio::main]
async fn main() -> Result<()> {
    let client = Builder::from_env().build()?;
    let (signer, chain) = signer(&client).await?;

    // The request has its id now. A service stores it before it sends, and sends the same value again after a
    // crash: however often that is, it is one transaction.
    let payment = NewTransaction::new(signer, Payload::transfer(signer, U256::from(1)))
        .chain(chain)
        .meta(serde_json::json!({ "why": "an example" }));
    println!("request {}", payment.request_id());

    let accepted = client.send(&payment).await?;
    let id = accepted.transaction.tx_id;
    println!("stored as {id}, nonce {:?}", accepted.transaction.nonce);

    // What was sent again is the same.
    let again = client.send(&payment).await?;
    ensure!(again.was_known && again.transaction.tx_id == id);

    let ended = client
        .wait(id, Until::Final, Duration::from_secs(120))
        .await?;
    println!(
        "{} in block {:?} as {:?}",
        ended.state, ended.block_number, ended.tx_hash
    );
    for event in client.history(id, 0).await? {
        println!("  {} {}: {}", event.at, event.kind, event.to.state);
    }
    ensure!(ended.has_succeeded(), "it has ended as {}", ended.state);
    Ok(())
}

/// The signer to send from, and its chain.
async fn signer(client: &Client) -> Result<(Address, String)> {
    let wanted = std::env::var("FENCEPOST_SIGNER").ok();
    let wanted: Option<Address> = wanted.map(|text| text.parse()).transpose()?;
    let signers = client.signers(&SignerFilter::default()).await?.signers;
    let mut fitting = signers
        .into_iter()
        .filter(|known| wanted.is_none_or(|wanted| wanted == known.signer));
    let found = fitting.next().context("the node has no such signer")?;
    Ok((found.signer, found.chain))
}
