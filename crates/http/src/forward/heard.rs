//! The calls that were heard lately. One that is recorded and sent again would have a request stored
//! that its client was told is not: each is heard once.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use uuid::Uuid;

use super::seal::{Opened, WINDOW_SECONDS};

/// More than this within the window is more than a cluster does: about 3,000 a second, each with many
/// requests. Higher only costs memory, 32 bytes for each.
const CALLS_MAX: usize = 200_000;

/// What was heard, by the time and number of each call.
pub(crate) struct Heard {
    calls: Mutex<BTreeSet<(i64, Uuid)>>,
    /// Calls from before this process may have been heard by the one before it.
    since: i64,
    most: usize,
}

/// Whether a call is news.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum News {
    Yes,
    /// It was heard before, or may have been.
    No,
    /// Too much was heard to remember one more.
    Full,
}

impl Heard {
    pub(crate) fn since(now: Timestamp) -> Self {
        Self {
            calls: Mutex::default(),
            since: now.as_second(),
            most: CALLS_MAX,
        }
    }

    /// Hears a call whose head is good; what is too old to pass that again is forgotten.
    pub(crate) fn hear(&self, opened: &Opened, now: Timestamp) -> News {
        if opened.at < self.since {
            return News::No;
        }
        let oldest = now
            .as_second()
            .saturating_sub_unsigned(WINDOW_SECONDS.saturating_add(1));
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        while calls.first().is_some_and(|(at, _)| *at < oldest) {
            calls.pop_first();
        }
        let call = (opened.at, opened.call);
        if calls.contains(&call) {
            return News::No;
        }
        if calls.len() >= self.most {
            return News::Full;
        }
        calls.insert(call);
        News::Yes
    }
}

#[cfg(test)]
mod tests {
    use super::super::seal::{Purpose, Seal};
    use super::*;
    use crate::secret::Secret;
    use axum::http::HeaderMap;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn call(second: i64) -> Opened {
        let secret = Secret::new("a long secret".to_owned());
        let seal = Seal::new(&secret, Purpose::Forward, "us", b"", at(second));
        let mut headers = HeaderMap::new();
        for (name, value) in [
            (super::super::seal::TIMESTAMP, seal.at),
            (super::super::seal::CALL, seal.call),
            (super::super::seal::DIGEST, seal.digest),
            (super::super::seal::SIGNATURE, seal.signature),
        ] {
            headers.insert(name, value.parse().unwrap());
        }
        Opened::read(&secret, Purpose::Forward, "us", &headers, at(second)).unwrap()
    }

    #[test]
    fn a_call_is_heard_once_and_forgotten_when_nobody_would_open_it_again() {
        let heard = Heard {
            most: 2,
            ..Heard::since(at(1000))
        };
        let (first, second, third) = (call(1000), call(1000), call(1001));
        assert_eq!(heard.hear(&first, at(1000)), News::Yes);
        assert_eq!(heard.hear(&first, at(1030)), News::No);
        assert_eq!(heard.hear(&second, at(1001)), News::Yes);
        assert_eq!(heard.hear(&third, at(1001)), News::Full);
        assert_eq!(heard.hear(&second, at(1031)), News::No);
        assert_eq!(heard.hear(&third, at(1032)), News::Yes);
        assert_eq!(heard.hear(&call(999), at(1000)), News::No, "of before us");
    }
}
