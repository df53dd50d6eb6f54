//! The stuck policy of a business that wants to decide by itself: it is asked over HTTP.

mod question;
mod answer;
mod meters;
mod signing;

use std::time::Duration;

use async_trait::async_trait;
use fencepost_app::causes::Causes;
use fencepost_app::ports::check::cut;
use fencepost_app::ports::{Advice, Plight, Policy};
use fencepost_domain::ids::ChainId;
use fencepost_domain::request::Ceilings;
use jiff::Timestamp;
use reqwest::header::CONTENT_TYPE;
use reqwest::{Client, Response, StatusCode};
use tokio::time::timeout;

use crate::chains::ChainInfo;
use crate::outbound::{self, Unread};
use question::Question;
use signing::Signed;

pub use meters::PolicyMeters;
pub use signing::PolicySecret;

/// When the question was asked, in seconds since 1970.
const TIMESTAMP: &str = "x-fencepost-timestamp";
/// The signature of the question, and of the answer.
const SIGNATURE: &str = "x-fencepost-signature";
/// A decision is a few words, with audit fields of 16 KiB, and perhaps a transaction of 128 KiB, which is twice as much
/// in hex.
const ANSWER_BYTES_MAX: usize = 384 * 1024;

/// Asks the business what is to be done about a stuck transaction.
///
/// The question is a `POST` of JSON to the configured URL:
///
/// ```json
/// {"chain": "main", "chainId": 1, "signer": "0x…", "txId": "…", "kind": "managed", "nonce": 7,
///  "requestId": "order-17", "meta": {}, "payload": {"to": "0x…", "value": "1", …}, "hashes": ["0x…"],
///  "fees": {"maxFeePerGas": "100", "maxPriorityFeePerGas": "10"}, "state": "STUCK",
///  "subState": "NO_RECEIPT", "submitAttempts": 3, "lastError": null, "ageSeconds": 600,
///  "backlog": 12, "gaps": [], "round": 1}
/// ```
///
/// `fees` are those of the newest bytes, `{"gasPrice": …}` for a legacy price, or null where nothing was
/// signed. The answer must be a 200 with `Content-Type: application/json`, within the timeout and 384 KiB:
///
/// ```json
/// {"action": "NOOP | RESUBMIT | REPLACE | CANCEL | PLACEHOLDER",
///  "fees": {"maxFeePerGas": "120", "maxPriorityFeePerGas": "12"},
///  "transaction": {"to": "0x…", "value": "1", "data": "0x", "gas": "21000"}, "rawTransaction": "0x…",
///  "severity": "info | warning | critical", "then": "track | stuck", "reason": "…", "audit": {}}
/// ```
///
/// Everything but `action` may be left out. `fees`, `transaction` and `rawTransaction` go with REPLACE, CANCEL and
/// PLACEHOLDER; `rawTransaction` stands alone. Anything else is an invalid answer: a failure, a late answer, a
/// redirect, an unknown action or field, fees above the chain's ceilings, of another style or without 10 % more than
/// the newest bytes pay. An invalid answer is NOOP and one warning in the log.
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
///
/// With [`PolicySecret::signed_answers`] the answer must carry `x-fencepost-signature` too, over the three lines
///
/// ```text
/// fencepost answer 1
/// <the header x-fencepost-signature of the question>
/// <the SHA-256 of the answer's body, as 64 lower-case hex digits>
/// ```
///
/// so that an answer is good for one question only. Any other answer is refused before it is read.
pub struct HttpPolicy {
    http: Client,
    url: String,
    within: Duration,
    secret: Option<PolicySecret>,
    meters: PolicyMeters,
    ceilings: Vec<(ChainId, Ceilings)>,
}

impl HttpPolicy {
    /// Asks at `url`, and waits for the whole answer no longer than `within`. Fees that it names are held
    /// against the ceilings of these chains.
    #[must_use]
    pub fn new(
        url: impl Into<String>,
        within: Duration,
        secret: Option<PolicySecret>,
        chains: &[ChainInfo],
        meters: PolicyMeters,
    ) -> Self {
        Self {
            http: outbound::client(|builder| builder.connect_timeout(within)),
            url: url.into(),
            within,
            secret,
            meters,
            ceilings: chains
                .iter()
                .map(|chain| (chain.id, chain.ceilings))
                .collect(),
        }
    }

    async fn ask(&self, plight: &Plight) -> Result<Advice, Refused> {
        let body =
            serde_json::to_vec(&Question::of(plight)).expect("texts, numbers and checked JSON");
        let at = Timestamp::now().as_second().to_string();
        let mut request = self
            .http
            .post(&self.url)
            .timeout(self.within)
            .header(CONTENT_TYPE, "application/json")
            .header(TIMESTAMP, &at);
        let question = self.secret.as_ref().map(|secret| secret.sign(&at, &body));
        if let Some(question) = &question {
            request = request.header(SIGNATURE, question.signature());
        }
        let answer = request.body(body).send().await.map_err(unanswered)?;
        let text = read(answer, question).await?;
        Ok(answer::read(
            &text,
            plight,
            self.ceilings(plight.lane.chain),
        )?)
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
        let late = || Refused::Invalid("it did not answer in time".to_owned());
        let asked = asked.unwrap_or_else(|_| Err(late()));
        self.meters.count(asked.as_ref().err());
        asked.unwrap_or_else(|refused| {
            let (signer, tx_id) = (plight.lane.signer, plight.tx);
            let round = plight.round;
            let why = match &refused {
                Refused::Unsigned(why) => {
                    tracing::error!(%signer, %tx_id, round, why, "an answer of the stuck policy is refused: its signature is wrong or missing");
                    (*why).to_owned()
                }
                Refused::Invalid(why) => {
                    tracing::warn!(%signer, %tx_id, round, why, "the stuck policy was asked in vain; nothing is done");
                    why.clone()
                }
            };
            Advice::noop(cut(&format!("the policy was asked in vain: {why}")))
        })
    }
}

/// Why an answer is not acted on.
enum Refused {
    /// It must be signed, and is not or wrongly: perhaps another than the business answers.
    Unsigned(&'static str),
    /// There is none, or it cannot be read.
    Invalid(String),
}

impl From<String> for Refused {
    fn from(why: String) -> Self {
        Self::Invalid(why)
    }
}

/// The body of an answer that can be one.
async fn read(answer: Response, question: Option<Signed<'_>>) -> Result<String, Refused> {
    let status = answer.status();
    if status != StatusCode::OK {
        return Err(format!("it answered with status {}", status.as_u16()).into());
    }
    let kind = answer.headers().get(CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()?.split(';').next());
    if !kind.is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json")) {
        return Err("its answer is not declared as application/json"
            .to_owned()
            .into());
    }
    let signature = answer.headers().get(SIGNATURE).cloned();
    let body = match outbound::whole(answer, ANSWER_BYTES_MAX).await {
        Ok(body) => body,
        Err(Unread::Broken(error)) => return Err(unanswered(error).into()),
        Err(Unread::TooLong) => {
            return Err(format!("its answer is above {ANSWER_BYTES_MAX} bytes").into());
        }
    };
    if let Some(question) = question {
        question
            .check(signature.as_ref(), &body)
            .map_err(Refused::Unsigned)?;
    }
    Ok(String::from_utf8(body).map_err(|_| "its answer is not UTF-8".to_owned())?)
}

/// Without the URL, which may have a secret in it.
fn unanswered(error: reqwest::Error) -> String {
    let error = error.without_url();
    if error.is_timeout() {
        return "it did not answer in time".to_owned();
    }
    format!("it could not be asked: {}", Causes(&error))
}
