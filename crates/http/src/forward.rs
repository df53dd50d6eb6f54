//! The way to other nodes: a request is handed to the one that leads its lane, signed with the
//! cluster's secret, once, within a deadline.

pub(crate) mod seal;
pub(crate) mod wire;

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use fencepost_app::directory::Seat;
use fencepost_app::lifecycle::accept::{Verdict, stored, waiting, with_nonce};
use fencepost_app::ports::{Key, NewTx, Peers, Record, Store, Unforwarded};
use fencepost_domain::ids::{Lane, LaneId, Nonce, Token, TxId};
use fencepost_domain::state::Wait;
use jiff::Timestamp;
use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder, Response, StatusCode};

use crate::secret::Secret;
use wire::{Handed, Told};

/// How long a connection may take to be made. A node that is there accepts within a round trip.
const CONNECT_TIME: Duration = Duration::from_millis(500);
/// Connections are closed before the other side would close them on us.
const IDLE_TIME: Duration = Duration::from_secs(20);
/// Idle connections to one node: bursts of forwards reuse them.
const IDLE_MAX: usize = 64;
/// An answer is a few words.
const ANSWER_BYTES_MAX: usize = 16 * 1024;

/// Where a request is handed to.
pub(crate) const PATH: &str = "/internal/v1/tx";

/// Hands requests to the nodes that lead their lanes.
pub struct Forwarder {
    http: Client,
    secret: Option<Secret>,
    store: Arc<dyn Store>,
}

impl Forwarder {
    /// Without a secret nothing is handed on. Rows that the leader only names are read from the store.
    #[must_use]
    pub fn new(secret: Option<Secret>, store: Arc<dyn Store>) -> Self {
        // Another part of the process may have chosen one before, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = builder().build().unwrap_or_else(|error| {
            tracing::warn!(%error, "no certificates are trusted: other nodes are reached without TLS only");
            let untrusting = builder().tls_certs_only([]).build();
            untrusting.expect("a client that trusts nobody needs nothing of the system")
        });
        Self {
            http,
            secret,
            store,
        }
    }

    /// The answer of the leader as the application knows it.
    async fn verdict(&self, told: Told, lane: Lane, tx: &NewTx) -> Result<Verdict, Unforwarded> {
        Ok(match told {
            Told::New(row) => {
                let record = rebuilt(&row, lane, tx);
                Verdict::New(Box::new(record.ok_or_else(|| strange("its row"))?))
            }
            Told::Stored => Verdict::New(self.read(tx.tx).await?),
            Told::Known { tx_id } => Verdict::Known(self.read(TxId(tx_id)).await?),
            Told::Conflict { tx_id } => Verdict::Conflict(self.read(TxId(tx_id)).await?),
            Told::NotLeader => Verdict::NotLeader(None),
            Told::Paused { reason } => {
                let reason = fencepost_app::ports::PauseReason::from_word(&reason);
                Verdict::Paused(reason.ok_or_else(|| strange("why it is paused"))?)
            }
            Told::Overloaded => Verdict::Overloaded,
            Told::Exhausted => Verdict::Exhausted,
            Told::Unavailable => Verdict::Unavailable,
            Told::Unknown => Verdict::Unknown,
        })
    }

    async fn read(&self, tx: TxId) -> Result<Box<Record>, Unforwarded> {
        match self.store.find(&Key::Id(tx)).await {
            Ok(Some(record)) => Ok(Box::new(record)),
            Ok(None) => Err(strange("a row that is not there")),
            Err(error) => Err(Unforwarded::Unanswered(error.into())),
        }
    }
}

#[async_trait]
impl Peers for Forwarder {
    async fn forward(
        &self,
        url: &str,
        lane: Lane,
        tx: &NewTx,
        within: Duration,
    ) -> Result<Verdict, Unforwarded> {
        let Some(secret) = &self.secret else {
            return Err(Unforwarded::NotSent("there is no cluster secret".into()));
        };
        let Some(handed) = Handed::of(lane, tx) else {
            let why = "only what we sign ourselves is handed on";
            return Err(Unforwarded::NotSent(why.into()));
        };
        let body = serde_json::to_vec(&handed).expect("texts and numbers are JSON");
        let at = Timestamp::now().as_second().to_string();
        let request = self
            .http
            .post(format!("{}{PATH}", url.trim_end_matches('/')))
            .timeout(within)
            .header("content-type", "application/json")
            .header(seal::SIGNATURE, seal::sign(secret, &at, &body))
            .header(seal::TIMESTAMP, at)
            .body(body);
        let response = request.send().await.map_err(unsent)?;
        self.verdict(answer(response).await?, lane, tx).await
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

/// Where no connection was made, nothing was sent. Everything else may have arrived.
fn unsent(error: reqwest::Error) -> Unforwarded {
    if error.is_connect() || error.is_builder() {
        Unforwarded::NotSent(error.into())
    } else {
        Unforwarded::Unanswered(error.into())
    }
}

async fn answer(mut response: Response) -> Result<Told, Unforwarded> {
    let status = response.status();
    let mut body = Vec::new();
    let unanswered = |error: Box<dyn Error + Send + Sync>| Unforwarded::Unanswered(error);
    while let Some(chunk) = response.chunk().await.map_err(|e| unanswered(e.into()))? {
        if body.len() + chunk.len() > ANSWER_BYTES_MAX {
            return Err(strange("more than any answer has"));
        }
        body.extend_from_slice(&chunk);
    }
    if status.is_client_error() {
        // It has refused the call itself: nothing of it was put before a worker.
        let why = format!("it answered {status}");
        return Err(Unforwarded::NotSent(why.into()));
    }
    if status != StatusCode::OK {
        return Err(unanswered(format!("it answered {status}").into()));
    }
    serde_json::from_slice(&body).map_err(|error| unanswered(error.into()))
}

fn strange(what: &str) -> Unforwarded {
    Unforwarded::Unanswered(format!("its answer tells {what}").into())
}

/// The row that the leader has stored, from its few words and from what we know.
fn rebuilt(row: &wire::Row, lane: Lane, tx: &NewTx) -> Option<Record> {
    let seat = Seat {
        id: LaneId(row.lane_id),
        lane,
        max_in_flight: None,
    };
    let state = match (row.nonce, &row.wait) {
        (Some(nonce), None) => with_nonce(tx, Nonce::new(nonce).ok()?),
        (None, Some(word)) => waiting(Wait::from_word(word).ok()?),
        (Some(_), Some(_)) | (None, None) => return None,
    };
    let at = row.at.parse().ok()?;
    Some(stored(seat, tx, state, Token::new(row.token).ok()?, at))
}
