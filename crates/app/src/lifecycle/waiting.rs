//! Clients that wait until transactions have come to a point. One task of the node reads for all of them, many rows in
//! one statement: waiting takes no connection of the store, however many wait. Moves that this node writes wake that
//! task at once; those of other nodes are found by polling.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fencepost_domain::ids::TxId;
use fencepost_domain::point::Point;
use fencepost_domain::state::State;
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use crate::node::{InHand, Node};
use crate::ports::{READ_LIMIT_MAX, Record, StoreError};

/// The most transactions that are waited for at once; a request beyond it is answered at once. Higher, and
/// polling for all of them takes seconds; lower, and a few large batches leave no room for others.
const WAITED_MAX: usize = 10_000;
/// The most rows of one read. More would hold many large payloads in memory at once.
const BATCH: usize = 200;
const _: () = assert!(BATCH <= READ_LIMIT_MAX);
/// The first look at a transaction that another node moves. Shorter only finds it unsigned.
const POLL_FIRST: Duration = Duration::from_millis(5);
/// The first look at one that this node moves: the moves themselves wake us, this is for one that was missed.
const POLL_LED: Duration = Duration::from_millis(250);
/// Between two looks at one transaction, at most. Longer delays answers, shorter reads for nothing.
const POLL_LAST: Duration = Duration::from_millis(500);
/// Polling may take a fifth of a connection's time: it rests so many times as long as a read took, at most so long.
const REST_TIMES: u32 = 4;
const REST_MAX: Duration = Duration::from_secs(1);
/// How long the last look may take when the time is over. Then the answer is what was last known.
const LAST_LOOK: Duration = Duration::from_millis(500);

/// Who waits for what, on this node.
#[derive(Default)]
pub(crate) struct Waiters {
    /// How many places are taken. Read without the lock: mostly nobody waits.
    count: AtomicUsize,
    book: Mutex<Book>,
    work: Notify,
}

#[derive(Default)]
struct Book {
    next_place: u64,
    waited: HashMap<TxId, Waited>,
    /// To be read at once.
    woken: VecDeque<TxId>,
    /// To be read when their time comes.
    polls: BTreeSet<(Instant, TxId)>,
    rests_until: Option<Instant>,
}

/// A transaction that is waited for.
#[derive(Default)]
struct Waited {
    places: Vec<Place>,
    is_woken: bool,
    /// When it is looked at next, and the pause before that.
    poll: Option<(Instant, Duration)>,
}

/// One client's wait for one transaction.
struct Place {
    number: u64,
    /// Without a point the next read answers it.
    point: Option<Point>,
    reply: oneshot::Sender<Box<Record>>,
}

/// What is read next.
struct Due {
    txs: Vec<TxId>,
    has_polls: bool,
}

/// A client that waits. When it goes away, its places are free.
#[must_use = "nothing is waited for yet"]
pub struct Waiting<'a> {
    node: &'a Node,
    point: Point,
    places: Vec<(TxId, u64)>,
    answers: HashMap<TxId, oneshot::Receiver<Box<Record>>>,
    /// It keeps a stopping node from ending before the last look.
    _in_hand: InHand,
}

impl Node {
    /// Begins to wait for transactions that are about to be stored under these ids: no move of theirs is missed.
    pub fn wait_for(&self, point: Point, txs: impl IntoIterator<Item = TxId>) -> Waiting<'_> {
        let mut waiting = Waiting {
            node: self,
            point,
            places: vec![],
            answers: HashMap::new(),
            _in_hand: self.take_in_hand(),
        };
        for tx in txs {
            if let Some(answer) = waiting.take_place(tx) {
                waiting.answers.insert(tx, answer);
            }
        }
        waiting
    }

    /// Reads what is due and answers those who wait for it: one bounded pass.
    pub(crate) async fn answer_waiters(&self) -> Result<(), StoreError> {
        let due = self.waiters.due().await;
        let began = Instant::now();
        let read = self.store.find_many(&due.txs).await;
        let took = began.elapsed();
        let mut book = self.waiters.book();
        if due.has_polls || read.is_err() {
            let rest = if read.is_err() {
                REST_MAX
            } else {
                (took * REST_TIMES).min(REST_MAX)
            };
            book.rests_until = Some(Instant::now() + rest);
        }
        let mut answered = 0;
        for record in read? {
            answered += book.answer(&record);
        }
        let before = self.waiters.count.fetch_sub(answered, Ordering::Relaxed);
        self.meters.waiting(before - answered);
        Ok(())
    }
}

impl Waiting<'_> {
    /// The same transactions when each of them has reached the point, has ended or is stuck, or as they stand
    /// when the time is over or the node stops.
    pub async fn reach(
        mut self,
        mut records: Vec<Box<Record>>,
        until: Instant,
    ) -> Vec<Box<Record>> {
        let node = self.node;
        let mut awaited: VecDeque<(usize, oneshot::Receiver<Box<Record>>)> = VecDeque::new();
        if Instant::now() < until && !node.is_draining() {
            for (at, record) in records.iter().enumerate() {
                if record.state.has_reached(self.point) {
                    continue;
                }
                let Some(answer) = self.begin(record) else {
                    node.meters.waited("full");
                    return records;
                };
                awaited.push_back((at, answer));
            }
        }
        let result = tokio::select! {
            biased;
            done = timeout_at(until, collect(&mut awaited, &mut records)) => {
                if done.is_ok() { "reached" } else { "over" }
            }
            () = node.drained() => "stopping",
        };
        if !awaited.is_empty() {
            node.waiters.hurry(&self.places);
            // Whoever is not read in time is told as it was last known.
            let _ = timeout(LAST_LOOK, collect(&mut awaited, &mut records)).await;
        }
        let reached = |record: &Record| record.state.has_reached(self.point);
        let all = records.iter().all(|record| reached(record));
        node.meters.waited(if all { "reached" } else { result });
        records
    }

    /// Has a transaction looked at from now on; none when there is no room.
    fn begin(&mut self, record: &Record) -> Option<oneshot::Receiver<Box<Record>>> {
        let waiters = &self.node.waiters;
        if let Some(answer) = self.answers.remove(&record.tx) {
            let led = self.node.leases.held(record.lane_id).is_some();
            waiters.poll(record.tx, if led { POLL_LED } else { POLL_FIRST });
            return Some(answer);
        }
        let answer = self.take_place(record.tx)?;
        // It may have moved after it was read and before we had a place.
        waiters.poll(record.tx, POLL_FIRST);
        Some(answer)
    }

    fn take_place(&mut self, tx: TxId) -> Option<oneshot::Receiver<Box<Record>>> {
        let (number, answer) = self.node.waiters.enter(tx, self.point)?;
        self.places.push((tx, number));
        self.node.meters.waiting(self.node.waiters.count());
        Some(answer)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.node.waiters.leave(&self.places);
        self.node.meters.waiting(self.node.waiters.count());
    }
}

/// Takes answers as they come. What was taken stays taken when this is given up half way.
async fn collect(
    awaited: &mut VecDeque<(usize, oneshot::Receiver<Box<Record>>)>,
    records: &mut [Box<Record>],
) {
    while let Some((at, answer)) = awaited.front_mut() {
        let (at, answer) = (*at, answer.await);
        awaited.pop_front();
        if let Ok(record) = answer {
            records[at] = record;
        }
    }
}

impl Waiters {
    fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A transaction was moved by this node: those who wait for it are answered now.
    pub(crate) fn moved(&self, tx: TxId, to: &State) {
        if self.count() == 0 {
            return;
        }
        let mut book = self.book();
        let is_over = |place: &Place| place.point.is_some_and(|point| to.has_reached(point));
        let waited = book.waited.get(&tx);
        if waited.is_some_and(|waited| waited.places.iter().any(is_over)) {
            book.wake(tx);
            self.work.notify_one();
        }
    }

    fn enter(&self, tx: TxId, point: Point) -> Option<(u64, oneshot::Receiver<Box<Record>>)> {
        let mut book = self.book();
        if self.count() >= WAITED_MAX {
            return None;
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        let (reply, answer) = oneshot::channel();
        let number = book.next_place;
        book.next_place += 1;
        book.waited.entry(tx).or_default().places.push(Place {
            number,
            point: Some(point),
            reply,
        });
        Some((number, answer))
    }

    fn leave(&self, places: &[(TxId, u64)]) {
        let mut book = self.book();
        for (tx, number) in places {
            let left = book.take(*tx, |place| place.number == *number).len();
            self.count.fetch_sub(left, Ordering::Relaxed);
        }
    }

    /// Has a transaction looked at after this pause, and then again and again.
    fn poll(&self, tx: TxId, pause: Duration) {
        self.book().poll_at(tx, Instant::now() + pause, pause);
        self.work.notify_one();
    }

    /// Those places are answered by the next read, whatever it says.
    fn hurry(&self, places: &[(TxId, u64)]) {
        let mut book = self.book();
        for (tx, number) in places {
            let waited = book.waited.get_mut(tx);
            let mut places = waited.into_iter().flat_map(|waited| &mut waited.places);
            if let Some(place) = places.find(|place| place.number == *number) {
                place.point = None;
                book.wake(*tx);
            }
        }
        drop(book);
        self.work.notify_one();
    }

    /// Waits until something is to be read.
    async fn due(&self) -> Due {
        loop {
            let next = {
                let mut book = self.book();
                let due = book.due(Instant::now());
                if !due.txs.is_empty() {
                    return due;
                }
                book.next_poll()
            };
            // A wake-up that came before this is kept for it.
            match next {
                Some(next) => tokio::select! {
                    () = self.work.notified() => {}
                    () = sleep_until(next) => {}
                },
                None => self.work.notified().await,
            }
        }
    }
}

impl Book {
    fn wake(&mut self, tx: TxId) {
        if let Some(waited) = self.waited.get_mut(&tx)
            && !std::mem::replace(&mut waited.is_woken, true)
        {
            self.woken.push_back(tx);
        }
    }

    fn poll_at(&mut self, tx: TxId, at: Instant, pause: Duration) {
        let Some(waited) = self.waited.get_mut(&tx) else {
            return;
        };
        if let Some((before, _)) = waited.poll.replace((at, pause)) {
            self.polls.remove(&(before, tx));
        }
        self.polls.insert((at, tx));
    }

    fn next_poll(&self) -> Option<Instant> {
        let (first, _) = self.polls.first()?;
        Some(self.rests_until.map_or(*first, |rest| rest.max(*first)))
    }

    /// What was woken, and what is to be polled; each is polled again after a longer pause.
    fn due(&mut self, now: Instant) -> Due {
        let mut txs = Vec::new();
        while txs.len() < BATCH
            && let Some(tx) = self.woken.pop_front()
        {
            // Before it is read: a move during the read wakes it again.
            if let Some(waited) = self.waited.get_mut(&tx) {
                waited.is_woken = false;
                txs.push(tx);
            }
        }
        let woken = txs.len();
        while txs.len() < BATCH
            && self.next_poll().is_some_and(|at| at <= now)
            && let Some((_, tx)) = self.polls.first().copied()
        {
            let before = self.waited.get(&tx).and_then(|waited| waited.poll);
            let pause = before.map_or(POLL_LAST, |(_, pause)| (pause * 3 / 2).min(POLL_LAST));
            self.poll_at(tx, now + pause, pause);
            txs.push(tx);
        }
        let has_polls = txs.len() > woken;
        Due { txs, has_polls }
    }

    /// Answers those who need wait no longer; how many.
    fn answer(&mut self, record: &Record) -> usize {
        let is_over = |point| record.state.has_reached(point);
        let over = self.take(record.tx, |place| place.point.is_none_or(is_over));
        let count = over.len();
        for place in over {
            // Whoever has gone away needs no answer.
            let _ = place.reply.send(Box::new(record.clone()));
        }
        count
    }

    /// Takes these places of a transaction; one without any is looked at no more.
    fn take(&mut self, tx: TxId, which: impl Fn(&Place) -> bool) -> Vec<Place> {
        let Some(waited) = self.waited.get_mut(&tx) else {
            return vec![];
        };
        let taken = waited.places.extract_if(.., |place| which(place)).collect();
        if waited.places.is_empty() {
            let poll = waited.poll;
            self.waited.remove(&tx);
            if let Some((at, _)) = poll {
                self.polls.remove(&(at, tx));
            }
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn places_are_bounded_and_free_again_when_their_client_leaves() {
        let waiters = Waiters::default();
        let tx = |n: usize| TxId(Uuid::from_u128(u128::try_from(n).unwrap()));
        let mut places = Vec::new();
        for n in 0..WAITED_MAX {
            let (number, _) = waiters.enter(tx(n % 7), Point::Signed).unwrap();
            waiters.poll(tx(n % 7), POLL_FIRST);
            places.push((tx(n % 7), number));
        }
        assert!(waiters.enter(tx(1), Point::Signed).is_none());
        waiters.leave(&places[..1]);
        assert!(waiters.enter(tx(9), Point::Signed).is_some());
        waiters.leave(&places);
        assert_eq!(waiters.count(), 1);
        let book = waiters.book();
        assert_eq!((book.waited.len(), book.polls.len()), (1, 0));
    }

    #[test]
    fn one_read_holds_no_more_than_a_batch_and_what_was_woken_goes_first() {
        let waiters = Waiters::default();
        let tx = |n: usize| TxId(Uuid::from_u128(u128::try_from(n).unwrap()));
        for n in 0..=BATCH {
            waiters.enter(tx(n), Point::Signed).unwrap();
            waiters.poll(tx(n), Duration::ZERO);
        }
        waiters.book().wake(tx(BATCH));
        let due = waiters.book().due(Instant::now());
        assert_eq!((due.txs.len(), due.txs[0]), (BATCH, tx(BATCH)));
    }
}
