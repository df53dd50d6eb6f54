//! How often each key may ask: a token bucket for each, as many as there are keys.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::problem::{Code, Problem};

/// The buckets, in the order of the keys.
pub(crate) struct KeyRates(Vec<Option<Mutex<Bucket>>>);

/// Holds at most one second's worth. It may owe: what a batch turns out to hold is charged after it
/// was let in, and the next request waits for it.
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

    /// Lets one in, or says how long until it would.
    fn take(&mut self) -> Result<(), Duration> {
        self.refill();
        if self.held >= 1.0 {
            self.held -= 1.0;
            return Ok(());
        }
        let wait = (1.0 - self.held) / self.per_second;
        Err(Duration::try_from_secs_f64(wait).unwrap_or(Duration::MAX))
    }
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
        bucket.take().map_err(|wait| {
            let whole = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            Problem::new(Code::RateLimited).retry_after(whole.max(1))
        })
    }

    /// Charges for what a request held besides itself.
    pub(crate) fn charge(&self, key: usize, more: usize) {
        if let Some(bucket) = self.0.get(key).and_then(Option::as_ref) {
            let mut bucket = bucket.lock().unwrap_or_else(PoisonError::into_inner);
            bucket.held -= f64::from(u32::try_from(more).unwrap_or(u32::MAX));
        }
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
        rates.charge(0, 29);
        assert!(rates.take(0).is_err());
        tokio::time::advance(Duration::from_millis(2_000)).await;
        assert!(rates.take(0).is_err());
        tokio::time::advance(Duration::from_millis(101)).await;
        assert!(rates.take(0).is_ok());
    }
}
