//! One call: what is asked, one try of it, and what its answer is read as.

use std::time::Duration;

use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER};
use reqwest::{Method, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use crate::client::Client;
use crate::error::{Error, Tries};
use crate::problem::Problem;

/// As much of a strange answer as is told.
const SHOWN_CHARS_MAX: usize = 200;

/// What a call does, which decides whether it may be repeated once it was not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// It changes nothing.
    Read,
    /// Doing it twice is the same as doing it once: it has a request id, or says how things shall be.
    Idempotent,
    /// Done twice it may be done twice, or undo what someone else did between the two.
    Unnamed,
}

impl Effect {
    pub(crate) const fn is_change(self) -> bool {
        match self {
            Self::Read => false,
            Self::Idempotent | Self::Unnamed => true,
        }
    }

    pub(crate) const fn is_repeatable(self) -> bool {
        match self {
            Self::Read | Self::Idempotent => true,
            Self::Unnamed => false,
        }
    }
}

/// What is asked. The body is fixed before the first try, so every try is the same request.
pub(crate) struct Call<'a> {
    method: Method,
    path: Vec<&'a str>,
    query: Vec<(&'a str, String)>,
    body: Option<Vec<u8>>,
    pub(crate) effect: Effect,
    /// How much longer than others it may take, for a long poll.
    pub(crate) wait: Duration,
    /// It is tried no longer than this.
    pub(crate) by: Option<Instant>,
}

impl<'a> Call<'a> {
    /// A route that is not under the API's version.
    pub(crate) fn root(path: &'a str) -> Self {
        Self {
            method: Method::GET,
            path: vec![path],
            query: vec![],
            body: None,
            effect: Effect::Read,
            wait: Duration::ZERO,
            by: None,
        }
    }

    pub(crate) fn get<const N: usize>(path: [&'a str; N]) -> Self {
        let mut call = Self::root("api");
        call.path.push("v1");
        call.path.extend(path);
        call
    }

    pub(crate) fn post<const N: usize>(
        path: [&'a str; N],
        body: &impl Serialize,
        effect: Effect,
    ) -> Self {
        let body = serde_json::to_vec(body).expect("our requests are texts, numbers and JSON");
        Self {
            method: Method::POST,
            body: Some(body),
            effect,
            ..Self::get(path)
        }
    }

    /// With a parameter, if there is one.
    pub(crate) fn with(mut self, name: &'a str, value: Option<impl ToString>) -> Self {
        if let Some(value) = value {
            self.query.push((name, value.to_string()));
        }
        self
    }

    /// May take this much longer.
    pub(crate) const fn waiting(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// Is tried no longer than this.
    pub(crate) const fn by(mut self, by: Instant) -> Self {
        self.by = Some(by);
        self
    }
}

/// A 2xx.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
    pub(crate) tries: Tries,
}

impl Answer {
    /// The same, after this many tries.
    pub(crate) fn after(self, tries: Tries) -> Self {
        Self { tries, ..self }
    }

    /// What the answer says. One that cannot be read may be of a request that was done.
    pub(crate) fn read<T: DeserializeOwned>(&self, effect: Effect) -> Result<T, Error> {
        serde_json::from_slice(&self.body).map_err(|error| self.strange(&error.to_string(), effect))
    }

    /// The error of an answer that says something else than it should.
    pub(crate) fn strange(&self, why: &str, effect: Effect) -> Error {
        Error::Garbled {
            status: self.status,
            why: why.to_owned(),
            retry_after: None,
            tries: Tries {
                made: self.tries.made,
                unanswered: self.tries.unanswered + u32::from(effect.is_change()),
            },
        }
    }
}

impl Client {
    /// Tries a call, and reads its answer.
    pub(crate) async fn told<T: DeserializeOwned>(&self, call: Call<'_>) -> Result<T, Error> {
        self.ask(&call).await?.read(call.effect)
    }

    /// Tries a call once, at one node.
    pub(crate) async fn once(
        &self,
        node: usize,
        call: &Call<'_>,
        left: Duration,
    ) -> Result<Answer, Error> {
        let inner = &self.0;
        let within = inner.request_timeout.saturating_add(call.wait).min(left);
        let url = inner.nodes.route(node, &call.path, &call.query);
        let mut request = inner.http.request(call.method.clone(), url).timeout(within);
        if let Some(key) = &inner.key {
            request = request.header(AUTHORIZATION, key.clone());
        }
        if let Some(body) = &call.body {
            request = request.header(CONTENT_TYPE, "application/json");
            request = request.body(body.clone());
        }
        let response = request
            .send()
            .await
            .map_err(|error| unsent(error, within))?;
        let status = response.status().as_u16();
        let (seconds, log_id) = told_by_headers(&response);
        let body = body(response, inner.answer_bytes_max, within).await?;
        if (200..300).contains(&status) {
            let tries = Tries::default();
            return Ok(Answer {
                status,
                body,
                tries,
            });
        }
        Err(refused(status, &body, seconds, log_id))
    }
}

/// How long to wait, and the name of the request in the node's log, as headers tell them.
fn told_by_headers(response: &Response) -> (Option<u64>, Option<String>) {
    let header = |name: &str| response.headers().get(name)?.to_str().ok();
    let seconds = header(RETRY_AFTER.as_str()).and_then(|text| text.parse().ok());
    (seconds, header("x-request-id").map(str::to_owned))
}

fn refused(status: u16, body: &[u8], seconds: Option<u64>, log_id: Option<String>) -> Error {
    let tries = Tries::default();
    match serde_json::from_slice::<Problem>(body) {
        Ok(problem) if problem.status == status => Error::Problem {
            problem: Box::new(Problem {
                retry_after_seconds: problem.retry_after_seconds.or(seconds),
                log_id,
                ..problem
            }),
            tries,
        },
        Ok(_) | Err(_) => {
            let text = String::from_utf8_lossy(body);
            let shown: String = text.chars().take(SHOWN_CHARS_MAX).collect();
            let why = format!("{shown:?}");
            let retry_after = seconds.map(Duration::from_secs);
            Error::Garbled {
                status,
                why,
                retry_after,
                tries,
            }
        }
    }
}

/// Whatever is not a failed connection may have reached the node.
fn unsent(error: reqwest::Error, within: Duration) -> Error {
    let tries = Tries::default();
    // The URL may say more than a log should.
    let error = error.without_url();
    if error.is_builder() {
        return Error::Unsendable(error.to_string());
    }
    if error.is_connect() {
        let source = Box::new(error);
        return Error::Unreachable { tries, source };
    }
    if error.is_timeout() {
        let after = within;
        return Error::Timeout { after, tries };
    }
    let source = Box::new(error);
    Error::Cut { tries, source }
}

async fn body(mut response: Response, max: usize, within: Duration) -> Result<Vec<u8>, Error> {
    let status = response.status().as_u16();
    let mut body = Vec::new();
    while let Some(chunk) = response
        .chunk()
        .await
        .map_err(|error| unsent(error, within))?
    {
        if body.len() + chunk.len() > max {
            return Err(Error::Garbled {
                status,
                why: format!("it is larger than {max} bytes"),
                retry_after: None,
                tries: Tries::default(),
            });
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}
