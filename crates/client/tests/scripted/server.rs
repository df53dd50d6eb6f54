//! An HTTP server that remembers what it was asked and answers as it is told.

use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fencepost_client::{Client, NewTransaction, Payload, Retry};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use alloy_primitives::{Address, U256, address};

/// Who sends in these tests.
pub(crate) const ALICE: Address = address!("5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed");
/// Where nobody listens.
pub(crate) const NOBODY: &str = "http://127.0.0.1:1";

/// One request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) what: String,
    pub(crate) key: Option<String>,
    pub(crate) text: String,
    pub(crate) at: Instant,
}

impl Seen {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap()
    }
}

/// What the server does about a request.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// Answers.
    Say(u16, Value),
    /// Answers something that need not be JSON, with one more header.
    Bare(u16, (&'static str, String), String),
    /// Answers later.
    Late(Duration, Box<Step>),
    /// Takes the request and says nothing, ever.
    Hang,
    /// Takes the request and closes the connection.
    Cut,
}

/// The server.
pub(crate) struct Server {
    pub(crate) url: String,
    seen: Arc<Mutex<Vec<Seen>>>,
    serving: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Server {
    /// Answers as this says.
    pub(crate) async fn start(answer: impl FnMut(&Seen) -> Step + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&seen);
        let answer = Arc::new(Mutex::new(answer));
        let serving = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (log, answer) = (Arc::clone(&log), Arc::clone(&answer));
                let service = service_fn(move |request| {
                    let (log, answer) = (Arc::clone(&log), Arc::clone(&answer));
                    async move {
                        let seen = read(request).await.map_err(io::Error::other)?;
                        log.lock().unwrap().push(seen.clone());
                        let step = (answer.lock().unwrap())(&seen);
                        act(step).await
                    }
                });
                let connection =
                    http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                tokio::spawn(async move { drop(connection.await) });
            }
        });
        Self { url, seen, serving }
    }

    /// Takes these steps, one for each request. More requests than steps are a mistake of the client.
    pub(crate) async fn steps(steps: impl IntoIterator<Item = Step>) -> Self {
        let mut steps: Vec<Step> = steps.into_iter().collect();
        steps.reverse();
        Self::start(move |_| steps.pop().unwrap_or(Step::Say(418, json!("too many")))).await
    }

    /// All that it was asked.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// How often it was asked.
    pub(crate) fn count(&self) -> usize {
        self.seen.lock().unwrap().len()
    }

    /// A client that does not wait long, in tries or in time.
    pub(crate) fn client(&self) -> Client {
        Client::builder()
            .node(&self.url)
            .retry(quick())
            .build()
            .unwrap()
    }
}

/// Many tries, in no time.
pub(crate) fn quick() -> Retry {
    Retry {
        attempts: 5,
        total: Duration::from_secs(30),
        pause_first: Duration::from_millis(1),
        pause_max: Duration::from_millis(5),
    }
}

async fn read(request: Request<Incoming>) -> Result<Seen, hyper::Error> {
    let what = format!("{} {}", request.method(), request.uri());
    let key = request.headers().get("authorization");
    let key = key.map(|key| key.to_str().unwrap().to_owned());
    let body = request.into_body().collect().await?.to_bytes();
    Ok(Seen {
        what,
        key,
        text: String::from_utf8(body.to_vec()).unwrap(),
        at: Instant::now(),
    })
}

async fn act(step: Step) -> io::Result<Response<Full<Bytes>>> {
    match step {
        Step::Say(status, body) => Ok(response(status, None, body.to_string())),
        Step::Bare(status, header, body) => Ok(response(status, Some(header), body)),
        Step::Late(after, step) => {
            sleep(after).await;
            Box::pin(act(*step)).await
        }
        Step::Hang => {
            let never: Infallible = pending().await;
            match never {}
        }
        Step::Cut => Err(io::Error::other("as the test says")),
    }
}

fn response(
    status: u16,
    header: Option<(&'static str, String)>,
    body: String,
) -> Response<Full<Bytes>> {
    let mut builder = Response::builder().status(status);
    if let Some((name, value)) = header {
        builder = builder.header(name, value);
    }
    builder.body(Full::from(body)).unwrap()
}

/// A refusal.
pub(crate) fn problem(status: u16, code: &str) -> Step {
    Step::Say(status, problem_json(status, code))
}

pub(crate) fn problem_json(status: u16, code: &str) -> Value {
    json!({ "type": format!("/docs/problems#{code}"), "title": code, "status": status, "code": code, "detail": "No." })
}

/// A refusal that names the time to come back.
pub(crate) fn later(status: u16, code: &str, seconds: u64) -> Step {
    let body = problem_json(status, code).to_string();
    Step::Bare(status, ("retry-after", seconds.to_string()), body)
}

/// A transaction.
pub(crate) fn transaction(state: &str) -> Value {
    json!({
        "txId": "01890000-0000-7000-8000-000000000001", "kind": "managed", "chain": "main",
        "signer": ALICE, "requestId": "a", "nonce": 7, "state": state, "subState": null, "txHash": null,
        "payload": { "to": ALICE, "value": "1" }, "submitAttempts": 0, "lastError": null, "blockNumber": null,
        "blockHash": null, "receipt": null, "confirmedAt": null, "createdAt": "2026-01-01T00:00:00Z",
        "updatedAt": "2026-01-01T00:00:00Z", "notAfter": null, "meta": null,
    })
}

pub(crate) fn stored(status: u16) -> Step {
    Step::Say(status, transaction("ALLOCATED"))
}

/// A valid request.
pub(crate) fn payment() -> NewTransaction {
    NewTransaction::new(ALICE, Payload::transfer(ALICE, U256::from(1)))
}
