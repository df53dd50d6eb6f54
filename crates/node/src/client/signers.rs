//! `fencepost signers …`, asked of a node.

use serde_json::{Map, Value};

use super::Client;
use super::table::{Column, card, lines};
use crate::cli::signers::{Change, SignersCommand};
use crate::config::environment::Environment;
use crate::failure::Failure;

const IN_LIST: &[Column] = &[
    ("signer", "signer"),
    ("chain", "chain"),
    ("leader", "leader.node"),
    ("nextNonce", "nextNonce"),
    ("inFlight", "inFlight"),
    ("queued", "queued"),
    ("stuck", "stuck"),
    ("oldest, s", "oldestAgeSeconds"),
    ("paused", "paused"),
];

const ALONE: &[Column] = &[
    ("signer", "signer"),
    ("chain", "chain"),
    ("leader", "leader.node"),
    ("leader's url", "leader.url"),
    ("token", "leader.token"),
    ("lease until", "leader.expiresAt"),
    ("nextNonce", "nextNonce"),
    ("chainLatest", "chainLatest"),
    ("chainPending", "chainPending"),
    ("inFlight", "inFlight"),
    ("queued", "queued"),
    ("stuck", "stuck"),
    ("oldestAgeSeconds", "oldestAgeSeconds"),
    ("gaps", "gaps"),
    ("freeNonces", "freeNonces"),
    ("paused", "paused"),
    ("head", "head.txId"),
    ("head's nonce", "head.nonce"),
    ("head's state", "head.state"),
    ("head's subState", "head.subState"),
    ("why", "head.why"),
];

/// Does what the command says.
pub(crate) async fn run(command: SignersCommand, environment: &Environment) -> Result<(), Failure> {
    match command {
        SignersCommand::List(remote) => {
            let client = Client::new(&remote, environment)?;
            let body = client.get(&["signers"], &[]).await?;
            client.show(&body, |list| {
                let items = list["signers"]
                    .as_array()
                    .map(Vec::as_slice)
                    .unwrap_or_default();
                lines(IN_LIST, items)
            })
        }
        SignersCommand::Show(which) => {
            let client = Client::new(&which.remote, environment)?;
            let body = client
                .get(&["signers", &which.signer], &[("chain", which.chain)])
                .await?;
            client.show(&body, |signer| card(ALONE, signer))
        }
        SignersCommand::Pause(change) => self::change("pause", change, environment).await,
        SignersCommand::Resume(change) => self::change("resume", change, environment).await,
    }
}

async fn change(verb: &str, change: Change, environment: &Environment) -> Result<(), Failure> {
    let client = Client::new(&change.which.remote, environment)?;
    let mut body = Map::from_iter([("reason".to_owned(), Value::String(change.reason))]);
    if let Some(chain) = change.which.chain {
        body.insert("chain".to_owned(), Value::String(chain));
    }
    let path = ["signers", &change.which.signer, verb];
    let answer = client.post(&path, &Value::Object(body)).await?;
    client.show(&answer, |signer| card(ALONE, signer))
}
