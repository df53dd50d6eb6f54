//! What every request and every response has: an id, a span, and a problem where anything below
//! answered an error in its own words or panicked.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Request, State};
use axum::http::header::{ALLOW, CONNECTION, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures::FutureExt;
use tracing::Instrument;
use uuid::Uuid;

use crate::api::Served;
use crate::keyless::is_keyless;
use crate::memory::{self, Share};
use crate::meters::Refused;
use crate::problem::{Code, MEDIA_TYPE, Problem};
use crate::routes::HEALTH_PATHS;
use crate::server::Peer;

tokio::task_local! {
    /// Set while a request is being answered.
    static ANSWERING: ();
}

/// Whether the code that runs now answers a request. A panic there is that request's own: it is told
/// as a 500 and nothing else was left half done, for what changes anything runs in tasks of its own.
#[must_use]
pub fn is_answering() -> bool {
    ANSWERING.try_with(|()| ()).is_ok()
}

/// The header that names a request in the log.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Longer ids are not taken over: they would only make the log long.
const REQUEST_ID_BYTES_MAX: usize = 128;

/// Wraps everything.
pub(crate) async fn wrap(
    State(served): State<Arc<Served>>,
    request: Request,
    next: Next,
) -> Response {
    let id = request_id(request.headers());
    let span = tracing::info_span!(
        "http",
        request_id = id.to_str().unwrap_or_default(),
        method = %request.method(),
        path = request.uri().path(),
    );
    let answering = async {
        let began = Instant::now();
        let (method, is_keyless) = (request.method().clone(), is_keyless(request.uri().path()));
        let share = Share::of(&served.memory);
        let answering = memory::held(&share, answer(&served, request, next));
        let answering = ANSWERING.scope((), answering);
        let answered = AssertUnwindSafe(answering).catch_unwind().await;
        let response = answered.unwrap_or_else(|panic| panicked(&*panic));
        // What needs no key is the same bytes for all.
        let response = if is_keyless {
            response
        } else {
            memory::count(&share, &method, response)
        };
        let took = began.elapsed();
        tracing::debug!(status = response.status().as_u16(), ?took, "answered");
        response
    };
    let mut response = as_problem(answering.instrument(span).await);
    response.headers_mut().insert(REQUEST_ID, id);
    response
}

/// Answers a request that may be answered at all. While every other connection has a request that is being answered,
/// new ones serve health checks only; requests without a key are bounded by their address.
async fn answer(served: &Served, request: Request, next: Next) -> Response {
    let peer = request.extensions().get::<Peer>().copied();
    let path = request.uri().path();
    let is_spare = peer.is_some_and(|peer| peer.is_spare);
    if is_spare && !HEALTH_PATHS.contains(&path) {
        served.meters.refused(Refused::Connections);
        let why = "All connections of this node have requests that are being answered. Nothing was stored.";
        return closing(Problem::new(Code::Overloaded).detail(why).into_response());
    }
    if is_keyless(path)
        && let Err(limited) = served.keyless.take(peer.as_ref())
    {
        return limited.into_response();
    }
    let response = next.run(request).await;
    if is_spare {
        closing(response)
    } else {
        response
    }
}

/// The connection ends with this answer.
fn closing(mut response: Response) -> Response {
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(CONNECTION, close);
    response
}

/// The client's own id where it can stand in a log line, else a new one.
fn request_id(headers: &HeaderMap) -> HeaderValue {
    let sane = |value: &&HeaderValue| {
        let bytes = value.as_bytes();
        let fits = !bytes.is_empty() && bytes.len() <= REQUEST_ID_BYTES_MAX;
        let plain = |b: &u8| b.is_ascii_alphanumeric() || b"-_.".contains(b);
        fits && bytes.iter().all(plain)
    };
    let given = headers.get(REQUEST_ID).filter(sane).cloned();
    given.unwrap_or_else(|| {
        let id = Uuid::now_v7().to_string();
        HeaderValue::from_str(&id).expect("a UUID is plain text")
    })
}

fn panicked(panic: &(dyn Any + Send)) -> Response {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(|text| &**text));
    tracing::error!(panic = text.unwrap_or("?"), "a handler panicked");
    Problem::new(Code::InternalError).into_response()
}

/// Errors are problems, whoever made them.
fn as_problem(response: Response) -> Response {
    let status = response.status();
    let is_error = status.is_client_error() || status.is_server_error();
    let told = response.headers().get(CONTENT_TYPE);
    if !is_error || told.is_some_and(|told| told == MEDIA_TYPE) {
        return response;
    }
    let mut problem = Problem::of_status(status).into_response();
    if let Some(allow) = response.headers().get(ALLOW) {
        problem.headers_mut().insert(ALLOW, allow.clone());
    }
    problem
}
