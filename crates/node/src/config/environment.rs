//! The environment as the configuration sees it: given, not reached for, so that tests have their own.

use std::collections::BTreeMap;
use std::ffi::OsString;

use super::path::PREFIX;
use super::problem::Problem;

/// Variables and their values.
#[derive(Default)]
pub(crate) struct Environment(BTreeMap<OsString, OsString>);

impl Environment {
    /// That of this process.
    pub(crate) fn of_process() -> Self {
        Self(std::env::vars_os().collect())
    }

    #[cfg(test)]
    pub(crate) fn of<const N: usize>(variables: [(&str, &str); N]) -> Self {
        let owned = variables.map(|(name, value)| (name.into(), value.into()));
        Self(owned.into_iter().collect())
    }

    /// With one more variable.
    #[must_use]
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.0.insert(name.into(), value.into());
        self
    }

    /// A variable's text; what is no text is as good as not there, and is reported by [`Self::overrides`].
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(&OsString::from(name))?.to_str()
    }

    /// The names of all variables that want to set a key, and those that no one can read.
    pub(crate) fn overrides(&self) -> (Vec<&str>, Vec<Problem>) {
        let mut names = Vec::new();
        let mut problems = Vec::new();
        for (name, value) in &self.0 {
            let Some(name) = name.to_str().filter(|name| name.starts_with(PREFIX)) else {
                continue;
            };
            if value.to_str().is_some() {
                names.push(name);
            } else {
                problems.push(Problem::new(name, "is not UTF-8 text"));
            }
        }
        (names, problems)
    }
}
