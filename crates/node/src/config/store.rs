//! `[store]`: where everything is kept.

use std::path::PathBuf;
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};

use super::endpoint::HIDDEN;
use super::section::Section;
use super::value::Text;

/// More connections than any server is set up for; a mistake in the number.
const CONNECTIONS_MAX: usize = 1_000;
/// Below this the shortest statement on a busy disk fails; above it one stuck statement stops a lane
/// for longer than people look away.
const STATEMENT_TIMEOUT: (Duration, Duration) = (Duration::from_millis(50), Duration::from_mins(5));

/// Where everything is kept.
pub(crate) struct Store {
    pub(crate) place: Place,
    pub(crate) write_connections: usize,
    pub(crate) read_connections: usize,
    pub(crate) statement_timeout: Duration,
    pub(crate) application_name: String,
}

/// Which store.
pub(crate) enum Place {
    /// A file, for one node.
    Sqlite(PathBuf),
    /// A server, for any number. Its URL may hold a password.
    Postgres(SecretString),
}

impl Place {
    /// The word that logs show.
    pub(crate) const fn word(&self) -> &'static str {
        match self {
            Self::Sqlite(_) => "sqlite",
            Self::Postgres(_) => "postgres",
        }
    }
}

impl Store {
    /// `lease` is how long a lease lasts: a stuck statement must end well before it.
    pub(super) fn read(from: &mut Section<'_>, lease: Duration) -> Self {
        let usual = fencepost_postgres::Settings::new("");
        let store = Self {
            place: from.text("url", Place::Sqlite(PathBuf::from("fencepost.db"))),
            write_connections: from.count(
                "write_connections",
                usual.write_connections,
                1..=CONNECTIONS_MAX,
            ),
            read_connections: from.count(
                "read_connections",
                usual.read_connections,
                1..=CONNECTIONS_MAX,
            ),
            statement_timeout: from.duration(
                "statement_timeout",
                usual.statement_timeout.min(lease * 3 / 10),
                STATEMENT_TIMEOUT.0..=STATEMENT_TIMEOUT.1,
            ),
            application_name: from.text("application_name", usual.application_name),
        };
        let sound = from.is_sound("store.statement_timeout") && from.is_sound("lease.duration");
        // SQLite has no such timeout: its one writer is this process.
        let applies = matches!(store.place, Place::Postgres(_));
        if applies && sound && store.statement_timeout >= lease / 2 {
            let (timeout, lease) = (store.statement_timeout.show(), lease.show());
            let why = format!("{timeout} must be below half of lease.duration ({lease})");
            from.refuse("statement_timeout", why);
        }
        store
    }
}

impl Text for Place {
    fn parse(text: &str) -> Result<Self, String> {
        if let Some(file) = text.strip_prefix("sqlite://") {
            return match file {
                "" => Err("names no file after sqlite://".to_owned()),
                ":memory:" => Err("must be a file: a store in memory forgets nonces".to_owned()),
                file => Ok(Self::Sqlite(PathBuf::from(file))),
            };
        }
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            return Ok(Self::Postgres(SecretString::from(text)));
        }
        // The text may hold a password, so it is not repeated.
        Err("must begin with sqlite:// or postgres://".to_owned())
    }

    fn show(&self) -> String {
        match self {
            Self::Sqlite(file) => format!("sqlite://{}", file.display()),
            Self::Postgres(url) => without_passwords(url.expose_secret()),
        }
    }
}

/// A password may stand in the user part or among the parameters. By hand: URLs of PostgreSQL may
/// name several hosts, which no URL parser takes. Where it is not clear what a character belongs to,
/// more is hidden.
fn without_passwords(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("postgres", url));
    let rest = match rest.rsplit_once('@') {
        Some((user, host)) => match user.split_once(':') {
            Some((name, _)) => format!("{name}:{HIDDEN}@{host}"),
            None => rest.to_owned(),
        },
        None => rest.to_owned(),
    };
    let Some((address, parameters)) = rest.split_once('?') else {
        return format!("{scheme}://{rest}");
    };
    let parameters: Vec<String> = parameters
        .split('&')
        .map(|pair| match pair.split_once('=') {
            Some((name, _)) if name.contains("pass") => format!("{name}={HIDDEN}"),
            Some(_) | None => pair.to_owned(),
        })
        .collect();
    format!("{scheme}://{address}?{}", parameters.join("&"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_password_of_a_store_is_shown() {
        let check = |given: &str, shown: &str| assert_eq!(without_passwords(given), shown);
        check("postgres://db/f", "postgres://db/f");
        check("postgres://me@db/f", "postgres://me@db/f");
        check(
            "postgres://me:p@ss:w@db:5432/f",
            "postgres://me:***@db:5432/f",
        );
        check(
            "postgres://me:pw@a:1,b:2/f?x=1",
            "postgres://me:***@a:1,b:2/f?x=1",
        );
        check(
            "postgresql:///f?host=/run&password=pw",
            "postgresql:///f?host=/run&password=***",
        );
        check("postgres://me:p?w@db/f", "postgres://me:***@db/f");
        check(
            "postgres://db/f?password=pw&user=a@b",
            "postgres://db/f?password=***&user=a@b",
        );
        check("postgres://me:pw@db/f?user=a@b", "postgres://me:***@b");
    }
}
