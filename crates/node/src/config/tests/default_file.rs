//! `config.default.toml` is complete and true: every key that exists, with the value it has when it
//! is left out.

use std::collections::BTreeSet;

use toml::{Table, Value};

use super::super::environment::Environment;
use super::super::path::PREFIX;
use super::super::section::{Findings, Section};
use super::super::{Config, Draft};
use super::{LEAST, parse};

const FILE: &str = include_str!("../../../../../config.default.toml");

/// The file with its examples made real: `#key = …`, while a comment is `# A sentence`.
fn with_examples() -> String {
    let real = |line: &'static str| match line.strip_prefix('#') {
        Some(rest) if rest.starts_with(|c: char| c.is_ascii_lowercase() || c == '[') => rest,
        Some(_) | None => line,
    };
    FILE.lines().map(real).collect::<Vec<_>>().join("\n")
}

fn printed(config: Result<Config, impl std::fmt::Display>) -> Table {
    let config = config.unwrap_or_else(|problems| panic!("{problems}"));
    config.print().parse().expect("what is printed is TOML")
}

#[test]
fn its_values_are_those_that_keys_have_when_they_are_left_out() {
    assert_eq!(printed(parse(FILE)), printed(parse(LEAST)));
}

#[test]
fn its_examples_are_good() {
    printed(parse(&with_examples()));
}

#[test]
fn it_has_every_key_that_exists() {
    let table: Table = with_examples().parse().expect("TOML");
    let mut here = BTreeSet::new();
    names(&Value::Table(table.clone()), "", &mut here);
    let mut findings = Findings::default();
    Section::root(table, &Environment::default(), &mut findings, Draft::read);
    let all: BTreeSet<String> = findings
        .variables
        .iter()
        .map(|variable| {
            let steps = variable.strip_prefix(PREFIX).expect("ours").split("__");
            let names: Vec<_> = steps
                .filter(|step| step.parse::<usize>().is_err())
                .collect();
            names.join(".").to_lowercase()
        })
        .collect();
    assert!(all.len() > 50, "{all:?}");
    let missing: Vec<_> = all.difference(&here).collect();
    assert!(missing.is_empty(), "config.default.toml lacks {missing:?}");
}

/// The paths of all plain values, without places in lists.
fn names(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Table(table) => {
            for (name, value) in table {
                let dot = if path.is_empty() { "" } else { "." };
                names(value, &format!("{path}{dot}{name}"), found);
            }
        }
        Value::Array(items) if items.iter().any(Value::is_table) => {
            for item in items {
                names(item, path, found);
            }
        }
        Value::Array(_)
        | Value::String(_)
        | Value::Integer(_)
        | Value::Float(_)
        | Value::Boolean(_)
        | Value::Datetime(_) => drop(found.insert(path.to_owned())),
    }
}
