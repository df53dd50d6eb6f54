//! Reads the feed, as a service does that wants to know how all its transactions end.
//!
//! `FENCEPOST_URL=http://127.0.0.1:8700 cargo run -p fencepost-client --example completions`
//!
//! It sends one transaction and reads until that one has ended. `FENCEPOST_AFTER` is the number to read from.

use std::time::Duration;

use alloy_primitives::U256;
use anyhow::{Context, Result, bail, ensure};
use fencepost_client::{
    Builder, Client, FeedError, NewTransaction, Payload, Position, SignerFilter, State,
};
use tokio::time::timeout;
use uuid::Uuid;

#[tokio::main]
async fn main() -> Result<()> {
    let client = Builder::from_env().build()?;
    let after: u64 = std::env::var("FENCEPOST_AFTER").map_or(Ok(0), |text| text.parse())?;
    let signers = client.signers(&SignerFilter::default()).await?.signers;
    let from = signers.first().context("the node has no signers")?;
    let payload = Payload::transfer(from.signer, U256::from(1));
    let payment = NewTransaction::new(from.signer, payload).chain(&from.chain);
    let id = client.send(&payment).await?.transaction.tx_id;
    let reading = read(&client, Position::from(after), id);
    let state = timeout(Duration::from_secs(120), reading).await??;
    ensure!(state == State::Confirmed, "it has ended as {state}");
    Ok(())
}

/// Reads until a transaction has ended.
async fn read(client: &Client, stored: Position, id: Uuid) -> Result<State> {
    let mut feed = client.completions(stored).wait(Duration::from_secs(10));
    loop {
        let batch = match feed.next().await {
            Ok(batch) => batch,
            // The end of the feed was lost in a failover. What was worked off must be compared with what is read
            // now; here there is nothing to lose, so it is read from the beginning.
            Err(FeedError::Reset { problem, .. }) => {
                let begins = problem.and_then(|problem| problem.begins_after);
                feed = client.completions(begins.unwrap_or(0));
                continue;
            }
            // The reader is where it was: asking again is safe. A service would do so for ever.
            Err(FeedError::Unread(error)) if error.is_retryable() => {
                eprintln!("{error}; asking again");
                continue;
            }
            Err(error @ (FeedError::Unread(_) | FeedError::Broken { .. })) => bail!(error),
        };
        for completion in &batch.completions {
            let why = completion.sub_state.as_ref().map(|why| format!("/{why}"));
            let (seq, tx, state) = (completion.seq, completion.tx_id, &completion.state);
            println!("{seq}: {tx} is {state}{}", why.unwrap_or_default());
        }
        // A service stores batch.position here, in one database transaction with what it did about these.
        let ours = batch
            .completions
            .into_iter()
            .rev()
            .find(|each| each.tx_id == id);
        if let Some(ended) = ours.filter(|completion| completion.state.is_final()) {
            return Ok(ended.state);
        }
    }
}
