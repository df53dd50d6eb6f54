//! How often a key may ask: a token bucket.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::problem::{Code, Problem};

/// A key's bucket; clones share it. None is no limit.
#[derive(Debug, Clone)]
pub(crate) struct KeyRate(Option<Arc<Mutex<Bucket>>>);

/// Holds at most its capacity, mostly one second's worth. It may owe: a batch of more than that is let in when the bucket is
/// full, and what it holds beyond is paid before the next request.
#[derive(Debug)]
pub(crate) struct Bucket {
    per_second: f64,
    capacity: f64,
    held: f64,
    at: Instant,
}

impl Bucket {
    pub(crate) fn new(per_second: f64, capacity: f64) -> Self {
        Self {
            per_second,
            capacity,
            held: capacity,
            at: Instant::now(),
        }
    }

    fn refill(&mut self) {
        let now = Instant::now();
        let since = now.saturating_duration_since(self.at).as_secs_f64();
        self.held = (self.held + since * self.per_second).min(self.capacity);
        self.at = now;
    }

    /// Whether it holds as much as it can.
    pub(crate) fn is_full(&mut self) -> bool {
        self.refill();
        self.held >= self.capacity
    }

    /// Lets so many in, or says how long until it would. It never holds more than `most`.
    pub(crate) fn take(&mut self, count: f64, most: f64) -> Result<(), Duration> {
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

pub(crate) fn limited(wait: Duration) -> Problem {
    let part = u64::from(wait.subsec_nanos() > 0);
    let whole = wait.as_secs().saturating_add(part);
    Problem::new(Code::RateLimited).retry_after(whole.max(1))
}

impl KeyRate {
    /// So many requests a second; 0 is no limit.
    pub(crate) fn new(per_second: u32) -> Self {
        let rate = f64::from(per_second);
        Self((per_second > 0).then(|| Self::bucket(rate, rate)))
    }

    /// So many requests a minute, all of them at once if need be; 0 is none at all.
    pub(crate) fn per_minute(count: u32) -> Self {
        let capacity = f64::from(count);
        Self(Some(Self::bucket(capacity / 60.0, capacity)))
    }

    fn bucket(per_second: f64, capacity: f64) -> Arc<Mutex<Bucket>> {
        Arc::new(Mutex::new(Bucket::new(per_second, capacity)))
    }

    /// Lets one request in, or tells when to come again.
    pub(crate) fn take(&self) -> Result<(), Problem> {
        let Some(bucket) = &self.0 else {
            return Ok(());
        };
        let mut bucket = bucket.lock().unwrap_or_else(PoisonError::into_inner);
        // Less than one is none: what needs one waits for more than the bucket can hold.
        let most = bucket.capacity.max(1.0);
        bucket.take(1.0, most).map_err(limited)
    }

    /// Lets in what a request holds besides itself, all of it or nothing.
    pub(crate) fn take_more(&self, more: usize) -> Result<(), Problem> {
        let Some(bucket) = &self.0 else {
            return Ok(());
        };
        let mut bucket = bucket.lock().unwrap_or_else(PoisonError::into_inner);
        // The request itself has been paid for.
        let most = bucket.capacity - 1.0;
        let more = f64::from(u32::try_from(more).unwrap_or(u32::MAX));
        bucket.take(more, most).map_err(limited)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_key_gets_its_rate_and_no_more() {
        let rate = KeyRate::new(2);
        assert!(rate.take().is_ok());
        assert!(rate.take().is_ok());
        assert_eq!(rate.take().unwrap_err().code(), Code::RateLimited);
        for _ in 0..100 {
            assert!(KeyRate::new(0).take().is_ok());
        }
        tokio::time::advance(Duration::from_millis(500)).await;
        assert!(rate.take().is_ok());
        assert!(rate.take().is_err());
        tokio::time::advance(Duration::from_secs(60)).await;
        assert!(rate.take().is_ok());
        assert!(rate.take().is_ok());
        assert!(rate.take().is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_batch_is_paid_for_before_the_next_request() {
        let rate = KeyRate::new(10);
        assert!(rate.take().is_ok());
        assert!(rate.take_more(29).is_ok());
        assert!(rate.take().is_err());
        tokio::time::advance(Duration::from_millis(2_000)).await;
        assert!(rate.take().is_err());
        tokio::time::advance(Duration::from_millis(101)).await;
        assert!(rate.take().is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_batch_is_let_in_only_when_all_of_it_is() {
        let rate = KeyRate::new(10);
        assert!(rate.take().is_ok());
        assert!(rate.take().is_ok());
        let refused = rate.take_more(9).unwrap_err();
        assert_eq!(refused.code(), Code::RateLimited);
        assert!(rate.take_more(8).is_ok());
        assert!(rate.take().is_err());
        tokio::time::advance(Duration::from_millis(500)).await;
        assert!(rate.take().is_ok());
        assert!(rate.take_more(999).is_err(), "the bucket is not full");
        assert!(rate.take_more(0).is_ok());
        assert!(KeyRate::new(0).take_more(999).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_rate_by_the_minute_lets_a_minutes_worth_in_at_once() {
        let rate = KeyRate::per_minute(3);
        for _ in 0..3 {
            assert!(rate.take().is_ok());
        }
        assert!(rate.take().is_err());
        tokio::time::advance(Duration::from_secs(21)).await;
        assert!(rate.take().is_ok());
        assert!(rate.take().is_err());
        assert!(KeyRate::per_minute(0).take().is_err());
    }
}
