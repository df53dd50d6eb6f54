//! Why a call came to nothing, and what that says about whether it was done.

use std::time::Duration;

use crate::problem::{Code, Problem, is_passing};

/// What lies under an error of the network.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

/// How often a call was tried.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tries {
    /// How often in all.
    pub made: u32,
    /// How many of these may have been done without our hearing of it. Reads do nothing, so theirs is 0.
    pub unanswered: u32,
}

impl Tries {
    /// These and those.
    pub(crate) const fn plus(self, more: Self) -> Self {
        Self {
            made: self.made.saturating_add(more.made),
            unanswered: self.unanswered.saturating_add(more.unanswered),
        }
    }
}

/// Why a call came to nothing. [`Error::outcome_unknown`] says whether it may have been done all the same.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A node said no.
    #[error("{problem}")]
    Problem {
        /// What it said.
        problem: Box<Problem>,
        /// How often it was tried.
        tries: Tries,
    },
    /// No connection could be made to any node.
    #[error("no node can be connected to")]
    Unreachable {
        /// How often it was tried.
        tries: Tries,
        /// What the last one failed with.
        source: Cause,
    },
    /// There was no answer in time.
    #[error("there was no answer within {after:?}")]
    Timeout {
        /// How long the last try took.
        after: Duration,
        /// How often it was tried.
        tries: Tries,
    },
    /// The connection broke before the answer was there.
    #[error("the connection broke before the answer was there")]
    Cut {
        /// How often it was tried.
        tries: Tries,
        /// How it broke.
        source: Cause,
    },
    /// Something answered that does not speak this API: a proxy, or a server of another version.
    #[error("{status} with an answer that is not of this API: {why}")]
    Garbled {
        /// Its status.
        status: u16,
        /// What is strange about it.
        why: String,
        /// When to try again, if it says so.
        retry_after: Option<Duration>,
        /// How often it was tried.
        tries: Tries,
    },
    /// The client itself refused: nothing was sent.
    #[error("this cannot be sent: {0}")]
    Unsendable(String),
}

impl Error {
    /// What the node said, if one did.
    #[must_use]
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Self::Problem { problem, .. } => Some(problem),
            Self::Unreachable { .. }
            | Self::Timeout { .. }
            | Self::Cut { .. }
            | Self::Garbled { .. }
            | Self::Unsendable(_) => None,
        }
    }

    /// The code of what the node said, if one did.
    #[must_use]
    pub fn code(&self) -> Option<&Code> {
        self.problem().map(|problem| &problem.code)
    }

    /// How often the call was tried.
    #[must_use]
    pub const fn tries(&self) -> Tries {
        match self {
            Self::Problem { tries, .. }
            | Self::Unreachable { tries, .. }
            | Self::Timeout { tries, .. }
            | Self::Cut { tries, .. }
            | Self::Garbled { tries, .. } => *tries,
            Self::Unsendable(_) => Tries {
                made: 0,
                unanswered: 0,
            },
        }
    }

    /// The same call may be answered otherwise a little later. The client itself has tried such calls again
    /// until its bounds were used up, except where a repeat could have done something twice.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Problem { problem, .. } => problem.is_passing(),
            Self::Unreachable { .. } | Self::Timeout { .. } | Self::Cut { .. } => true,
            Self::Garbled { status, .. } => is_passing(*status),
            Self::Unsendable(_) => false,
        }
    }

    /// What was asked for may have been done, or may still be. It stays true when an earlier try was not
    /// answered and a later one was refused: the refusal speaks for its own try only. Repeat the call under
    /// the same request id, or look; do not ask for the same thing under another name.
    #[must_use]
    pub fn outcome_unknown(&self) -> bool {
        // The id is another request's for ever, so no try of this one can be stored under it.
        let taken = self.code() == Some(&Code::IdempotencyConflict);
        self.tries().unanswered > 0 && !taken
    }

    /// There is no such thing, or none that the key may see.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.code() == Some(&Code::NotFound)
    }

    /// What a node said, if it said one of these; else the error as it is.
    pub(crate) fn saying(self, codes: &[Code]) -> Result<Box<Problem>, Self> {
        match self {
            Self::Problem { problem, .. } if codes.contains(&problem.code) => Ok(problem),
            Self::Problem { .. }
            | Self::Unreachable { .. }
            | Self::Timeout { .. }
            | Self::Cut { .. }
            | Self::Garbled { .. }
            | Self::Unsendable(_) => Err(self),
        }
    }

    /// How long to wait before another try, as the other side asks.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Problem { problem, .. } => problem.retry_after(),
            Self::Garbled { retry_after, .. } => *retry_after,
            Self::Unreachable { .. }
            | Self::Timeout { .. }
            | Self::Cut { .. }
            | Self::Unsendable(_) => None,
        }
    }

    /// The try that failed with this certainly did nothing. What is not an answer of this API proves nothing.
    pub(crate) fn is_nothing_done(&self) -> bool {
        match self {
            Self::Problem { problem, .. } => problem.is_nothing_done(),
            Self::Unreachable { .. } | Self::Unsendable(_) => true,
            Self::Timeout { .. } | Self::Cut { .. } | Self::Garbled { .. } => false,
        }
    }

    /// Another node may do better than the one that failed with this. A key's rate is no node's fault.
    pub(crate) fn is_of_one_node(&self) -> bool {
        match self {
            Self::Problem { problem, .. } => problem.is_passing() && problem.status != 429,
            Self::Garbled { status, .. } => is_passing(*status) && *status != 429,
            Self::Unreachable { .. } | Self::Timeout { .. } | Self::Cut { .. } => true,
            Self::Unsendable(_) => false,
        }
    }

    /// The same, after this many tries.
    pub(crate) fn after(mut self, all: Tries) -> Self {
        match &mut self {
            Self::Problem { tries, .. }
            | Self::Unreachable { tries, .. }
            | Self::Timeout { tries, .. }
            | Self::Cut { tries, .. }
            | Self::Garbled { tries, .. } => *tries = all,
            Self::Unsendable(_) => {}
        }
        self
    }
}
