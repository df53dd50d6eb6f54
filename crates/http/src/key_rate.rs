//! How often each key may ask: a token bucket for each, as many as there are keys.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::problem::{Code, Problem};

/// The buckets, in the order of the keys.
pub(crate) struct KeyRates(Vec<Option<Mutex<Bucket>>>);

/// Holds at most one second's worth. It may owe: a batch of more than that is let in when the bucket is
/// full, and what it holds beyond is paid before the next request.
struct Bucket {
    per_second: f64,
    held: f64,
    at: Instant,
}

impl Bucket {
    fn new(per_second: u32) -> Self {
        Self {
            per_second: per_second.into(),
            held: per_second.into(),
            at: Instant::now(),
        }
    }

    fn refill(&mut self) {
        let now = Instant::now();
        let since = now.saturating_duration_since(self.at).as_secs_f64();
        self.held = (self.held + since * self.per_second).min(self.per_second);
        self.at = now;
    }

    /// Lets so many in, or says how long until it would. It never holds more than `most`.
    fn take(&mut self, count: f64, most: f64) -> Result<(), Duration> {
        self.refill();
        let needed = count.min(most);
        if self.held >= needed {
            self.held -= count;
            return Ok(());
        }
        let wait = (needed - self.held) / self.per_second;
        Err(Duration::try_from_secs_f64(wait).unwrap_or(Duration::MAX))
    }
}

fn limited(wait: Duration) -> Problem {
    let whole = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    Problem::new(Code::RateLimited).retry_after(whole.max(1))
}

impl KeyRates {
    /// A bucket for each rate; 0 is no limit.
    pub(crate) fn new(rates: Vec<u32>) -> Self {
        let bucket = |rate| (rate > 0).then(|| Mutex::new(Bucket::new(rate)));
        Self(rates.into_iter().map(bucket).collect())
    }

    /// Lets one request in, or tells when to come again.
    pub(crate) fn take(&self, key: usize) -> Result<(), Problem> {
        let Some(bucket) = self.0.get(key).and_then(Option::as_ref) else {
            return Ok(());
        };
        let mut bucket = bucket.lock().unwrap_or_else(PoisonError::into_inner);
        let most = bucket.per_second;
        bucket.take(1.0, most).map_err(limited)
    }

    /// Lets in what a request holds besides itself, all of it or nothing.
    pub(crate) fn take_more(&self, key: usize, more: usize) -> Result<(), Problem> {
        let Some(bucket) = self.0.get(key).and_then(Option::as_ref) else {
            return Ok(());
        };
        let mut bucket = bucket.lock().unwrap_or_else(PoisonError::into_inner);
        // The request itself has been paid for.
        let most = bucket.per_second - 1.0;
        let more = f64::from(u32::try_from(more).unwrap_or(u32::MAX));
        bucket.take(more, most).map_err(limited)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_key_gets_its_rate_and_no_more() {
        let rates = KeyRates::new(vec![2, 0]);
        assert!(rates.take(0).is_ok());
        assert!(rates.take(0).is_ok());
        assert_eq!(rates.take(0).unwrap_err().code(), Code::RateLimited);
        for _ in 0..100 {
            assert!(rates.take(1).is_ok());
        }
        tokio::time::advance(Duration::from_millis(500)).await;
        assert!(rates.take(0).is_ok());
        assert!(rates.take(0).is_err());
        tokio::time::advance(Duration::from_secs(60)).await;
        assert!(rates.take(0).is_ok());
        assert!(rates.take(0).is_ok());
        assert!(rates.take(0).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_batch_is_paid_for_before_the_next_request() {
        let rates = KeyRates::new(vec![10]);
        assert!(rates.take(0).is_ok());
        assert!(rates.take_more(0, 29).is_ok());
        assert!(rates.take(0).is_err());
        tokio::time::advance(Duration::from_millis(2_000)).await;
        assert!(rates.take(0).is_err());
        tokio::time::advance(Duration::from_millis(101)).await;
        assert!(rates.take(0).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_batch_is_let_in_only_when_all_of_it_is() {
        let rates = KeyRates::new(vec![10, 0]);
        assert!(rates.take(0).is_ok());
        assert!(rates.take(0).is_ok());
        let refused = rates.take_more(0, 9).unwrap_err();
        assert_eq!(refused.code(), Code::RateLimited);
        assert!(rates.take_more(0, 8).is_ok());
        assert!(rates.take(0).is_err());
        tokio::time::advance(Duration::from_millis(500)).await;
        assert!(rates.take(0).is_ok());
        assert!(rates.take_more(0, 999).is_err(), "the bucket is not full");
        assert!(rates.take_more(0, 0).is_ok());
        assert!(rates.take_more(1, 999).is_ok());
    }
}
