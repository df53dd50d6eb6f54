//! `fencepost completions …`, asked of a node.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::again::until_answered;
use super::table::cell;
use super::{Client, read};
use crate::cli::completions::{CompletionsCommand, Tail};
use crate::config::environment::Environment;
use crate::failure::Failure;
use crate::output::print;

/// How long a node lets a question wait for its answer; it takes up to 30.
const WAIT_SECONDS: u32 = 20;
/// The largest page a node gives.
const PAGE: u32 = 1_000;

/// A stretch of the feed, with each completion as the node wrote it.
#[derive(Deserialize)]
struct Stretch {
    completions: Vec<Box<RawValue>>,
    next: u64,
}

/// Does what the command says.
pub(crate) async fn run(
    command: CompletionsCommand,
    environment: &Environment,
) -> Result<(), Failure> {
    match command {
        CompletionsCommand::Tail(tail) => {
            print_feed(&Client::new(&tail.remote, environment)?, &tail).await
        }
    }
}

async fn print_feed(client: &Client, tail: &Tail) -> Result<(), Failure> {
    let mut after = tail.after;
    loop {
        let stretch = if tail.follow {
            until_answered(async || ask(client, after, true).await).await?
        } else {
            ask(client, after, false).await?
        };
        for completion in &stretch.completions {
            print(&line(client, completion.get())?)?;
        }
        // A key that sees some signers only gets on without seeing a row.
        if stretch.next == after && !tail.follow {
            return Ok(());
        }
        after = stretch.next;
    }
}

async fn ask(client: &Client, after: u64, wait: bool) -> Result<Stretch, Failure> {
    let wait = if wait { WAIT_SECONDS } else { 0 };
    let query = [
        ("after", Some(after.to_string())),
        ("limit", Some(PAGE.to_string())),
        ("wait", Some(wait.to_string())),
    ];
    let body = client.get(&["tx", "completions"], &query).await?;
    serde_json::from_str(&body).map_err(|error| Failure::new("the answer is not a feed", error))
}

fn line(client: &Client, completion: &str) -> Result<String, Failure> {
    if client.json {
        return Ok(completion.to_owned());
    }
    let value: Value = read(completion)?;
    let columns = [
        "seq", "at", "state", "subState", "chain", "signer", "nonce", "txId", "txHash",
    ];
    let cells: Vec<String> = columns.iter().map(|name| cell(&value[*name])).collect();
    Ok(cells.join("  "))
}
