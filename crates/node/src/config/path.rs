//! Where a value stands in the configuration: `chain[1].fees.bump_percent` to a person,
//! `FENCEPOST__CHAIN__1__FEES__BUMP_PERCENT` to the environment.

use std::fmt;

/// What every variable that sets a key begins with.
pub(crate) const PREFIX: &str = "FENCEPOST__";

/// A place in the configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Path(Vec<Step>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Key(String),
    Place(usize),
}

impl Path {
    pub(crate) fn key(&self, name: &str) -> Self {
        self.with(Step::Key(name.to_owned()))
    }

    pub(crate) fn place(&self, place: usize) -> Self {
        self.with(Step::Place(place))
    }

    fn with(&self, step: Step) -> Self {
        let mut steps = self.0.clone();
        steps.push(step);
        Self(steps)
    }

    /// The variable that sets this key.
    pub(crate) fn variable(&self) -> String {
        let steps: Vec<String> = self.0.iter().map(Step::in_variable).collect();
        format!("{PREFIX}{}", steps.join("__"))
    }
}

impl Step {
    fn in_variable(&self) -> String {
        match self {
            Self::Key(name) => name.to_uppercase(),
            Self::Place(place) => place.to_string(),
        }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, step) in self.0.iter().enumerate() {
            match step {
                Step::Key(name) if n == 0 => f.write_str(name)?,
                Step::Key(name) => write!(f, ".{name}")?,
                Step::Place(place) => write!(f, "[{place}]")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_has_one_spelling_for_people_and_one_for_the_environment() {
        let path = Path::default()
            .key("chain")
            .place(1)
            .key("fees")
            .key("bump_percent");
        assert_eq!(path.to_string(), "chain[1].fees.bump_percent");
        assert_eq!(path.variable(), "FENCEPOST__CHAIN__1__FEES__BUMP_PERCENT");
    }
}
