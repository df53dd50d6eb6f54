//! One call to another node, sealed, with a sealed answer. Where no connection was made nothing was
//! sent; everything else that is not a sealed answer proves nothing.

use std::time::Duration;

use fencepost_domain::ids::Lane;
use jiff::Timestamp;
use reqwest::header::HeaderMap;
use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder, Response, StatusCode};
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::line::Failed;
use super::seal::{self, Seal};
use super::wire::{Share, Told};
use crate::secret::Secret;

/// How long a connection may take to be made. A node that is there accepts within a round trip.
const CONNECT_TIME: Duration = Duration::from_millis(500);
/// Connections are closed before the other side would close them on us.
const IDLE_TIME: Duration = Duration::from_secs(20);
/// Idle connections to one node: one for each lane that is busy.
const IDLE_MAX: usize = 64;
/// An answer is a few words for each request.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;

/// Where requests are handed to.
pub(crate) const PATH: &str = "/internal/v1/tx";

/// Calls other nodes; without a secret it calls nobody.
pub(super) struct Caller {
    http: Client,
    secret: Option<Secret>,
}

impl Caller {
    pub(super) fn new(secret: Option<Secret>) -> Self {
        // Another part of the process may have chosen one before, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = builder().build().unwrap_or_else(|error| {
            tracing::warn!(%error, "no certificates are trusted: other nodes are reached without TLS only");
            let untrusting = builder().tls_certs_only([]).build();
            untrusting.expect("a client that trusts nobody needs nothing of the system")
        });
        Self { http, secret }
    }

    /// Hands requests of one lane over, in order; there are as many answers.
    pub(super) async fn call(
        &self,
        url: &str,
        lane: Lane,
        handed: &[&RawValue],
        deadline: Instant,
    ) -> Result<Vec<Told>, Failed> {
        let Some(secret) = &self.secret else {
            return Err(Failed::NotSent("there is no cluster secret".to_owned()));
        };
        let body = serde_json::to_vec(&Share::of(lane, handed));
        let body = body.expect("texts and numbers are JSON");
        let sealed = Seal::new(secret, url, &body, Timestamp::now());
        let request = self
            .http
            .post(format!("{}{PATH}", url.trim_end_matches('/')))
            .timeout(deadline.saturating_duration_since(Instant::now()))
            .header("content-type", "application/json")
            .header(seal::TIMESTAMP, &sealed.at)
            .header(seal::CALL, &sealed.call)
            .header(seal::DIGEST, &sealed.digest)
            .header(seal::SIGNATURE, &sealed.signature)
            .body(body);
        let response = request.send().await.map_err(unsent)?;
        let (status, headers, body) = received(response).await?;
        if !sealed.is_answered(secret, &headers, &body) {
            return Err(strange(format!("{status} without the cluster's seal")));
        }
        if status != StatusCode::OK {
            return Err(strange(status.to_string()));
        }
        let told: Vec<Told> = serde_json::from_slice(&body).map_err(|e| strange(e.to_string()))?;
        if told.len() == handed.len() {
            Ok(told)
        } else {
            Err(strange("another number of answers".to_owned()))
        }
    }
}

fn builder() -> ClientBuilder {
    Client::builder()
        .no_proxy()
        .redirect(Policy::none())
        .connect_timeout(CONNECT_TIME)
        .pool_idle_timeout(IDLE_TIME)
        .pool_max_idle_per_host(IDLE_MAX)
}

fn unsent(error: reqwest::Error) -> Failed {
    let early = error.is_connect() || error.is_builder();
    let why = fencepost_app::causes::Causes(&error).to_string();
    if early {
        Failed::NotSent(why)
    } else {
        Failed::Unanswered(why)
    }
}

fn strange(what: String) -> Failed {
    Failed::Unanswered(format!("it answered {what}"))
}

async fn received(mut response: Response) -> Result<(StatusCode, HeaderMap, Vec<u8>), Failed> {
    let (status, headers) = (response.status(), response.headers().clone());
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(unsent)? {
        if body.len() + chunk.len() > ANSWER_BYTES_MAX {
            return Err(strange("more than any answer has".to_owned()));
        }
        body.extend_from_slice(&chunk);
    }
    Ok((status, headers, body))
}
