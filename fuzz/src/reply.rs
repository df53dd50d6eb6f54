//! An answer of the API, and what holds for each of them.

use axum::body::Bytes;
use axum::http::response::Parts;
use serde_json::Value;

/// What came back.
#[derive(Debug)]
pub struct Reply {
    /// The call, for a person.
    pub what: String,
    /// The HTTP status.
    pub status: u16,
    /// The body; null where it is not JSON.
    pub body: Value,
}

/// Codes after which the same is worth trying again, and that say when.
const RETRIES: [&str; 7] = [
    "not_leader",
    "rate_limited",
    "overloaded",
    "store_unavailable",
    "timed_out",
    "stopping",
    "chain_unavailable",
];

impl Reply {
    /// Every answer has an id, every error is a problem, and nothing here is ever the node's fault but
    /// that its chain only counts.
    pub fn checked(what: String, parts: &Parts, bytes: &Bytes) -> Self {
        let header = |name: &str| {
            let value = parts.headers.get(name)?;
            Some(value.to_str().expect("our headers are text").to_owned())
        };
        let status = parts.status.as_u16();
        let body: Value = serde_json::from_slice(bytes).unwrap_or_default();
        let text = String::from_utf8_lossy(bytes);
        let id = header("x-request-id").unwrap_or_default();
        assert!(!id.is_empty() && id.len() <= 128, "{what}: no id");
        let reply = Self { what, status, body };
        let what = &reply.what;
        if status < 400 {
            return reply;
        }
        let kind = header("content-type");
        assert_eq!(kind.as_deref(), Some("application/problem+json"), "{what}");
        if what.starts_with("HEAD ") {
            return reply;
        }
        let problem = &reply.body;
        let code = problem["code"].as_str().unwrap_or_default();
        assert_eq!(problem["status"], status, "{what}: {text}");
        assert_eq!(problem["type"], format!("/docs/problems#{code}"), "{what}");
        for words in ["title", "detail"] {
            let said = problem[words].as_str().unwrap_or_default();
            assert!(!said.is_empty(), "{what}: no {words}: {text}");
        }
        assert!(
            status < 500 || code == "chain_unavailable",
            "{what}: {text}"
        );
        if RETRIES.contains(&code) {
            let wait: u64 = header("retry-after")
                .and_then(|wait| wait.parse().ok())
                .unwrap_or_default();
            assert!(wait >= 1, "{what}: {text}");
            assert_eq!(problem["retryAfterSeconds"], wait, "{what}: {text}");
        }
        reply
    }

    /// Whether it says that nothing was done.
    pub fn is_refusal(&self) -> bool {
        self.status >= 400
    }
}
