//! Telling readers how transactions ended. The feed is read from the store by number; one look for
//! all waiting readers of a node tells them when there is more.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use fencepost_domain::ids::FeedSeq;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use crate::node::Node;
use crate::ports::{Feed, StoreError};

/// How long the last read may take when the time of a reader is over.
const LAST_LOOK: Duration = Duration::from_millis(500);

/// How far the feed is, and how many wait for more.
#[derive(Debug)]
pub(crate) struct Watch {
    head: watch::Sender<FeedSeq>,
    readers: AtomicUsize,
    /// Whether the head is that of the look before: what lies above it has come since.
    followed: AtomicBool,
}

impl Default for Watch {
    fn default() -> Self {
        Self {
            head: watch::Sender::new(FeedSeq::ZERO),
            readers: AtomicUsize::new(0),
            followed: AtomicBool::new(false),
        }
    }
}

/// One that waits.
struct Reader<'a>(&'a Watch);

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        self.0.readers.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Node {
    /// The feed after a number. Waits for the first row no longer than `wait`, and not at all while
    /// the node is stopping.
    pub async fn completions(
        &self,
        after: FeedSeq,
        limit: usize,
        wait: Duration,
    ) -> Result<Feed, StoreError> {
        let deadline = Instant::now() + wait;
        let mut head = self.feed.head.subscribe();
        self.feed.readers.fetch_add(1, Ordering::Relaxed);
        let _reader = Reader(&self.feed);
        let mut feed = self.store.completions(after, limit).await?;
        loop {
            // A reader that is ahead of the feed has seen one that was lost, and one behind its floor has missed
            // some: it must hear that now.
            let lost = feed.head < after || after < feed.floor;
            let over = lost || !feed.completions.is_empty();
            if over || self.is_draining() {
                return Ok(feed);
            }
            let more = head.wait_for(|head| *head > after);
            let woken = tokio::select! {
                biased;
                () = self.drained() => false,
                more = timeout_at(deadline, more) => more.is_ok(),
            };
            if !woken {
                return Ok(feed);
            }
            // The time of a reader that was woken late is over all the same: the next poll has what this one misses.
            let read = self.store.completions(after, limit);
            match timeout_at(deadline + LAST_LOOK, read).await {
                Ok(read) => feed = read?,
                Err(_) => return Ok(feed),
            }
        }
    }

    /// Looks whether the feed has grown, if anyone waits for it.
    pub async fn watch_feed(&self) -> Result<(), StoreError> {
        if self.feed.readers.load(Ordering::Relaxed) == 0 {
            self.feed.followed.store(false, Ordering::Relaxed);
            return Ok(());
        }
        let known = *self.feed.head.borrow();
        let feed = self.store.completions(known, 1).await?;
        // After a time in which nobody waited, rows are old that nobody was late to tell.
        let followed = self.feed.followed.swap(true, Ordering::Relaxed);
        if let Some(first) = feed.completions.first().filter(|_| followed) {
            let lag = self.clock.now().duration_since(first.at);
            self.meters.told(lag.try_into().unwrap_or_default());
        }
        if feed.head != known {
            self.feed.head.send_replace(feed.head);
        }
        Ok(())
    }
}
