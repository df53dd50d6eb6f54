//! The door for other nodes: a request that one of them took in, for a lane that this one leads.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use fencepost_app::lifecycle::accept::Origin;
use tracing::Instrument;

use crate::api::Served;
use crate::forward::seal;
use crate::forward::wire::{Handed, Told};
use crate::problem::{Code, Problem};
use crate::{body, faults, json};

/// The largest request with its payload and meta in hex and JSON.
const BODY_BYTES_MAX: usize = 1024 * 1024;

/// Takes a request from another node. It is answered in our own words, not in those of clients: the
/// node that asks goes on with whatever we say.
pub(super) async fn tx(
    State(served): State<Arc<Served>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    // Without a secret there is no cluster, and no such route.
    let secret = served.cluster.as_ref();
    let secret = secret.ok_or_else(|| Problem::new(Code::NotFound))?;
    let bytes = body::read(body, &headers, BODY_BYTES_MAX, served.limits.body_timeout).await?;
    if !seal::is_ours(secret, &headers, &bytes, served.node.clock().now()) {
        return Err(Problem::new(Code::Unauthorized));
    }
    let handed: Handed = serde_json::from_slice(&bytes).map_err(|error| body::malformed(&error))?;
    let read = handed.read();
    let (lane, tx) = read.ok_or_else(|| faults::wrong("body", "is not a request of a node"))?;
    let seat = served.node.directory().seat(lane);
    let seat = seat.ok_or_else(|| Problem::new(Code::UnknownSigner))?;
    let node = Arc::clone(&served.node);
    let pending = node.submit(seat, tx, Origin::Node);
    let task = tokio::spawn(async move { node.settle(pending).await }.in_current_span());
    let told = task.await.map_or(Told::Unknown, Told::from);
    Ok(json::answer(StatusCode::OK, &told))
}
