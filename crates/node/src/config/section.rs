//! One table of the configuration while it is read.
//!
//! It is walked by hand: serde, and the `config` crate on top of it, stop at the first mistake and
//! name a field of a Rust type. Here every key is asked for by name with its default, so one pass
//! knows all mistakes with their paths, which keys exist, and what `config print` shows.

use std::collections::BTreeSet;

use toml::{Table, Value};

use super::environment::Environment;
use super::path::Path;
use super::problem::Problem;

/// What one pass over the configuration finds.
#[derive(Default)]
pub(crate) struct Findings {
    pub(crate) problems: Vec<Problem>,
    pub(crate) warnings: Vec<Problem>,
    /// The variables that could have set something.
    pub(crate) variables: BTreeSet<String>,
}

/// A table and what is left of it.
pub(crate) struct Section<'a> {
    pub(super) environment: &'a Environment,
    pub(super) findings: &'a mut Findings,
    pub(super) path: Path,
    pub(super) rest: Table,
    pub(super) known: Vec<&'static str>,
    shown: Table,
}

impl<'a> Section<'a> {
    /// Reads the whole configuration with `read`; returns what it made and the effective values.
    pub(crate) fn root<T>(
        file: Table,
        environment: &'a Environment,
        findings: &'a mut Findings,
        read: impl FnOnce(&mut Section<'_>) -> T,
    ) -> (T, Table) {
        let root = Section {
            environment,
            findings,
            path: Path::default(),
            rest: file,
            known: Vec::new(),
            shown: Table::new(),
        };
        root.walk(read)
    }

    fn walk<T>(mut self, read: impl FnOnce(&mut Section<'_>) -> T) -> (T, Table) {
        let made = read(&mut self);
        let known = self.known.join(", ");
        for (name, _) in std::mem::take(&mut self.rest) {
            self.refuse(&name, format!("is no key there is; here are: {known}"));
        }
        (made, self.shown)
    }

    fn inner(&mut self, path: Path, rest: Table) -> Section<'_> {
        Section {
            environment: self.environment,
            findings: &mut *self.findings,
            path,
            rest,
            known: Vec::new(),
            shown: Table::new(),
        }
    }

    /// A table within this one; one that is not there is empty.
    pub(crate) fn section<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&mut Section<'_>) -> T,
    ) -> T {
        self.known.push(name);
        let table = match self.rest.remove(name) {
            None => Table::new(),
            Some(Value::Table(table)) => table,
            Some(other) => {
                let kind = other.type_str();
                self.refuse(name, format!("must be a table, not {kind}"));
                Table::new()
            }
        };
        let path = self.path.key(name);
        let (made, shown) = self.inner(path, table).walk(read);
        if !shown.is_empty() {
            self.show(name, Value::Table(shown));
        }
        made
    }

    /// Tables of one name, `[[name]]`, in order.
    pub(crate) fn each<T>(
        &mut self,
        name: &'static str,
        mut read: impl FnMut(&mut Section<'_>) -> T,
    ) -> Vec<T> {
        self.known.push(name);
        let items = match self.rest.remove(name) {
            None => Vec::new(),
            Some(Value::Array(items)) => items,
            Some(_) => {
                self.refuse(
                    name,
                    format!("must be written as [[{}]]", self.path.key(name)),
                );
                Vec::new()
            }
        };
        let (mut made, mut shown) = (Vec::new(), Vec::new());
        for (place, item) in items.into_iter().enumerate() {
            let path = self.path.key(name).place(place);
            let Value::Table(table) = item else {
                let problem = Problem::new(path, "must be a table");
                self.findings.problems.push(problem);
                continue;
            };
            let (one, values) = self.inner(path, table).walk(&mut read);
            made.push(one);
            shown.push(Value::Table(values));
        }
        if !shown.is_empty() {
            self.show(name, Value::Array(shown));
        }
        made
    }

    /// Notes a mistake in a key of this table.
    pub(crate) fn refuse(&mut self, name: &str, why: impl Into<String>) {
        let problem = Problem::new(self.path.key(name), why);
        self.findings.problems.push(problem);
    }

    /// Notes that a key without a default is not there, unless it is there and wrong.
    pub(crate) fn refuse_missing(&mut self, name: &str) {
        if self.is_sound(&self.path.key(name).to_string()) {
            self.refuse(name, "is needed");
        }
    }

    /// Notes what works but is most likely not wanted.
    pub(crate) fn warn(&mut self, name: &str, why: impl Into<String>) {
        let warning = Problem::new(self.path.key(name), why);
        self.findings.warnings.push(warning);
    }

    /// Whether nothing is known against a key, given by its whole path: what is compared with a
    /// default that stands in for a mistake would be reported for nothing.
    pub(crate) fn is_sound(&self, path: &str) -> bool {
        self.findings
            .problems
            .iter()
            .all(|problem| problem.path != path)
    }

    /// What `config print` shows for a key.
    pub(crate) fn show(&mut self, name: &str, value: Value) {
        self.shown.insert(name.to_owned(), value);
    }
}
