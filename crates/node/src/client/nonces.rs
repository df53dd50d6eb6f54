//! `fencepost nonces …`, asked of a node.

use std::time::Duration;

use serde_json::Value;

use super::table::{Column, card, lines};
use super::{Client, given};
use crate::cli::nonces::{Held, NoncesCommand, Reserve};
use crate::config::environment::Environment;
use crate::failure::Failure;

const ALONE: &[Column] = &[
    ("reservationId", "reservationId"),
    ("chain", "chain"),
    ("signer", "signer"),
    ("requestId", "requestId"),
    ("nonce", "nonce"),
    ("lockToken", "lockToken"),
    ("state", "state"),
    ("txHash", "txHash"),
    ("expiresAt", "expiresAt"),
];

/// Does what the command says.
pub(crate) async fn run(command: NoncesCommand, environment: &Environment) -> Result<(), Failure> {
    match command {
        NoncesCommand::Reserve(reserve) => {
            let client = Client::new(&reserve.remote, environment)?;
            let answer = client.post(&["nonces", "reserve"], &request(reserve)).await;
            show(&client, &answer?)
        }
        NoncesCommand::Submitted(submitted) => {
            let hash = Value::String(submitted.tx_hash);
            settle("submitted", submitted.held, ("txHash", hash), environment).await
        }
        NoncesCommand::Recycle(held) => {
            settle("recycle", held, ("txHash", Value::Null), environment).await
        }
        NoncesCommand::Extend(extend) => {
            let ttl = ("ttlSeconds", extend.ttl.as_secs().into());
            settle("extend", extend.held, ttl, environment).await
        }
        NoncesCommand::Get(lent) => {
            let client = Client::new(&lent.remote, environment)?;
            let answer = client.get(&["nonces", &lent.reservation_id], &[]).await?;
            show(&client, &answer)
        }
    }
}

fn request(reserve: Reserve) -> Value {
    let seconds = |ttl: Duration| ttl.as_secs().into();
    given([
        ("signer", Some(reserve.signer.into())),
        ("chain", reserve.chain.map(Value::String)),
        ("requestId", reserve.request_id.map(Value::String)),
        ("ttlSeconds", reserve.ttl.map(seconds)),
        ("count", reserve.count.map(Value::from)),
    ])
}

/// What the holder says; a null is not said.
async fn settle(
    verb: &str,
    held: Held,
    (name, value): (&str, Value),
    environment: &Environment,
) -> Result<(), Failure> {
    let client = Client::new(&held.lent.remote, environment)?;
    let body = given([
        ("lockToken", Some(held.lock_token.into())),
        (name, Some(value).filter(|value| !value.is_null())),
    ]);
    let path = ["nonces", &held.lent.reservation_id, verb];
    let answer = client.post(&path, &body).await?;
    show(&client, &answer)
}

/// One reservation, or as many as were asked for.
fn show(client: &Client, answer: &str) -> Result<(), Failure> {
    client.show(answer, |answer| match answer["reservations"].as_array() {
        Some(many) => lines(ALONE, many),
        None => card(ALONE, answer),
    })
}
