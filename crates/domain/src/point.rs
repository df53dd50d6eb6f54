//! How far a transaction has come, as a client waits for it. The one place that decides when a wait is over.

use crate::state::{Lent, Seen, Signing, State};

words! {
    /// What a client waits for. Each point includes those before it.
    Point("wait") {
        /// It has its nonce.
        Allocated = "allocated",
        /// Its bytes are stored, so its hash is known.
        Signed = "signed",
        /// Its bytes were sent; a node has, or may have, taken them.
        Submitted = "submitted",
        /// It is in a block, which may still be replaced.
        Mined = "mined",
        /// It has ended.
        Final = "final",
    }
}

impl State {
    /// Whether a client that waits for this point waits no longer: the point is reached, or the transaction
    /// has ended or is stuck, and waiting brings nothing more.
    #[must_use]
    pub fn has_reached(&self, point: Point) -> bool {
        match self.furthest() {
            Some(furthest) => point <= furthest,
            None => false,
        }
    }

    const fn furthest(&self) -> Option<Point> {
        match self {
            Self::Queued(_) => None,
            Self::Allocated(allocated) => Some(match allocated.bytes {
                Signing::Unsigned => Point::Allocated,
                // Refused bytes were sent, but no node has them: they count as signed only.
                Signing::Signed(_) | Signing::Refused(_) => Point::Signed,
            }),
            Self::Tracking(tracking) => Some(match tracking.seen {
                // What may have been taken counts as sent, and what was in a block was sent before.
                Seen::Broadcast | Seen::Ambiguous | Seen::Reorged => Point::Submitted,
                Seen::Mined(_) => Point::Mined,
            }),
            Self::Reserved(_) => Some(Point::Allocated),
            Self::Submitted(submitted) => Some(match submitted.seen {
                Lent::Awaited | Lent::Reorged => Point::Submitted,
                Lent::Mined(_) => Point::Mined,
            }),
            // A stuck transaction does not move by itself, so nobody waits for it.
            Self::Stuck(_)
            | Self::Confirmed(_)
            | Self::Failed(_)
            | Self::Used(_)
            | Self::Recyclable(_) => Some(Point::Final),
        }
    }
}
