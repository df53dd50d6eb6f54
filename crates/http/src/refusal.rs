//! Calls that were refused, written into the audit: what a known key may not do, and what an operator asked for in
//! vain. Every refusal is counted; how many are stored is bounded, so that nobody can fill the disk with them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::extract::Request;
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use fencepost_app::causes::Causes;
use fencepost_app::ports::Audit;
use serde_json::json;
use tokio::time::timeout;

use crate::access::Caller;
use crate::api::Served;
use crate::key_rate::KeyRate;
use crate::problem::Code;

/// Longer paths are cut: they are the caller's own text.
const PATH_CHARS_MAX: usize = 256;
/// How long a refusal waits for its audit row. The caller gets its answer then, and the log a line.
const STORE_TIME: Duration = Duration::from_secs(2);

/// How many refusals are stored. Keys without the scope operate share one bucket, so that they cannot crowd out
/// what operators did in vain.
pub(crate) struct Refusals {
    of_operators: KeyRate,
    of_others: KeyRate,
    left_out: AtomicU64,
}

impl Refusals {
    /// So many a minute of each; 0 stores none.
    pub(crate) fn new(per_minute: u32) -> Self {
        Self {
            of_operators: KeyRate::per_minute(per_minute),
            of_others: KeyRate::per_minute(per_minute),
            left_out: AtomicU64::new(0),
        }
    }

    /// How many were left out before this one, if it may be stored.
    fn admit(&self, caller: &Caller) -> Option<u64> {
        let bucket = if caller.operates {
            &self.of_operators
        } else {
            &self.of_others
        };
        if bucket.take().is_err() {
            self.left_out.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        Some(self.left_out.swap(0, Ordering::Relaxed))
    }
}

/// Where the permit of a route for operators leaves who has called. A route without it records only calls for which
/// the key lacks the scope.
#[derive(Clone, Default)]
pub(crate) struct Note(Arc<OnceLock<(Arc<Served>, Caller)>>);

impl Note {
    pub(crate) fn set(&self, served: &Arc<Served>, caller: &Caller) {
        // A route has one permit.
        let _ = self.0.set((Arc::clone(served), caller.clone()));
    }
}

/// Around the routes on which operators change something: records each call that was refused.
pub(crate) async fn watch(mut request: Request, next: Next) -> Response {
    let note = Note::default();
    let (method, uri) = (request.method().clone(), request.uri().clone());
    request.extensions_mut().insert(note.clone());
    let response = next.run(request).await;
    let status = response.status();
    let is_refused = status.is_client_error() && status != StatusCode::TOO_MANY_REQUESTS;
    if let (true, Some((served, caller))) = (is_refused, note.0.get()) {
        let code = response.extensions().get::<Code>().copied();
        let code = code.unwrap_or(Code::InternalError);
        record(served, caller, &method, uri.path(), code).await;
    }
    response
}

/// Writes one refused call into the audit, unless too many were lately.
pub(crate) async fn record(
    served: &Served,
    caller: &Caller,
    method: &Method,
    path: &str,
    code: Code,
) {
    let Some(left_out) = served.refusals.admit(caller) else {
        return;
    };
    let path: String = path.chars().take(PATH_CHARS_MAX).collect();
    let answer = format!("{} {}", code.status().as_u16(), code.word());
    let details = json!({ "method": method.as_str(), "path": path, "leftOut": left_out });
    let audit = Audit {
        by: caller.name.to_string(),
        reason: code.title().to_owned(),
        details: Some(details.to_string()),
        node: Some(served.node.holder().node.clone()),
    };
    let stored = timeout(
        STORE_TIME,
        served.node.store().record_refusal(&audit, &answer),
    );
    let why = match stored.await {
        Ok(Ok(())) => return,
        Ok(Err(error)) => Causes(&error).to_string(),
        Err(_) => format!("no answer within {STORE_TIME:?}"),
    };
    // This one is missing too, and what it would have counted is still to be told.
    let missing = left_out.saturating_add(1);
    served
        .refusals
        .left_out
        .fetch_add(missing, Ordering::Relaxed);
    tracing::warn!(
        by = audit.by,
        answer,
        path,
        why,
        "a refused call is missing in the audit"
    );
}
