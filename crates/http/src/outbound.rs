//! Calls that leave this process: a client that follows nothing and trusts no environment, and answers
//! that are read whole, within a bound.

use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder, Response};

/// A client made by `tune`. Redirects and proxies of the environment would lead calls to hosts that
/// nobody has configured.
pub(crate) fn client(tune: impl Fn(ClientBuilder) -> ClientBuilder) -> Client {
    // Another part of the process may have chosen one before, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = || tune(Client::builder().no_proxy().redirect(Policy::none()));
    builder().build().unwrap_or_else(|error| {
        tracing::warn!(%error, "no certificates are trusted: others are reached without TLS only");
        let untrusting = builder().tls_certs_only([]).build();
        untrusting.expect("a client that trusts nobody needs nothing of the system")
    })
}

/// Why an answer was not read.
pub(crate) enum Unread {
    /// It did not arrive whole.
    Broken(reqwest::Error),
    /// It is above the bound.
    TooLong,
}

/// A body of at most so many bytes.
pub(crate) async fn whole(mut response: Response, bytes_max: usize) -> Result<Vec<u8>, Unread> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(Unread::Broken)? {
        if body.len() + chunk.len() > bytes_max {
            return Err(Unread::TooLong);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}
