//! Time: tokio's, which stands still while anyone has something to do. The time of day is that with an
//! offset, which jumps; time as it passes never does.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use fencepost_app::ports::{Clock, Ticks};
use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// When every run begins, in seconds.
pub(crate) const EPOCH: i64 = 1_800_000_000;

/// One machine's clock.
#[derive(Debug)]
pub(crate) struct Hands {
    began: Instant,
    offset_millis: AtomicI64,
}

impl Hands {
    pub(crate) const fn new(began: Instant) -> Self {
        Self {
            began,
            offset_millis: AtomicI64::new(0),
        }
    }

    /// The time of day is another from now on.
    pub(crate) fn jump(&self, millis: i64) {
        self.offset_millis.fetch_add(millis, Ordering::Relaxed);
    }

    /// How far it is from the truth.
    pub(crate) fn offset_millis(&self) -> i64 {
        self.offset_millis.load(Ordering::Relaxed)
    }
}

impl Ticks for Hands {
    fn ticks(&self) -> Duration {
        self.began.elapsed()
    }
}

impl Clock for Hands {
    fn now(&self) -> Timestamp {
        let start = Timestamp::from_second(EPOCH).expect("it is a time");
        let offset = SignedDuration::from_millis(self.offset_millis.load(Ordering::Relaxed));
        let passed = SignedDuration::try_from(self.began.elapsed()).expect("runs are short");
        let now = start.saturating_add(passed + offset);
        now.expect("runs are short")
    }
}
