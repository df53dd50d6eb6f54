//! How the connection to a WebSocket endpoint fares: when to try again, and what the log says. One line when it is lost and one when it
//! is back, however many tries lie between them. Pure but for the log: the time is given.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use tokio::time::Instant;

use super::{Lost, WsEndpoint, WsLimits};
use crate::text;

/// What the log said last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Logged {
    Nothing,
    Up,
    Down,
}

pub(super) struct Link<'a> {
    chain: &'a str,
    endpoint: &'a WsEndpoint,
    logged: Logged,
    /// Since when we are subscribed.
    since: Option<Instant>,
    waits: ExponentialBackoff,
}

impl<'a> Link<'a> {
    pub(super) fn new(chain: &'a str, endpoint: &'a WsEndpoint) -> Self {
        Self {
            chain,
            endpoint,
            logged: Logged::Nothing,
            since: None,
            waits: waits(endpoint.limits),
        }
    }

    /// A subscription was answered.
    pub(super) fn subscribed(&mut self, now: Instant) {
        self.since = Some(now);
        if self.logged == Logged::Nothing {
            self.log_up();
        }
    }

    /// Something was read.
    pub(super) fn heard(&mut self, now: Instant) {
        if self.is_stable(now) && self.logged == Logged::Down {
            self.log_up();
        }
    }

    /// The connection was lost, or there was none; returns how long to wait before the next try.
    pub(super) fn lost(&mut self, lost: &Lost, now: Instant) -> Duration {
        let limits = self.endpoint.limits;
        if self.is_stable(now) {
            self.waits = waits(limits);
        }
        self.since = None;
        if self.logged != Logged::Down {
            let (chain, host) = (self.chain, self.endpoint.host());
            let error = text::causes(lost);
            tracing::warn!(
                chain,
                host,
                error,
                "new blocks are not announced over WebSocket now: the chain is only polled; trying again"
            );
            self.logged = Logged::Down;
        }
        self.waits.next().unwrap_or(limits.reconnect_max)
    }

    fn is_stable(&self, now: Instant) -> bool {
        let stable_after = self.endpoint.limits.stable_after;
        self.since.is_some_and(|since| now >= since + stable_after)
    }

    fn log_up(&mut self) {
        let (chain, host) = (self.chain, self.endpoint.host());
        tracing::info!(chain, host, "new blocks are announced over WebSocket");
        self.logged = Logged::Up;
    }
}

fn waits(limits: WsLimits) -> ExponentialBackoff {
    ExponentialBuilder::new()
        .with_min_delay(limits.reconnect_min)
        .with_max_delay(limits.reconnect_max)
        .with_factor(2.0)
        .with_jitter()
        .without_max_times()
        .build()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn endpoint() -> WsEndpoint {
        let endpoint = WsEndpoint::new("ws://a").unwrap();
        endpoint.with_limits(WsLimits {
            reconnect_min: SECOND,
            reconnect_max: 8 * SECOND,
            stable_after: 10 * SECOND,
            ..WsLimits::default()
        })
    }

    /// Chance makes a wait up to twice as long.
    fn check_wait(wait: Duration, seconds: u32) {
        let least = SECOND * seconds;
        assert!((least..=2 * least).contains(&wait), "{wait:?} {seconds}");
    }

    #[test]
    fn waits_double_to_a_bound_and_begin_anew_after_a_stable_connection() {
        let endpoint = endpoint();
        let mut link = Link::new("main", &endpoint);
        let mut now = Instant::now();
        for seconds in [1, 2, 4, 8, 8, 8] {
            check_wait(link.lost(&Lost::Closed, now), seconds);
            now += 60 * SECOND;
        }
        // Subscribed, and closed at once.
        link.subscribed(now);
        check_wait(link.lost(&Lost::Closed, now + SECOND), 8);
        link.subscribed(now);
        check_wait(link.lost(&Lost::Closed, now + 10 * SECOND), 1);
    }

    #[test]
    fn only_changes_that_last_are_logged() {
        let endpoint = endpoint();
        let mut link = Link::new("main", &endpoint);
        let now = Instant::now();
        link.subscribed(now);
        assert_eq!(link.logged, Logged::Up, "the first time at once");
        link.lost(&Lost::Closed, now);
        assert_eq!(link.logged, Logged::Down);
        link.subscribed(now);
        link.heard(now + 9 * SECOND);
        assert_eq!(link.logged, Logged::Down, "it may break again");
        link.heard(now + 10 * SECOND);
        assert_eq!(link.logged, Logged::Up);
    }
}
