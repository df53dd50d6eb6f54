//! Where a node without keys is asked from. A web page that someone opens on the same machine can have
//! the browser call it, or give its own name that address: neither may do what the person may.

use std::net::IpAddr;

use axum::http::HeaderMap;
use axum::http::header::{HOST, ORIGIN};

use crate::problem::{Code, Problem};

/// That the node was asked under the machine's own name, and by no page of anyone else.
pub(super) fn check(headers: &HeaderMap) -> Result<(), Problem> {
    let refused = |why: &str| Err(Problem::new(Code::Forbidden).detail(why));
    let mut hosts = headers.get_all(HOST).iter();
    let (host, second) = (hosts.next(), hosts.next());
    let host = host.map(|host| host.to_str().unwrap_or_default());
    if second.is_some() || !host.is_none_or(is_loopback) {
        return refused(
            "A node without keys answers under localhost and loopback addresses only. Nothing was stored.",
        );
    }
    let own = |origin: &str| {
        let page = origin.split_once("://").map(|(_, page)| page);
        page.zip(host)
            .is_some_and(|(page, host)| page.eq_ignore_ascii_case(host))
    };
    let mut origins = headers.get_all(ORIGIN).iter();
    if origins.all(|origin| origin.to_str().is_ok_and(own)) {
        Ok(())
    } else {
        refused("A node without keys answers no web page but its own. Nothing was stored.")
    }
}

fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    let is_local = name == "localhost" || name.ends_with(".localhost");
    is_local || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(host: Option<&str>, origin: Option<&str>) -> bool {
        let mut headers = HeaderMap::new();
        for (name, value) in [(HOST, host), (ORIGIN, origin)] {
            if let Some(value) = value {
                headers.insert(name, value.parse().unwrap());
            }
        }
        check(&headers).is_ok()
    }

    #[test]
    fn only_the_machine_itself_is_answered_without_a_key() {
        for host in [
            "localhost",
            "LOCALHOST:8700",
            "node.localhost:8700",
            "127.0.0.1:8700",
            "127.8.9.1",
            "[::1]:8700",
        ] {
            assert!(allowed(Some(host), None), "{host}");
            assert!(
                allowed(Some(host), Some(&format!("http://{host}"))),
                "{host}"
            );
            assert!(!allowed(Some(host), Some("https://evil.example")), "{host}");
            assert!(!allowed(Some(host), Some("null")), "{host}");
        }
        assert!(allowed(None, None));
        assert!(!allowed(None, Some("http://localhost")));
        assert!(!allowed(
            Some("localhost:8700"),
            Some("http://localhost:3000")
        ));
        for host in [
            "evil.example",
            "evil.example:8700",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "10.0.0.1:8700",
            "0.0.0.0:8700",
            "[::2]:8700",
            "",
        ] {
            assert!(!allowed(Some(host), None), "{host}");
        }
    }
}
