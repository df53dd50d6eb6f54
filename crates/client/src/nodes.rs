//! The nodes of a cluster, and which of them is asked first. All answer alike, so the one that answered
//! last is asked until it fails.

use std::sync::atomic::{AtomicUsize, Ordering};

use url::Url;

use crate::builder::BuildError;

/// Where the nodes are; at least one.
#[derive(Debug)]
pub(crate) struct Nodes {
    urls: Vec<Url>,
    first: AtomicUsize,
}

impl Nodes {
    pub(crate) fn new(texts: &[String]) -> Result<Self, BuildError> {
        if texts.is_empty() {
            return Err(BuildError::NoNodes);
        }
        let urls: Result<Vec<Url>, BuildError> = texts.iter().map(|text| checked(text)).collect();
        Ok(Self {
            urls: urls?,
            first: AtomicUsize::new(0),
        })
    }

    pub(crate) fn urls(&self) -> &[Url] {
        &self.urls
    }

    /// Which is to be asked.
    pub(crate) fn current(&self) -> usize {
        self.first.load(Ordering::Relaxed) % self.urls.len()
    }

    /// This one has failed: the next is asked from now on. Of several calls that failed at one node only the
    /// first moves on, or they would skip nodes that are well.
    pub(crate) fn leave(&self, failed: usize) {
        let next = (failed + 1) % self.urls.len();
        let first = &self.first;
        let _ = first.compare_exchange(failed, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// A route of a node. A base may have a path of its own, behind a proxy.
    pub(crate) fn route(&self, node: usize, path: &[&str], query: &[(&str, String)]) -> Url {
        let mut url = self.urls[node].clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        url
    }
}

fn checked(text: &str) -> Result<Url, BuildError> {
    let unusable = |why: &str| BuildError::Url {
        url: shown(text),
        why: why.to_owned(),
    };
    let url = Url::parse(text).map_err(|error| unusable(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(unusable("it must begin with http:// or https://"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(unusable("keys are given to api_key, never in a URL"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(unusable("it must end with its path"));
    }
    Ok(url)
}

/// As much of a URL that cannot be used as an error may repeat: errors are logged. What stands before an `@`, or
/// what would if it were one, may be a password however the rest is spelt, and what stands behind the path may be
/// a key.
fn shown(text: &str) -> String {
    if text.contains('@') || text.contains("%40") {
        return "the one with a user in it".to_owned();
    }
    let end = text.find(['?', '#']).unwrap_or(text.len());
    text[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(texts: &[&str]) -> Result<Nodes, BuildError> {
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        Nodes::new(&texts)
    }

    #[test]
    fn what_is_no_base_of_a_node_is_refused_and_a_password_is_not_repeated() {
        for wrong in [
            &[][..],
            &["localhost:8700"],
            &["ftp://a"],
            &["http://a?key=hunter2"],
            &["http://a#hunter2"],
            &["http://good", "http://me:hunter2@a"],
            &["ftp://me:hunter2@a"],
            &["http://me:hunter2@a:99999"],
            &["http://me:hunter2@no de"],
            &["me:hunter2@a"],
            &["http://me:hunter2%40a"],
        ] {
            let error = nodes(wrong).unwrap_err();
            let told = format!("{error} {error:?}");
            assert!(!told.contains("hunter2"), "{told}");
        }
        let error = nodes(&["localhost:8700"]).unwrap_err().to_string();
        assert!(error.starts_with("localhost:8700 is not where"), "{error}");
    }

    #[test]
    fn a_route_keeps_the_path_of_its_node_and_spells_what_it_is_given() {
        let nodes = nodes(&["http://a", "https://b:1/under/"]).unwrap();
        let query = [("requestId", "a b&c".to_owned())];
        let route = |node| nodes.route(node, &["api", "x/y"], &query).to_string();
        assert_eq!(route(0), "http://a/api/x%2Fy?requestId=a+b%26c");
        assert_eq!(route(1), "https://b:1/under/api/x%2Fy?requestId=a+b%26c");
        assert_eq!(nodes.route(0, &["livez"], &[]).as_str(), "http://a/livez");
    }

    #[test]
    fn many_that_failed_at_one_node_move_on_by_one() {
        let nodes = nodes(&["http://a", "http://b", "http://c"]).unwrap();
        for _ in 0..5 {
            nodes.leave(0);
        }
        assert_eq!(nodes.current(), 1);
        nodes.leave(1);
        nodes.leave(2);
        assert_eq!(nodes.current(), 0);
    }
}
