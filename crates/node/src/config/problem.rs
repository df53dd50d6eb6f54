//! What is wrong with a configuration: all of it at once, each mistake with its path and a reason.

use std::fmt;

/// One mistake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    /// The key, the file or the variable.
    pub(crate) path: String,
    /// What is wrong with it, as the rest of a sentence.
    pub(crate) why: String,
}

impl Problem {
    pub(crate) fn new(path: impl fmt::Display, why: impl Into<String>) -> Self {
        Self {
            path: path.to_string(),
            why: why.into(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.why)
    }
}

/// All mistakes of a configuration; never none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problems(pub(crate) Vec<Problem>);

impl From<Problem> for Problems {
    fn from(problem: Problem) -> Self {
        Self(vec![problem])
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, problem) in self.0.iter().enumerate() {
            let gap = if n == 0 { "" } else { "\n" };
            write!(f, "{gap}{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}
