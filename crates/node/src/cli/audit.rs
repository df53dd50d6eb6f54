//! The audit: why an operator does something, which is kept beside who and when, and reading it all.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::{Map, Value};

use super::Remote;

/// What can be done with the audit.
#[derive(Subcommand)]
pub(crate) enum AuditCommand {
    /// Print all that people, policies and nodes did and were refused, oldest first, as JSON lines.
    ///
    /// Go on later with --after and the last id you have: no lower one appears later. An entry that is not closed
    /// (ASKED, CLAIMED) is printed as it stands.
    Export(Export),
}

/// Which part of the audit, and where it goes.
#[derive(Args)]
pub(crate) struct Export {
    /// Begin behind this id.
    #[arg(long, value_name = "ID", default_value_t = 0)]
    pub(crate) after: u64,
    /// The file that lines are added to; left out, they are printed.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) remote: Remote,
}

/// Why something is done.
#[derive(Args)]
pub(crate) struct Why {
    /// Why, for the audit.
    #[arg(long)]
    pub(crate) reason: String,
    /// The ticket it belongs to, for the audit.
    #[arg(long)]
    pub(crate) ticket: Option<String>,
    /// Your own JSON object for the audit; --ticket is its field "ticket".
    #[arg(long, value_name = "JSON", value_parser = object)]
    pub(crate) audit: Option<Map<String, Value>>,
}

fn object(text: &str) -> Result<Map<String, Value>, serde_json::Error> {
    serde_json::from_str(text)
}
