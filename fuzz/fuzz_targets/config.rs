//! The text of a configuration, and variables of the environment above it: any text is a configuration
//! or has mistakes that are told; what is shown of it is a configuration again; and nothing that is
//! secret is ever shown or told. The same for the file of API keys.
//!
//! An input is variables, a line each, and behind an empty line the file. A line that begins with `@`
//! stands in the store's URL, before and behind the secret in its password. The parser belongs to a program, so its source is
//! compiled in here.

#![no_main]
#![allow(dead_code, reason = "a fuzzer reads what a node would go on to use")]

#[path = "../../crates/node/src"]
mod node {
    pub(crate) mod config;
}

use fencepost_fuzz::mutate::mutate;
use fencepost_http::Access;
use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use node::config::Config;
use node::config::environment::Environment;
use node::config::problem::{Problem, Problems};

/// Stands in secret places of the environment. No input has it by chance.
const SECRET: &str = "hOrSe-9d4f1c77-bAtTeRy";
/// More variables are not read: an input is short.
const VARIABLES_MAX: usize = 8;

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutate(data, size, max_size, seed)
});

fuzz_target!(|input: &[u8]| {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    if text.contains(SECRET) {
        return;
    }
    let (variables, file) = text.split_once("\n\n").unwrap_or(("", text));
    let mut environment = Environment::default()
        .with(
            "FENCEPOST__STORE__URL",
            &format!("postgres://f:{SECRET}@db/f"),
        )
        .with("SECRET_A", SECRET)
        .with("SECRET_B", &SECRET[..8]);
    for line in variables.lines().take(VARIABLES_MAX) {
        if line.starts_with('@') {
            let url = format!("postgres://f:{line}{SECRET}{line}");
            environment = environment.with("FENCEPOST__STORE__URL", &url);
        } else if let Some((name, value)) = line.split_once('=') {
            environment = environment.with(name, value);
        }
    }
    // Files that are named would be read, whatever they are.
    let plain = text.to_ascii_lowercase();
    let names_files = ["file", "keystore", "\\"]
        .iter()
        .any(|part| plain.contains(part));
    for environment in [environment, Environment::default()] {
        check(file, &environment);
        if !names_files {
            check_serving(file, &environment);
        }
    }
    match Access::from_toml(file) {
        Ok(access) => assert!(!access.is_open(), "a file of keys lets everyone in"),
        Err(wrong) => assert!(!wrong.is_empty(), "refused for no reason"),
    }
});

fn check(file: &str, environment: &Environment) {
    match Config::parse(file, environment) {
        Ok(config) => {
            let shown = config.print();
            check_told(&config.warnings);
            assert!(!shown.contains(SECRET), "a secret is shown:\n{shown}");
            again(&shown);
        }
        Err(Problems(problems)) => {
            assert!(!problems.is_empty(), "refused for no reason:\n{file}");
            check_told(&problems);
        }
    }
}

fn check_serving(file: &str, environment: &Environment) {
    match Config::parse_to_serve(file, environment) {
        Ok((config, serving)) => assert_eq!(config.signers.len(), serving.senders.len()),
        Err(Problems(problems)) => {
            assert!(!problems.is_empty(), "refused for no reason:\n{file}");
            check_told(&problems);
        }
    }
}

/// What is shown can be read, and shows the same.
fn again(shown: &str) {
    match Config::parse(shown, &Environment::default()) {
        Ok(config) => assert_eq!(config.print(), shown),
        Err(problems) => panic!("what is shown is no configuration: {problems}\n{shown}"),
    }
}

fn check_told(problems: &[Problem]) {
    for problem in problems {
        let told = problem.to_string();
        assert!(!problem.why.is_empty(), "no reason: {told}");
        assert!(!told.contains(SECRET), "a secret is told: {told}");
    }
}
