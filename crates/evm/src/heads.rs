//! New blocks as an endpoint announces them: `eth_subscribe newHeads` over WebSocket. An announcement wakes the follower and is
//! used for nothing else, so whatever this connection does or says changes when blocks are seen, never what is seen. The URL may
//! hold credentials: logs show its host only.

mod connect;
mod link;
mod session;

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};
use tokio_tungstenite::tungstenite;
use url::Url;

use crate::http::BadUrl;
use crate::meters::ChainMeters;
use crate::rpc::Fault;
use link::Link;
use session::{Said, Session};

/// A WebSocket endpoint that announces new blocks.
#[derive(Clone)]
pub struct WsEndpoint {
    url: Url,
    limits: WsLimits,
    tls: Option<Arc<ClientConfig>>,
}

impl WsEndpoint {
    /// Connects to nothing yet.
    pub fn new(url: &str) -> Result<Self, BadUrl> {
        let url = Url::parse(url)?;
        if !matches!(url.scheme(), "ws" | "wss") {
            let (found, spoken) = (url.scheme().to_owned(), "ws and wss");
            return Err(BadUrl::Scheme { found, spoken });
        }
        if url.host().is_none() {
            return Err(BadUrl::NoHost);
        }
        Ok(Self {
            url,
            limits: WsLimits::default(),
            tls: None,
        })
    }

    /// With other limits.
    #[must_use]
    pub fn with_limits(self, limits: WsLimits) -> Self {
        Self { limits, ..self }
    }

    /// With other certificates than those that the system trusts.
    #[must_use]
    pub fn with_tls(self, tls: Arc<ClientConfig>) -> Self {
        let tls = Some(tls);
        Self { tls, ..self }
    }

    /// The host alone, which is all of the address that may be shown.
    #[must_use]
    pub fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }
}

impl fmt::Debug for WsEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WsEndpoint({})", self.host())
    }
}

/// What a WebSocket endpoint may cost us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WsLimits {
    /// How long connecting, TLS, the handshake and the subscription may take together. Too low: far endpoints are never reached. Too
    /// high: a try that hangs delays the next one.
    pub open_timeout: Duration,
    /// After so much silence a ping is sent; after as much again the connection counts as dead. Too low: pings for nothing on slow
    /// chains. Too high: a connection that a firewall dropped goes unnoticed, and blocks are only polled meanwhile.
    pub ping_after: Duration,
    /// The wait after a first failure; each one after it is twice as long, and chance makes any of them up to twice as long. Too low:
    /// an endpoint that restarts is hammered. Too high: blocks are only polled for that long after each short break.
    pub reconnect_min: Duration,
    /// The longest wait, before chance. Too low: a dead endpoint is tried often. Too high: one that is back goes unused.
    pub reconnect_max: Duration,
    /// A connection that lasts so long is well again: the log says so, and the waits begin anew. Too low: an endpoint that breaks
    /// again and again fills the log. Too high: waits stay long after a short outage.
    pub stable_after: Duration,
    /// The longest message; a longer one ends the connection. Heads have about 2 KiB. Too low: chains with long headers are never
    /// announced. Too high: one message can take that much memory.
    pub message_bytes_max: usize,
    /// What is read in a second; the rest waits in the endpoint's send buffer, and short messages count as 1 KiB. Too low: a fast
    /// chain's announcements come late. Too high: an endpoint that floods us costs that much processor time.
    pub bytes_per_second_max: usize,
}

impl Default for WsLimits {
    fn default() -> Self {
        Self {
            open_timeout: Duration::from_secs(10),
            ping_after: Duration::from_secs(15),
            reconnect_min: Duration::from_millis(500),
            reconnect_max: Duration::from_secs(30),
            stable_after: Duration::from_secs(10),
            message_bytes_max: 256 * 1024,
            bytes_per_second_max: 4 * 1024 * 1024,
        }
    }
}

/// Why there are no announcements now.
#[derive(Debug, thiserror::Error)]
enum Lost {
    #[error("cannot connect")]
    Unreachable(#[source] io::Error),
    #[error("no TLS configuration")]
    Tls(#[source] rustls::Error),
    #[error("the TLS handshake failed")]
    TlsHandshake(#[source] io::Error),
    #[error("the WebSocket handshake failed")]
    Handshake(#[source] tungstenite::Error),
    #[error("connecting and subscribing took longer than {0:?}")]
    TimedOut(Duration),
    #[error("eth_subscribe was refused")]
    Refused(#[source] Fault),
    #[error("the connection broke")]
    Broken(#[source] tungstenite::Error),
    #[error("the endpoint closed the connection")]
    Closed,
    #[error("no message for {0:?}, not even the answer to a ping")]
    Silent(Duration),
}

/// The announcements of one chain.
pub(crate) struct Heads {
    endpoint: WsEndpoint,
    chain: Arc<str>,
    meters: ChainMeters,
}

impl Heads {
    pub(crate) fn new(endpoint: WsEndpoint, chain: Arc<str>, meters: ChainMeters) -> Self {
        meters.ws_connected(false);
        meters.ws_heads(0);
        Self {
            endpoint,
            chain,
            meters,
        }
    }

    /// Connects, subscribes and notifies `announced` for each head; connects again when that ends. Never returns.
    pub(crate) async fn watch(&self, announced: &Notify) {
        let mut link = Link::new(&self.chain, &self.endpoint);
        let mut tls = self.endpoint.tls.clone();
        loop {
            let lost = match self.listen(&mut link, &mut tls, announced).await {
                Ok(never) => match never {},
                Err(lost) => lost,
            };
            self.meters.ws_connected(false);
            let wait = link.lost(&lost, Instant::now());
            sleep(wait).await;
        }
    }

    /// One connection, until it is lost.
    async fn listen(
        &self,
        link: &mut Link<'_>,
        tls: &mut Option<Arc<ClientConfig>>,
        announced: &Notify,
    ) -> Result<std::convert::Infallible, Lost> {
        let limits = self.endpoint.limits;
        let opened = async {
            let socket = connect::connect(&self.endpoint, tls).await?;
            Session::subscribe(socket, limits).await
        };
        let mut session = timeout(limits.open_timeout, opened)
            .await
            .unwrap_or(Err(Lost::TimedOut(limits.open_timeout)))?;
        self.meters.ws_connected(true);
        link.subscribed(Instant::now());
        // Blocks may have come while we were not subscribed.
        announced.notify_one();
        loop {
            match session.next().await? {
                Said::Head => {
                    self.meters.ws_heads(1);
                    announced.notify_one();
                }
                Said::Other => {}
            }
            link.heard(Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_shows_its_host_and_nothing_else() {
        let url = "wss://user:secret@ws.example/v3/0123456789?key=hidden";
        let endpoint = WsEndpoint::new(url).unwrap();
        assert_eq!(format!("{endpoint:?}"), "WsEndpoint(ws.example)");
    }

    #[test]
    fn what_is_no_websocket_endpoint_is_refused_without_being_repeated() {
        for bad in ["secret-key", "http://host/secret", "ws://", "data:secret"] {
            let error = WsEndpoint::new(bad).unwrap_err().to_string();
            assert!(!error.contains("secret"), "{error}");
        }
        assert!(WsEndpoint::new("ws://127.0.0.1:8545").is_ok());
    }
}
