//! The time in which an answer must be there.

use std::pin::Pin;
use std::time::Duration;

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use fencepost_app::ports::for_client;
use tokio::time::timeout;

use crate::api::Served;
use crate::problem::{Code, Problem};

type Answering = Pin<Box<dyn Future<Output = Response> + Send>>;

/// Ends what only reads when its time is over. It reads on the store's connections for clients, so that lanes never wait for
/// a connection that a client reads on.
pub(super) fn within(limit: Duration) -> impl Fn(Request, Next) -> Answering + Clone {
    move |request, next| {
        Box::pin(async move {
            let answered = timeout(limit, for_client(next.run(request))).await;
            answered.unwrap_or_else(|_| Problem::new(Code::TimedOut).into_response())
        })
    }
}

/// The same of what comes before a write: when it is over, nothing was stored.
pub(super) async fn bounded<T>(
    served: &Served,
    work: impl Future<Output = T>,
) -> Result<T, Problem> {
    let looked = timeout(served.limits.request_timeout, work).await;
    looked.map_err(|_| Problem::new(Code::TimedOut))
}
