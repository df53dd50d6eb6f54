//! `[store]`: where everything is kept.

use std::path::{Path, PathBuf};
use std::time::Duration;

use fencepost_postgres::{Failover, Password, SslMode, Target, Tls, check_schema};
use secrecy::{ExposeSecret, SecretString};

use super::endpoint::HIDDEN;
use super::section::Section;
use super::value::Text;

/// More connections than any server is set up for; a mistake in the number.
const CONNECTIONS_MAX: usize = 1_000;
/// Below this the shortest statement on a busy disk fails; above it one stuck statement stops a lane
/// for longer than people look away.
const STATEMENT_TIMEOUT: (Duration, Duration) = (Duration::from_millis(50), Duration::from_mins(5));

/// What happens after a failover of the database; the first is what is usual.
const FAILOVER: [(&str, Failover); 3] = [
    (Failover::Witness.word(), Failover::Witness),
    (Failover::Hold.word(), Failover::Hold),
    (Failover::Lossless.word(), Failover::Lossless),
];

/// Where everything is kept.
pub(crate) struct Store {
    pub(crate) place: Place,
    pub(crate) schema: Schema,
    pub(crate) tls: Tls,
    pub(crate) password: Password,
    pub(crate) write_connections: usize,
    pub(crate) read_connections: usize,
    pub(crate) client_connections: usize,
    pub(crate) statement_timeout: Duration,
    pub(crate) application_name: String,
    pub(crate) failover: Failover,
    pub(crate) row_secrets: RowSecrets,
}

/// The variables whose secrets seal rows.
pub(crate) struct RowSecrets {
    pub(crate) current: Option<String>,
    pub(crate) also: Option<String>,
    pub(crate) accept_unsealed: bool,
}

impl RowSecrets {
    fn read(from: &mut Section<'_>) -> Self {
        let mut name = |key| {
            let name = from.text(key, String::new());
            (!name.is_empty()).then_some(name)
        };
        let (current, also) = (name("row_secret_env"), name("row_secret_also_env"));
        let accept_unsealed = from.flag("row_accept_unsealed", false);
        if current.is_none() && also.is_some() {
            from.refuse("row_secret_also_env", "needs store.row_secret_env");
        }
        if current.is_none() && accept_unsealed {
            from.refuse("row_accept_unsealed", "needs store.row_secret_env");
        } else if accept_unsealed {
            let why = "rows without a seal are signed: set it to false once no unfinished row is without one";
            from.warn("row_accept_unsealed", why);
        }
        Self {
            current,
            also,
            accept_unsealed,
        }
    }
}

/// The schema of all tables.
pub(crate) struct Schema(pub(crate) String);

/// libpq's variable for a password, asked where neither the URL nor a file has one.
const PASSWORD_VARIABLE: &str = "PGPASSWORD";

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

    /// Where the server is.
    fn target(&self) -> Option<Target> {
        match self {
            Self::Sqlite(_) => None,
            Self::Postgres(url) => Target::parse(url.expose_secret()).ok(),
        }
    }
}

impl Store {
    /// `lease` is how long a lease lasts: a stuck statement must end well before it.
    pub(super) fn read(from: &mut Section<'_>, lease: Duration) -> Self {
        let usual = fencepost_postgres::Settings::new("");
        let place = from.text("url", Place::Sqlite(PathBuf::from("fencepost.db")));
        let target = place.target();
        let store = Self {
            schema: from.text("schema", Schema(usual.schema)),
            tls: tls(from, target.as_ref()),
            password: password(from, target.as_ref()),
            place,
            write_connections: from.count(
                "write_connections",
                usual.write_connections,
                1..=CONNECTIONS_MAX,
            ),
            client_connections: from.count(
                "client_connections",
                usual.client_connections,
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
            failover: from.choice("failover", &FAILOVER),
            row_secrets: RowSecrets::read(from),
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

    /// The files of it that hold secrets, with their keys in the configuration.
    pub(super) fn secret_files(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let password = match &self.password {
            Password::File(file) => Some(file),
            Password::OfUrl | Password::Value(_) => None,
        };
        let files = [
            ("store.password_file", password),
            ("store.sslkey", self.tls.key.as_ref()),
        ];
        let given = files.into_iter();
        given.filter_map(|(key, file)| Some((key, file?.as_path())))
    }
}

/// What stands in `[store]` is above what the URL says.
fn tls(from: &mut Section<'_>, target: Option<&Target>) -> Tls {
    let url = target.map(Target::tls).cloned().unwrap_or_default();
    let mut file = |name, of_url: Option<PathBuf>| {
        let usual = of_url.map(|file| file.display().to_string());
        let file = from.text(name, usual.unwrap_or_default());
        (!file.is_empty()).then(|| PathBuf::from(file))
    };
    let (root, cert, key) = (
        file("sslrootcert", url.root),
        file("sslcert", url.cert),
        file("sslkey", url.key),
    );
    let mode = Some(from.text("sslmode", url.mode.unwrap_or_default()));
    let tls = Tls {
        mode,
        root,
        cert,
        key,
    };
    if let (Some(_), Err((key, why))) = (target, tls.check()) {
        from.refuse(key, why);
    }
    tls
}

fn password(from: &mut Section<'_>, target: Option<&Target>) -> Password {
    let file = from.text("password_file", String::new());
    let in_url = target.is_some_and(Target::has_password);
    if in_url && !file.is_empty() {
        from.refuse("password_file", "store.url holds a password already");
    }
    if !file.is_empty() {
        return Password::File(PathBuf::from(file));
    }
    match from.environment.get(PASSWORD_VARIABLE) {
        Some(value) if !in_url && !value.is_empty() => Password::Value(SecretString::from(value)),
        Some(_) | None => Password::OfUrl,
    }
}

impl Text for Schema {
    fn parse(text: &str) -> Result<Self, String> {
        check_schema(text).map(|()| Self(text.to_owned()))
    }

    fn show(&self) -> String {
        self.0.clone()
    }
}

impl Text for SslMode {
    fn parse(text: &str) -> Result<Self, String> {
        text.parse()
    }

    fn show(&self) -> String {
        self.word().to_owned()
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
            Target::parse(text)?;
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
