//! How far the clock of this node is from the store's. Nothing is decided by it: the store's clock decides leases and deadlines
//! inside its statements. It is measured, shown and told to people.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::causes::Causes;
use crate::node::Node;

/// A clock that is further off than this is told to people. Clocks that are kept by NTP are off by milliseconds.
const TOLD: Duration = Duration::from_secs(1);

/// What was measured last.
#[derive(Debug, Default)]
pub(crate) struct Skew {
    /// How far this node is ahead, in microseconds.
    ahead: AtomicI64,
    is_told: AtomicBool,
}

impl Skew {
    /// What the store's clock shows, as far as we know, when ours shows this.
    pub(crate) fn store_time(&self, ours: Timestamp) -> Timestamp {
        let ahead = SignedDuration::from_micros(self.ahead.load(Ordering::Relaxed));
        ours.saturating_sub(ahead).unwrap_or(ours)
    }

    /// Takes a measurement in; whether it is to be told that the clock is off now, or that it is right again.
    fn measured(&self, ahead: SignedDuration) -> Option<bool> {
        let micros = i64::try_from(ahead.as_micros()).unwrap_or(i64::MAX);
        self.ahead.store(micros, Ordering::Relaxed);
        let is_off = ahead.unsigned_abs() > TOLD;
        let was_off = self.is_told.swap(is_off, Ordering::Relaxed);
        (is_off != was_off).then_some(is_off)
    }
}

impl Node {
    /// The time by the store's clock, as far as it can be told without asking.
    #[must_use]
    pub fn store_time(&self) -> Timestamp {
        self.skew.store_time(self.clock.now())
    }

    /// Compares our clock with the store's.
    pub async fn compare_clocks(&self) {
        let sent = self.clock.now();
        let store = match self.store.now().await {
            Ok(store) => store,
            Err(error) => {
                tracing::warn!(error = %Causes(&error), "the store's clock could not be read");
                return;
            }
        };
        let ahead = ahead(sent, store, self.clock.now());
        let seconds = ahead.as_secs_f64();
        self.meters.clock_skew(seconds);
        match self.skew.measured(ahead) {
            Some(true) => {
                tracing::warn!(ahead_seconds = seconds, %store, "the clock of this node is not the store's: the store's decides, but times in logs and calls between nodes are off; check NTP on both");
            }
            Some(false) => {
                tracing::info!(
                    ahead_seconds = seconds,
                    "the clock of this node is the store's again"
                );
            }
            None => {}
        }
    }
}

/// By how much our clock is ahead of the store's at least, if the store read its own somewhere between these two moments of ours.
fn ahead(sent: Timestamp, store: Timestamp, received: Timestamp) -> SignedDuration {
    if store < sent {
        sent.duration_since(store)
    } else if store > received {
        received.duration_since(store)
    } else {
        SignedDuration::ZERO
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millisecond(millis).unwrap()
    }

    #[test]
    fn a_round_trip_is_no_skew() {
        let check = |(sent, store, received), expected| {
            let found = ahead(at(sent), at(store), at(received));
            assert_eq!(found, SignedDuration::from_millis(expected));
        };
        check((1_000, 1_400, 1_500), 0);
        check((1_000, 1_000, 1_000), 0);
        check((1_000, 400, 1_500), 600);
        check((1_000, 3_500, 1_500), -2_000);
    }

    #[test]
    fn it_is_told_once_when_it_goes_off_and_once_when_it_is_right() {
        let skew = Skew::default();
        let told: Vec<Option<bool>> = [0, 900, 1_100, -5_000, 1_000, 0]
            .map(|millis| skew.measured(SignedDuration::from_millis(millis)))
            .to_vec();
        assert_eq!(told, [None, None, Some(true), None, Some(false), None]);
        skew.measured(SignedDuration::from_secs(3_600));
        assert_eq!(skew.store_time(at(3_600_000)), at(0));
    }
}
