//! `fencepost bench` on the command line.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use fencepost_bench::Case;

/// What is measured, and on what.
#[derive(Args)]
pub(crate) struct Bench {
    /// Short measurements and small tables: everything within five minutes. Without it, within an hour.
    #[arg(long)]
    pub(crate) quick: bool,

    /// Print one JSON object for each case on stdout instead of tables.
    #[arg(long)]
    pub(crate) json: bool,

    /// Measure only this; may be given several times.
    #[arg(long = "case", value_name = "NAME", value_parser = cases())]
    pub(crate) cases: Vec<Case>,

    /// Use this PostgreSQL server instead of starting one. Its user must be allowed to make databases; those
    /// that were made are dropped at the end. CPU time of a server that is not ours is not known.
    #[arg(
        long,
        value_name = "URL",
        env = "FENCEPOST_BENCH_STORE",
        hide_env_values = true
    )]
    pub(crate) store: Option<String>,

    /// How many nodes creates are spread over. Each has its own share of the signers.
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=16))]
    pub(crate) nodes: u8,

    /// Send to this chain instead of the built-in one. Its accounts must be those of the usual test phrase
    /// ("test test … junk"), as anvil's are.
    #[arg(long, value_name = "URL")]
    pub(crate) rpc: Option<String>,

    /// How long each figure is measured, 0.1 to 60; by default 1.5 with --quick and 8 without.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) seconds: Option<f64>,

    /// Draw the figures into this directory, which is made if need be: CASE.svg for each case, and CASE-time.svg of how
    /// they went slice by slice.
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) plots: Option<PathBuf>,
}

fn cases() -> impl TypedValueParser<Value = Case> {
    let value = |case: &Case| PossibleValue::new(case.word()).help(case.about());
    PossibleValuesParser::new(Case::ALL.iter().map(value)).try_map(|word| {
        let found = Case::ALL.into_iter().find(|case| case.word() == word);
        found.ok_or("no such case")
    })
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "must be a number".to_owned())?;
    let range = fencepost_bench::SECONDS;
    if range.contains(&seconds) {
        Ok(seconds)
    } else {
        Err(format!(
            "must be within {} and {}",
            range.start(),
            range.end()
        ))
    }
}
