//! Why an operator does something: what the audit keeps beside who and when.

use clap::Args;
use serde_json::{Map, Value};

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
