//! What clients asked and were told, what was sampled, and what was done to the nodes: the lines of the log
//! that the checker reads. Times are microseconds since 1970, as the database's can be read, too.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

pub(crate) type Micros = u64;

pub(crate) fn now() -> Micros {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
    })
}

/// What a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Purpose {
    Transfer,
    /// A call that the chain reverts.
    Revert,
    /// A transfer that is not wanted any more when it has waited for long.
    Expiring,
}

/// What a client heard. No status: nothing that can be understood.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Answer {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) code: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tx: Option<String>,
}

/// What an answer promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meaning {
    Done,
    /// Nothing was stored.
    Refused,
    /// Nobody can know yet.
    Doubt,
}

impl Answer {
    pub(crate) fn meaning(&self) -> Meaning {
        match self.status {
            Some(200..=299) => Meaning::Done,
            Some(400..=499 | 503) => Meaning::Refused,
            Some(_) | None => Meaning::Doubt,
        }
    }
}

/// What became of a nonce that was lent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LoanWord {
    Submitted,
    Recycle,
}

/// A row of the feed, as a reader had it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FeedRow {
    pub(crate) seq: u64,
    pub(crate) tx: String,
    pub(crate) state: String,
    pub(crate) sub: Option<String>,
    pub(crate) hash: Option<String>,
    pub(crate) corrects: Option<u64>,
}

/// A lane's row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LaneSample {
    pub(crate) lane: usize,
    pub(crate) token: u64,
    pub(crate) cursor: u64,
    pub(crate) owner: Option<String>,
    pub(crate) paused: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub(crate) enum Note {
    /// Written before the first byte is sent. The value is no other request's, and so names the payload
    /// on the chain.
    Asked {
        at: Micros,
        request: String,
        lane: usize,
        value: u64,
        purpose: Purpose,
    },
    Told {
        at: Micros,
        sent: Micros,
        request: String,
        node: usize,
        answer: Answer,
    },
    /// An id that is known was used with another payload.
    Conflict {
        at: Micros,
        request: String,
        value: u64,
        answer: Answer,
    },
    /// A nonce was asked for. The answer's `tx` is the reservation's id.
    Lent {
        at: Micros,
        request: String,
        lane: usize,
        nonce: Option<u64>,
        answer: Answer,
    },
    /// A holder has signed, and may send from now on.
    Signed {
        at: Micros,
        loan: String,
        lane: usize,
        nonce: u64,
        value: u64,
        hash: String,
    },
    LoanSaid {
        at: Micros,
        loan: String,
        word: LoanWord,
        answer: Answer,
    },
    Remedy {
        at: Micros,
        tx: String,
        action: String,
        answer: Answer,
    },
    /// A lane was paused or resumed.
    Laned {
        at: Micros,
        lane: usize,
        verb: String,
        answer: Answer,
    },
    /// A page of the feed. Readers that go on read from where the page before ended.
    Fed {
        at: Micros,
        reader: usize,
        node: usize,
        after: u64,
        epoch: u64,
        goes_on: bool,
        rows: Vec<FeedRow>,
    },
    /// A transaction as one who asks again and again was told it.
    Looked {
        at: Micros,
        reader: usize,
        tx: String,
        state: String,
        sub: Option<String>,
    },
    /// A block was there when it was looked for: its own time says when it should have been, not when it was.
    Block { at: Micros, hash: String },
    Sampled {
        at: Micros,
        lanes: Vec<LaneSample>,
        feed: u64,
        epoch: u64,
    },
    /// A fault, when it is over or has done its work.
    Fault {
        at: Micros,
        until: Micros,
        kind: String,
        target: String,
        done: bool,
    },
    Killed {
        at: Micros,
        node: usize,
        lanes: Vec<usize>,
    },
    /// A node ended that nobody had ended.
    Ended {
        at: Micros,
        node: usize,
        how: String,
    },
    /// What was accepted did not end although all was well again.
    NotHealed { at: Micros, left: String },
}
