//! The door for other nodes: requests that one of them took in, for a lane that this one leads, and
//! word that something was written for such a lane.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use fencepost_app::lifecycle::accept::Verdict;
use fencepost_app::ports::NewTx;
use fencepost_domain::ids::Lane;
use futures::future::join_all;
use serde::de::DeserializeOwned;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tracing::Instrument;

use crate::api::Served;
use crate::forward::heard::News;
use crate::forward::seal::{self, Opened, Purpose};
use crate::forward::wire::{Handed, Look, Nothing, Share, Told, WorksOn};
use crate::problem::{Code, Problem};
use crate::secret::Secret;
use crate::{body, faults};

/// A call's requests with their payloads in hex; one request alone may weigh this much.
const BODY_BYTES_MAX: usize = 1024 * 1024;
/// A chain and an address.
const LOOK_BYTES_MAX: usize = 1024;

/// Takes requests from another node. It is answered in our own words, not in those of clients: the
/// node that asks goes on with whatever we say.
pub(super) async fn tx(
    State(served): State<Arc<Served>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let call = Call::hear(&served, Purpose::Forward, &headers)?;
    let share: Share<Handed> = call.read(&headers, body, BODY_BYTES_MAX).await?;
    let (lane, txs) = share.read().ok_or_else(strange)?;
    let told: Vec<Told> = settle(&served, lane, txs).await;
    let told = serde_json::to_vec(&told).expect("texts and numbers are JSON");
    Ok(call.answer(told))
}

/// Looks at a lane for which another node has written something. Whether we lead it is our worker's to
/// know; a lane that is not configured here is none of ours, and nothing to tell anyone.
pub(super) async fn nudge(
    State(served): State<Arc<Served>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let call = Call::hear(&served, Purpose::Nudge, &headers)?;
    let look: Look = call.read(&headers, body, LOOK_BYTES_MAX).await?;
    let lane = look.read().ok_or_else(strange)?;
    if let Some(seat) = served.node.directory().seat(lane) {
        served.node.look_at(seat);
    }
    Ok(call.answer(b"{}".to_vec()))
}

/// Says which store this node works on, and on which server of it.
pub(super) async fn store(
    State(served): State<Arc<Served>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let call = Call::hear(&served, Purpose::Store, &headers)?;
    let _: Nothing = call.read(&headers, body, LOOK_BYTES_MAX).await?;
    let in_use = served.node.store_memory().in_use();
    let works_on = in_use.as_ref().map(WorksOn::of);
    let answer = serde_json::to_vec(&works_on).expect("texts and numbers are JSON");
    Ok(call.answer(answer))
}

/// A call from a node of this cluster to this one, heard for the first time. Nobody else has a body read.
struct Call<'a> {
    served: &'a Served,
    secret: &'a Secret,
    opened: Opened,
}

impl<'a> Call<'a> {
    fn hear(served: &'a Served, purpose: Purpose, headers: &HeaderMap) -> Result<Self, Problem> {
        // Without a secret there is no cluster, and no such route.
        let cluster = served.cluster.as_ref();
        let cluster = cluster.ok_or_else(|| Problem::new(Code::NotFound))?;
        let now = served.node.clock().now();
        // The answer is sealed with the secret of the call: the caller may know no other.
        let opened = cluster.all().find_map(|secret| {
            Opened::read(secret, purpose, &served.url, headers, now).map(|opened| (secret, opened))
        });
        let (secret, opened) = opened.ok_or_else(|| Problem::new(Code::Unauthorized))?;
        match served.heard.hear(&opened, now) {
            News::Yes => Ok(Self {
                served,
                secret,
                opened,
            }),
            News::No => Err(Problem::new(Code::Unauthorized)),
            News::Full => Err(Problem::new(Code::Overloaded)),
        }
    }

    async fn read<T: DeserializeOwned>(
        &self,
        headers: &HeaderMap,
        body: Body,
        bytes_max: usize,
    ) -> Result<T, Problem> {
        let within = self.served.limits.body_timeout;
        let room = timeout(within, self.served.bodies.acquire()).await;
        let Ok(Ok(_room)) = room else {
            return Err(Problem::new(Code::Overloaded));
        };
        let bytes = body::read(body, headers, bytes_max, within).await?;
        if !self.opened.holds(&bytes) {
            return Err(Problem::new(Code::Unauthorized));
        }
        serde_json::from_slice(&bytes).map_err(|error| body::malformed(&error))
    }

    /// Sealed, as the answer to this call.
    fn answer(&self, body: Vec<u8>) -> Response {
        let seal = self.opened.answer(self.secret, &body);
        let seal = HeaderValue::from_str(&seal).expect("hex is plain text");
        let headers = [
            ("content-type", HeaderValue::from_static("application/json")),
            (seal::SIGNATURE, seal),
        ];
        (StatusCode::OK, headers, body).into_response()
    }
}

fn strange() -> Problem {
    faults::wrong("body", "is not what a node hands on")
}

/// All of them before the lane's worker in order, and what became of each.
async fn settle(served: &Arc<Served>, lane: Lane, txs: Vec<NewTx>) -> Vec<Told> {
    let Some(seat) = served.node.directory().seat(lane) else {
        // What is not configured here is not led here.
        return txs.iter().map(|_| Told::NotLeader).collect();
    };
    let node = Arc::clone(&served.node);
    let (signer, requests) = (lane.signer, txs.len());
    let pending = node.submit_in_order(seat, txs);
    tracing::debug!(%signer, requests, "taken from another node");
    let (share, told): (Vec<_>, Vec<_>) = pending
        .into_iter()
        .map(|each| {
            let (reply, told) = oneshot::channel();
            ((each, reply), told)
        })
        .unzip();
    tokio::spawn(async move { node.settle_share(share).await }.in_current_span());
    let verdicts = join_all(told).await.into_iter();
    verdicts
        .map(|told| Told::from(told.unwrap_or(Verdict::Unknown)))
        .collect()
}
