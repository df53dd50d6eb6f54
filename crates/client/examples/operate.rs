//! What an operator does: looks at what is stuck, helps it, and pauses and resumes a signer.
//!
//! `FENCEPOST_URL=http://127.0.0.1:8700 cargo run -p fencepost-client --example operate`
//!
//! Stuck transactions are only sent again (RESUBMIT), which is always harmless. The first signer is paused for a
//! moment.

use anyhow::{Context, Result, ensure};
use fencepost_client::{
    Act, Action, Builder, Client, Code, Filter, NewRemedy, PauseReason, Signer, SignerFilter,
    State, Transaction,
};
use serde_json::json;

#[tokio::main]
async fn main() -> Result<()> {
    let client = Builder::from_env().build()?;
    for node in client.readiness().await {
        match node.answer {
            Ok(ready) => println!("{} leads {} signers", ready.node, ready.leading),
            // The others are there to go on with.
            Err(error) => println!("{} is not ready: {error}", node.url),
        }
    }
    let signers = client.signers(&SignerFilter::default()).await?.signers;
    for signer in &signers {
        show(signer);
    }
    for transaction in stuck(&client).await? {
        help(&client, &transaction).await?;
    }
    let first = signers.first().context("the node has no signers")?;
    pause_and_resume(&client, first).await
}

fn show(signer: &Signer) {
    let Signer {
        signer: address,
        chain,
        next_nonce,
        in_flight,
        stuck,
        ..
    } = signer;
    // A node with `api.hide_nonces` leaves it out for keys that may not operate.
    let next = next_nonce.map_or_else(|| "hidden".to_owned(), |nonce| nonce.to_string());
    println!("{address} on {chain}: next {next}, in flight {in_flight}, stuck {stuck}");
    if let Some(head) = &signer.head {
        println!(
            "  waits for {} which is {} {:?}",
            head.tx_id, head.state, head.why
        );
    }
}

/// Everything that cannot move by itself, page by page.
async fn stuck(client: &Client) -> Result<Vec<Transaction>> {
    let mut filter = Filter {
        state: Some(State::Stuck),
        ..Filter::default()
    };
    let mut all = vec![];
    loop {
        let page = client.transactions(&filter).await?;
        all.extend(page.transactions);
        filter.cursor = page.next_cursor;
        if filter.cursor.is_none() {
            return Ok(all);
        }
    }
}

async fn help(client: &Client, transaction: &Transaction) -> Result<()> {
    let (id, why) = (transaction.tx_id, &transaction.sub_state);
    println!("{id} is stuck: {why:?} {:?}", transaction.last_error);
    let remedy = NewRemedy::new(Action::Resubmit, "the example sends it again")
        .audit(json!({ "ticket": "OPS-7" }));
    match client.remedy(id, &remedy).await {
        Ok(_) => println!("  asked to send it again"),
        // Someone was faster, or it has ended meanwhile.
        Err(error) if matches!(error.code(), Some(Code::RemedyRunning | Code::AlreadyFinal)) => {
            println!("  {error}");
        }
        Err(error) => return Err(error.into()),
    }
    for remedy in client.remedies(id).await? {
        println!("  {} by {}: {}", remedy.action, remedy.by, remedy.state);
    }
    Ok(())
}

async fn pause_and_resume(client: &Client, signer: &Signer) -> Result<()> {
    let act = Act::because("the example pauses it for a moment").chain(&signer.chain);
    if signer.paused.is_some() {
        println!(
            "{} is paused already, which is left as it is",
            signer.signer
        );
        return Ok(());
    }
    let paused = client.pause(signer.signer, &act).await?;
    // Whatever follows, it is not left paused.
    let resumed = client.resume(signer.signer, &act).await?;
    ensure!(paused.paused == Some(PauseReason::Operator));
    ensure!(
        resumed.paused.is_none(),
        "still paused: {:?}",
        resumed.paused
    );
    println!("{} was paused and resumed", signer.signer);
    Ok(())
}
