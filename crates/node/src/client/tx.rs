//! `fencepost tx …`, asked of a node.

use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};

use super::again::until_answered;
use super::table::{Column, card, cell, page};
use super::{Client, given, read, remedies};
use crate::cli::tx::{Get, List, Send, TxCommand, Wait, Watch};
use crate::config::environment::Environment;
use crate::failure::Failure;
use crate::output::print;

/// How often a watched transaction is looked at. Shorter only asks more often for nothing: blocks
/// come every few seconds.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// States in which a transaction has ended well.
const DONE: [&str; 2] = ["CONFIRMED", "USED"];
/// States in which it has ended otherwise.
const OVER: [&str; 2] = ["FAILED_FINAL", "RECYCLABLE"];

const IN_LIST: &[Column] = &[
    ("txId", "txId"),
    ("chain", "chain"),
    ("signer", "signer"),
    ("nonce", "nonce"),
    ("state", "state"),
    ("subState", "subState"),
    ("requestId", "requestId"),
    ("createdAt", "createdAt"),
];

pub(super) const ALONE: &[Column] = &[
    ("txId", "txId"),
    ("kind", "kind"),
    ("chain", "chain"),
    ("signer", "signer"),
    ("requestId", "requestId"),
    ("nonce", "nonce"),
    ("state", "state"),
    ("subState", "subState"),
    ("txHash", "txHash"),
    ("payload", "payload"),
    ("submitAttempts", "submitAttempts"),
    ("lastError", "lastError"),
    ("blockNumber", "blockNumber"),
    ("blockHash", "blockHash"),
    ("confirmedAt", "confirmedAt"),
    ("createdAt", "createdAt"),
    ("updatedAt", "updatedAt"),
    ("notAfter", "notAfter"),
    ("meta", "meta"),
];

/// Does what the command says.
pub(crate) async fn run(command: TxCommand, environment: &Environment) -> Result<(), Failure> {
    match command {
        TxCommand::Send(send) => {
            let client = Client::new(&send.remote, environment)?;
            let query = waited(&send.wait);
            let body = client.post_with(&["tx"], &query, &request(*send)).await?;
            client.show(&body, |tx| card(ALONE, tx))
        }
        TxCommand::Get(get) => {
            let client = Client::new(&get.remote, environment)?;
            let body = find(&client, get).await?;
            client.show(&body, |tx| card(ALONE, tx))
        }
        TxCommand::List(which) => list(&Client::new(&which.remote, environment)?, which).await,
        TxCommand::Watch(watch) => follow(&Client::new(&watch.remote, environment)?, &watch).await,
        TxCommand::Remedy(remedy) => {
            let client = Client::new(&remedy.remote, environment)?;
            let body = remedies::ask(&client, *remedy).await?;
            client.show(&body, |tx| card(ALONE, tx))
        }
        TxCommand::Remedies(of) => {
            remedies::list(&Client::new(&of.remote, environment)?, &of).await
        }
    }
}

fn request(send: Send) -> Value {
    let text = |text: Option<String>| text.map(Value::String);
    let payload = given([
        ("to", text(send.to)),
        ("value", text(send.value)),
        ("data", text(send.data)),
        ("gas", text(send.gas)),
        ("gasPrice", text(send.gas_price)),
        ("maxFeePerGas", text(send.max_fee_per_gas)),
        ("maxPriorityFeePerGas", text(send.max_priority_fee_per_gas)),
        ("accessList", send.access_list),
    ]);
    given([
        ("signer", Some(Value::String(send.signer))),
        ("chain", text(send.chain)),
        ("requestId", text(send.request_id)),
        ("payload", Some(payload)),
        ("notAfter", text(send.not_after)),
        ("meta", send.meta),
    ])
}

fn waited(wait: &Wait) -> [(&'static str, Option<String>); 2] {
    let seconds = wait.wait_seconds.map(|seconds| seconds.to_string());
    [("wait", wait.wait.clone()), ("waitSeconds", seconds)]
}

async fn find(client: &Client, get: Get) -> Result<String, Failure> {
    if let Some(tx_id) = &get.tx_id {
        return client.get(&["tx", tx_id], &waited(&get.wait)).await;
    }
    if get.wait.wait.is_some() {
        let why = "--wait is only for a transaction that is named by its id";
        return Err(Failure::Usage(why.to_owned()));
    }
    if let Some(hash) = &get.hash {
        return client
            .get(&["tx", "by-hash", hash], &[("chain", get.chain)])
            .await;
    }
    let (route, name, value) = match (get.request_id, get.nonce) {
        (Some(request_id), _) => ("by-request", "requestId", request_id),
        (None, nonce) => ("by-nonce", "nonce", nonce.unwrap_or_default().to_string()),
    };
    let query = [
        ("signer", get.signer),
        ("chain", get.chain),
        (name, Some(value)),
    ];
    client.get(&["tx", route], &query).await
}

async fn list(client: &Client, which: List) -> Result<(), Failure> {
    let query = [
        ("signer", which.signer),
        ("chain", which.chain),
        ("state", which.state),
        ("limit", Some(which.limit.to_string())),
        ("cursor", which.cursor),
    ];
    let body = client.get(&["tx"], &query).await?;
    client.show(&body, |found| page(IN_LIST, "transactions", found))
}

async fn follow(client: &Client, watch: &Watch) -> Result<(), Failure> {
    let ended = match watch.timeout {
        None => until_ended(client, &watch.tx_id).await?,
        Some(limit) => match timeout(limit, until_ended(client, &watch.tx_id)).await {
            Ok(ended) => ended?,
            Err(_) => {
                let limit = humantime::format_duration(limit);
                return Err(Failure::Refused(format!("it has not ended within {limit}")));
            }
        },
    };
    let path = ["tx", &watch.tx_id];
    let body = until_answered(async || client.get(&path, &[]).await).await?;
    client.show(&body, |tx| card(ALONE, tx))?;
    if DONE.contains(&ended.as_str()) {
        return Ok(());
    }
    Err(Failure::Refused(format!("it has ended as {ended}")))
}

/// Prints events as they come, until one of them ends the transaction; returns the last state.
async fn until_ended(client: &Client, tx_id: &str) -> Result<String, Failure> {
    // Tells at once that there is no such transaction; without a nonce it has no events yet.
    until_answered(async || client.get(&["tx", tx_id], &[]).await).await?;
    let mut seen = 0;
    loop {
        let begun = Instant::now();
        let query = [("after", Some(seen.to_string()))];
        let path = ["tx", tx_id, "history"];
        let history = until_answered(async || client.get(&path, &query).await).await?;
        let history = read(&history)?;
        let events = history["events"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        for event in events {
            seen = event["seq"].as_u64().unwrap_or(seen);
            print(&told(client, event))?;
        }
        let state = events
            .last()
            .map(|event| cell(&event["to"]["state"]))
            .unwrap_or_default();
        if DONE.contains(&state.as_str()) || OVER.contains(&state.as_str()) {
            return Ok(state);
        }
        sleep(LOOK_EVERY.saturating_sub(begun.elapsed())).await;
    }
}

fn told(client: &Client, event: &Value) -> String {
    if client.json {
        return event.to_string();
    }
    let to = &event["to"];
    let parts = [&event["at"], &event["kind"], &to["state"], &to["subState"]];
    let more = [&event["txHash"], &event["note"]];
    let present = parts.into_iter().chain(more).filter(|part| !part.is_null());
    present.map(cell).collect::<Vec<_>>().join("  ")
}
