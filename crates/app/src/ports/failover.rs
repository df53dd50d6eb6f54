//! What a store that was failed over to another server lets go on, and what it does not.

use fencepost_domain::failover::Loss;
use fencepost_domain::ids::LaneId;

/// What one look after a failover came to. Nothing, most of the time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Vouched {
    /// Lanes that go on by our word.
    pub gone_on: Vec<LaneId>,
    /// Lanes of which we know that something is missing: they are held until they are reconciled.
    pub lost: Vec<(LaneId, Loss)>,
    /// Lanes that we led and that an earlier failover had stopped: they stay held.
    pub held_before: Vec<LaneId>,
    /// Lanes that wait for the nodes named next.
    pub waiting: usize,
    /// Nodes that lived at the failover and have not said what they miss.
    pub silent: Vec<String>,
    /// They have been silent for a lease.
    pub overdue: bool,
    /// Nodes whose reports the lanes of `gone_on` no longer waited for. What those nodes acknowledged in these lanes may be
    /// missing.
    pub unheard: Vec<String>,
    /// Readers of the feed were told numbers that the new server gives again: its epoch has changed.
    pub feed_lost: bool,
}
