//! Addresses of other services. They often carry a key, in the user part, the path or the query, so
//! only the host is ever shown.

use url::{Host, Url};

use super::value::Text;

/// What is shown in the place of a secret.
pub(crate) const HIDDEN: &str = "***";

/// A URL with a host.
pub(crate) struct Endpoint(Url);

impl Endpoint {
    /// The whole of it, secrets included.
    pub(crate) fn url(&self) -> &str {
        self.0.as_str()
    }

    /// Whether it is this machine's own name for itself.
    pub(crate) fn is_loopback(&self) -> bool {
        is_loopback(&self.0)
    }

    /// Whether its scheme is one of these; the reason if not.
    pub(crate) fn speaks(&self, schemes: &[&str]) -> Result<(), String> {
        if schemes.contains(&self.0.scheme()) {
            return Ok(());
        }
        Err(format!(
            "{} must begin with {}://",
            self.show(),
            schemes.join(":// or ")
        ))
    }
}

/// Whether a URL is this machine's own name for itself.
pub(super) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        None => false,
    }
}

impl Text for Endpoint {
    fn parse(text: &str) -> Result<Self, String> {
        // The text may hold a secret, so it is not repeated.
        let url = Url::parse(text).map_err(|error| format!("is no URL: {error}"))?;
        if url.host().is_none() {
            return Err("is no URL: it has no host".to_owned());
        }
        Ok(Self(url))
    }

    fn show(&self) -> String {
        let url = &self.0;
        let host = url.host_str().unwrap_or_default();
        let port = url
            .port()
            .map(|port| format!(":{port}"))
            .unwrap_or_default();
        let bare = url.path().trim_start_matches('/').is_empty() && url.query().is_none();
        let user = if url.username().is_empty() && url.password().is_none() {
            String::new()
        } else {
            format!("{HIDDEN}@")
        };
        let path = if bare {
            String::new()
        } else {
            format!("/{HIDDEN}")
        };
        format!("{}://{user}{host}{port}{path}", url.scheme())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_host_of_an_endpoint_is_shown() {
        let check = |given: &str, shown: &str| {
            let endpoint = Endpoint::parse(given).unwrap_or_else(|why| panic!("{given}: {why}"));
            assert_eq!(endpoint.show(), shown);
        };
        check("http://127.0.0.1:8545", "http://127.0.0.1:8545");
        check("https://rpc.example/v3/0123abcd", "https://rpc.example/***");
        check(
            "https://rpc.example/?apikey=0123",
            "https://rpc.example/***",
        );
        check("https://me:word@rpc.example", "https://***@rpc.example");
        check("wss://token@rpc.example:9/x", "wss://***@rpc.example:9/***");
    }

    #[test]
    fn an_endpoint_that_cannot_be_read_is_not_repeated() {
        let why = Endpoint::parse("rpc.example/secret")
            .err()
            .expect("no scheme");
        assert!(
            why.starts_with("is no URL") && !why.contains("secret"),
            "{why}"
        );
        let ftp = Endpoint::parse("ftp://rpc.example").unwrap();
        let why = ftp.speaks(&["http", "https"]).expect_err("another scheme");
        assert_eq!(why, "ftp://rpc.example must begin with http:// or https://");
    }
}
