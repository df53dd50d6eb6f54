//! `fencepost completions …`

use clap::{Args, Subcommand};

use super::Remote;

/// What can be done with the feed.
#[derive(Subcommand)]
pub(crate) enum CompletionsCommand {
    /// Print the feed, in order, one line for each completion.
    ///
    /// With --json each line is the completion as JSON. Go on later with --after and the last number
    /// you have seen: numbers have no holes.
    Tail(Tail),
}

/// Which part of the feed.
#[derive(Args)]
pub(crate) struct Tail {
    /// Begin behind this number.
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    pub(crate) after: u64,
    /// Wait for more instead of ending; a node that cannot be reached is asked again.
    #[arg(long, short)]
    pub(crate) follow: bool,
    #[command(flatten)]
    pub(crate) remote: Remote,
}
