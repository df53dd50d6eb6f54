//! How a nonce is borrowed, what its holder is told of it, and for how long it may be used.

use std::time::{Duration, SystemTime};

use alloy_primitives::Address;
use jiff::Timestamp;
use tokio::time::Instant;
use uuid::Uuid;

use crate::error::Error;
use crate::reservation::{LockToken, NewReservation};

/// How long a nonce is borrowed where nothing else is said.
const TTL: Duration = Duration::from_secs(60);
/// The most that is kept free before the end where nothing else is said.
const MARGIN_MAX: Duration = Duration::from_secs(10);
/// How often the closure is run where nothing else is said.
const RUNS: u32 = 5;

/// How [`Client::with_nonce`](crate::Client::with_nonce) borrows a nonce and runs its closure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loan {
    chain: Option<String>,
    request_id: Option<String>,
    ttl: Duration,
    margin: Option<Duration>,
    pub(crate) runs: u32,
    pub(crate) pause: (Duration, Duration),
}

impl Default for Loan {
    fn default() -> Self {
        Self {
            chain: None,
            request_id: None,
            ttl: TTL,
            margin: None,
            runs: RUNS,
            pause: (Duration::from_millis(200), Duration::from_secs(5)),
        }
    }
}

impl Loan {
    /// On this chain; may be left out while the cluster has only one.
    #[must_use]
    pub fn chain(mut self, name: impl Into<String>) -> Self {
        self.chain = Some(name.into());
        self
    }

    /// Under a request id of your own, so that a call that is repeated after a crash gets the same nonce, or the
    /// hash that was named for it. Where nothing is said each call makes an id of its own.
    #[must_use]
    pub fn named(mut self, request_id: impl Into<String>) -> Self {
        self.request_id = Some(request_id.into());
        self
    }

    /// For this long, in whole seconds (60 s). Too short cuts the closure off before it has sent; too long keeps
    /// later nonces of the signer waiting when this process dies.
    #[must_use]
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Duration::from_secs(ttl.as_secs());
        self
    }

    /// How long before the end the closure is not run any more, and is cut off (10 s, or a quarter of the time
    /// where that is less). It must be longer than bytes that were handed to a node of the chain can be on their
    /// way to it.
    #[must_use]
    pub const fn margin(mut self, margin: Duration) -> Self {
        self.margin = Some(margin);
        self
    }

    /// How often the closure is run at most (5).
    #[must_use]
    pub const fn runs(mut self, runs: u32) -> Self {
        self.runs = runs;
        self
    }

    /// The pause after the first run that failed for a cause that passes (200 ms), and the longest one after
    /// later ones (5 s).
    #[must_use]
    pub const fn pause(mut self, first: Duration, max: Duration) -> Self {
        self.pause = (first, max);
        self
    }

    /// That it leaves any time to run the closure in.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.ttl.is_zero() {
            return Err(Error::Unsendable("a nonce is lent for 1 s at least".into()));
        }
        if self.term().usable().is_zero() {
            let why = format!("a margin of {:?} of {:?}", self.term().margin, self.ttl);
            return Err(Error::Unsendable(why));
        }
        if self.runs == 0 {
            return Err(Error::Unsendable("a closure that is never run".into()));
        }
        Ok(())
    }

    /// Whether the id is one that may have been used before.
    pub(crate) const fn is_named(&self) -> bool {
        self.request_id.is_some()
    }

    pub(crate) const fn time(&self) -> Duration {
        self.ttl
    }

    pub(crate) fn reservation(&self, signer: Address) -> NewReservation {
        let mut reservation = NewReservation::new(signer).ttl(self.ttl);
        if let Some(chain) = &self.chain {
            reservation = reservation.chain(chain);
        }
        if let Some(request_id) = &self.request_id {
            reservation = reservation.named(request_id);
        }
        reservation
    }

    /// A term that begins now. It is begun before the request that asks for it is sent: the node grants its time
    /// later than that, so the term ends before the reservation does, whatever any clock shows.
    pub(crate) fn term(&self) -> Term {
        Term {
            begun: Instant::now(),
            begun_at: SystemTime::now(),
            ttl: self.ttl,
            margin: self.margin.unwrap_or(MARGIN_MAX.min(self.ttl / 4)),
        }
    }
}

/// Until when a lent nonce may be used, by no clock but how time passes here.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Term {
    begun: Instant,
    begun_at: SystemTime,
    ttl: Duration,
    margin: Duration,
}

impl Term {
    /// How long a closure can run in it at most.
    pub(crate) fn usable(&self) -> Duration {
        self.ttl.saturating_sub(self.margin)
    }

    /// How much of that is left. The monotonic clock stands still while a machine sleeps and the clock on the
    /// wall can be turned back, so whichever has gone further counts.
    pub(crate) fn left(&self) -> Duration {
        let by_wall = self.begun_at.elapsed().unwrap_or_default();
        let passed = self.begun.elapsed().max(by_wall);
        self.usable().saturating_sub(passed)
    }
}

/// A nonce that was lent, as its holder has it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Lent {
    /// Sign with this and with no other.
    pub nonce: u64,
    /// The reservation.
    pub reservation_id: Uuid,
    /// Whose nonce it is.
    pub signer: Address,
    /// The chain's configured name.
    pub chain: String,
    /// The request id under which it was lent.
    pub request_id: String,
    /// What must be shown to settle it by hand.
    pub lock_token: LockToken,
    /// Until when it is lent, by the database's clock. Use [`Lent::remaining`] to measure.
    pub expires_at: Option<Timestamp>,
    /// Which run of the closure this is, from 1.
    pub run: u32,
    /// The request id was used before, so a call before this one may have sent something with this nonce and died.
    /// Send the same bytes, if you have them; the nonce is not given back, whatever the closure says.
    pub was_known: bool,
    pub(crate) term: Option<Term>,
}

impl Lent {
    /// How long the closure may still run: it is cut off then.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.term.map_or(Duration::ZERO, |term| term.left())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn a_quarter_or_ten_seconds_are_kept_free() {
        let usable = |loan: Loan| loan.term().usable();
        assert_eq!(usable(Loan::default()), 50 * SECOND);
        assert_eq!(usable(Loan::default().ttl(8 * SECOND)), 6 * SECOND);
        let own = Loan::default().margin(59 * SECOND);
        assert_eq!(usable(own), SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn what_leaves_no_time_or_no_run_is_refused_before_anything_is_lent() {
        let default = Loan::default();
        for wrong in [
            default.clone().ttl(SECOND / 2),
            default.clone().margin(60 * SECOND),
            default.clone().runs(0),
        ] {
            assert!(matches!(wrong.check(), Err(Error::Unsendable(_))));
        }
        assert!(default.ttl(SECOND).check().is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_term_ends_by_whichever_clock_has_gone_further() {
        let term = Loan::default().term();
        tokio::time::advance(20 * SECOND).await;
        assert_eq!(term.left(), 30 * SECOND);
        // The machine slept: the monotonic clock has not moved, the one on the wall has.
        let slept = Term {
            begun_at: SystemTime::now() - 45 * SECOND,
            ..term
        };
        assert!(slept.left() <= 5 * SECOND, "{:?}", slept.left());
        // The clock on the wall was turned back: time has passed all the same.
        let turned = Term {
            begun_at: SystemTime::now() + 3_600 * SECOND,
            ..term
        };
        assert_eq!(turned.left(), 30 * SECOND);
        tokio::time::advance(40 * SECOND).await;
        assert_eq!(term.left(), Duration::ZERO);
    }
}
