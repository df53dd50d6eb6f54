//! The time: of day, and as it passes.

use std::time::Duration;

use jiff::Timestamp;

/// Tells the time. It may stand still, jump or go back: nothing that must not go back may follow
/// from it alone.
pub trait Clock: Send + Sync {
    /// The time now.
    fn now(&self) -> Timestamp;
}

/// Tells how much time has passed since some start. Never goes back.
pub trait Ticks: Send + Sync {
    /// Since the start.
    fn ticks(&self) -> Duration;
}
