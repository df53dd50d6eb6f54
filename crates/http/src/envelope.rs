//! What every request and every response has: an id, a span, and a problem where anything below
//! answered an error in its own words or panicked.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::time::Instant;

use axum::extract::Request;
use axum::http::header::{ALLOW, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures::FutureExt;
use tracing::Instrument;
use uuid::Uuid;

use crate::problem::{Code, MEDIA_TYPE, Problem};

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
pub(crate) async fn wrap(request: Request, next: Next) -> Response {
    let id = request_id(request.headers());
    let span = tracing::info_span!(
        "http",
        request_id = id.to_str().unwrap_or_default(),
        method = %request.method(),
        path = request.uri().path(),
    );
    let answering = async {
        let began = Instant::now();
        let answering = ANSWERING.scope((), next.run(request));
        let answered = AssertUnwindSafe(answering).catch_unwind().await;
        let response = answered.unwrap_or_else(|panic| panicked(&*panic));
        let took = began.elapsed();
        tracing::debug!(status = response.status().as_u16(), ?took, "answered");
        response
    };
    let mut response = as_problem(answering.instrument(span).await);
    response.headers_mut().insert(REQUEST_ID, id);
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
