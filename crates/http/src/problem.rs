//! Errors as clients see them: RFC 9457 `application/problem+json`, on every route.

mod code;
mod unasked;
mod declared;
mod page;

use axum::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use fencepost_domain::ids::{FeedSeq, RequestId, TxId};
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

pub(crate) use code::Code;
pub(crate) use declared::{declare, problems};
pub(crate) use page::page;
pub(crate) use unasked::About;

/// The media type of every error.
pub(crate) const MEDIA_TYPE: &str = "application/problem+json";

/// How long a client waits where nothing better is known. Shorter only adds load to what is
/// overloaded; leases and restarts take seconds.
const RETRY_AFTER_SECONDS: u64 = 1;

/// Something that went wrong.
#[derive(Debug, Clone)]
pub(crate) struct Problem(Box<Told>);

/// A problem as RFC 9457 spells it. What a client should do is in `docs/problems.md`, by `code`.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Problem)]
pub(crate) struct Told {
    /// The page about this code, relative to the server
    #[schema(format = "uri-reference")]
    r#type: String,
    /// A few words, always the same for one code
    title: &'static str,
    /// The status of the response
    #[schema(minimum = 400, maximum = 599)]
    status: u16,
    /// What programs compare
    code: Code,
    /// What went wrong this time, for a person
    detail: String,
    /// The client's own name of the request that this is about
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    request_id: Option<String>,
    /// The transaction that this is about
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    tx_id: Option<Uuid>,
    /// All fields that are wrong
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<FieldError>,
    /// The number after which the feed begins now: `after` of a reader that starts anew
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    begins_after: Option<u64>,
    /// When to try again, as in `Retry-After`: a result of a batch has no header of its own
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, minimum = 1)]
    retry_after_seconds: Option<u64>,
}

impl Told {
    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }

    /// The names of the fields that are wrong.
    #[cfg(test)]
    pub(crate) fn fields(&self) -> Vec<&str> {
        self.errors.iter().map(|error| &*error.field).collect()
    }

    pub(crate) const fn retry_after(&self) -> Option<u64> {
        self.retry_after_seconds
    }
}

/// One field that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct FieldError {
    /// The field, with a dot before the name of one that lies within another
    pub(crate) field: String,
    /// What is wrong with it
    pub(crate) detail: String,
}

impl Problem {
    pub(crate) fn new(code: Code) -> Self {
        let status = code.status();
        let passing = matches!(code, Code::NotLeader | Code::InFlightLimit);
        let again = status == StatusCode::SERVICE_UNAVAILABLE || passing;
        Self(Box::new(Told {
            r#type: format!("/docs/problems#{}", code.word()),
            title: code.title(),
            status: status.as_u16(),
            code,
            detail: code.meaning().to_owned(),
            request_id: None,
            tx_id: None,
            errors: vec![],
            begins_after: None,
            retry_after_seconds: again.then_some(RETRY_AFTER_SECONDS),
        }))
    }

    /// In other words than the code's own.
    pub(crate) fn detail(mut self, detail: impl Into<String>) -> Self {
        self.0.detail = detail.into();
        self
    }

    /// About a request by the client's own name for it.
    pub(crate) fn request(mut self, request_id: Option<&RequestId>) -> Self {
        self.0.request_id = request_id.map(|id| id.as_str().to_owned());
        self
    }

    /// Where the feed begins.
    pub(crate) fn begins_after(mut self, floor: FeedSeq) -> Self {
        self.0.begins_after = Some(floor.get());
        self
    }

    /// About this transaction.
    pub(crate) fn tx(mut self, tx: TxId) -> Self {
        self.0.tx_id = Some(tx.0);
        self
    }

    pub(crate) fn errors(mut self, errors: Vec<FieldError>) -> Self {
        self.0.errors = errors;
        self
    }

    pub(crate) fn retry_after(mut self, seconds: u64) -> Self {
        self.0.retry_after_seconds = Some(seconds);
        self
    }

    pub(crate) fn code(&self) -> Code {
        self.0.code
    }

    pub(crate) fn told(&self) -> &Told {
        &self.0
    }

    /// The problem that stands for a status which some layer below answered by itself.
    pub(crate) fn of_status(status: StatusCode) -> Self {
        let code = match status {
            StatusCode::UNAUTHORIZED => Code::Unauthorized,
            StatusCode::FORBIDDEN => Code::Forbidden,
            StatusCode::NOT_FOUND => Code::NotFound,
            StatusCode::METHOD_NOT_ALLOWED => Code::MethodNotAllowed,
            StatusCode::PAYLOAD_TOO_LARGE => Code::TooLarge,
            StatusCode::UNSUPPORTED_MEDIA_TYPE => Code::UnsupportedMediaType,
            other if other.is_client_error() => Code::Malformed,
            _ => Code::InternalError,
        };
        Self::new(code)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let code = self.code();
        response(code, &*self.0, self.0.retry_after_seconds)
    }
}

/// A response with a problem's headers; the body may say more than a problem does.
pub(crate) fn response(code: Code, body: &impl Serialize, retry_after: Option<u64>) -> Response {
    let body = serde_json::to_vec(body).expect("a problem is texts and numbers");
    let mut response = (code.status(), body).into_response();
    response.extensions_mut().insert(code);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    if let Some(seconds) = retry_after {
        headers.insert(RETRY_AFTER, seconds.into());
    }
    if code == Code::Unauthorized {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}
