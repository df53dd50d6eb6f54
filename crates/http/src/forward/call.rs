//! One call to another node, sealed, with a sealed answer. Where no connection was made nothing was
//! sent; everything else that is not a sealed answer proves nothing.

use std::time::Duration;

use fencepost_domain::ids::Lane;
use jiff::Timestamp;
use reqwest::header::HeaderMap;
use reqwest::{Client, Response, StatusCode};
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::line::Failed;
use super::seal::{self, Purpose, Seal};
use super::wire::{Look, Share, Told, WorksOn};
use crate::outbound::{self, Unread};
use crate::secret::ClusterSecret;

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
/// Where leaders are told to look at a lane.
pub(crate) const NUDGE_PATH: &str = "/internal/v1/nudge";

/// Where nodes are asked which store they work on.
pub(crate) const STORE_PATH: &str = "/internal/v1/store";

/// Calls other nodes; without a secret it calls nobody.
pub(super) struct Caller {
    http: Client,
    secret: Option<ClusterSecret>,
}

impl Caller {
    pub(super) fn new(secret: Option<ClusterSecret>) -> Self {
        let http = outbound::client(|builder| {
            builder
                .connect_timeout(CONNECT_TIME)
                .pool_idle_timeout(IDLE_TIME)
                .pool_max_idle_per_host(IDLE_MAX)
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
        let body = serde_json::to_vec(&Share::of(lane, handed));
        let body = body.expect("texts and numbers are JSON");
        let answer = self.post(url, Purpose::Forward, body, deadline).await?;
        let told: Vec<Told> =
            serde_json::from_slice(&answer).map_err(|e| strange(e.to_string()))?;
        if told.len() == handed.len() {
            Ok(told)
        } else {
            Err(strange("another number of answers".to_owned()))
        }
    }

    /// Tells the lane's leader to look at it.
    pub(super) async fn nudge(
        &self,
        url: &str,
        lane: Lane,
        deadline: Instant,
    ) -> Result<(), Failed> {
        let body = serde_json::to_vec(&Look::at(lane)).expect("texts and numbers are JSON");
        self.post(url, Purpose::Nudge, body, deadline).await?;
        Ok(())
    }

    /// Asks which store a node works on. None where it has not met one yet.
    pub(super) async fn ask_store(
        &self,
        url: &str,
        deadline: Instant,
    ) -> Result<Option<WorksOn>, Failed> {
        let body = b"{}".to_vec();
        let answer = self.post(url, Purpose::Store, body, deadline).await?;
        serde_json::from_slice(&answer).map_err(|e| strange(e.to_string()))
    }

    /// The body of a sealed 200.
    async fn post(
        &self,
        url: &str,
        purpose: Purpose,
        body: Vec<u8>,
        deadline: Instant,
    ) -> Result<Vec<u8>, Failed> {
        let Some(secret) = self.secret.as_ref().map(ClusterSecret::seals) else {
            return Err(Failed::NotSent("there is no cluster secret".to_owned()));
        };
        let path = match purpose {
            Purpose::Forward => PATH,
            Purpose::Nudge => NUDGE_PATH,
            Purpose::Store => STORE_PATH,
        };
        let sealed = Seal::new(secret, purpose, url, &body, Timestamp::now());
        let request = self
            .http
            .post(format!("{}{path}", url.trim_end_matches('/')))
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
        Ok(body)
    }
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

async fn received(response: Response) -> Result<(StatusCode, HeaderMap, Vec<u8>), Failed> {
    let (status, headers) = (response.status(), response.headers().clone());
    match outbound::whole(response, ANSWER_BYTES_MAX).await {
        Ok(body) => Ok((status, headers, body)),
        Err(Unread::Broken(error)) => Err(unsent(error)),
        Err(Unread::TooLong) => Err(strange("more than any answer has".to_owned())),
    }
}
