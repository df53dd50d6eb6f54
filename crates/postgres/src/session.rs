//! What a session is set to. A role, a database or a pooler may bring settings of its own that would
//! break a promise, so every session is set to these by statements of ours and then read back. A pooler
//! may pass no options of a connection's start on, so none are sent.

use std::fmt::Write as _;
use std::time::Duration;

use tokio_postgres::{Client, SimpleQueryMessage};

use crate::connect::Settings;
use crate::pooler::TRANSACTION_MODE;
use crate::reach::Unreached;

/// What a session is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Critical writes, each one statement.
    Write,
    /// Everything that only reads.
    Read,
    /// One lane, whose row may be waited for.
    Takeover,
    /// Waits for other nodes that migrate, and rewrites tables.
    Migrate,
    /// Looks whether a session is ours alone; until then nothing is set in it.
    Probe,
}

/// A setting and the value that every session must have, as the server shows it.
type Required = (&'static str, String);

/// One table for all sessions. A server that does not know a setting yet does without it.
pub(crate) fn required(settings: &Settings, purpose: Purpose) -> Vec<Required> {
    let timeout = settings.statement_timeout;
    // One lane that is held must be told apart from a statement that takes long.
    let (statement, lock) = match purpose {
        Purpose::Write | Purpose::Read => (timeout, timeout / 2),
        Purpose::Takeover => (timeout * 3, timeout * 3),
        Purpose::Migrate | Purpose::Probe => (Duration::ZERO, Duration::ZERO),
    };
    let mut all = vec![
        // First, for a role may have one so short that nothing else gets done.
        ("statement_timeout", shown(statement)),
        // Nothing that another owner made is ever found: names are looked up in our schema alone. The
        // server's own catalogue stands before it and temporary tables behind it.
        ("search_path", search_path(&settings.schema)),
        ("lock_timeout", shown(lock)),
        ("idle_in_transaction_session_timeout", shown(timeout)),
        // A reply means that the commit is on disk, and on every synchronous standby.
        ("synchronous_commit", "on".to_owned()),
    ];
    let words = match purpose {
        Purpose::Write => WRITER,
        Purpose::Read => READER,
        Purpose::Takeover | Purpose::Migrate | Purpose::Probe => &[],
    };
    let fixed = ALWAYS.iter().chain(words);
    all.extend(fixed.map(|(name, value)| (*name, (*value).to_owned())));
    all
}

/// So many settings of the table go ahead of all others, each by a statement that needs neither the time
/// nor the names that they give to the next.
const AHEAD: usize = 2;

const ALWAYS: &[(&str, &str)] = &[
    // A statement that waited for a row must see it as it is now.
    ("default_transaction_isolation", "read committed"),
    ("default_transaction_read_only", "off"),
    // Newer servers end whole transactions and idle sessions too.
    ("transaction_timeout", "0"),
    ("idle_session_timeout", "0"),
    // A statement whose client has gone is given up.
    ("client_connection_check_interval", "1s"),
    // `replica` would switch our guards off: triggers that refuse to go back or to rewrite.
    ("session_replication_role", "origin"),
    ("client_encoding", "UTF8"),
    ("standard_conforming_strings", "on"),
    ("transform_null_equals", "off"),
    ("TimeZone", "UTC"),
    ("DateStyle", "ISO, MDY"),
    ("IntervalStyle", "postgres"),
    ("bytea_output", "hex"),
];

/// Writers run only statements of ours that find their rows by index. Their plans are made once,
/// when tables may still be empty, and must stay right when they have grown.
const WRITER: &[(&str, &str)] = &[
    ("plan_cache_mode", "force_generic_plan"),
    ("enable_seqscan", "off"),
    ("jit", "off"),
    ("work_mem", "16MB"),
];

/// Readers look after lanes beside the writers: none of them may take all of the server's processors.
const READER: &[(&str, &str)] = &[("jit", "off"), ("max_parallel_workers_per_gather", "0")];

fn search_path(schema: &str) -> String {
    format!("\"{schema}\", pg_temp")
}

/// A duration as the server shows it: in the largest unit of which it is a whole number.
fn shown(duration: Duration) -> String {
    let ms = duration.as_millis();
    let units = [
        ("d", 86_400_000),
        ("h", 3_600_000),
        ("min", 60_000),
        ("s", 1_000),
    ];
    let unit = units
        .into_iter()
        .find(|(_, of)| ms >= *of && ms.is_multiple_of(*of));
    match unit {
        Some((name, of)) => format!("{}{name}", ms / of),
        None if ms == 0 => "0".to_owned(),
        None => format!("{ms}ms"),
    }
}

/// Sets the session and reads it back, in two transactions: a pooler that gives each of them another
/// session is found out here at the latest.
pub(crate) async fn apply(client: &Client, required: &[Required]) -> Result<(), Unreached> {
    let failed = |error: tokio_postgres::Error| match error.as_db_error() {
        // Not allowed, not a value, not known: the server names the setting.
        Some(db) if ["42501", "22023", "42704"].contains(&db.code().code()) => {
            Unreached::unfit(format!(
                "a setting that every session needs cannot be set: {}",
                db.message()
            ))
        }
        Some(_) | None => Unreached::of(&error),
    };
    let rows = values(required);
    let (first, _) = required.split_at(required.len().min(AHEAD));
    let mut set = String::new();
    for (name, value) in first {
        let call = "SELECT pg_catalog.set_config";
        write!(set, "{call}('{name}', '{value}', false); ").expect("a string takes all");
    }
    // What is right already is left alone: the role may not be allowed to set it.
    let rest = format!(
        "SELECT CASE WHEN current_setting(s.name) <> s.value THEN set_config(s.name, s.value, false) END
           FROM (VALUES {rows}) s(name, value) WHERE current_setting(s.name, true) IS NOT NULL"
    );
    set.push_str(&rest);
    client.simple_query(&set).await.map_err(failed)?;
    let read = format!(
        "SELECT s.name, s.value, current_setting(s.name) FROM (VALUES {rows}) s(name, value)
          WHERE current_setting(s.name, true) IS DISTINCT FROM s.value
            AND current_setting(s.name, true) IS NOT NULL LIMIT 1"
    );
    for message in client.simple_query(&read).await.map_err(failed)? {
        if let SimpleQueryMessage::Row(row) = message {
            let column = |n| row.get(n).unwrap_or_default();
            let (name, wanted, found) = (column(0), column(1), column(2));
            return Err(Unreached::unfit(format!(
                "the setting {name} is {found:?} although this session set it to {wanted:?}: \
                 {TRANSACTION_MODE}"
            )));
        }
    }
    Ok(())
}

/// The table as SQL. No value has a single quote or a backslash, so it does not matter how strings are read.
fn values(required: &[Required]) -> String {
    let mut rows = String::new();
    for (n, (name, value)) in required.iter().enumerate() {
        let comma = if n == 0 { "" } else { ", " };
        write!(rows, "{comma}('{name}', '{value}')").expect("a string takes all");
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_written_as_the_server_shows_it() {
        let check = |ms: u64, text: &str| assert_eq!(shown(Duration::from_millis(ms)), text);
        check(0, "0");
        check(50, "50ms");
        check(1_500, "1500ms");
        check(3_000, "3s");
        check(60_000, "1min");
        check(90_000, "90s");
        check(7_200_000, "2h");
    }
}
