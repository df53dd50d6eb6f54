//! What a node has in a test that is alone: tokio's time, which tests let pass, and no other node. The client's tests
//! and the fuzz targets have the same.

use std::time::Duration;

use async_trait::async_trait;
use fencepost_app::lifecycle::accept::Verdict;
use fencepost_app::ports::{Clock, NewTx, Peers, Ticks, Unforwarded};
use fencepost_domain::ids::Lane;
use jiff::Timestamp;
use tokio::time::Instant;

/// Tokio's time, as the time of day and as it passes.
pub(crate) struct Hands(Instant, Timestamp);

impl Hands {
    pub(crate) fn new() -> Self {
        Self(Instant::now(), Timestamp::now())
    }
}

impl Ticks for Hands {
    fn ticks(&self) -> Duration {
        self.0.elapsed()
    }
}

impl Clock for Hands {
    fn now(&self) -> Timestamp {
        let now = self.1.saturating_add(self.0.elapsed());
        now.expect("an elapsed time has no sign and no calendar")
    }
}

/// Nobody else is there.
pub(crate) struct Alone;

#[async_trait]
impl Peers for Alone {
    async fn forward(
        &self,
        _: &str,
        _: Lane,
        _: &NewTx,
        _: Duration,
    ) -> Result<Verdict, Unforwarded> {
        Err(Unforwarded::NotSent("alone".into()))
    }

    async fn nudge(&self, _: &str, _: Lane, _: Duration) -> Result<(), Unforwarded> {
        Err(Unforwarded::NotSent("alone".into()))
    }
}
