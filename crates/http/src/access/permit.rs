//! What a handler asks for to be let in: a caller that may submit, read or operate. A handler that
//! names one of these can only run for such a caller.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use super::{Caller, Scope};
use crate::api::Served;
use crate::problem::{Code, Problem};

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
                admit(parts, served, $scope).map(Self)
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
fn admit(parts: &Parts, served: &Served, scope: Scope) -> Result<Caller, Problem> {
    let admitted = served.access.admit(&parts.headers, scope)?;
    served.rates.take(admitted.caller.rate)?;
    if admitted.is_allowed {
        Ok(admitted.caller)
    } else {
        Err(Problem::new(Code::Forbidden))
    }
}
