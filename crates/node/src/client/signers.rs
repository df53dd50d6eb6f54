//! `fencepost signers …`, asked of a node.

use serde_json::{Map, Value, json};

use super::table::{Column, card, lines};
use super::{Client, read};
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
            let signers = all(&client).await?;
            let list = json!({ "signers": signers, "nextCursor": null });
            client.show(&list.to_string(), |_| lines(IN_LIST, &signers))
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

/// Every signer, page by page.
async fn all(client: &Client) -> Result<Vec<Value>, Failure> {
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
    let mut body = Map::from_iter([("reason".to_owned(), Value::String(change.reason))]);
    if let Some(chain) = change.which.chain {
        body.insert("chain".to_owned(), Value::String(chain));
    }
    let path = ["signers", &change.which.signer, verb];
    let answer = client.post(&path, &Value::Object(body)).await?;
    client.show(&answer, |signer| card(ALONE, signer))
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
