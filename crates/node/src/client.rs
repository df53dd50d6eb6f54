//! A client of a running node: the verbs of the command line that ask over HTTP.

pub(crate) mod tx;
pub(crate) mod signers;
pub(crate) mod nonces;
pub(crate) mod completions;
pub(crate) mod export;
mod remedies;
mod reconcile;
mod migrate;
mod once;
mod audit;
mod next;
mod again;
mod refusal;
mod table;

use std::time::Duration;

use fencepost_app::causes::Causes;
use reqwest::header::RETRY_AFTER;
use reqwest::redirect::Policy;
use reqwest::{Method, RequestBuilder, StatusCode};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value};
use url::Url;

use crate::cli::{API_KEY, Remote};
use crate::config::environment::Environment;
use crate::failure::Failure;
use crate::output::print;

/// Longer than a node takes to answer, long polls included.
const PATIENCE: Duration = Duration::from_secs(45);

/// Statuses that pass by themselves.
const PASSING: [StatusCode; 4] = [
    StatusCode::TOO_MANY_REQUESTS,
    StatusCode::BAD_GATEWAY,
    StatusCode::SERVICE_UNAVAILABLE,
    StatusCode::GATEWAY_TIMEOUT,
];

/// A query: names and values.
type Query<'a> = [(&'a str, Option<String>)];

/// What asks over HTTP.
pub(crate) fn plain() -> reqwest::Result<reqwest::Client> {
    // Whoever was first has chosen the same one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .timeout(PATIENCE)
        // Nodes are asked directly, and never send a key elsewhere.
        .no_proxy()
        .redirect(Policy::none())
        .build()
}

/// One node, and how its answers are shown.
pub(crate) struct Client {
    http: reqwest::Client,
    base: Url,
    key: Option<SecretString>,
    json: bool,
}

impl Client {
    pub(crate) fn new(remote: &Remote, environment: &Environment) -> Result<Self, Failure> {
        let unusable = |why: String| Failure::Usage(format!("--url {}: {why}", remote.url));
        let base = Url::parse(&remote.url).map_err(|error| unusable(error.to_string()))?;
        if !matches!(base.scheme(), "http" | "https") {
            return Err(unusable("must begin with http:// or https://".to_owned()));
        }
        let http = plain().map_err(|error| Failure::new("no HTTP client", error))?;
        Ok(Self {
            http,
            base,
            key: key(remote, environment)?,
            json: remote.json,
        })
    }

    /// Asks for something; the answer is its body.
    async fn get(&self, path: &[&str], query: &Query<'_>) -> Result<String, Failure> {
        let given: Vec<_> = query.iter().filter(|(_, value)| value.is_some()).collect();
        self.ask(self.request(Method::GET, path).query(&given))
            .await
    }

    /// Has something done; the answer is its body.
    async fn post(&self, path: &[&str], body: &Value) -> Result<String, Failure> {
        self.post_with(path, &[], body).await
    }

    /// The same, with a query.
    async fn post_with(
        &self,
        path: &[&str],
        query: &Query<'_>,
        body: &Value,
    ) -> Result<String, Failure> {
        let given: Vec<_> = query.iter().filter(|(_, value)| value.is_some()).collect();
        let request = self.request(Method::POST, path).query(&given);
        self.ask(request.json(body)).await
    }

    fn request(&self, method: Method, path: &[&str]) -> RequestBuilder {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(["api", "v1"]).extend(path);
        }
        let request = self.http.request(method, url);
        match &self.key {
            Some(key) => request.bearer_auth(key.expose_secret()),
            None => request,
        }
    }

    async fn ask(&self, request: RequestBuilder) -> Result<String, Failure> {
        let unreached = |error: reqwest::Error| {
            let doing = format!("{} does not answer", self.base);
            let failed = Failure::new(doing, error.without_url());
            let told = Causes(&failed).to_string();
            Failure::NotNow { told, after: None }
        };
        let response = request.send().await.map_err(unreached)?;
        let status = response.status();
        let after = response.headers().get(RETRY_AFTER).cloned();
        let body = response.text().await.map_err(unreached)?;
        if status.is_success() {
            return Ok(body);
        }
        let told = refusal::told(status, &body);
        if PASSING.contains(&status) {
            let after = after.and_then(|value| value.to_str().ok()?.parse().ok());
            let after = after.map(Duration::from_secs);
            return Err(Failure::NotNow { told, after });
        }
        Err(Failure::Refused(told))
    }

    /// Shows an answer: as it came, or as a table.
    fn show(&self, body: &str, table: impl FnOnce(&Value) -> String) -> Result<(), Failure> {
        if self.json {
            return print(body);
        }
        print(&table(&read(body)?))
    }
}

/// The API key. Only the usual variable may be missing: a node on a loopback address needs none.
fn key(remote: &Remote, environment: &Environment) -> Result<Option<SecretString>, Failure> {
    let name = &remote.key_env;
    match environment.get(name).filter(|key| !key.is_empty()) {
        Some(key) => Ok(Some(SecretString::from(key))),
        None if name == API_KEY => Ok(None),
        None => Err(Failure::Usage(format!(
            "--key-env {name}: the variable is not set"
        ))),
    }
}

/// An object of what is there: a field that is null is not one that is absent.
fn given<const N: usize>(fields: [(&str, Option<Value>); N]) -> Value {
    let present = fields
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(present.collect::<Map<_, _>>())
}

/// An answer as a value.
fn read(body: &str) -> Result<Value, Failure> {
    serde_json::from_str(body).map_err(|error| Failure::new("the answer is not JSON", error))
}
