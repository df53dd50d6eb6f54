//! `fencepost demo` on the command line.

use clap::Args;

/// What the story is told with.
#[derive(Args)]
pub(crate) struct Demo {
    /// How many transactions are sent.
    #[arg(long, value_name = "COUNT", default_value_t = 200, value_parser = clap::value_parser!(u32).range(20..=2_000))]
    pub(crate) transactions: u32,

    /// How many signers they are sent from.
    #[arg(long, value_name = "COUNT", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=20))]
    pub(crate) signers: u32,

    /// Keep the directory with the node's configuration, store and log.
    #[arg(long)]
    pub(crate) keep: bool,

    /// Print the summary as JSON on stdout; what happens meanwhile is told on stderr as ever.
    #[arg(long)]
    pub(crate) json: bool,
}
