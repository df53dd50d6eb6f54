//! A key elsewhere: a service that speaks Web3Signer's `eth1` API. It hashes what it is given, so it
//! gets the bytes and not the hash; what it answers is believed only after recovery.

mod body;
mod directory;
mod signature;

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use alloy_primitives::{Address, Signature, hex};
use fencepost_app::ports::Unsignable;
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder, Response, Url};
use secrecy::{ExposeSecret, SecretString};
use tokio::sync::Semaphore;

use crate::spec::Limits;
use crate::transaction::Draft;

/// How long a connection may take to be made. A service that is there accepts within a round trip.
const CONNECT_TIME: Duration = Duration::from_secs(2);
/// Connections are closed before the other side would close them on us.
const IDLE_TIME: Duration = Duration::from_secs(20);
/// A signature is 132 characters; an error page has some more.
const ANSWER_BYTES_MAX: usize = 16 * 1024;

/// The service's URL cannot be used. Never quotes it: it may hold a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadUrl {
    /// Not a URL.
    #[error("the remote signer's URL is not one")]
    NotUrl,
    /// Another scheme.
    #[error("the remote signer's URL is neither http nor https")]
    Scheme,
    /// What a base URL cannot have, since paths are added to it.
    #[error("the remote signer's URL has a query or a fragment")]
    NotBase,
}

/// What all remote keys share: connections, and nothing that one could keep from another.
pub(crate) struct Dialer {
    /// Made for the first remote key: the system's certificates take time to read, and a node without
    /// such keys needs none.
    http: OnceLock<Client>,
    limits: Limits,
}

impl Dialer {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            http: OnceLock::new(),
            limits,
        }
    }

    fn http(&self) -> Client {
        self.http.get_or_init(client).clone()
    }
}

fn client() -> Client {
    // Another part of the process may have chosen one before, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    builder().build().unwrap_or_else(|error| {
        tracing::warn!(%error, "no certificates are trusted: remote signers are reached without TLS only");
        let untrusting = builder().tls_certs_only([]).build();
        untrusting.expect("a client that trusts nobody needs nothing of the system")
    })
}

/// A redirect could carry a transaction to someone else; nobody who signs answers with one.
fn builder() -> ClientBuilder {
    Client::builder()
        .no_proxy()
        .redirect(Policy::none())
        .connect_timeout(CONNECT_TIME)
        .pool_idle_timeout(IDLE_TIME)
}

/// One account's key at a service.
pub(crate) struct Remote {
    http: Client,
    base: Url,
    account: Address,
    deadline: Duration,
    /// Each key has its own: calls that hang for one must not use up another's.
    calls: Semaphore,
    /// The name by which the service knows the key, once found. Forgotten when it turns out to be
    /// another key's or nobody's: services get new keys while they run.
    name: Mutex<Option<Arc<str>>>,
}

impl Remote {
    pub(crate) fn new(
        dialer: &Dialer,
        url: &SecretString,
        account: Address,
    ) -> Result<Self, BadUrl> {
        let base: Url = url
            .expose_secret()
            .trim()
            .parse()
            .map_err(|_| BadUrl::NotUrl)?;
        if !matches!(base.scheme(), "http" | "https") {
            return Err(BadUrl::Scheme);
        }
        if base.query().is_some() || base.fragment().is_some() {
            return Err(BadUrl::NotBase);
        }
        Ok(Self {
            http: dialer.http(),
            base,
            account,
            deadline: dialer.limits.remote_deadline,
            calls: Semaphore::new(dialer.limits.remote_calls.max(1)),
            name: Mutex::new(None),
        })
    }

    /// One try: whoever asks decides whether to ask again. The deadline spans every wait, that for
    /// a free call too.
    pub(crate) async fn sign(&self, draft: &Draft) -> Result<Signature, Unsignable> {
        let signing = async {
            let _call = self.calls.acquire().await.expect("never closed");
            self.ask(draft).await
        };
        let late = |_| unusable(format!("no answer within {:?}", self.deadline));
        tokio::time::timeout(self.deadline, signing)
            .await
            .map_err(late)?
    }

    async fn ask(&self, draft: &Draft) -> Result<Signature, Unsignable> {
        let name = self.name().await?;
        let request = self
            .http
            .post(self.url(&["sign", &name]))
            .header(ACCEPT, "text/plain, */*")
            .header(CONTENT_TYPE, "application/json")
            .body(format!(
                r#"{{"data":"{}"}}"#,
                hex::encode_prefixed(draft.message())
            ));
        let response = request.send().await.map_err(unreached)?;
        let status = response.status().as_u16();
        if status != 200 {
            return Err(self.declined(status, response).await);
        }
        let text = body::text(response, ANSWER_BYTES_MAX).await?;
        signature::read(&text, draft.hash(), self.account).inspect_err(|_| self.remember(None))
    }

    /// Only 403 (a policy said no) and 422 (it cannot be signed) speak of this transaction. All else
    /// is about the key or the service, and may pass: refusing would end the transaction for good.
    async fn declined(&self, status: u16, response: Response) -> Unsignable {
        let words = body::words(response, ANSWER_BYTES_MAX).await;
        match status {
            403 | 422 => Unsignable::Refused(format!("remote signer, HTTP {status}{words}")),
            404 => {
                self.remember(None);
                unusable(format!("HTTP 404, the key is not known there{words}"))
            }
            _ => unusable(format!("HTTP {status}{words}")),
        }
    }

    fn url(&self, path: &[&str]) -> Url {
        let mut url = self.base.clone();
        url.path_segments_mut()
            .expect("http and https URLs have paths")
            .pop_if_empty()
            .extend(["api", "v1", "eth1"])
            .extend(path);
        url
    }

    fn known_name(&self) -> Option<Arc<str>> {
        self.name
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn remember(&self, name: Option<Arc<str>>) {
        *self.name.lock().unwrap_or_else(PoisonError::into_inner) = name;
    }
}

fn unusable(why: impl std::fmt::Display) -> Unsignable {
    Unsignable::Unusable(format!("remote signer: {why}"))
}

/// The library's error names the URL, which may hold a password. Its first cause says most: refused,
/// unknown host, bad certificate.
fn unreached(error: reqwest::Error) -> Unsignable {
    let error = error.without_url();
    let mut cause: &dyn std::error::Error = &error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    unusable(format!("{error}: {cause}"))
}
