//! What a handler asks for to be let in: a caller that may submit, read or operate. A handler that
//! names one of these can only run for such a caller.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use super::{Admitted, Caller, Scope};
use crate::api::Served;
use crate::problem::{Code, Problem};
use crate::refusal::{self, Note};

macro_rules! permit {
    ($(#[$doc:meta])* $name:ident, $scope:expr) => {
        $(#[$doc])*
        pub(crate) struct $name(pub(crate) Caller);

        impl FromRequestParts<Arc<Served>> for $name {
            type Rejection = Problem;

            async fn from_request_parts(
                parts: &mut Parts,
                served: &Arc<Served>,
            ) -> Result<Self, Problem> {
                admit(parts, served, $scope).await.map(Self)
            }
        }
    };
}

permit!(
    /// May have transactions sent.
    Submitter, Scope::Submit);
permit!(
    /// May see things.
    Reader, Scope::Read);
permit!(
    /// May hold, mend and audit.
    Operator, Scope::Operate);

/// A known key pays for its request even if it may not make it: trying is not free.
async fn admit(parts: &Parts, served: &Arc<Served>, scope: Scope) -> Result<Caller, Problem> {
    let (general, now) = (served.limits.rate_per_second, served.node.clock().now());
    let admitted = match served.access.admit(&parts.headers, scope, general, now) {
        Ok(admitted) => admitted,
        Err(problem) if problem.code() == Code::Unauthorized => {
            return Err(served.keyless.refuse(parts, problem).await);
        }
        Err(problem) => return Err(problem),
    };
    admitted.caller.rate.take()?;
    let Admitted { caller, is_allowed } = admitted;
    let note = parts.extensions.get::<Note>();
    if let Some(note) = note {
        note.set(served, &caller);
    }
    if is_allowed {
        return Ok(caller);
    }
    if note.is_none() {
        let (method, path) = (&parts.method, parts.uri.path());
        refusal::record(served, &caller, method, path, Code::Forbidden).await;
    }
    Err(Problem::new(Code::Forbidden))
}
