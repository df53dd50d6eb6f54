//! The page about problems, where their `type` points. The UI beside it comes with its own routes.

use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};

use crate::problem;

/// What each problem means and what to do about it
#[utoipa::path(
    get,
    path = "/docs/problems",
    tag = "health",
    operation_id = "problems",
    responses((status = 200, description = "The page, in Markdown", body = String, content_type = "text/markdown")),
    security(()),
)]
pub(super) async fn problems() -> Response {
    let page = problem::page();
    ([(CONTENT_TYPE, "text/markdown; charset=utf-8")], page).into_response()
}
