//! `store.url`: the hosts it names, what it says about TLS, and the rest, which `tokio_postgres` reads.
//! The names of its parameters are libpq's, so that a URL which `psql` takes is taken here too.

use std::error::Error;
use std::net::IpAddr;
use std::path::PathBuf;

use percent_encoding::percent_decode_str;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, LoadBalanceHosts};

use crate::tls::{SslMode, Tls};

/// Connecting tries the hosts one after another within one bound: with more of them each gets too little of it.
const HOSTS_MAX: usize = 16;

/// The port of PostgreSQL where a URL names none.
const PORT: u16 = 5432;

/// A database and the servers on which it may be found.
#[derive(Debug, Clone)]
pub struct Target {
    /// All but the hosts.
    pub(crate) base: Config,
    /// At least one.
    pub(crate) hosts: Vec<Place>,
    /// What the URL says about TLS.
    pub(crate) tls: Tls,
}

/// One host of the URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// The name, which certificates are checked against, or the directory of a Unix socket.
    pub(crate) host: Host,
    /// `hostaddr`: the name is not looked up.
    pub(crate) addr: Option<IpAddr>,
    pub(crate) port: u16,
}

impl Target {
    /// Reads a URL, or says what is wrong as the rest of a sentence that begins with `store.url`. The
    /// URL may hold a password, so no value in it is repeated.
    pub fn parse(url: &str) -> Result<Self, String> {
        let parts = Parts::split(url)?;
        let mut tls = Tls::default();
        let (mut plain, mut of_hosts) = (Vec::new(), Vec::new());
        for (name, raw) in parts.parameters {
            let value = || text(name, raw);
            match name {
                "sslmode" => {
                    let mode = value()?.parse::<SslMode>();
                    let modes =
                        || format!("has an sslmode that is not one of {}", SslMode::names());
                    tls.mode = Some(mode.map_err(|_| modes())?);
                }
                "sslrootcert" => tls.root = Some(PathBuf::from(value()?)),
                "sslcert" => tls.cert = Some(PathBuf::from(value()?)),
                "sslkey" => tls.key = Some(PathBuf::from(value()?)),
                "target_session_attrs" => writer(&value()?)?,
                "host" | "hostaddr" | "port" => of_hosts.push(format!("{name}={raw}")),
                _ => plain.push(format!("{name}={raw}")),
            }
        }
        let base = config(parts.user, "", parts.database, &plain)?;
        if base.get_load_balance_hosts() == LoadBalanceHosts::Random {
            return Err(
                "has load_balance_hosts=random, but only one host can be written to".into(),
            );
        }
        let hosts = places(&config("", parts.hosts, "", &of_hosts)?)?;
        Ok(Self { base, hosts, tls })
    }

    /// What the URL says about TLS.
    #[must_use]
    pub const fn tls(&self) -> &Tls {
        &self.tls
    }

    /// Whether the URL holds a password.
    #[must_use]
    pub fn has_password(&self) -> bool {
        self.base.get_password().is_some()
    }
}

impl Place {
    /// As people write it.
    pub(crate) fn show(&self) -> String {
        match &self.host {
            Host::Tcp(name) if name.contains(':') => format!("[{name}]:{}", self.port),
            Host::Tcp(name) => format!("{name}:{}", self.port),
            Host::Unix(directory) => format!("{}/.s.PGSQL.{}", directory.display(), self.port),
        }
    }
}

/// A URL by its parts; each is still percent-encoded.
struct Parts<'a> {
    /// With its `@`.
    user: &'a str,
    hosts: &'a str,
    /// With its `/`.
    database: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
}

impl<'a> Parts<'a> {
    fn split(url: &'a str) -> Result<Self, String> {
        let rest = url
            .strip_prefix("postgres://")
            .or_else(|| url.strip_prefix("postgresql://"))
            .ok_or("must begin with postgres://")?;
        // With a second one the rest of the password would be taken for hosts and parameters, which are shown.
        if rest.matches('@').count() > 1 {
            return Err(
                "has more than one @: in a password, a user name or a parameter it is \
                        written as %40"
                    .to_owned(),
            );
        }
        let user = rest.find('@').map_or(0, |at| at + 1);
        let (user, rest) = rest.split_at(user);
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (hosts, database) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        let parameters = pairs
            .map(|pair| pair.split_once('='))
            .collect::<Option<_>>()
            .ok_or("has a parameter without a value")?;
        Ok(Self {
            user,
            hosts,
            database,
            parameters,
        })
    }
}

fn text(name: &str, raw: &str) -> Result<String, String> {
    let decoded = percent_decode_str(raw).decode_utf8();
    let decoded = decoded.map_err(|_| format!("has a {name} that is not UTF-8 text"))?;
    Ok(decoded.into_owned())
}

/// Writes go to the one primary, whatever the URL says; one that asks for anything else is a mistake.
fn writer(attributes: &str) -> Result<(), String> {
    match attributes {
        "any" | "read-write" | "primary" => Ok(()),
        _ => Err(
            "has a target_session_attrs other than any, read-write or primary, but a store must be \
             written to"
                .to_owned(),
        ),
    }
}

fn config(
    user: &str,
    hosts: &str,
    database: &str,
    parameters: &[String],
) -> Result<Config, String> {
    let url = format!(
        "postgres://{user}{hosts}{database}?{}",
        parameters.join("&")
    );
    url.parse().map_err(|error: tokio_postgres::Error| {
        let cause = error.source().map(|cause| format!(": {cause}"));
        format!("cannot be read: {error}{}", cause.unwrap_or_default())
    })
}

fn places(config: &Config) -> Result<Vec<Place>, String> {
    let (names, addrs, ports) = (
        config.get_hosts(),
        config.get_hostaddrs(),
        config.get_ports(),
    );
    let count = names.len().max(addrs.len());
    if count == 0 {
        return Err("names no host".to_owned());
    }
    if count > HOSTS_MAX {
        return Err(format!("names {count} hosts, more than {HOSTS_MAX}"));
    }
    if !names.is_empty() && !addrs.is_empty() && names.len() != addrs.len() {
        return Err("names another number of hosts than of hostaddrs".to_owned());
    }
    if ports.len() > 1 && ports.len() != count {
        return Err("names another number of ports than of hosts".to_owned());
    }
    let place = |n| {
        let addr: Option<IpAddr> = addrs.get(n).copied();
        let named = names.get(n).cloned();
        let host = named.or_else(|| addr.map(|addr| Host::Tcp(addr.to_string())))?;
        let port = ports.get(n).or_else(|| ports.first());
        let port = port.copied().unwrap_or(PORT);
        Some(Place { host, addr, port })
    };
    (0..count)
        .map(place)
        .collect::<Option<_>>()
        .ok_or_else(|| "names no host".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(url: &str) -> Vec<String> {
        let target = Target::parse(url).unwrap_or_else(|why| panic!("{url}: {why}"));
        target.hosts.iter().map(Place::show).collect()
    }

    #[test]
    fn hosts_are_read_as_libpq_reads_them() {
        let check = |url: &str, hosts: &[&str]| assert_eq!(shown(url), hosts, "{url}");
        check("postgres://u@db/f", &["db:5432"]);
        check("postgres://u@h1:1,h2:2/f", &["h1:1", "h2:2"]);
        check(
            "postgresql://u:p?w@h1,h2:7/f?sslmode=require",
            &["h1:5432", "h2:7"],
        );
        check("postgres://u@[::1]:6/f", &["[::1]:6"]);
        check("postgres:///f?host=/run/pg&port=7", &["/run/pg/.s.PGSQL.7"]);
        check("postgres://u@%2Frun%2Fpg/f", &["/run/pg/.s.PGSQL.5432"]);
        check("postgres:///f?hostaddr=10.0.0.1&user=u", &["10.0.0.1:5432"]);
    }

    #[test]
    fn what_the_url_says_about_tls_is_taken_out_of_it() {
        let url = "postgres://u:p%40w@db/f?sslmode=verify-full&sslrootcert=/etc/my%20ca.pem\
                   &sslcert=c&sslkey=k&target_session_attrs=primary&channel_binding=require";
        let target = Target::parse(url).expect("a URL");
        assert_eq!(target.tls.mode, Some(SslMode::VerifyFull));
        assert_eq!(target.tls.root, Some(PathBuf::from("/etc/my ca.pem")));
        assert_eq!(target.tls.cert, Some(PathBuf::from("c")));
        assert_eq!(target.tls.key, Some(PathBuf::from("k")));
        assert_eq!(target.base.get_password(), Some(&b"p@w"[..]));
        assert_eq!(target.base.get_dbname(), Some("f"));
        assert!(target.has_password());
    }

    #[test]
    fn what_cannot_be_read_says_why_and_shows_no_password() {
        let check = |url: &str, part: &str| {
            let why = Target::parse(url).expect_err(url);
            assert!(why.contains(part), "{url}: {why}");
            assert!(!why.contains("secret"), "{url}: {why}");
        };
        check("mysql://u:secret@db/f", "must begin with postgres://");
        check("postgres:///f", "names no host");
        check(
            "postgres://u:secret@db/f?sslmode=maybe",
            "disable, prefer, require",
        );
        check("postgres://u:secret@db/f?sslmode", "without a value");
        check(
            "postgres://u:secret@db/f?gssencmode=disable",
            "`gssencmode`",
        );
        check("postgres://u:secret@db:x/f", "`port`");
        check(
            "postgres://u:secret@db/f?target_session_attrs=standby",
            "read-write",
        );
        check(
            "postgres://u@a,b/f?load_balance_hosts=random",
            "load_balance_hosts",
        );
        check("postgres://u@a,b/f?hostaddr=10.0.0.1", "hostaddrs");
        for rest in ["sslmode=secret", "secret=y", "application_name=secret"] {
            check(&format!("postgres://u:p@x?{rest}@db/f"), "%40");
        }
    }
}
