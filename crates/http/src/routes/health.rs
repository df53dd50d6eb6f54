//! Whether the process lives, whether it can work, and what it counts.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use fencepost_app::ports::{ChainHealth, EndpointHealth};
use serde::Serialize;
use utoipa::ToSchema;

use crate::api::Served;
use crate::json;
use crate::problem::{self, Code, Problem, Told, problems};

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

/// The node's view of itself. Where the node has API keys, only a key with the scope read is told it
#[derive(Default, Serialize, ToSchema)]
pub(crate) struct Condition {
    /// The node's id
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    node: Option<String>,
    /// How many signers it leads
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    leading: Option<usize>,
    /// How many signers of all nodes are paused, as last counted; null before that
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>)]
    paused: Option<Counted>,
    /// How many signers of all nodes are held since a failover of the database, as last counted; null before that
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>)]
    held: Option<Counted>,
    /// It is stopping
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    draining: Option<bool>,
    /// How the chains' endpoints are. A chain that is out of reach does not make the node unready: it goes
    /// on accepting
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    chains: Option<Vec<ChainCondition>>,
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

/// A number that is null until it was counted.
#[derive(Debug, Serialize)]
struct Counted(Option<u64>);

problems!(MetricsProblems: Unauthorized, RateLimited, InternalError, TimedOut);

/// Whether the node can work: the store answers, its schema is right, and the node is not stopping
///
/// It needs no key, and a wrong one counts as none. Where the node has API keys, the node's id, its signers and the endpoints of its chains are only in
/// the answer to a key with the scope read.
#[utoipa::path(
    get,
    path = "/readyz",
    tag = "health",
    operation_id = "readyz",
    responses(
        (status = 200, description = "It can work", body = Ready),
        (status = 503, description = "store_unavailable, stopping", body = NotReady, content_type = "application/problem+json"),
    ),
    security((), ("key" = ["read"])),
)]
pub(super) async fn readyz(State(served): State<Arc<Served>>, headers: HeaderMap) -> Response {
    // A health check is never refused: a key that has expired must not take the node out of its load balancer.
    let sees_all = sees_all(&served, &headers).unwrap_or(false);
    let node = &served.node;
    let draining = node.is_draining();
    let code = match (served.pulse.beats(node.store()).await, draining) {
        (false, _) => Some(Code::StoreUnavailable),
        (true, true) => Some(Code::Stopping),
        (true, false) => None,
    };
    let condition = if sees_all {
        let chains = node.chain_health().into_iter();
        let halted = node.halted_lanes();
        Condition {
            node: Some(node.holder().node.as_str().to_owned()),
            leading: Some(node.led()),
            paused: Some(Counted(halted.map(|lanes| lanes.paused))),
            held: Some(Counted(halted.map(|lanes| lanes.held))),
            draining: Some(draining),
            chains: Some(chains.map(ChainCondition::from).collect()),
        }
    } else {
        Condition::default()
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

fn sees_all(served: &Served, headers: &HeaderMap) -> Result<bool, Problem> {
    let (general, now) = (served.limits.rate_per_second, served.node.clock().now());
    served.access.sees_all(headers, general, now)
}

/// What is counted and timed, as OpenMetrics
///
/// It needs no key. Where the node has API keys, samples that name a signer, its balance among them, are only in the answer
/// to a key with the scope read.
#[utoipa::path(
    get,
    path = "/metrics",
    tag = "health",
    operation_id = "metrics",
    responses(
        (status = 200, description = "All meters", body = String, content_type = "application/openmetrics-text"),
        MetricsProblems,
    ),
    security((), ("key" = ["read"])),
)]
pub(super) async fn metrics(
    State(served): State<Arc<Served>>,
    parts: Parts,
) -> Result<Response, Problem> {
    let sees_all = match sees_all(&served, &parts.headers) {
        Ok(sees_all) => sees_all,
        Err(problem) if problem.code() == Code::Unauthorized => {
            return Err(served.keyless.refuse(&parts, problem).await);
        }
        Err(problem) => return Err(problem),
    };
    let text = served.rendered.text(sees_all).await?;
    Ok(([(CONTENT_TYPE, OPEN_METRICS)], text).into_response())
}
