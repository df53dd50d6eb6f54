//! The stuck policy of a business that wants to decide by itself: it is asked over HTTP.

mod question;
mod answer;

use std::time::Duration;

use async_trait::async_trait;
use fencepost_app::causes::Causes;
use fencepost_app::ports::check::cut;
use fencepost_app::ports::{Advice, Plight, Policy};
use fencepost_domain::B256;
use fencepost_domain::ids::ChainId;
use fencepost_domain::request::Ceilings;
use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use reqwest::header::CONTENT_TYPE;
use reqwest::{Client, Response, StatusCode};
use sha2::{Digest, Sha256};
use tokio::time::timeout;

use crate::chains::ChainInfo;
use crate::outbound::{self, Unread};
use crate::secret::Secret;
use question::Question;

/// When the question was asked, in seconds since 1970.
const TIMESTAMP: &str = "x-fencepost-timestamp";
/// The signature of the question.
const SIGNATURE: &str = "x-fencepost-signature";
/// A decision is a few words, with audit fields of 16 KiB.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// Asks the business what is to be done about a stuck transaction.
///
/// The question is a `POST` of JSON to the configured URL:
///
/// ```json
/// {"chain": "main", "chainId": 1, "signer": "0x…", "txId": "…", "kind": "managed", "nonce": 7,
///  "requestId": "order-17", "meta": {}, "hashes": ["0x…"],
///  "fees": {"maxFeePerGas": "100", "maxPriorityFeePerGas": "10"}, "state": "STUCK",
///  "subState": "NO_RECEIPT", "submitAttempts": 3, "lastError": null, "ageSeconds": 600,
///  "backlog": 12, "gaps": [], "round": 1}
/// ```
///
/// `fees` are those of the newest bytes, `{"gasPrice": …}` for a legacy price, or null where nothing was
/// signed. The answer must be a 200 with `Content-Type: application/json`, within the timeout and 64 KiB:
///
/// ```json
/// {"action": "NOOP | RESUBMIT | REPLACE | CANCEL | PLACEHOLDER",
///  "fees": {"maxFeePerGas": "120", "maxPriorityFeePerGas": "12"}, "reason": "…", "audit": {}}
/// ```
///
/// `fees` go with REPLACE only and may be left out, as may `reason` and `audit`. Anything else is
/// nonsense: a failure, a late answer, a redirect, an unknown action or field, fees above the chain's
/// ceilings, of another style or without 10 % more than the newest bytes pay. Nonsense is NOOP, and one
/// warning in the log: nothing is ever done that was not clearly asked for.
///
/// With a secret the question is signed: the header `x-fencepost-signature` is the HMAC-SHA256 with that
/// secret, as `0x` and lower-case hex, over the three lines, each ended by a line feed,
///
/// ```text
/// fencepost stuck 1
/// <the header x-fencepost-timestamp, in seconds since 1970>
/// <the SHA-256 of the body, as 64 lower-case hex digits>
/// ```
///
/// Whoever checks it should also refuse timestamps that are more than a few minutes old.
pub struct HttpPolicy {
    http: Client,
    url: String,
    within: Duration,
    secret: Option<Secret>,
    ceilings: Vec<(ChainId, Ceilings)>,
}

impl HttpPolicy {
    /// Asks at `url`, and waits for the whole answer no longer than `within`. Fees that it names are held
    /// against the ceilings of these chains.
    #[must_use]
    pub fn new(
        url: impl Into<String>,
        within: Duration,
        secret: Option<Secret>,
        chains: &[ChainInfo],
    ) -> Self {
        Self {
            http: outbound::client(|builder| builder.connect_timeout(within)),
            url: url.into(),
            within,
            secret,
            ceilings: chains
                .iter()
                .map(|chain| (chain.id, chain.ceilings))
                .collect(),
        }
    }

    async fn ask(&self, plight: &Plight) -> Result<Advice, String> {
        let body =
            serde_json::to_vec(&Question::of(plight)).expect("texts, numbers and checked JSON");
        let at = Timestamp::now().as_second().to_string();
        let mut request = self
            .http
            .post(&self.url)
            .timeout(self.within)
            .header(CONTENT_TYPE, "application/json")
            .header(TIMESTAMP, &at);
        if let Some(secret) = &self.secret {
            request = request.header(SIGNATURE, signature(secret, &at, &body));
        }
        let answer = request.body(body).send().await.map_err(unanswered)?;
        let text = read(answer).await?;
        answer::read(&text, plight, self.ceilings(plight.lane.chain))
    }

    /// On a chain that nobody has told us about, no fees are right.
    fn ceilings(&self, chain: ChainId) -> Ceilings {
        let found = self.ceilings.iter().find(|(id, _)| *id == chain);
        let none = Ceilings {
            max_fee: 0,
            max_priority_fee: 0,
        };
        found.map_or(none, |(_, ceilings)| *ceilings)
    }
}

#[async_trait]
impl Policy for HttpPolicy {
    fn name(&self) -> &'static str {
        "http"
    }

    /// Only the business knows.
    fn is_worth_asking(&self, _: &Plight) -> bool {
        true
    }

    async fn decide(&self, plight: &Plight) -> Advice {
        let asked = timeout(self.within, self.ask(plight)).await;
        let asked = asked.unwrap_or_else(|_| Err("it did not answer in time".to_owned()));
        asked.unwrap_or_else(|why| {
            let (signer, tx_id) = (plight.lane.signer, plight.tx);
            tracing::warn!(%signer, %tx_id, round = plight.round, why, "the stuck policy was asked in vain; nothing is done");
            Advice::noop(cut(&format!("the policy was asked in vain: {why}")))
        })
    }
}

/// The body of an answer that can be one.
async fn read(answer: Response) -> Result<String, String> {
    let status = answer.status();
    if status != StatusCode::OK {
        return Err(format!("it answered with status {}", status.as_u16()));
    }
    let kind = answer.headers().get(CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()?.split(';').next());
    if !kind.is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json")) {
        return Err("its answer is not declared as application/json".to_owned());
    }
    match outbound::whole(answer, ANSWER_BYTES_MAX).await {
        Ok(body) => String::from_utf8(body).map_err(|_| "its answer is not UTF-8".to_owned()),
        Err(Unread::Broken(error)) => Err(unanswered(error)),
        Err(Unread::TooLong) => Err(format!("its answer is above {ANSWER_BYTES_MAX} bytes")),
    }
}

/// Without the URL, which may have a secret in it.
fn unanswered(error: reqwest::Error) -> String {
    let error = error.without_url();
    if error.is_timeout() {
        return "it did not answer in time".to_owned();
    }
    format!("it could not be asked: {}", Causes(&error))
}

fn signature(secret: &Secret, at: &str, body: &[u8]) -> String {
    let digest: [u8; 32] = Sha256::digest(body).into();
    let digest = B256::from(digest).to_string();
    let digest = digest.trim_start_matches("0x");
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.bytes()).expect("a key of any length");
    for line in ["fencepost stuck 1", at, digest] {
        mac.update(line.as_bytes());
        mac.update(b"\n");
    }
    let bytes: [u8; 32] = mac.finalize().into_bytes().into();
    B256::from(bytes).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So that others can check their own: `printf 'fencepost stuck 1\n1700000000\n%s\n' "$(printf '{}'
    /// | sha256sum | cut -d' ' -f1)" | openssl dgst -sha256 -hmac 'open sesame'`.
    #[test]
    fn a_question_is_signed_as_it_is_documented() {
        let secret = Secret::new("open sesame".to_owned());
        let signed = signature(&secret, "1700000000", b"{}");
        assert_eq!(
            signed,
            "0x8bcc740782b50d6bee75b087985c1bf7e4ada754fc39e08ac955dd6b4e7c0546"
        );
    }
}
