//! Sends many transactions at once and looks at each result.
//!
//! `FENCEPOST_URL=http://127.0.0.1:8700 cargo run -p fencepost-client --example batch`

use std::time::Duration;

use alloy_primitives::U256;
use anyhow::{Context, Result, bail, ensure};
use fencepost_client::{Builder, NewTransaction, Payload, SignerFilter, Until};

/// How many.
const COUNT: u64 = 20;

#[tokio::main]
async fn main() -> Result<()> {
    let client = Builder::from_env().build()?;
    let signers = client.signers(&SignerFilter::default()).await?.signers;
    let from = signers.first().context("the node has no signers")?;

    let payment = |wei| {
        let payload = Payload::transfer(from.signer, U256::from(wei));
        NewTransaction::new(from.signer, payload).chain(&from.chain)
    };
    let payments: Vec<NewTransaction> = (1..=COUNT).map(payment).collect();
    let mut sent = vec![];
    for (payment, result) in payments.iter().zip(client.send_batch(&payments).await?) {
        match result {
            Ok(accepted) => sent.push(accepted.transaction),
            // It may be stored. Sending the same value again is always safe, and says which.
            Err(error) if error.outcome_unknown() => {
                sent.push(client.send(payment).await?.transaction);
            }
            Err(error) => bail!("{} was refused: {error}", payment.request_id()),
        }
    }
    let nonces: Vec<u64> = sent.iter().filter_map(|tx| tx.nonce).collect();
    println!("{} stored, with nonces {nonces:?}", sent.len());

    // They are mined in the order of their nonces, so the last one is waited for first.
    for transaction in sent.iter().rev() {
        let within = Duration::from_secs(120);
        let ended = client.wait(transaction.tx_id, Until::Final, within).await?;
        ensure!(ended.has_succeeded(), "{} is {}", ended.tx_id, ended.state);
    }
    println!("all have ended well");
    Ok(())
}
