//! A WebSocket server that a test plays by hand, and the chain that watches it. Every wait has an end.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use fencepost_app::ports::Chain;
use fencepost_domain::ids::ChainId;
use fencepost_evm::{ChainConfig, Chains, Meters, WsEndpoint, WsLimits};
use futures::{FutureExt, SinkExt, StreamExt};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::{Bytes, Message};
use tokio_tungstenite::{WebSocketStream, accept_async, accept_hdr_async};

/// Longer than anything takes on a busy machine.
const LONG: Duration = Duration::from_secs(60);

/// The answer to a subscription.
const TAKEN: &str = r#"{"jsonrpc":"2.0","id":1,"result":"0xcd"}"#;

/// Fails instead of waiting for ever.
pub(crate) async fn soon<T>(what: &str, event: impl Future<Output = T>) -> T {
    let waited = tokio::time::timeout(LONG, event).await;
    waited.unwrap_or_else(|_| panic!("waited {LONG:?} in vain: {what}"))
}

/// Tries again at once, and waits long for what hangs or is silent.
pub(crate) fn limits() -> WsLimits {
    WsLimits {
        open_timeout: LONG,
        ping_after: LONG,
        reconnect_min: Duration::from_millis(1),
        reconnect_max: Duration::from_millis(10),
        ..WsLimits::default()
    }
}

pub(crate) struct Server {
    listener: TcpListener,
    pub(crate) port: u16,
}

impl Server {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        Self { listener, port }
    }

    pub(crate) fn endpoint(&self, limits: WsLimits) -> WsEndpoint {
        let url = format!("ws://127.0.0.1:{}/v3/SECRET?key=SECRET", self.port);
        WsEndpoint::new(&url).unwrap().with_limits(limits)
    }

    /// The next connection, before anything was said on it.
    pub(crate) async fn connection(&self) -> TcpStream {
        let accepted = soon("a connection", self.listener.accept()).await;
        accepted.unwrap().0
    }

    /// The same where we may be too slow for the other side: tries until one was fast enough.
    pub(crate) async fn hurried_subscriber(&self, answers: bool) -> Peer<TcpStream> {
        loop {
            let Ok(socket) = accept_async(self.connection().await).await else {
                continue;
            };
            let path = String::new();
            let mut peer = Peer { socket, path };
            let Some(Ok(Message::Text(_))) = peer.socket.next().await else {
                continue;
            };
            if !answers || peer.socket.send(Message::text(TAKEN)).await.is_ok() {
                return peer;
            }
        }
    }

    /// The next connection, once it has subscribed.
    pub(crate) async fn subscriber(&self) -> Peer<TcpStream> {
        let mut peer = Peer::open(self.connection().await).await;
        peer.answer().await;
        peer
    }
}

/// One connection, from the server's side.
pub(crate) struct Peer<S> {
    socket: WebSocketStream<S>,
    /// The path and the query that were asked for.
    pub(crate) path: String,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Peer<S> {
    pub(crate) async fn open(stream: S) -> Self {
        let mut path = String::new();
        // The size of the error is tungstenite's choice.
        #[allow(clippy::result_large_err)]
        let look = |request: &Request, response: Response| -> Result<Response, ErrorResponse> {
            path = request.uri().to_string();
            Ok(response)
        };
        let opened = soon("a handshake", accept_hdr_async(stream, look)).await;
        let socket = opened.unwrap();
        Self { socket, path }
    }

    /// The next text.
    pub(crate) async fn read(&mut self) -> Value {
        loop {
            let message = soon("a message", self.socket.next()).await;
            if let Message::Text(text) = message.expect("a message").unwrap() {
                return serde_json::from_str(&text).unwrap();
            }
        }
    }

    /// Reads the subscription and takes it.
    pub(crate) async fn answer(&mut self) {
        let call = self.read().await;
        let expected =
            json!({ "jsonrpc": "2.0", "id": 1, "method": "eth_subscribe", "params": ["newHeads"] });
        assert_eq!(call, expected);
        self.send(TAKEN).await;
    }

    pub(crate) async fn send(&mut self, text: &str) {
        self.put(Message::text(text)).await;
    }

    pub(crate) async fn put(&mut self, message: Message) {
        soon("room to send", self.socket.send(message))
            .await
            .unwrap();
    }

    pub(crate) async fn announce(&mut self, number: u64) {
        let head = json!({ "number": format!("{number:#x}") });
        let params = json!({ "subscription": "0xcd", "result": head });
        let head = json!({ "jsonrpc": "2.0", "method": "eth_subscription", "params": params });
        self.send(&head.to_string()).await;
    }

    /// Returns once all that was sent before has been read.
    pub(crate) async fn until_read(&mut self) {
        self.put(Message::Ping(Bytes::from_static(b"so far"))).await;
        loop {
            let message = soon("a pong", self.socket.next()).await;
            if let Message::Pong(payload) = message.expect("a pong").unwrap() {
                assert_eq!(&payload[..], b"so far");
                return;
            }
        }
    }

    /// What is below the WebSocket.
    pub(crate) fn raw(&mut self) -> &mut S {
        self.socket.get_mut()
    }

    pub(crate) async fn close(mut self) {
        soon("it closes", self.socket.close(None)).await.unwrap();
    }

    /// Returns once the other side is gone.
    pub(crate) async fn until_left(mut self) {
        while let Some(Ok(_)) = soon("the end", self.socket.next()).await {}
    }
}

/// A chain whose heads are watched, until this is dropped.
pub(crate) struct Watched {
    announced: Arc<Notify>,
    registry: Registry,
    task: JoinHandle<()>,
}

impl Watched {
    pub(crate) fn start(endpoint: WsEndpoint) -> Self {
        let mut registry = Registry::default();
        let meters = Meters::register(&mut registry);
        let id = ChainId::new(1).unwrap();
        let mut config = ChainConfig::new(id, "main", vec![]);
        config.heads = Some(endpoint);
        let chains = Chains::new(vec![config], &meters);
        let announced = Arc::new(Notify::new());
        let notified = Arc::clone(&announced);
        let task = tokio::spawn(async move { chains.watch_heads(id, &notified).await });
        Self {
            announced,
            registry,
            task,
        }
    }

    /// Waits until it was woken up.
    pub(crate) async fn until_woken(&self) {
        soon("a wake-up", self.announced.notified()).await;
    }

    /// Nothing has woken it up since it was last waited for.
    pub(crate) fn sleeps(&self) -> bool {
        self.announced.notified().now_or_never().is_none()
    }

    /// A meter of the chain.
    pub(crate) fn meter(&self, name: &str) -> String {
        let mut text = String::new();
        encode(&mut text, &self.registry).unwrap();
        let name = format!("fencepost_ws_{name}{{chain=\"main\"}} ");
        let value = text.lines().find_map(|line| line.strip_prefix(&name));
        value.expect("the meter").to_owned()
    }

    pub(crate) fn stop(&self) {
        self.task.abort();
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.task.abort();
    }
}
