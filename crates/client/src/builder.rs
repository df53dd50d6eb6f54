//! What a client is made of.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::HeaderValue;
use reqwest::redirect::Policy;

use crate::client::{Client, Inner};
use crate::error::Cause;
use crate::nodes::Nodes;
use crate::retry::Retry;

/// How long a connection may take to be made. Longer delays the turn to the next node.
const CONNECT_TIME: Duration = Duration::from_secs(2);
/// Connections are closed before the server (75 s) or a load balancer would close them on us.
const IDLE_TIME: Duration = Duration::from_secs(20);
/// Longer than a node takes to say that it cannot say (35 s), so that its word is heard.
const REQUEST_TIME: Duration = Duration::from_secs(40);
/// Above a page of large transactions; more is not kept in memory.
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Makes a [`Client`].
#[derive(Clone)]
#[must_use = "a builder does nothing until it builds"]
pub struct Builder {
    nodes: Vec<String>,
    key: Option<String>,
    request_timeout: Duration,
    connect_timeout: Duration,
    answer_bytes_max: usize,
    retry: Retry,
    http: Option<reqwest::Client>,
}

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// No node was given.
    #[error("no node was given; FENCEPOST_URL names one where the environment is asked")]
    NoNodes,
    /// A URL is not where a node can be.
    #[error("{url} is not where a node can be: {why}")]
    Url {
        /// The URL.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// The API key cannot stand in a header.
    #[error("the API key is empty, or has characters that no key has")]
    Key,
    /// The system has no certificates to trust, which `https://` needs.
    #[error("https cannot be used on this system")]
    Tls(#[source] Cause),
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            nodes: vec![],
            key: None,
            request_timeout: REQUEST_TIME,
            connect_timeout: CONNECT_TIME,
            answer_bytes_max: ANSWER_BYTES_MAX,
            retry: Retry::default(),
            http: None,
        }
    }
}

impl Builder {
    /// One more node of the cluster, such as `http://10.0.0.1:8700`. The first is asked first; where it cannot
    /// be connected to, or fails, the next is.
    pub fn node(mut self, url: impl Into<String>) -> Self {
        self.nodes.push(url.into());
        self
    }

    /// More nodes of the cluster.
    pub fn nodes<U: Into<String>>(mut self, urls: impl IntoIterator<Item = U>) -> Self {
        self.nodes.extend(urls.into_iter().map(Into::into));
        self
    }

    /// The API key, sent with every request and never shown.
    pub fn api_key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// What the environment says, as the command line takes it: nodes from `FENCEPOST_URL` (several are separated
    /// by commas) and the key from `FENCEPOST_API_KEY`.
    pub fn from_env() -> Self {
        let given = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
        let urls = given("FENCEPOST_URL").unwrap_or_default();
        let urls = urls.split(',').map(str::trim).filter(|url| !url.is_empty());
        let mut builder = Self::default().nodes(urls);
        builder.key = given("FENCEPOST_API_KEY");
        builder
    }

    /// How long one try may take (40 s). Below the server's own limit (35 s) its last word is not heard.
    pub const fn request_timeout(mut self, within: Duration) -> Self {
        self.request_timeout = within;
        self
    }

    /// How long a connection may take to be made (2 s) until the next node is tried.
    pub const fn connect_timeout(mut self, within: Duration) -> Self {
        self.connect_timeout = within;
        self
    }

    /// The largest answer that is read (64 MiB). A full page of the largest transactions is larger: ask for
    /// fewer of those at once.
    pub const fn answer_bytes_max(mut self, bytes: usize) -> Self {
        self.answer_bytes_max = bytes;
        self
    }

    /// How often and how long calls are tried again.
    pub const fn retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// An HTTP client of your own, for certificates of your own or a proxy. It should follow no redirects, which
    /// would send the key elsewhere, and its own timeouts come on top of those here.
    pub fn http(mut self, http: reqwest::Client) -> Self {
        self.http = Some(http);
        self
    }

    /// Makes the client. Nothing is asked of any node yet.
    pub fn build(self) -> Result<Client, BuildError> {
        let nodes = Nodes::new(&self.nodes)?;
        let key = self.key.as_deref().map(bearer).transpose()?;
        let encrypted = nodes.urls().iter().any(|url| url.scheme() == "https");
        let http = match self.http {
            Some(http) => http,
            None => http(self.connect_timeout, encrypted)?,
        };
        Ok(Client(Arc::new(Inner {
            http,
            nodes,
            key,
            retry: self.retry,
            request_timeout: self.request_timeout,
            answer_bytes_max: self.answer_bytes_max,
        })))
    }
}

fn bearer(key: &str) -> Result<HeaderValue, BuildError> {
    let plain = !key.is_empty()
        && key
            .bytes()
            .all(|byte| byte.is_ascii_graphic() || byte == b' ');
    if !plain {
        return Err(BuildError::Key);
    }
    let mut value = HeaderValue::from_str(&format!("Bearer {key}")).map_err(|_| BuildError::Key)?;
    value.set_sensitive(true);
    Ok(value)
}

fn http(connect_timeout: Duration, encrypted: bool) -> Result<reqwest::Client, BuildError> {
    // Another part of the process may have chosen one before, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = || {
        reqwest::Client::builder()
            .user_agent(concat!("fencepost-client/", env!("CARGO_PKG_VERSION")))
            // Nodes are asked directly, and never send a key elsewhere.
            .no_proxy()
            .redirect(Policy::none())
            .connect_timeout(connect_timeout)
            .pool_idle_timeout(IDLE_TIME)
    };
    let built = match builder().build() {
        // Without certificates to trust, nodes can still be asked without TLS.
        Err(_) if !encrypted => builder().tls_certs_only([]).build(),
        built => built,
    };
    built.map_err(|error| BuildError::Tls(Box::new(error)))
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("nodes", &self.nodes.len())
            .field("has_key", &self.key.is_some())
            .field("retry", &self.retry)
            .finish_non_exhaustive()
    }
}
