//! The description of the API, and the page about problems, where their `type` points. The UI beside them comes with its own
//! routes. Both are the same for everyone, so their bytes are made once.

use std::sync::LazyLock;

use axum::body::Bytes;
use axum::http::HeaderName;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use utoipa::openapi::OpenApi;

use crate::problem::{self, problems};

problems!(Problems: RateLimited);

static PROBLEMS: LazyLock<Bytes> = LazyLock::new(|| problem::page().into());

/// The OpenAPI document, as it is answered.
pub(super) fn openapi(document: &OpenApi) -> ([(HeaderName, &'static str); 1], Bytes) {
    let text = document.to_json().expect("a document is plain JSON");
    ([(CONTENT_TYPE, "application/json")], text.into())
}

/// What each problem means and what to do about it
#[utoipa::path(
    get,
    path = "/docs/problems",
    tag = "health",
    operation_id = "problems",
    responses((status = 200, description = "The page, in Markdown", body = String, content_type = "text/markdown"), Problems),
    security(()),
)]
pub(super) async fn problems() -> Response {
    let page = Bytes::clone(&PROBLEMS);
    ([(CONTENT_TYPE, "text/markdown; charset=utf-8")], page).into_response()
}
