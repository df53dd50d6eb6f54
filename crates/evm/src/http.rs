//! JSON-RPC over HTTP. The URL may hold credentials in its path, query or userinfo, so nothing here
//! prints more of it than the host.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use reqwest::header::CONTENT_TYPE;
use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder};
use url::{Host, Url};

use crate::text;
use crate::transport::{Response, Transport, TransportError};

/// How long a connection may take to be made. Far endpoints need some round trips with TLS; longer
/// would use up a caller's deadline before another endpoint can be asked.
const CONNECT_TIME: Duration = Duration::from_secs(2);
/// Connections are closed before providers close them on us.
const IDLE_TIME: Duration = Duration::from_secs(20);
/// Idle connections to one endpoint: sends and reads in parallel reuse them.
const IDLE_MAX: usize = 16;
/// Blocks' receipts are the longest answers; a longer one would only fill our memory.
pub const ANSWER_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Why a text is no endpoint. The text itself is not repeated: it may hold a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadUrl {
    /// Not a URL.
    #[error("is not a URL: {0}")]
    Unreadable(#[from] url::ParseError),
    /// None of the schemes that are spoken there.
    #[error("has the scheme {found}, only {spoken} are spoken")]
    Scheme {
        /// The URL's.
        found: String,
        /// Those that could be used.
        spoken: &'static str,
    },
    /// Nobody to connect to.
    #[error("has no host")]
    NoHost,
}

/// An endpoint that is reached over HTTP.
pub struct HttpTransport {
    http: Client,
    url: Url,
    answer_bytes_max: usize,
}

impl HttpTransport {
    /// Connects to nothing yet.
    pub fn new(url: &str) -> Result<Self, BadUrl> {
        let url = Url::parse(url)?;
        if !matches!(url.scheme(), "http" | "https") {
            let (found, spoken) = (url.scheme().to_owned(), "http and https");
            return Err(BadUrl::Scheme { found, spoken });
        }
        if url.host().is_none() {
            return Err(BadUrl::NoHost);
        }
        Ok(Self {
            http: client(is_loopback(&url)),
            url,
            answer_bytes_max: ANSWER_BYTES_MAX,
        })
    }

    /// With another bound on answers.
    #[must_use]
    pub fn with_answer_bytes_max(mut self, bytes: usize) -> Self {
        self.answer_bytes_max = bytes;
        self
    }

    /// The host alone, which is all of the address that may be shown.
    #[must_use]
    pub fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }
}

impl fmt::Debug for HttpTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HttpTransport({})", self.host())
    }
}

#[async_trait]
impl Transport for HttpTransport {
    async fn post(&self, body: String, within: Duration) -> Result<Response, TransportError> {
        let request = self
            .http
            .post(self.url.clone())
            .timeout(within)
            .header(CONTENT_TYPE, "application/json")
            .body(body);
        let mut response = request.send().await.map_err(told)?;
        let max = self.answer_bytes_max;
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(told)? {
            if body.len() + chunk.len() > max {
                return Err(TransportError::TooLarge { max });
            }
            body.extend_from_slice(&chunk);
        }
        Ok(Response {
            status: response.status().as_u16(),
            body,
        })
    }
}

/// A proxy of the environment stands between us and the outside, never before our own machine.
fn client(is_local: bool) -> Client {
    // Another part of the process may have chosen one before, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    builder(is_local).build().unwrap_or_else(|error| {
        tracing::warn!(%error, "no certificates are trusted: endpoints are reached without TLS only");
        let untrusting = builder(is_local).tls_certs_only([]).build();
        untrusting.expect("a client that trusts nobody needs nothing of the system")
    })
}

fn builder(is_local: bool) -> ClientBuilder {
    let builder = Client::builder()
        // A redirected POST arrives as a GET, and perhaps at someone else's.
        .redirect(Policy::none())
        .connect_timeout(CONNECT_TIME)
        .pool_idle_timeout(IDLE_TIME)
        .pool_max_idle_per_host(IDLE_MAX)
        .tcp_nodelay(true);
    if is_local {
        builder.no_proxy()
    } else {
        builder
    }
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// What went wrong, without the address. A timeout while connecting is still one without a connection.
fn told(error: reqwest::Error) -> TransportError {
    let error = error.without_url();
    if error.is_connect() || error.is_builder() {
        TransportError::Unreachable(text::causes(&error))
    } else if error.is_timeout() {
        TransportError::TimedOut
    } else {
        TransportError::Broken(text::causes(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_shows_its_host_and_nothing_else() {
        let url = "https://user:secret@rpc.example/v3/0123456789?key=hidden";
        let endpoint = HttpTransport::new(url).unwrap();
        assert_eq!(format!("{endpoint:?}"), "HttpTransport(rpc.example)");
    }

    #[test]
    fn what_is_no_http_endpoint_is_refused_without_being_repeated() {
        for bad in ["secret-key", "ws://host/secret", "http://", "data:secret"] {
            let error = HttpTransport::new(bad).unwrap_err().to_string();
            assert!(!error.contains("secret"), "{error}");
        }
        assert!(HttpTransport::new("http://127.0.0.1:8545").is_ok());
    }
}
