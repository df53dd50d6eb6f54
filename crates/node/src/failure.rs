//! How a command ends when it does not end well. The exit code tells scripts and supervisors which
//! kind it was; the text tells people.

use std::error::Error;
use std::time::Duration;

use fencepost_app::causes::Causes;
use fencepost_domain::ids::Incarnation;

use crate::config::problem::Problems;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The configuration has mistakes.
    #[error("{0}")]
    Config(#[from] Problems),
    /// The command line asks for what makes no sense.
    #[error("{0}")]
    Usage(String),
    /// What was tried did not work.
    #[error("{doing}")]
    Failed {
        /// What was tried.
        doing: String,
        /// Why it did not work.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// A node answered that it will not.
    #[error("{0}")]
    Refused(String),
    /// A node did not answer, or said that it cannot now: asking again is the remedy.
    #[error("{told}")]
    NotNow {
        /// What it said.
        told: String,
        /// When to ask again, where it said that.
        after: Option<Duration>,
    },
    /// Another process runs under this node id.
    #[error("another process runs under this node id: start {0} of it has joined")]
    Ghost(Incarnation),
}

impl Failure {
    pub(crate) fn new(
        doing: impl Into<String>,
        source: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> Self {
        Self::Failed {
            doing: doing.into(),
            source: source.into(),
        }
    }

    /// 1 for a failure, 2 for what the caller must change first, 3 where restarting would harm.
    pub(crate) const fn code(&self) -> u8 {
        match self {
            Self::Failed { .. } | Self::Refused(_) | Self::NotNow { .. } => 1,
            Self::Config(_) | Self::Usage(_) => 2,
            Self::Ghost(_) => 3,
        }
    }

    /// What there is to tell, one text for each line of a log.
    pub(crate) fn lines(&self) -> Vec<String> {
        match self {
            Self::Config(Problems(problems)) => problems.iter().map(ToString::to_string).collect(),
            Self::Usage(_) | Self::Failed { .. } | Self::Refused(_) | Self::NotNow { .. } => {
                vec![Causes(self).to_string()]
            }
            // The node has logged it where it was seen, with its code.
            Self::Ghost(_) => Vec::new(),
        }
    }
}
