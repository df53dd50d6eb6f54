//! The command line.

use std::path::PathBuf;

use clap::Parser;

use crate::fault::Kind;

/// Three real nodes, a real PostgreSQL and two chains under load and a seeded schedule of faults; then a check
/// of everything that clients were told against the database and the chains.
#[derive(Debug, Parser)]
#[command(name = "fencepost-chaos", version)]
pub(crate) struct Args {
    /// How long load and faults last, in minutes.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub(crate) minutes: u64,
    /// Decides which faults strike whom, when and for how long.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Requests in a second, all businesses together, while the nodes keep up.
    #[arg(long, default_value_t = 110, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub(crate) rate: u64,
    /// Only these kinds of faults, separated by commas.
    #[arg(long, value_delimiter = ',', value_parser = Kind::parse)]
    pub(crate) faults: Vec<Kind>,
    /// No faults at all.
    #[arg(long, conflicts_with = "faults")]
    pub(crate) calm: bool,
    /// Where the summary is written besides.
    #[arg(long)]
    pub(crate) json: Option<PathBuf>,
    /// Keep the logs although all is well.
    #[arg(long)]
    pub(crate) keep: bool,
}
