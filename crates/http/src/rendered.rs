//! The text of `/metrics`. Anyone may ask for it and it takes milliseconds to write. Writing has a budget of time: while it
//! lasts every caller gets a new text, and during a flood all share the last one.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::problem::{Code, Problem};

/// Writing may take this part of one processor. Lower lets a flood take more, higher shows older values during one.
const BUDGET_PART: u32 = 20;
/// How much time for writing is saved up. Less, and a few scrapers at once share a text; more lets a flood begin with more.
const BUDGET_MAX: Duration = Duration::from_millis(500);
/// During a flood a text is shared for no longer than this.
const SHARED_MAX: Duration = Duration::from_secs(1);

/// What was written last.
struct Last {
    at: Instant,
    all: Bytes,
    /// For callers without a key.
    public: Bytes,
}

struct State {
    last: Option<Last>,
    /// How much time for writing is left, as of `counted`.
    left: Duration,
    counted: Instant,
}

/// The last texts.
pub(crate) struct Rendered {
    registry: Arc<Registry>,
    state: Mutex<State>,
}

impl Rendered {
    pub(crate) fn new(registry: Arc<Registry>) -> Self {
        let state = State {
            last: None,
            left: BUDGET_MAX,
            counted: Instant::now(),
        };
        Self {
            registry,
            state: Mutex::new(state),
        }
    }

    /// The meters as they are now, or were a moment ago: all of them, or those that tell no addresses and versions.
    pub(crate) async fn text(&self, all: bool) -> Result<Bytes, Problem> {
        let mut state = self.state.lock().await;
        let now = Instant::now();
        let saved = now.saturating_duration_since(state.counted) / BUDGET_PART;
        state.left = (state.left + saved).min(BUDGET_MAX);
        state.counted = now;
        let is_spent = state.left.is_zero();
        let shared = state
            .last
            .take()
            .filter(|last| is_spent && now.saturating_duration_since(last.at) < SHARED_MAX);
        let last = match shared {
            Some(last) => last,
            None => {
                let last = self.write()?;
                state.left = state.left.saturating_sub(now.elapsed());
                last
            }
        };
        let text = if all { &last.all } else { &last.public };
        let text = text.clone();
        state.last = Some(last);
        Ok(text)
    }

    fn write(&self) -> Result<Last, Problem> {
        let mut text = String::new();
        encode(&mut text, &self.registry).map_err(|_| Problem::new(Code::InternalError))?;
        Ok(Last {
            at: Instant::now(),
            public: Bytes::from(without_private(&text)),
            all: Bytes::from(text),
        })
    }
}

/// Labels whose values tell addresses or versions. What has one is left out for callers without a key.
const PRIVATE_LABELS: [&str; 3] = ["signer=\"", "version=\"", "client=\""];

/// The same metrics without samples that have a private label. Their descriptions stay: they tell nothing of this node.
fn without_private(text: &str) -> String {
    let is_public = |line: &&str| {
        let labels = line.split_once('{').filter(|_| !line.starts_with('#'));
        let labels = labels.map_or("", |(_, labels)| labels);
        let begins =
            |label: &&str| labels.starts_with(*label) || labels.contains(&format!(",{label}"));
        !PRIVATE_LABELS.iter().any(begins)
    };
    text.split_inclusive('\n').filter(is_public).collect()
}

#[cfg(test)]
mod tests {
    use prometheus_client::metrics::counter::Counter;

    use super::*;

    /// While time for writing is left each caller gets the meters as they are; then all share a text.
    #[tokio::test(start_paused = true)]
    async fn a_flood_shares_the_last_text() {
        let mut registry = Registry::default();
        let counter: Counter = Counter::default();
        registry.register("asked", "How often", counter.clone());
        let rendered = Rendered::new(Arc::new(registry));
        let shown = async || {
            let text = rendered.text(true).await.unwrap();
            let text = String::from_utf8(text.to_vec()).unwrap();
            let line = text
                .lines()
                .find_map(|line| line.strip_prefix("asked_total "));
            line.map(str::to_owned).unwrap()
        };
        for expected in ["1", "2"] {
            counter.inc();
            assert_eq!(shown().await, expected);
        }
        rendered.state.lock().await.left = Duration::ZERO;
        counter.inc();
        assert_eq!(shown().await, "2", "the time is spent");
        tokio::time::advance(SHARED_MAX).await;
        assert_eq!(shown().await, "3", "no text is older than a second");
    }

    #[test]
    fn samples_with_a_private_label_are_left_out() {
        let text = "# HELP fencepost_signer_balance_wei What {signer=\"x\"} has.\n\
                    fencepost_signer_balance_wei{chain=\"main\",signer=\"0xAB\"} 7\n\
                    fencepost_window{signer=\"0xAB\"} 1\n\
                    fencepost_build_info{version=\"1\"} 1\n\
                    fencepost_rpc{chain=\"main\",method=\"not a signer=\"} 1\n\
                    fencepost_plain 2\n# EOF\n";
        let expected = "# HELP fencepost_signer_balance_wei What {signer=\"x\"} has.\n\
                        fencepost_rpc{chain=\"main\",method=\"not a signer=\"} 1\n\
                        fencepost_plain 2\n# EOF\n";
        assert_eq!(without_private(text), expected);
    }
}
