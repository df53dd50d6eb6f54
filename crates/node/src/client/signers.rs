//! `fencepost signers …`, asked of a node.

use serde_json::{Value, json};

use super::audit::Told;
use super::migrate;
use super::reconcile::reconcile;
use super::table::{Column, card, lines, page};
use super::{Client, given, next, read, tx};
use crate::cli::signers::{Audit, Change, Placeholder, SignersCommand};
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
    ("waiting", "waiting.reason"),
    ("head", "head.txId"),
    ("head's nonce", "head.nonce"),
    ("head's state", "head.state"),
    ("head's subState", "head.subState"),
];

const ACTS: &[Column] = &[
    ("id", "id"),
    ("at", "at"),
    ("action", "action"),
    ("by", "by"),
    ("reason", "reason"),
    ("beforeAfter", "beforeAfter"),
    ("audit", "audit"),
];

/// Does what the command says.
pub(crate) async fn run(command: SignersCommand, environment: &Environment) -> Result<(), Failure> {
    match command {
        SignersCommand::List(remote) => {
            let client = Client::new(&remote, environment)?;
            let signers = all(&client).await?;
            let list = json!({ "signers": signers, "nextCursor": null });
            client.show(&list.to_string(), |_| lines(IN_LIST, &signers))
        }
        SignersCommand::Show(which) => {
            let client = Client::new(&which.remote, environment)?;
            let body = client
                .get(&["signers", &which.signer], &[("chain", which.chain)])
                .await?;
            client.show(&body, shown)
        }
        SignersCommand::Pause(change) => self::change("pause", change, environment).await,
        SignersCommand::Resume(change) => self::change("resume", change, environment).await,
        SignersCommand::Reconcile(asked) => {
            let client = Client::new(&asked.remote, environment)?;
            reconcile(&client, asked).await
        }
        SignersCommand::Placeholder(asked) => {
            let client = Client::new(&asked.change.which.remote, environment)?;
            fill(&client, asked).await
        }
        SignersCommand::Cursor(asked) => {
            let client = Client::new(&asked.change.which.remote, environment)?;
            migrate::cursor(&client, asked).await
        }
        SignersCommand::Import(asked) => {
            migrate::import(&Client::new(&asked.remote, environment)?, asked).await
        }
        SignersCommand::Export(asked) => {
            migrate::export(&Client::new(&asked.which.remote, environment)?, asked).await
        }
        SignersCommand::Audit(asked) => {
            acts(&Client::new(&asked.which.remote, environment)?, asked).await
        }
    }
}

/// A signer, with why it stands where it stands and what to do as the last lines.
pub(super) fn shown(signer: &Value) -> String {
    format!("{}\n{}", card(ALONE, signer), next::lines(signer))
}

/// Every signer, page by page.
pub(super) async fn all(client: &Client) -> Result<Vec<Value>, Failure> {
    let (mut signers, mut cursor) = (Vec::new(), None);
    loop {
        let query = [("cursor", cursor)];
        let mut page = read(&client.get(&["signers"], &query).await?)?;
        if let Some(items) = page["signers"].as_array_mut() {
            signers.append(items);
        }
        cursor = page["nextCursor"].as_str().map(str::to_owned);
        if cursor.is_none() {
            return Ok(signers);
        }
    }
}

async fn change(verb: &str, change: Change, environment: &Environment) -> Result<(), Failure> {
    let client = Client::new(&change.which.remote, environment)?;
    let told = Told::of(change.why)?;
    let body = given([
        ("chain", change.which.chain.map(Value::String)),
        ("reason", Some(told.reason)),
        ("audit", told.audit),
    ]);
    let path = ["signers", &change.which.signer, verb];
    let answer = client.post(&path, &body).await?;
    client.show(&answer, shown)
}

/// Has a nonce filled; the answer is the transaction that holds it now.
async fn fill(client: &Client, asked: Placeholder) -> Result<(), Failure> {
    let (which, told) = (asked.change.which, Told::of(asked.change.why)?);
    let body = given([
        ("chain", which.chain.map(Value::String)),
        ("nonce", Some(asked.nonce.into())),
        ("reason", Some(told.reason)),
        ("audit", told.audit),
    ]);
    let path = ["signers", &which.signer, "placeholder"];
    let answer = client.post(&path, &body).await?;
    client.show(&answer, |filled| card(tx::ALONE, filled))
}

/// Shows what was done to a signer.
async fn acts(client: &Client, asked: Audit) -> Result<(), Failure> {
    let query = [
        ("chain", asked.which.chain),
        ("limit", Some(asked.limit.to_string())),
        ("cursor", asked.cursor),
    ];
    let path = ["signers", &asked.which.signer, "audit"];
    let answer = client.get(&path, &query).await?;
    client.show(&answer, |found| page(ACTS, "acts", found))
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;
    use crate::cli::{API_KEY, Remote};

    /// A node that answers with these pages, and what it was asked for.
    async fn node(listener: TcpListener, pages: [&str; 2]) -> Vec<String> {
        let mut asked = Vec::new();
        for page in pages {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut bytes = Vec::new();
            while !bytes.ends_with(b"\r\n\r\n") {
                stream.read_buf(&mut bytes).await.unwrap();
            }
            let head = String::from_utf8(bytes).unwrap();
            asked.push(head.lines().next().unwrap_or_default().to_owned());
            let length = page.len();
            let answer = format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{page}"
            );
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
        asked
    }

    #[tokio::test]
    async fn all_pages_are_listed() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let remote = Remote {
            url: format!("http://{}", listener.local_addr().unwrap()),
            key_env: API_KEY.to_owned(),
            json: true,
        };
        let client = Client::new(&remote, &Environment::default()).ok().unwrap();
        let pages = [
            r#"{"signers":[{"signer":"0x1"}],"nextCursor":"s1-7"}"#,
            r#"{"signers":[{"signer":"0x2"}],"nextCursor":null}"#,
        ];
        let (asked, signers) = tokio::join!(node(listener, pages), all(&client));
        let signers = signers.ok().unwrap();
        assert_eq!(
            signers,
            [json!({"signer": "0x1"}), json!({"signer": "0x2"})]
        );
        assert!(asked[0].starts_with("GET /api/v1/signers "), "{asked:?}");
        assert!(
            asked[1].starts_with("GET /api/v1/signers?cursor=s1-7 "),
            "{asked:?}"
        );
    }
}
