//! When a follower looks at its chain next: at every poll interval, and soon after a new block was announced. However
//! often blocks are announced, looks stay bounded; polls come whether or not anything is announced.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep_until};

/// The shortest time from the end of one look to a look that an announcement causes. Too low: an endpoint that floods us with
/// announcements makes us flood the endpoints that we read from. Too high: blocks are seen later than they could be.
const ANNOUNCED_GAP: Duration = Duration::from_millis(100);

/// When the next look is due.
pub(crate) struct Pace {
    poll: Interval,
    /// Notified when a block was announced. It holds one notification at most, so announcements during a look cause one more look.
    announced: Arc<Notify>,
    /// Announcements are not listened to before this time.
    rests_until: Instant,
}

impl Pace {
    /// The first look is due at once.
    pub(crate) fn new(poll_interval: Duration, announced: Arc<Notify>) -> Self {
        let mut poll = interval(poll_interval);
        poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            poll,
            announced,
            rests_until: Instant::now(),
        }
    }

    /// Waits until a look is due.
    pub(crate) async fn next(&mut self) {
        let announced = async {
            sleep_until(self.rests_until).await;
            self.announced.notified().await;
        };
        tokio::select! {
            biased;
            _ = self.poll.tick() => {}
            () = announced => {}
        }
    }

    /// A look has ended.
    pub(crate) fn looked(&mut self) {
        self.rests_until = Instant::now() + ANNOUNCED_GAP;
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{sleep, timeout};

    use super::*;

    const HOUR: Duration = Duration::from_hours(1);

    /// The looks within this time, while `announce` goes on; each takes as long as given.
    async fn looks(
        poll_interval: Duration,
        look: Duration,
        within: Duration,
        announce: impl AsyncFn(&Notify),
    ) -> Vec<Duration> {
        let announced = Arc::new(Notify::new());
        let mut pace = Pace::new(poll_interval, Arc::clone(&announced));
        let (began, mut looks) = (Instant::now(), Vec::new());
        let looking = async {
            loop {
                pace.next().await;
                looks.push(began.elapsed());
                sleep(look).await;
                pace.looked();
            }
        };
        let all = async { tokio::join!(looking, announce(&announced)) };
        assert!(timeout(within, all).await.is_err(), "looks never end");
        looks
    }

    #[tokio::test(start_paused = true)]
    async fn an_announced_block_is_looked_at_at_once() {
        let seconds = Duration::from_secs;
        let announce = async |announced: &Notify| {
            for _ in 0..3 {
                sleep(seconds(12)).await;
                announced.notify_one();
            }
        };
        let looks = looks(HOUR, Duration::ZERO, seconds(60), announce).await;
        assert_eq!(looks, [0, 12, 24, 36].map(seconds));
    }

    #[tokio::test(start_paused = true)]
    async fn without_announcements_the_chain_is_polled() {
        let seconds = Duration::from_secs;
        let looks = looks(seconds(2), Duration::ZERO, seconds(7), async |_| {}).await;
        assert_eq!(looks, [0, 2, 4, 6].map(seconds));
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_of_announcements_causes_few_looks_and_stops_no_poll() {
        let flood = async |announced: &Notify| {
            for _ in 0..10_000 {
                announced.notify_one();
                sleep(Duration::from_micros(100)).await;
            }
        };
        let second = Duration::from_secs(1);
        let quick = looks(HOUR, Duration::ZERO, second, flood).await;
        assert!((9..=11).contains(&quick.len()), "{quick:?}");
        let slow = looks(HOUR, ANNOUNCED_GAP, second, flood).await;
        assert!((4..=6).contains(&slow.len()), "{slow:?}");
        // A poll interval below the gap is kept.
        let polled = looks(Duration::from_millis(10), Duration::ZERO, second, flood).await;
        assert!(polled.len() >= 99, "{polled:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_block_that_is_announced_during_a_look_causes_another_look() {
        let millis = Duration::from_millis;
        let announce = async |announced: &Notify| {
            sleep(millis(50)).await;
            announced.notify_one();
        };
        let looks = looks(HOUR, millis(500), Duration::from_secs(5), announce).await;
        assert_eq!(looks, [0, 600].map(millis));
    }
}
