//! The places of connections. Each costs a file descriptor, and the store and the chains need some too, so there is
//! a fixed number of places. A new connection that finds none gets the place of the connection that has been idle
//! longest; a request that is being answered never loses its place.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

use crate::meters::Meters;

/// One part in so many of all places is emptied at once, because finding the idlest looks at all of them. A larger
/// part closes connections that could have stayed; a smaller one looks more often while many connect.
const AT_ONCE: usize = 64;
/// Places for health checks while every other place has a request that is being answered. More would need more descriptors;
/// fewer, and a few slow probes could fill them.
pub(crate) const SPARE: usize = 16;
/// How long a new connection waits before idle ones are looked for again.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Above this part of all places, in percent, an episode of crowding goes on.
const CROWDED_PERCENT: usize = 90;

/// What one connection does.
pub(crate) struct Activity {
    epoch: Instant,
    /// When a byte last came or went, in milliseconds of `epoch`.
    last: AtomicU64,
    /// How many heads of requests are complete.
    heads: AtomicU64,
    /// A request is being answered.
    answering: AtomicBool,
    /// The connection was asked to end.
    closing: AtomicBool,
    close: Notify,
}

impl Activity {
    pub(crate) fn since(epoch: Instant) -> Self {
        let new = Self {
            epoch,
            last: AtomicU64::new(0),
            heads: AtomicU64::new(0),
            answering: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            close: Notify::new(),
        };
        new.touch();
        new
    }

    /// A byte came or went.
    pub(crate) fn touch(&self) {
        let ms = u64::try_from(self.epoch.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(ms, Ordering::Relaxed);
    }

    pub(crate) fn heads(&self) -> u64 {
        self.heads.load(Ordering::Relaxed)
    }

    /// A request is there, and will be answered.
    pub(crate) fn begin(&self) {
        self.heads.fetch_add(1, Ordering::Relaxed);
        self.answering.store(true, Ordering::Relaxed);
    }

    pub(crate) fn end(&self) {
        self.touch();
        self.answering.store(false, Ordering::Relaxed);
    }

    /// Resolves when the connection must make room. It runs in the connection's own task, as its requests do, so none can begin
    /// in between; one that began before keeps the connection.
    pub(crate) async fn closed(&self) {
        loop {
            self.close.notified().await;
            if !self.answering.load(Ordering::Relaxed) {
                return;
            }
            self.closing.store(false, Ordering::Relaxed);
        }
    }

    fn is_idle(&self) -> bool {
        !self.answering.load(Ordering::Relaxed) && !self.closing.load(Ordering::Relaxed)
    }
}

/// A connection's place. Dropping it makes room.
pub(crate) struct Place {
    pub(crate) activity: Arc<Activity>,
    /// It serves health checks only.
    pub(crate) is_spare: bool,
    id: u64,
    places: Arc<Places>,
    _room: OwnedSemaphorePermit,
}

impl Place {
    /// It was closed for another connection.
    pub(crate) fn count_closed(&self) {
        self.places.meters.closed_for_room.inc();
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.open().remove(&self.id);
        self.places.meters.connections.dec();
    }
}

/// All places.
pub(crate) struct Places {
    max: usize,
    room: Arc<Semaphore>,
    spare: Arc<Semaphore>,
    open: Mutex<HashMap<u64, Arc<Activity>>>,
    epoch: Instant,
    next: AtomicU64,
    /// How many were closed for room in this episode; none when there is room.
    episode: Mutex<Option<u64>>,
    meters: Meters,
}

impl Places {
    pub(crate) fn new(max: usize, meters: Meters) -> Arc<Self> {
        let max = max.max(1);
        Arc::new(Self {
            max,
            room: Arc::new(Semaphore::new(max)),
            spare: Arc::new(Semaphore::new(SPARE)),
            open: Mutex::default(),
            epoch: Instant::now(),
            next: AtomicU64::new(0),
            episode: Mutex::default(),
            meters,
        })
    }

    fn open(&self) -> MutexGuard<'_, HashMap<u64, Arc<Activity>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a connection that was accepted. While all have requests that are being answered, the connection gets a spare one,
    /// or waits.
    pub(crate) async fn take(self: &Arc<Self>) -> Place {
        loop {
            if let Ok(room) = Arc::clone(&self.room).try_acquire_owned() {
                self.note_room();
                return self.place(room, false);
            }
            if self.make_room() == 0
                && let Ok(room) = Arc::clone(&self.spare).try_acquire_owned()
            {
                return self.place(room, true);
            }
            if let Ok(Ok(room)) = timeout(LOOK_EVERY, Arc::clone(&self.room).acquire_owned()).await
            {
                return self.place(room, false);
            }
        }
    }

    fn place(self: &Arc<Self>, room: OwnedSemaphorePermit, is_spare: bool) -> Place {
        let activity = Arc::new(Activity::since(self.epoch));
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        self.open().insert(id, Arc::clone(&activity));
        self.meters.connections.inc();
        Place {
            activity,
            is_spare,
            id,
            places: Arc::clone(self),
            _room: room,
        }
    }

    /// Asks those that have been idle longest to end; how many.
    pub(crate) fn make_room(&self) -> usize {
        let mut idle: Vec<(u64, Arc<Activity>)> = self
            .open()
            .values()
            .filter(|activity| activity.is_idle())
            .map(|activity| (activity.last.load(Ordering::Relaxed), Arc::clone(activity)))
            .collect();
        let count = (self.max / AT_ONCE).max(1).min(idle.len());
        if count == 0 {
            self.note_crowd(0);
            return 0;
        }
        idle.select_nth_unstable_by_key(count - 1, |(last, _)| *last);
        for (_, activity) in &idle[..count] {
            activity.closing.store(true, Ordering::Relaxed);
            activity.close.notify_one();
        }
        self.note_crowd(u64::try_from(count).unwrap_or(u64::MAX));
        count
    }

    /// One line when an episode begins, and one when it is over.
    fn note_crowd(&self, closed: u64) {
        let mut episode = self.episode.lock().unwrap_or_else(PoisonError::into_inner);
        if episode.is_none() {
            tracing::warn!(
                code = "connections_full",
                connections_max = self.max,
                "all places for connections are taken: the connections that have been idle longest are closed"
            );
        }
        *episode = Some(episode.unwrap_or(0).saturating_add(closed));
    }

    fn note_room(&self) {
        let taken = self.max - self.room.available_permits();
        if taken > self.max * CROWDED_PERCENT / 100 {
            return;
        }
        let mut episode = self.episode.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(closed) = episode.take() {
            tracing::info!(closed, "there is room for connections again");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_idlest_makes_room_and_one_that_is_answered_never_does() {
        let places = Places::new(3, Meters::default());
        let mut taken = Vec::new();
        for _ in 0..3 {
            taken.push(places.take().await);
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        taken[0].activity.begin();
        taken[2].activity.touch();
        let waiting = tokio::spawn({
            let places = Arc::clone(&places);
            async move { places.take().await }
        });
        // The first answers a request and the third has just moved a byte.
        taken[1].activity.closed().await;
        drop(taken.remove(1));
        assert!(!waiting.await.unwrap().is_spare);
    }

    #[tokio::test(start_paused = true)]
    async fn when_all_are_answered_a_few_more_come_in_for_health_checks() {
        let places = Places::new(2, Meters::default());
        let busy = [places.take().await, places.take().await];
        busy.iter().for_each(|place| place.activity.begin());
        let mut spare = Vec::new();
        for _ in 0..SPARE {
            let place = places.take().await;
            assert!(place.is_spare);
            place.activity.begin();
            spare.push(place);
        }
        let one_more = timeout(Duration::from_secs(60), places.take()).await;
        assert!(one_more.is_err(), "the bound holds");
        drop(spare.pop());
        assert!(places.take().await.is_spare);
    }
}
