//! Whether the store answers. Anyone may ask, so one question at a time is put to it, and its answer
//! is good for all who ask within half a second.

use std::time::Duration;

use fencepost_app::causes::Causes;
use fencepost_app::ports::Store;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

/// How long the store has to answer that it is there. A prober asks again within seconds.
const PING_TIME: Duration = Duration::from_secs(2);
/// How long its answer is good. Longer hides an outage, shorter asks more often than anyone needs.
const FRESH: Duration = Duration::from_millis(500);

/// The last answer.
#[derive(Default)]
pub(crate) struct Pulse(Mutex<Option<(Instant, bool)>>);

impl Pulse {
    /// Whether the store answers, or did a moment ago.
    pub(crate) async fn beats(&self, store: &dyn Store) -> bool {
        let mut last = self.0.lock().await;
        if let Some((at, beats)) = *last
            && at.elapsed() < FRESH
        {
            return beats;
        }
        let beats = match timeout(PING_TIME, store.ping()).await {
            Ok(Ok(_)) => true,
            Ok(Err(error)) => {
                tracing::warn!(error = %Causes(&error), "not ready: the store does not answer");
                false
            }
            Err(_) => {
                tracing::warn!(within = ?PING_TIME, "not ready: the store does not answer in time");
                false
            }
        };
        *last = Some((Instant::now(), beats));
        beats
    }
}
