//! How many calls an endpoint takes in one batch. What it refuses is halved and remembered; after a
//! while more is tried again, for the cause may have been a hiccup.

use std::time::Duration;

use tokio::time::Instant;

/// Too short, and an endpoint that refuses batches is asked in vain all the time; too long, and a
/// hiccup makes us send single calls for long.
const WIDEN_AFTER: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct Breadth {
    max: usize,
    now: usize,
    since: Option<Instant>,
}

impl Breadth {
    pub(super) fn new(max: usize) -> Self {
        let max = max.max(1);
        Self {
            max,
            now: max,
            since: None,
        }
    }

    /// How many now.
    pub(super) fn calls(&mut self, now: Instant) -> usize {
        if self.since.is_some_and(|since| now >= since + WIDEN_AFTER) {
            self.now = self.now.saturating_mul(2).min(self.max);
            self.since = (self.now < self.max).then_some(now);
        }
        self.now
    }

    /// So many were too many.
    pub(super) fn narrow(&mut self, refused: usize, now: Instant) {
        self.now = self.now.min((refused / 2).max(1));
        self.since = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_refused_is_halved_and_later_doubled() {
        let now = Instant::now();
        let mut breadth = Breadth::new(100);
        assert_eq!(breadth.calls(now), 100);
        breadth.narrow(100, now);
        // Several refusals of one round are one.
        breadth.narrow(100, now);
        assert_eq!(breadth.calls(now), 50);
        for (refused, left) in [(50, 25), (25, 12), (3, 1), (1, 1)] {
            breadth.narrow(refused, now);
            assert_eq!(breadth.calls(now), left);
        }
        let mut at = now;
        for calls in [2, 4, 8, 16, 32, 64, 100, 100] {
            at += WIDEN_AFTER;
            assert_eq!(breadth.calls(at), calls);
            assert_eq!(breadth.calls(at), calls);
        }
        assert_eq!(Breadth::new(0).calls(now), 1);
    }
}
