//! The HTTP transport against a small server on a port of the system's choice.

#![allow(clippy::unwrap_used)] // A test may stop at any surprise.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fencepost_app::ports::Chain;
use fencepost_domain::ids::ChainId;
use fencepost_domain::rejection::Rejection;
use fencepost_evm::{ChainConfig, Chains, HttpTransport, Meters, Transport, TransportError};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// What the server does with a request.
#[derive(Clone)]
enum Does {
    /// Answers with this status and body.
    Answers(u16, String),
    /// Reads it and says nothing.
    Hangs,
    /// Reads it and closes.
    Closes,
    /// Sends the head of an answer, and its body for ever.
    Floods,
}

struct Server {
    port: u16,
    connections: Arc<AtomicUsize>,
    /// The head of the last request.
    last: Arc<std::sync::Mutex<String>>,
}

impl Server {
    async fn start(does: Does) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let connections = Arc::new(AtomicUsize::new(0));
        let last = Arc::default();
        let (count, heads) = (connections.clone(), Arc::clone(&last));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(serve(stream, does.clone(), Arc::clone(&heads)));
            }
        });
        Self {
            port,
            connections,
            last,
        }
    }

    fn url(&self) -> String {
        format!(
            "http://user:password@127.0.0.1:{}/v3/SECRET?key=SECRET",
            self.port
        )
    }

    fn transport(&self) -> HttpTransport {
        HttpTransport::new(&self.url()).unwrap()
    }
}

async fn serve(stream: TcpStream, does: Does, last: Arc<std::sync::Mutex<String>>) {
    let mut stream = BufReader::new(stream);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if stream.read_line(&mut head).await.unwrap_or(0) == 0 {
                return;
            }
        }
        let lower = head.to_lowercase();
        let length = lower.split("content-length: ").nth(1).unwrap();
        let length: usize = length.lines().next().unwrap().parse().unwrap();
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.unwrap();
        *last.lock().unwrap() = head;
        let answer = match &does {
            Does::Answers(status, body) => {
                let length = body.len();
                let head = "location: /elsewhere\r\n";
                format!("HTTP/1.1 {status} X\r\n{head}content-length: {length}\r\n\r\n{body}")
            }
            Does::Hangs => std::future::pending().await,
            Does::Closes => return,
            Does::Floods => {
                let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
                stream.write_all(head.as_bytes()).await.unwrap();
                let chunk = format!("400\r\n{}\r\n", "x".repeat(1024));
                while stream.write_all(chunk.as_bytes()).await.is_ok() {}
                return;
            }
        };
        stream.write_all(answer.as_bytes()).await.unwrap();
    }
}

const LONG: Duration = Duration::from_secs(20);

async fn post(
    server: &Server,
    within: Duration,
) -> Result<fencepost_evm::Response, TransportError> {
    server.transport().post("{}".to_owned(), within).await
}

#[tokio::test]
async fn an_answer_comes_back_whatever_its_status() {
    for (status, body) in [(200, "{}"), (429, "slow down"), (502, "<html>"), (404, "")] {
        let server = Server::start(Does::Answers(status, body.to_owned())).await;
        let answer = post(&server, LONG).await.unwrap();
        assert_eq!(
            (answer.status, answer.body),
            (status, body.as_bytes().to_vec())
        );
        let head = server.last.lock().unwrap().to_lowercase();
        assert!(head.starts_with("post /v3/secret?key=secret "));
        assert!(head.contains("content-type: application/json"));
        assert!(head.contains("authorization: basic "));
    }
}

#[tokio::test]
async fn connections_are_kept() {
    let server = Server::start(Does::Answers(200, "{}".to_owned())).await;
    let transport = server.transport();
    for _ in 0..10 {
        transport.post("{}".to_owned(), LONG).await.unwrap();
    }
    assert_eq!(server.connections.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_deadline_ends_a_hang() {
    let server = Server::start(Does::Hangs).await;
    let answer = post(&server, Duration::from_millis(100));
    let answer = tokio::time::timeout(LONG, answer).await;
    assert_eq!(answer, Ok(Err(TransportError::TimedOut)));
}

#[tokio::test]
async fn an_answer_without_end_is_cut_off() {
    let server = Server::start(Does::Floods).await;
    let transport = server.transport().with_answer_bytes_max(100_000);
    let answer = transport.post("{}".to_owned(), LONG).await;
    assert_eq!(answer, Err(TransportError::TooLarge { max: 100_000 }));
}

#[tokio::test]
async fn no_connection_is_told_from_a_broken_one_and_neither_tells_the_address() {
    let closes = Server::start(Does::Closes).await;
    let broken = post(&closes, LONG).await.unwrap_err();
    assert!(matches!(broken, TransportError::Broken(_)), "{broken:?}");
    let nobody = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap().port()
    };
    let transport = HttpTransport::new(&format!("http://127.0.0.1:{nobody}/SECRET")).unwrap();
    let unreachable = transport.post("{}".to_owned(), LONG).await.unwrap_err();
    assert!(
        matches!(unreachable, TransportError::Unreachable(_)),
        "{unreachable:?}"
    );
    for error in [broken, unreachable] {
        let text = format!("{error} {error:?}");
        assert!(
            !text.contains("SECRET") && !text.contains("password"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let server = Server::start(Does::Answers(308, String::new())).await;
    assert_eq!(post(&server, LONG).await.unwrap().status, 308);
}

#[tokio::test]
async fn chains_speak_http() {
    // This server takes every call for the greeting of chain 7: ids count from 1.
    let body = r#"[{"id":1,"result":"0x7"},{"id":2,"result":"anvil/v1"}]"#;
    let good = Server::start(Does::Answers(200, body.to_owned())).await;
    let limited = Server::start(Does::Answers(429, String::new())).await;
    let chain = ChainId::new(7).unwrap();
    let config = ChainConfig::http(chain, "main", &[good.url(), limited.url()]).unwrap();
    let chains = Chains::new(vec![config], &Meters::default());
    let replies = chains.send(chain, &[vec![1].into()]).await;
    assert_eq!(replies[0].why, Some(Rejection::Unrecognised));
    let health = chains.health();
    let states: Vec<_> = health[0]
        .endpoints
        .iter()
        .map(|endpoint| endpoint.state)
        .collect();
    assert_eq!(states, ["unreachable", "unreachable"]);
    assert_eq!(health[0].endpoints[0].client.as_deref(), Some("anvil/v1"));
    let bad = ChainConfig::http(chain, "main", &["http://host", "SECRET"]);
    let error = bad.err().unwrap().to_string();
    assert_eq!(
        error,
        "endpoint 1 is not a URL: relative URL without a base"
    );
}
