//! What can go wrong with asking the store anything. Answers are not errors.

use std::error::Error;
use std::fmt;
use std::iter::repeat_n;
use std::sync::Arc;

use fencepost_domain::ids::Corrupt;

type Source = Box<dyn Error + Send + Sync>;

/// Why a question could not be put to the store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// It cannot be reached, or refused to begin. Nothing was written.
    #[error("the store is unavailable; nothing was written")]
    Unavailable(#[source] Source),
    /// The reply was lost. It may have been written, and may still be.
    #[error("the store's reply was lost; the outcome is unknown")]
    OutcomeUnknown(#[source] Source),
    /// Others hold what we need, for longer than we wait. Nothing was written.
    #[error("the store is busy; nothing was written")]
    Busy(#[source] Source),
    /// No room on its disk. Nothing was written.
    #[error("the store's disk is full; nothing was written")]
    Full(#[source] Source),
    /// The caller sent what can never be stored. Nothing was written.
    #[error("the store was asked for the impossible: {0}")]
    Invalid(String),
    /// A constraint stopped a statement of ours: a mistake in this program. Nothing was written.
    #[error("a constraint of the store stopped the write; nothing was written")]
    Constraint(#[source] Source),
    /// It holds what we never wrote.
    #[error("the store holds what was never written")]
    Corrupt(#[from] Corrupt),
    /// Its settings or version cannot keep the promises.
    #[error("the store cannot be used: {0}")]
    Unfit(String),
    /// Another process uses the same embedded store.
    #[error("{0}")]
    InUse(String),
}

impl StoreError {
    /// Every word of [`Self::word`].
    pub const WORDS: [&'static str; 9] = [
        "unavailable",
        "unknown",
        "busy",
        "full",
        "invalid",
        "constraint",
        "corrupt",
        "unfit",
        "in_use",
    ];

    /// The word that metrics show.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Unavailable(_) => "unavailable",
            Self::OutcomeUnknown(_) => "unknown",
            Self::Busy(_) => "busy",
            Self::Full(_) => "full",
            Self::Invalid(_) => "invalid",
            Self::Constraint(_) => "constraint",
            Self::Corrupt(_) => "corrupt",
            Self::Unfit(_) => "unfit",
            Self::InUse(_) => "in_use",
        }
    }
}

/// One cause of several errors.
#[derive(Debug, Clone)]
struct Shared(Arc<dyn Error + Send + Sync>);

impl fmt::Display for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for Shared {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}

impl StoreError {
    /// The same for each of so many who asked together.
    pub(crate) fn repeated(self, times: usize) -> Vec<Self> {
        match self {
            Self::Unavailable(source) => for_all(source, times, Self::Unavailable),
            Self::OutcomeUnknown(source) => for_all(source, times, Self::OutcomeUnknown),
            Self::Busy(source) => for_all(source, times, Self::Busy),
            Self::Full(source) => for_all(source, times, Self::Full),
            Self::Constraint(source) => for_all(source, times, Self::Constraint),
            Self::Invalid(text) => repeat_n(text, times).map(Self::Invalid).collect(),
            Self::Corrupt(corrupt) => repeat_n(corrupt, times).map(Self::Corrupt).collect(),
            Self::Unfit(text) => repeat_n(text, times).map(Self::Unfit).collect(),
            Self::InUse(text) => repeat_n(text, times).map(Self::InUse).collect(),
        }
    }
}

fn for_all(source: Source, times: usize, kind: fn(Source) -> StoreError) -> Vec<StoreError> {
    let shared = Shared(Arc::from(source));
    repeat_n(shared, times)
        .map(|shared| kind(Box::new(shared)))
        .collect()
}
