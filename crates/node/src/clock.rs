//! The machine's clocks.

use std::time::{Duration, Instant};

use fencepost_app::ports::{Clock, Ticks};
use jiff::Timestamp;

/// The time of day.
pub(crate) struct TimeOfDay;

impl Clock for TimeOfDay {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// The time since this process began.
pub(crate) struct Uptime(Instant);

impl Uptime {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }
}

impl Ticks for Uptime {
    fn ticks(&self) -> Duration {
        self.0.elapsed()
    }
}
