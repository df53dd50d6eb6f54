//! The machine's clocks.

use std::time::{Duration, Instant};

use fencepost_app::ports::{Clock, Ticks};
use jiff::{SignedDuration, Timestamp};

/// The time of day.
#[derive(Default)]
pub(crate) struct TimeOfDay {
    /// How far it is off; none but in tests of debug builds, where `FENCEPOST_CLOCK_AHEAD` has the seconds.
    ahead: SignedDuration,
}

impl TimeOfDay {
    /// The machine's.
    pub(crate) fn of_machine() -> Self {
        #[cfg(debug_assertions)]
        if let Some(seconds) = std::env::var("FENCEPOST_CLOCK_AHEAD")
            .ok()
            .and_then(|text| text.parse().ok())
        {
            let ahead = SignedDuration::from_secs(seconds);
            return Self { ahead };
        }
        Self::default()
    }
}

impl Clock for TimeOfDay {
    fn now(&self) -> Timestamp {
        let now = Timestamp::now();
        now.saturating_add(self.ahead).unwrap_or(now)
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
