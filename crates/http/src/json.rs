//! How things are spelled in JSON: camelCase, amounts as decimal texts, EIP-55 addresses, RFC 3339
//! times in UTC, `null` for what is not there. Every type here is also its own OpenAPI schema.

pub(crate) mod scalar;
pub(crate) mod words;
pub(crate) mod payload;
pub(crate) mod transaction;
pub(crate) mod history;
pub(crate) mod completion;
pub(crate) mod signer;
mod why;
pub(crate) mod create;
pub(crate) mod pause;
pub(crate) mod reservation;
pub(crate) mod remedy;
pub(crate) mod acts;
pub(crate) mod reconcile;
pub(crate) mod placeholder;

use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

/// An answer that is not an error.
pub(crate) fn answer(status: StatusCode, body: &impl Serialize) -> Response {
    let body = serde_json::to_vec(body).expect("our types are texts, numbers and checked JSON");
    let mut response = (status, body).into_response();
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}
