//! The configuration as its users meet it.

mod mistakes;
mod overrides;
mod printing;
mod default_file;
mod servable;
mod care;
mod any_text;

use super::Config;
use super::environment::Environment;
use super::problem::Problems;

/// The least that is a configuration.
const LEAST: &str = "[[chain]]\nname = 'main'\nid = 1\n";

fn parse(text: &str) -> Result<Config, Problems> {
    Config::parse(text, &Environment::default())
}

/// What is wrong with a text, one line for each mistake.
fn mistakes(text: &str) -> Vec<String> {
    let Err(Problems(problems)) = parse(text) else {
        return Vec::new();
    };
    problems.iter().map(ToString::to_string).collect()
}
