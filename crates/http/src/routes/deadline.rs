//! The time in which an answer must be there.

use std::pin::Pin;
use std::time::Duration;

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::time::timeout;

use crate::problem::{Code, Problem};

type Answering = Pin<Box<dyn Future<Output = Response> + Send>>;

/// Ends what only reads when its time is over.
pub(super) fn within(limit: Duration) -> impl Fn(Request, Next) -> Answering + Clone {
    move |request, next| {
        Box::pin(async move {
            let answered = timeout(limit, next.run(request)).await;
            answered.unwrap_or_else(|_| Problem::new(Code::TimedOut).into_response())
        })
    }
}
