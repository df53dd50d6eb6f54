//! How often and how long a call is tried: bounded in both, with pauses that grow and are never equal.

use std::time::Duration;

use tokio::time::Instant;
use uuid::Uuid;

use crate::error::Tries;

/// The bounds of trying again. Retrying is safe because what is created has a request id before the first try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// How often a call is tried at most; asking one node after another until one can be connected to counts
    /// once. 1 does not try again. Higher rides out longer failovers.
    pub attempts: u32,
    /// How long all tries and the pauses between them may take. Shorter than a failover (about 12 s) gives up
    /// while nodes change hands.
    pub total: Duration,
    /// The pause after the first try; each one after it is up to twice as long.
    pub pause_first: Duration,
    /// The longest pause, unless a node asks for a longer one.
    pub pause_max: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            attempts: 10,
            total: Duration::from_secs(90),
            pause_first: Duration::from_millis(100),
            pause_max: Duration::from_secs(5),
        }
    }
}

impl Retry {
    /// One try only.
    #[must_use]
    pub fn none() -> Self {
        Self {
            attempts: 1,
            ..Self::default()
        }
    }

    /// The pause before try `next` (the first is 1), before chance shortens it.
    fn pause(&self, next: u32) -> Duration {
        let doublings = next.saturating_sub(2).min(16);
        let grown = self.pause_first.saturating_mul(1 << doublings);
        grown.min(self.pause_max)
    }
}

/// Between half of a pause and all of it, so that those who failed together do not come back together.
pub(crate) fn jittered(pause: Duration) -> Duration {
    // The last bits of a UUID are random.
    let chance = u32::try_from(Uuid::now_v7().as_u128() & 0x3ff).unwrap_or(0);
    pause / 2 + (pause / 2) * chance / 0x3ff
}

/// How far one call is with its tries.
pub(crate) struct Course {
    retry: Retry,
    deadline: Instant,
    rounds: u32,
    pub(crate) tries: Tries,
}

impl Course {
    /// Begins now, and ends by the retry's total or earlier.
    pub(crate) fn new(retry: Retry, by: Option<Instant>) -> Self {
        let now = Instant::now();
        let bound = now.checked_add(retry.total);
        let deadline = match (bound, by) {
            (Some(bound), Some(by)) => bound.min(by),
            (Some(one), None) | (None, Some(one)) => one,
            // Thirty years, for those who mean for ever.
            (None, None) => now + Duration::from_secs(1_000_000_000),
        };
        Self {
            retry,
            deadline,
            rounds: 1,
            tries: Tries::default(),
        }
    }

    /// When it ends at the latest.
    pub(crate) const fn by(&self) -> Instant {
        self.deadline
    }

    /// How long the next try may take at most.
    pub(crate) fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// How long to wait before the next round; none where the bounds do not allow one. A node's own word is
    /// kept to, and where that would be too late nobody waits for nothing.
    pub(crate) fn next(&mut self, asked: Option<Duration>) -> Option<Duration> {
        if self.rounds >= self.retry.attempts {
            return None;
        }
        self.rounds += 1;
        let pause = jittered(self.retry.pause(self.rounds));
        let pause = asked.map_or(pause, |asked| asked.max(pause));
        (pause < self.left()).then_some(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn retry() -> Retry {
        Retry {
            attempts: 6,
            total: 100 * SECOND,
            pause_first: SECOND,
            pause_max: 5 * SECOND,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_double_up_to_their_maximum_and_chance_takes_at_most_half() {
        let mut course = Course::new(retry(), None);
        for most in [1, 2, 4, 5, 5] {
            let pause = course.next(None).unwrap();
            let most = most * SECOND;
            assert!(most / 2 <= pause && pause <= most, "{pause:?} of {most:?}");
        }
        assert_eq!(course.next(None), None);
    }

    #[tokio::test(start_paused = true)]
    async fn chance_makes_pauses_differ() {
        let some: Vec<Duration> = (0..20).map(|_| jittered(SECOND)).collect();
        assert!(some.iter().any(|pause| *pause != some[0]), "{some:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_is_waited_for_as_it_asks_within_the_bound() {
        let mut course = Course::new(retry(), None);
        assert_eq!(course.next(Some(30 * SECOND)), Some(30 * SECOND));
        tokio::time::advance(30 * SECOND).await;
        assert_eq!(course.next(Some(70 * SECOND)), None);
        let mut course = Course::new(retry(), Some(Instant::now() + 10 * SECOND));
        assert_eq!(course.left(), 10 * SECOND);
        assert_eq!(course.next(Some(11 * SECOND)), None);
    }

    #[tokio::test(start_paused = true)]
    async fn one_attempt_is_one() {
        assert_eq!(Course::new(Retry::none(), None).next(None), None);
        let endless = Retry {
            total: Duration::MAX,
            ..retry()
        };
        assert!(Course::new(endless, None).left() > 1_000_000 * SECOND);
    }
}
