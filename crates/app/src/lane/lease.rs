//! What this node leads, and until when it may believe so. Only the store decides who leads; what is
//! kept here can make us stop earlier, never go on longer.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fencepost_domain::ids::{LaneId, Token};

use crate::ports::{Held, Terms, Ticks};

/// How much earlier than the lease's end we stop believing in it, as a part of it: the way of the
/// request to the store, and a pause of this process just before a side effect.
const MARGIN_PART: u32 = 10;

/// When something was sent that renews a lease. Trust counts from here, not from the answer.
#[derive(Debug, Clone, Copy)]
pub struct Sent(Duration);

#[derive(Debug, Clone, Copy)]
struct Lease {
    token: Token,
    trusted_until: Duration,
    used_at: Duration,
}

/// The leases of this node.
pub struct Leases {
    ticks: Arc<dyn Ticks>,
    trust: Duration,
    led: Mutex<BTreeMap<LaneId, Lease>>,
}

impl Leases {
    /// None yet.
    #[must_use]
    pub fn new(ticks: Arc<dyn Ticks>, terms: Terms) -> Self {
        Self {
            ticks,
            trust: terms.duration - terms.duration / MARGIN_PART,
            led: Mutex::default(),
        }
    }

    /// To be called before the statement goes out.
    #[must_use]
    pub fn sending(&self) -> Sent {
        Sent(self.ticks.ticks())
    }

    /// The store has renewed this lease, or given it to us.
    pub fn keep(&self, held: Held, sent: Sent) {
        let mut led = self.lock();
        let lease = led.entry(held.lane).or_insert(Lease {
            token: held.token,
            trusted_until: Duration::ZERO,
            used_at: sent.0,
        });
        // An answer may be overtaken by one to a later question.
        if held.token < lease.token {
            return;
        }
        let until = sent.0 + self.trust;
        *lease = Lease {
            token: held.token,
            trusted_until: if held.token == lease.token {
                until.max(lease.trusted_until)
            } else {
                until
            },
            used_at: lease.used_at,
        };
    }

    /// The lane and our token, while we may believe that we lead it. Counts as using it.
    #[must_use]
    pub fn held(&self, lane: LaneId) -> Option<Held> {
        let now = self.ticks.ticks();
        let mut led = self.lock();
        let lease = led
            .get_mut(&lane)
            .filter(|lease| now < lease.trusted_until)?;
        lease.used_at = now;
        Some(Held {
            lane,
            token: lease.token,
        })
    }

    /// The store says that this token is not the lane's any more. A newer one of ours stays.
    pub fn lose(&self, held: Held) {
        let mut led = self.lock();
        if led
            .get(&held.lane)
            .is_some_and(|lease| lease.token <= held.token)
        {
            led.remove(&held.lane);
        }
    }

    /// All that we lead as far as we know, trusted or not: a renewal asks the store.
    #[must_use]
    pub fn all(&self) -> Vec<Held> {
        let led = self.lock();
        led.iter()
            .map(|(lane, lease)| Held {
                lane: *lane,
                token: lease.token,
            })
            .collect()
    }

    /// Those not used for this long, the longest unused first.
    #[must_use]
    pub fn unused(&self, for_at_least: Duration) -> Vec<Held> {
        let now = self.ticks.ticks();
        let led = self.lock();
        let mut unused: Vec<(Duration, Held)> = led
            .iter()
            .filter(|(_, lease)| now.saturating_sub(lease.used_at) >= for_at_least)
            .map(|(lane, lease)| {
                let held = Held {
                    lane: *lane,
                    token: lease.token,
                };
                (lease.used_at, held)
            })
            .collect();
        unused.sort_by_key(|(used_at, held)| (*used_at, held.lane));
        unused.into_iter().map(|(_, held)| held).collect()
    }

    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<LaneId, Lease>> {
        self.led.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    struct Hand(AtomicU64);

    impl Ticks for Hand {
        fn ticks(&self) -> Duration {
            Duration::from_millis(self.0.load(Ordering::Relaxed))
        }
    }

    fn held(token: u64) -> Held {
        Held {
            lane: LaneId(1),
            token: Token::new(token).expect("small"),
        }
    }

    fn leases() -> (Arc<Hand>, Leases) {
        let hand = Arc::new(Hand(AtomicU64::new(1_000)));
        let ticks = Arc::clone(&hand) as Arc<dyn Ticks>;
        (hand, Leases::new(ticks, Terms::default()))
    }

    #[test]
    fn trust_counts_from_the_sending_and_ends_before_the_lease() {
        let (hand, leases) = leases();
        let sent = leases.sending();
        hand.0.store(5_000, Ordering::Relaxed);
        leases.keep(held(1), sent);
        hand.0.store(9_999, Ordering::Relaxed);
        assert_eq!(leases.held(LaneId(1)), Some(held(1)));
        hand.0.store(10_000, Ordering::Relaxed);
        assert_eq!(leases.held(LaneId(1)), None);
        assert_eq!(leases.all(), [held(1)], "it may still be renewed");
    }

    #[test]
    fn a_late_answer_takes_no_trust_away_and_brings_no_old_token_back() {
        let (hand, leases) = leases();
        let early = leases.sending();
        hand.0.store(4_000, Ordering::Relaxed);
        leases.keep(held(2), leases.sending());
        leases.keep(held(2), early);
        leases.keep(held(1), leases.sending());
        hand.0.store(12_900, Ordering::Relaxed);
        assert_eq!(leases.held(LaneId(1)), Some(held(2)));
        leases.lose(held(1));
        assert_eq!(leases.held(LaneId(1)), Some(held(2)));
        leases.lose(held(2));
        assert_eq!(leases.held(LaneId(1)), None);
    }

    #[test]
    fn a_new_token_is_not_trusted_for_longer_than_it_was_asked_for() {
        let (hand, leases) = leases();
        let early = leases.sending();
        hand.0.store(4_000, Ordering::Relaxed);
        leases.keep(held(1), leases.sending());
        leases.keep(held(2), early);
        hand.0.store(10_500, Ordering::Relaxed);
        assert_eq!(leases.held(LaneId(1)), None);
    }
}
