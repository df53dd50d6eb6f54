//! The client itself, and how a call is tried until it is answered or its bounds are used up.

use std::sync::Arc;
use std::time::Duration;

use reqwest::header::HeaderValue;
use tokio::time::sleep;

use crate::builder::{BuildError, Builder};
use crate::call::{Answer, Call};
use crate::error::Error;
use crate::nodes::Nodes;
use crate::retry::{Course, Retry};

/// A client of a Fencepost cluster. Clones share their connections; one is enough for a process.
///
/// ```no_run
/// # fn main() -> Result<(), fencepost_client::BuildError> {
/// use fencepost_client::Client;
///
/// let one = Client::new("http://127.0.0.1:8700")?;
/// let cluster = Client::builder()
///     .nodes(["https://fencepost-1.example", "https://fencepost-2.example"])
///     .api_key("the key of this service")
///     .build()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Client(pub(crate) Arc<Inner>);

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) http: reqwest::Client,
    pub(crate) nodes: Nodes,
    pub(crate) key: Option<HeaderValue>,
    pub(crate) retry: Retry,
    pub(crate) request_timeout: Duration,
    pub(crate) answer_bytes_max: usize,
}

impl Client {
    /// A client of one node that needs no key.
    pub fn new(url: impl Into<String>) -> Result<Self, BuildError> {
        Self::builder().node(url).build()
    }

    /// A client that is made step by step.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Tries a call until it is answered, refused for good, or its bounds are used up.
    pub(crate) async fn ask(&self, call: &Call<'_>) -> Result<Answer, Error> {
        // A node that is asked to wait takes that time of nobody's patience.
        let total = self.0.retry.total.saturating_add(call.wait);
        let retry = Retry {
            total,
            ..self.0.retry
        };
        let mut course = Course::new(retry, call.by);
        loop {
            let error = match self.round(call, &mut course).await {
                Ok(answer) => return Ok(answer.after(course.tries)),
                Err(error) => error,
            };
            let repeats = call.effect.is_repeatable() || course.tries.unanswered == 0;
            let again = repeats && error.is_retryable();
            let pause = again.then(|| course.next(error.retry_after())).flatten();
            match pause {
                Some(pause) => sleep(pause).await,
                None => return Err(error.after(course.tries)),
            }
        }
    }

    /// Asks one node after another until one can be connected to. Where none can, nothing was sent.
    async fn round(&self, call: &Call<'_>, course: &mut Course) -> Result<Answer, Error> {
        let nodes = &self.0.nodes;
        let mut failed = None;
        for _ in nodes.urls() {
            let left = course.left();
            if failed.is_some() && left.is_zero() {
                break;
            }
            let node = nodes.current();
            course.tries.made += 1;
            let error = match self.once(node, call, left).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            if error.is_of_one_node() {
                nodes.leave(node);
            }
            if call.effect.is_change() && !error.is_nothing_done() {
                course.tries.unanswered += 1;
            }
            if !matches!(error, Error::Unreachable { .. }) {
                return Err(error);
            }
            failed = Some(error);
        }
        Err(failed.unwrap_or_else(|| Error::Unsendable("there are no nodes".to_owned())))
    }
}
