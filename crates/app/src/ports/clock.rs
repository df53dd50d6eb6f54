//! The time, for stores that have no clock of their own.

use jiff::Timestamp;

/// Tells the time. It may stand still, jump or go back: nothing that must not go back may follow
/// from it alone.
pub trait Clock: Send + Sync {
    /// The time now.
    fn now(&self) -> Timestamp;
}
