//! How an endpoint stands with us: whether it may be asked now, or only after a greeting, and how far
//! its newest block is behind. Pure: the time is given.

use std::time::Duration;

use tokio::time::Instant;

use crate::dialect::Dialect;

/// The wait after a first failure. Shorter would hammer an endpoint that restarts; longer would leave
/// a chain with a single endpoint unread after a hiccup.
const WAIT_FIRST: Duration = Duration::from_millis(250);
/// The longest wait: an endpoint that comes back is used within this time.
const WAIT_MAX: Duration = Duration::from_secs(30);
/// An endpoint of another chain is greeted again after this time: someone may have mended the
/// configuration behind its name.
const WRONG_CHAIN_WAIT: Duration = Duration::from_secs(60);
/// How far an endpoint may be behind the best. Less would make reads jump between endpoints at every
/// block; more would read old blocks while newer ones are there.
pub(crate) const LAG_BLOCKS_MAX: u64 = 4;

/// The connection, as far as we know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Link {
    /// Never asked.
    Untried,
    /// It is of our chain and answers.
    Good,
    /// It failed; not asked before this time.
    Waiting {
        until: Instant,
        /// Whether it only asked us to come later. Who did not answer may be another one when it
        /// does, and must tell its chain again.
        is_known: bool,
    },
    /// It is of another chain.
    WrongChain { until: Instant },
}

/// What may be done with an endpoint now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leave {
    /// Ask.
    Ask,
    /// Ask which chain it is of first.
    Greet,
    /// Nothing before its wait is over.
    Wait,
    /// Nothing yet, for it asked us to come later; it is there.
    Later,
    /// Nothing: it is of another chain.
    Never,
}

/// How it changed, if that is worth a line in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    None,
    WentBad,
    CameBack,
}

/// What is known of one endpoint.
#[derive(Debug, Clone)]
pub(crate) struct Standing {
    link: Link,
    /// Failures in a row. A greeting does not end the row: there are endpoints that only greet.
    failures: u32,
    head: Option<u64>,
    seen_at: Option<Instant>,
    lag: u64,
    client: Option<String>,
    dialect: Dialect,
}

impl Standing {
    pub(crate) const fn new() -> Self {
        Self {
            link: Link::Untried,
            failures: 0,
            head: None,
            seen_at: None,
            lag: 0,
            client: None,
            dialect: Dialect::Unknown,
        }
    }

    pub(crate) fn leave(&self, now: Instant) -> Leave {
        match self.link {
            Link::Untried => Leave::Greet,
            Link::Good => Leave::Ask,
            Link::Waiting { until, is_known } if now < until => {
                if is_known {
                    Leave::Later
                } else {
                    Leave::Wait
                }
            }
            Link::Waiting { is_known: true, .. } => Leave::Ask,
            Link::Waiting {
                is_known: false, ..
            } => Leave::Greet,
            Link::WrongChain { until } if now < until => Leave::Never,
            Link::WrongChain { .. } => Leave::Greet,
        }
    }

    /// It told the right chain.
    pub(crate) fn greeted(&mut self, client: Option<String>) -> Change {
        let was = self.link;
        self.link = Link::Good;
        self.dialect = client.as_deref().map(Dialect::of).unwrap_or_default();
        self.client = client;
        match was {
            Link::Untried | Link::Good => Change::None,
            Link::Waiting { .. } | Link::WrongChain { .. } => Change::CameBack,
        }
    }

    /// It told another chain. Worth a line when it has not said so before.
    pub(crate) fn wrong_chain(&mut self, now: Instant) -> Change {
        let was = self.link;
        let until = now + WRONG_CHAIN_WAIT;
        self.link = Link::WrongChain { until };
        self.head = None;
        match was {
            Link::WrongChain { .. } => Change::None,
            Link::Untried | Link::Good | Link::Waiting { .. } => Change::WentBad,
        }
    }

    /// It answered something that we asked.
    pub(crate) fn answered(&mut self) -> Change {
        match self.link {
            Link::Good => {
                self.failures = 0;
                Change::None
            }
            Link::Waiting { is_known: true, .. } => {
                self.failures = 0;
                self.link = Link::Good;
                Change::CameBack
            }
            // An answer from before it failed; it must tell its chain first.
            Link::Untried | Link::Waiting { .. } | Link::WrongChain { .. } => Change::None,
        }
    }

    /// It did not answer, or with nothing that can be read.
    pub(crate) fn failed(&mut self, now: Instant) -> Change {
        self.wait(now, false)
    }

    /// It asked us to come later.
    pub(crate) fn limited(&mut self, now: Instant) -> Change {
        self.wait(now, true)
    }

    fn wait(&mut self, now: Instant, is_known: bool) -> Change {
        let was = self.link;
        match was {
            // Requests that were under way together are one failure, or a burst of them would keep an
            // endpoint away for long. The worse of them decides.
            Link::Waiting { until, .. } if now < until => {
                if !is_known {
                    self.link = Link::Waiting { until, is_known };
                }
                return Change::None;
            }
            Link::WrongChain { .. } => {
                let until = now + WRONG_CHAIN_WAIT;
                self.link = Link::WrongChain { until };
                return Change::None;
            }
            Link::Untried | Link::Good | Link::Waiting { .. } => {}
        }
        let doublings = self.failures.min(16);
        self.failures = self.failures.saturating_add(1);
        let until = now + WAIT_FIRST.saturating_mul(1 << doublings).min(WAIT_MAX);
        let was_known = match was {
            Link::Good => true,
            Link::Waiting { is_known, .. } => is_known,
            Link::Untried | Link::WrongChain { .. } => false,
        };
        self.link = Link::Waiting {
            until,
            is_known: is_known && was_known,
        };
        match was {
            Link::Untried | Link::Good => Change::WentBad,
            Link::Waiting { .. } | Link::WrongChain { .. } => Change::None,
        }
    }

    /// Its newest block, and the newest that any endpoint has told. Both are of now: an older look at
    /// one endpoint beside a new one at another would make the first seem behind.
    pub(crate) fn saw_head(&mut self, head: u64, best: u64, now: Instant) -> Change {
        let was = self.is_lagging();
        self.head = Some(head);
        self.seen_at = Some(now);
        self.lag = best.saturating_sub(head);
        match (was, self.is_lagging()) {
            (false, true) => Change::WentBad,
            (true, false) => Change::CameBack,
            (true, true) | (false, false) => Change::None,
        }
    }

    pub(crate) fn is_good(&self) -> bool {
        self.link == Link::Good
    }

    /// Whether it can be used as far as is known: nothing is known of one that was never tried.
    pub(crate) fn is_usable(&self) -> bool {
        matches!(self.link, Link::Good | Link::Untried)
    }

    pub(crate) fn is_untried(&self) -> bool {
        self.link == Link::Untried
    }

    pub(crate) const fn is_lagging(&self) -> bool {
        self.lag > LAG_BLOCKS_MAX
    }

    pub(crate) const fn lag(&self) -> u64 {
        self.lag
    }

    /// The newest block of an endpoint that can be believed now.
    pub(crate) fn head(&self) -> Option<u64> {
        self.head
    }

    pub(crate) fn seen_at(&self) -> Option<Instant> {
        self.seen_at
    }

    pub(crate) const fn dialect(&self) -> Dialect {
        self.dialect
    }

    pub(crate) fn client(&self) -> Option<String> {
        self.client.clone()
    }

    pub(crate) const fn word(&self) -> &'static str {
        match self.link {
            Link::Untried => "untried",
            Link::Good if self.is_lagging() => "lagging",
            Link::Good => "ok",
            Link::Waiting { .. } => "unreachable",
            Link::WrongChain { .. } => "wrong_chain",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Standing {
        let mut standing = Standing::new();
        assert_eq!(standing.greeted(Some("Geth/v1".to_owned())), Change::None);
        standing
    }

    #[test]
    fn nobody_is_asked_before_telling_its_chain() {
        let now = Instant::now();
        let mut standing = Standing::new();
        assert_eq!(
            (standing.leave(now), standing.word()),
            (Leave::Greet, "untried")
        );
        assert_eq!(standing.answered(), Change::None);
        assert_eq!(standing.leave(now), Leave::Greet);
        standing.greeted(None);
        assert_eq!((standing.leave(now), standing.word()), (Leave::Ask, "ok"));
    }

    #[test]
    fn waits_double_up_to_a_bound_and_each_ends_with_a_greeting() {
        let mut now = Instant::now();
        let mut standing = good();
        let mut waits = Vec::new();
        for n in 0..10 {
            let change = standing.failed(now);
            assert_eq!(change == Change::WentBad, n == 0 || standing.is_good());
            let start = now;
            while standing.leave(now) == Leave::Wait {
                now += Duration::from_millis(250);
            }
            waits.push((now - start).as_millis());
            assert_eq!(standing.leave(now), Leave::Greet);
            // It greets and then fails again: the row goes on.
            if n % 2 == 1 {
                assert_eq!(standing.greeted(None), Change::CameBack);
                assert_eq!(standing.failed(now), Change::WentBad);
                while standing.leave(now) == Leave::Wait {
                    now += Duration::from_millis(250);
                }
            }
        }
        assert_eq!(waits[..3], [250, 500, 2_000]);
        assert_eq!(waits[9], 30_000);
        standing.greeted(None);
        standing.answered();
        standing.failed(now);
        assert_eq!(
            standing.leave(now + Duration::from_millis(250)),
            Leave::Greet
        );
    }

    #[test]
    fn failures_that_were_under_way_together_are_one() {
        let now = Instant::now();
        let mut standing = good();
        assert_eq!(standing.failed(now), Change::WentBad);
        for _ in 0..8 {
            assert_eq!(standing.failed(now), Change::None);
        }
        assert_eq!(standing.leave(now + WAIT_FIRST), Leave::Greet);
    }

    #[test]
    fn who_asks_us_to_come_later_needs_no_greeting_then() {
        let now = Instant::now();
        let mut standing = good();
        assert_eq!(standing.limited(now), Change::WentBad);
        assert_eq!(standing.leave(now), Leave::Later);
        assert_eq!(standing.leave(now + WAIT_FIRST), Leave::Ask);
        assert_eq!(standing.answered(), Change::CameBack);
        standing.limited(now);
        standing.failed(now);
        assert_eq!(standing.leave(now + WAIT_FIRST), Leave::Greet);
        assert_eq!(standing.answered(), Change::None);
    }

    #[test]
    fn another_chains_endpoint_is_left_alone_for_long_and_told_once() {
        let now = Instant::now();
        let mut standing = Standing::new();
        assert_eq!(standing.wrong_chain(now), Change::WentBad);
        assert_eq!(
            (standing.leave(now), standing.word()),
            (Leave::Never, "wrong_chain")
        );
        assert!(!standing.is_usable());
        let later = now + WRONG_CHAIN_WAIT;
        assert_eq!(standing.leave(later), Leave::Greet);
        assert_eq!(standing.failed(later), Change::None);
        assert_eq!(standing.leave(later), Leave::Never);
        assert_eq!(standing.wrong_chain(later), Change::None);
        assert_eq!(standing.greeted(None), Change::CameBack);
    }

    #[test]
    fn more_than_a_few_blocks_behind_is_lagging() {
        let now = Instant::now();
        let mut standing = good();
        let check = |standing: &mut Standing, head, best, change, word| {
            assert_eq!(standing.saw_head(head, best, now), change);
            assert_eq!(standing.word(), word);
        };
        check(&mut standing, 100, 100, Change::None, "ok");
        check(&mut standing, 100, 104, Change::None, "ok");
        check(&mut standing, 100, 105, Change::WentBad, "lagging");
        check(&mut standing, 101, 200, Change::None, "lagging");
        check(&mut standing, 200, 200, Change::CameBack, "ok");
        check(&mut standing, 7, 3, Change::None, "ok");
    }
}
