//! How things are spelled in JSON: camelCase, amounts as decimal texts, EIP-55 addresses, RFC 3339
//! times in UTC, `null` for what is not there. Every type here is also its own OpenAPI schema.

mod eip55;
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
pub(crate) mod audit;
pub(crate) mod reconcile;
pub(crate) mod import;
pub(crate) mod placeholder;

use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

/// What a transaction takes, mostly. Less, and it is moved while it is written; more only takes memory.
pub(crate) const ROOM: usize = 1_024;

/// An answer that is not an error.
pub(crate) fn answer(status: StatusCode, body: &impl Serialize) -> Response {
    answer_in(ROOM, status, body)
}

/// The same of one that takes so many bytes, mostly.
pub(crate) fn answer_in(room: usize, status: StatusCode, told: &impl Serialize) -> Response {
    let mut body = Vec::with_capacity(room);
    serde_json::to_writer(&mut body, told).expect("our types are texts, numbers and checked JSON");
    let mut response = (status, body).into_response();
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}
