//! The bytes of a request: bounded in size and in time.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tokio::time::timeout;

use crate::memory::Room;
use crate::problem::{Code, Problem};

/// That the body is declared as JSON. Browsers let any web page send other types, and none, to any
/// server without asking it.
fn declared(headers: &HeaderMap) -> Result<(), Problem> {
    let mut values = headers.get_all(CONTENT_TYPE).iter();
    let (first, second) = (values.next(), values.next());
    let text = first.and_then(|value| value.to_str().ok());
    let essence = text.and_then(|text| text.split(';').next());
    let is_json = essence.is_some_and(|name| name.trim().eq_ignore_ascii_case("application/json"));
    if is_json && second.is_none() {
        Ok(())
    } else {
        Err(Problem::new(Code::UnsupportedMediaType))
    }
}

/// Reads a body whole, or refuses it without having read more than the limit.
pub(crate) async fn read(
    body: Body,
    headers: &HeaderMap,
    bytes_max: usize,
    within: Duration,
) -> Result<Bytes, Problem> {
    declared(headers)?;
    let too_large = || {
        let detail =
            format!("The body is above the limit of {bytes_max} bytes. Nothing was stored.");
        Problem::new(Code::TooLarge).detail(detail)
    };
    let announced = headers
        .get(CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if announced.is_some_and(|length| length > bytes_max) {
        return Err(too_large());
    }
    let room = Room::take(announced.unwrap_or(bytes_max))?;
    match timeout(within, Limited::new(body, bytes_max).collect()).await {
        Ok(Ok(collected)) => {
            let bytes = collected.to_bytes();
            room.keep(&bytes);
            Ok(bytes)
        }
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(_)) => Err(Problem::new(Code::Malformed).detail("The body ended early.")),
        Err(_) => Err(Problem::new(Code::RequestTimeout)),
    }
}

/// The same as text: JSON is UTF-8.
pub(crate) fn text(bytes: &[u8]) -> Result<&str, Problem> {
    std::str::from_utf8(bytes)
        .map_err(|_| Problem::new(Code::Malformed).detail("The body is not UTF-8."))
}

/// The problem of a text that is not JSON.
pub(crate) fn malformed(error: &serde_json::Error) -> Problem {
    Problem::new(Code::Malformed).detail(format!("The body is not JSON: {error}."))
}
