//! JSON-RPC 2.0 as text: calls to bodies, bodies to answers. Whatever an endpoint answers, only
//! answers and faults come out; an answer that does not name its call is none.

pub(crate) mod value;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::text;
use crate::transport::{Response, TransportError};

/// One call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) method: &'static str,
    /// A JSON array.
    pub(crate) params: String,
}

impl Call {
    /// Of parameters that are JSON already, one after the other.
    pub(crate) fn new(method: &'static str, params: &[&str]) -> Self {
        Self {
            method,
            params: format!("[{}]", params.join(",")),
        }
    }

    /// About how long it is in a body.
    pub(crate) fn bytes(&self) -> usize {
        self.method.len() + self.params.len() + 64
    }

    fn text(&self, id: u64) -> String {
        let Self { method, params } = self;
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
    }
}

/// A word as a JSON string. Only for hex, tags and the like, which need no escapes.
pub(crate) fn quoted(word: impl std::fmt::Display) -> String {
    format!("\"{word}\"")
}

/// Why a call has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Fault {
    /// The node's own error.
    #[error("error {code}: {message}")]
    Node {
        code: i64,
        /// Cut, on one line, without addresses.
        message: String,
        /// The hex that comes with a revert.
        data: Option<String>,
    },
    #[error("the rate limit is reached")]
    Limited,
    #[error("HTTP status {0}")]
    Status(u16),
    #[error("no answer within the deadline")]
    TimedOut,
    /// The deadline was over before it was the call's turn: nobody is to blame.
    #[error("no time was left to ask")]
    NoTime,
    /// Nothing was sent.
    #[error("not reached: {0}")]
    Unreached(String),
    #[error("the connection broke: {0}")]
    Broken(String),
    #[error("the answer is above {0} bytes")]
    TooLarge(usize),
    /// Others of its batch have answers.
    #[error("no answer among those of its batch")]
    Unanswered,
    #[error("the answer is not JSON-RPC: {0}")]
    Garbled(&'static str),
}

impl Fault {
    /// Whether it speaks of how often or how much we ask.
    pub(crate) fn is_limit(&self) -> bool {
        match self {
            Self::Limited => true,
            Self::Node { code, message, .. } => is_limit(*code, message),
            Self::Status(_)
            | Self::TimedOut
            | Self::NoTime
            | Self::Unreached(_)
            | Self::Broken(_)
            | Self::TooLarge(_)
            | Self::Unanswered
            | Self::Garbled(_) => false,
        }
    }

    /// Whether it speaks of batches rather than of the call.
    pub(crate) fn is_of_batches(&self) -> bool {
        match self {
            Self::Node { message, .. } => {
                let message = message.to_ascii_lowercase();
                message.contains("batch") || message.contains("response too large")
            }
            Self::Unanswered => true,
            Self::Limited
            | Self::Status(_)
            | Self::TimedOut
            | Self::NoTime
            | Self::Unreached(_)
            | Self::Broken(_)
            | Self::TooLarge(_)
            | Self::Garbled(_) => false,
        }
    }

    /// Whether the node does not have the method, or not with such parameters.
    pub(crate) fn is_of_method(&self) -> bool {
        let Self::Node { code, message, .. } = self else {
            return false;
        };
        let message = message.to_ascii_lowercase();
        let texts = [
            "method not found",
            "does not exist",
            "not supported",
            "not available",
        ];
        matches!(*code, -32601 | -32602 | -32004) || texts.iter().any(|text| message.contains(text))
    }
}

impl From<TransportError> for Fault {
    fn from(error: TransportError) -> Self {
        match error {
            TransportError::Unreachable(why) => Self::Unreached(text::cleaned(&why)),
            TransportError::TimedOut => Self::TimedOut,
            TransportError::Broken(why) => Self::Broken(text::cleaned(&why)),
            TransportError::TooLarge { max } => Self::TooLarge(max),
        }
    }
}

/// What providers say when we ask too often. Besu uses the same code for gas.
pub(crate) fn is_limit(code: i64, message: &str) -> bool {
    const TEXTS: [&str; 5] = [
        "rate limit",
        "too many requests",
        "request limit",
        "compute units",
        "request rate",
    ];
    let message = message.to_ascii_lowercase();
    let by_code = matches!(code, -32005 | 429) && !message.contains("gas");
    by_code || TEXTS.iter().any(|text| message.contains(text))
}

/// What became of one call.
pub(crate) type Answer = Result<Box<RawValue>, Fault>;

/// One call's body.
pub(crate) fn single(call: &Call, id: u64) -> String {
    call.text(id)
}

/// A batch's body; ids count up from the first.
pub(crate) fn batch<'a>(calls: impl Iterator<Item = &'a Call>, first: u64) -> String {
    let texts: Vec<_> = calls.zip(first..).map(|(call, id)| call.text(id)).collect();
    format!("[{}]", texts.join(","))
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    // A result may be null, which is not the same as none.
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

fn present<'de, D>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error>
where
    D: serde::Deserializer<'de>,
{
    <&RawValue>::deserialize(deserializer).map(Some)
}

impl Envelope<'_> {
    /// Some gateways give ids back as strings.
    fn id(&self) -> Option<u64> {
        self.id?.get().trim_matches('"').parse().ok()
    }

    fn answer(&self) -> Answer {
        match (self.error, self.result) {
            (Some(error), _) => Err(node_error(error)),
            (None, Some(result)) => Ok(result.to_owned()),
            (None, None) => Err(Fault::Garbled("neither result nor error")),
        }
    }
}

#[derive(Deserialize)]
struct WireError<'a> {
    #[serde(default)]
    code: i64,
    #[serde(default)]
    message: String,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
}

fn node_error(error: &RawValue) -> Fault {
    if let Ok(message) = serde_json::from_str::<String>(error.get()) {
        return Fault::Node {
            code: 0,
            message: text::cleaned(&message),
            data: None,
        };
    }
    match serde_json::from_str::<WireError<'_>>(error.get()) {
        Ok(error) => Fault::Node {
            code: error.code,
            message: text::cleaned(&error.message),
            data: error.data.and_then(revert_data),
        },
        Err(_) => Fault::Garbled("an error without code and message"),
    }
}

/// Clients give the data of a revert as hex, behind a word, or within an object.
fn revert_data(data: &RawValue) -> Option<String> {
    #[derive(Deserialize)]
    struct Within {
        data: String,
    }
    let whole = serde_json::from_str::<String>(data.get());
    let found = whole.or_else(|_| serde_json::from_str::<Within>(data.get()).map(|at| at.data));
    let found = found.ok()?;
    let hex = &found[found.find("0x")?..];
    (hex.len() <= value::DATA_CHARS_MAX).then(|| hex.to_owned())
}

/// What came back for a batch.
#[derive(Debug)]
pub(crate) enum Batch {
    /// One entry for each call.
    Answers(Vec<Answer>),
    /// The endpoint does not take this batch, but may take a smaller one.
    Refused(Fault),
    /// Nothing can be told of any call.
    Failed(Fault),
}

/// Matches the answers with the calls. An id that is missing, or there twice, leaves its call
/// unanswered: which of two answers is right nobody can say.
pub(crate) fn read_batch(response: &Response, first: u64, calls: usize) -> Batch {
    match passable(response.status) {
        Ok(()) => {}
        Err(Fault::Limited) => return Batch::Failed(Fault::Limited),
        // Gateways give up on batches with statuses of any kind; a single call will tell.
        Err(fault) => return Batch::Refused(fault),
    }
    let Ok(entries) = serde_json::from_slice::<Vec<&RawValue>>(&response.body) else {
        return match lone_error(response) {
            Some(fault) if fault.is_limit() => Batch::Failed(fault),
            Some(fault) => Batch::Refused(fault),
            None if response.status == 200 => Batch::Refused(Fault::Garbled("no array")),
            None => Batch::Refused(Fault::Status(response.status)),
        };
    };
    let mut answers: Vec<Option<Answer>> = vec![None; calls];
    let mut seen = vec![0_u8; calls];
    for entry in entries {
        let Ok(envelope) = serde_json::from_str::<Envelope<'_>>(entry.get()) else {
            continue;
        };
        let place = envelope.id().and_then(|id| id.checked_sub(first));
        let Some(place) = place.and_then(|place| usize::try_from(place).ok()) else {
            continue;
        };
        if let Some(answer) = answers.get_mut(place) {
            seen[place] = seen[place].saturating_add(1);
            *answer = (seen[place] == 1).then(|| envelope.answer());
        }
    }
    let answers: Vec<_> = answers
        .into_iter()
        .map(|answer| answer.unwrap_or(Err(Fault::Unanswered)))
        .collect();
    let of_batches = |answer: &Answer| answer.as_ref().is_err_and(Fault::is_of_batches);
    if answers.iter().all(of_batches) {
        return Batch::Refused(Fault::Unanswered);
    }
    Batch::Answers(answers)
}

/// The answer to a call that was sent alone.
pub(crate) fn read_single(response: &Response, id: u64) -> Answer {
    passable(response.status)?;
    match serde_json::from_slice::<Envelope<'_>>(&response.body) {
        Ok(envelope) if envelope.id() == Some(id) => envelope.answer(),
        // A node that could not read the call does not know its id.
        Ok(envelope) if envelope.id.is_none() && envelope.error.is_some() => envelope.answer(),
        Ok(_) => Err(Fault::Garbled("it names another call")),
        Err(_) if response.status == 200 => Err(Fault::Garbled("no JSON-RPC")),
        Err(_) => Err(Fault::Status(response.status)),
    }
}

/// A gateway's words are not the node's: only bodies of the node are read. Nodes use 4xx, too.
fn passable(status: u16) -> Result<(), Fault> {
    match status {
        429 => Err(Fault::Limited),
        200..=299 | 400..=499 => Ok(()),
        other => Err(Fault::Status(other)),
    }
}

fn lone_error(response: &Response) -> Option<Fault> {
    let envelope = serde_json::from_slice::<Envelope<'_>>(&response.body).ok()?;
    envelope.error.map(node_error)
}

#[cfg(test)]
mod tests;
