//! Whether the process lives, whether it can work, and what it counts.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use fencepost_app::ports::{ChainHealth, EndpointHealth};
use prometheus_client::encoding::text::encode;
use serde::Serialize;
use utoipa::ToSchema;

use crate::api::Served;
use crate::json;
use crate::problem::{self, Code, Problem, Told};

/// What `/metrics` answers.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// That the process lives
#[derive(Serialize, ToSchema)]
pub(crate) struct Alive {
    /// Always `alive`
    status: &'static str,
}

/// That the node can work
#[derive(Serialize, ToSchema)]
pub(crate) struct Ready {
    /// Always `ready`
    status: &'static str,
    #[serde(flatten)]
    node: Condition,
}

/// That it cannot, and why
#[derive(Serialize, ToSchema)]
pub(crate) struct NotReady {
    #[serde(flatten)]
    problem: Told,
    #[serde(flatten)]
    node: Condition,
}

/// The node's view of itself
#[derive(Serialize, ToSchema)]
pub(crate) struct Condition {
    /// The node's id
    node: String,
    /// How many signers it leads
    leading: usize,
    /// It is stopping
    draining: bool,
    /// How the chains' endpoints are. A chain that is out of reach does not make the node unready: it goes
    /// on accepting
    chains: Vec<ChainCondition>,
}

/// How a chain's endpoints are
#[derive(Serialize, ToSchema)]
pub(crate) struct ChainCondition {
    /// The chain's configured name
    name: String,
    /// In configured order
    endpoints: Vec<EndpointCondition>,
}

/// How an endpoint is
#[derive(Serialize, ToSchema)]
pub(crate) struct EndpointCondition {
    /// Its place in the configuration, from 0
    position: usize,
    /// `ok`, `lagging`, `unreachable`, `wrong_chain` or `untried`
    state: &'static str,
    /// The newest block that it told
    #[schema(required = true)]
    head: Option<u64>,
    /// What it says it runs
    #[schema(required = true)]
    client: Option<String>,
}

impl From<ChainHealth> for ChainCondition {
    fn from(chain: ChainHealth) -> Self {
        let endpoint = |endpoint: EndpointHealth| EndpointCondition {
            position: endpoint.position,
            state: endpoint.state,
            head: endpoint.head,
            client: endpoint.client,
        };
        Self {
            name: chain.name,
            endpoints: chain.endpoints.into_iter().map(endpoint).collect(),
        }
    }
}

/// Whether the process lives; nothing else is looked at
#[utoipa::path(
    get,
    path = "/livez",
    tag = "health",
    operation_id = "livez",
    responses((status = 200, description = "It lives", body = Alive)),
    security(()),
)]
pub(super) async fn livez() -> Response {
    json::answer(StatusCode::OK, &Alive { status: "alive" })
}

/// Whether the node can work: the store answers, its schema is right, and the node is not stopping
#[utoipa::path(
    get,
    path = "/readyz",
    tag = "health",
    operation_id = "readyz",
    responses(
        (status = 200, description = "It can work", body = Ready),
        (status = 503, description = "store_unavailable, stopping", body = NotReady, content_type = "application/problem+json"),
    ),
    security(()),
)]
pub(super) async fn readyz(State(served): State<Arc<Served>>) -> Response {
    let node = &served.node;
    let draining = node.is_draining();
    let code = match (served.pulse.beats(node.store()).await, draining) {
        (false, _) => Some(Code::StoreUnavailable),
        (true, true) => Some(Code::Stopping),
        (true, false) => None,
    };
    let condition = Condition {
        node: node.holder().node.as_str().to_owned(),
        leading: node.led(),
        draining,
        chains: node
            .chain_health()
            .into_iter()
            .map(ChainCondition::from)
            .collect(),
    };
    let Some(code) = code else {
        let ready = Ready {
            status: "ready",
            node: condition,
        };
        return json::answer(StatusCode::OK, &ready);
    };
    let problem = Problem::new(code).told().clone();
    let retry_after = problem.retry_after();
    let not_ready = NotReady {
        problem,
        node: condition,
    };
    problem::response(code, &not_ready, retry_after)
}

/// What is counted and timed, as OpenMetrics
#[utoipa::path(
    get,
    path = "/metrics",
    tag = "health",
    operation_id = "metrics",
    responses((status = 200, description = "All meters", body = String, content_type = "application/openmetrics-text")),
    security(()),
)]
pub(super) async fn metrics(State(served): State<Arc<Served>>) -> Result<Response, Problem> {
    let mut text = String::new();
    encode(&mut text, &served.registry).map_err(|_| Problem::new(Code::InternalError))?;
    Ok(([(CONTENT_TYPE, OPEN_METRICS)], text).into_response())
}
