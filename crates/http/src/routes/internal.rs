//! The door for other nodes: requests that one of them took in, for a lane that this one leads.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use fencepost_app::lifecycle::accept::Verdict;
use fencepost_app::ports::NewTx;
use fencepost_domain::ids::Lane;
use futures::future::join_all;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tracing::Instrument;

use crate::api::Served;
use crate::forward::heard::News;
use crate::forward::seal::{self, Opened};
use crate::forward::wire::{Handed, Share, Told};
use crate::problem::{Code, Problem};
use crate::{body, faults};

/// A call's requests with their payloads in hex; one request alone may weigh this much.
const BODY_BYTES_MAX: usize = 1024 * 1024;

/// Takes requests from another node. It is answered in our own words, not in those of clients: the
/// node that asks goes on with whatever we say. Nobody but a node of this cluster has a body read.
pub(super) async fn tx(
    State(served): State<Arc<Served>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    // Without a secret there is no cluster, and no such route.
    let secret = served.cluster.as_ref();
    let secret = secret.ok_or_else(|| Problem::new(Code::NotFound))?;
    let now = served.node.clock().now();
    let opened = Opened::read(secret, &served.url, &headers, now);
    let opened = opened.ok_or_else(|| Problem::new(Code::Unauthorized))?;
    match served.heard.hear(&opened, now) {
        News::Yes => {}
        News::No => return Err(Problem::new(Code::Unauthorized)),
        News::Full => return Err(Problem::new(Code::Overloaded)),
    }
    let (lane, txs) = read(&served, &opened, &headers, body).await?;
    let told: Vec<Told> = settle(&served, lane, txs).await;
    let told = serde_json::to_vec(&told).expect("texts and numbers are JSON");
    let seal = HeaderValue::from_str(&opened.answer(secret, &told)).expect("hex is plain text");
    let headers = [
        ("content-type", HeaderValue::from_static("application/json")),
        (seal::SIGNATURE, seal),
    ];
    Ok((StatusCode::OK, headers, told).into_response())
}

async fn read(
    served: &Served,
    opened: &Opened,
    headers: &HeaderMap,
    body: Body,
) -> Result<(Lane, Vec<NewTx>), Problem> {
    let within = served.limits.body_timeout;
    let room = timeout(within, served.bodies.acquire()).await;
    let Ok(Ok(_room)) = room else {
        return Err(Problem::new(Code::Overloaded));
    };
    let bytes = body::read(body, headers, BODY_BYTES_MAX, within).await?;
    if !opened.holds(&bytes) {
        return Err(Problem::new(Code::Unauthorized));
    }
    let share: Share<Handed> =
        serde_json::from_slice(&bytes).map_err(|error| body::malformed(&error))?;
    let read = share.read();
    read.ok_or_else(|| faults::wrong("body", "is not what a node hands on"))
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
