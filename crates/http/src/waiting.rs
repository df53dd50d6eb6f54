//! `wait` and `waitSeconds`: an answer that comes when transactions have reached a point.

use std::time::Duration;

use fencepost_app::lifecycle::waiting::Waiting;
use fencepost_app::node::Node;
use fencepost_app::ports::Record;
use fencepost_domain::ids::TxId;
use fencepost_domain::point::Point;
use tokio::time::Instant;

use crate::query::Query;

/// The longest wait that a request may ask for.
pub(crate) const WAIT_SECONDS_MAX: u64 = 30;
/// The longest wait that is kept. Load balancers give up after 30 s: the last look at the store (half a second) and the
/// answer's way need what is left. Longer, and clients get 502 instead of an answer; shorter asks more often for nothing.
pub(crate) const WAIT_MAX: Duration = Duration::from_millis(28_500);
/// How long is waited where the request does not say.
const WAIT_SECONDS: u64 = 10;

/// How long a request waits that asks for so many seconds.
pub(crate) fn kept(seconds: u64) -> Duration {
    Duration::from_secs(seconds).min(WAIT_MAX)
}

/// What a request waits for, and until when.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    point: Point,
    until: Instant,
}

/// The same, with places among those who wait.
pub(crate) struct Begun<'a> {
    waiting: Waiting<'a>,
    until: Instant,
}

impl Wanted {
    /// What the parameters say. The time runs from here on.
    pub(crate) fn read(query: &mut Query) -> Option<Self> {
        let point = query.text("wait");
        if point.is_none() {
            if query.text("waitSeconds").is_some() {
                query
                    .faults
                    .add("waitSeconds", "is only for requests with wait");
            }
            return None;
        }
        let seconds = query.number("waitSeconds", 0..=WAIT_SECONDS_MAX, WAIT_SECONDS);
        let wrong = "must be allocated, signed, submitted, mined or final";
        let read = |text: &str| Point::from_word(text).map_err(|_| wrong);
        let point = query.faults.read("wait", point.as_deref(), read)?;
        let until = Instant::now() + kept(seconds);
        Some(Self { point, until })
    }

    /// Begins to wait for what is about to be stored under these ids.
    pub(crate) fn begin(self, node: &Node, txs: impl IntoIterator<Item = TxId>) -> Begun<'_> {
        Begun {
            waiting: node.wait_for(self.point, txs),
            until: self.until,
        }
    }
}

impl Begun<'_> {
    /// The same transactions as they stand when the wait is over.
    #[expect(
        clippy::vec_box,
        reason = "records come boxed and go on boxed: each is large"
    )]
    pub(crate) async fn reach(self, records: Vec<Box<Record>>) -> Vec<Box<Record>> {
        self.waiting.reach(records, self.until).await
    }

    /// The same for one.
    pub(crate) async fn reach_one(self, record: Box<Record>) -> Box<Record> {
        let known = record.clone();
        let mut reached = self.reach(vec![record]).await;
        reached.pop().unwrap_or(known)
    }
}
