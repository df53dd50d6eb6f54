//! Threads: one that writes, a few that read, each behind a bounded queue.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use fencepost_app::ports::StoreError;
use tokio::sync::mpsc::error::{SendTimeoutError, TrySendError};
use tokio::sync::mpsc::{self, Receiver, Sender};

use crate::group::{Engine, Op};

/// Fewer: callers wait although the writer could take them along. More: memory, and the last in the
/// queue waits longer than anyone waits for an answer.
const QUEUE_MAX: usize = 1_024;

/// Fewer: more syncs for the same work. More: the first of a group waits for the last.
const GROUP_MAX: usize = 256;

/// How long a caller waits for room in a queue. Longer hides overload, shorter reports a hiccup.
const ROOM_WAIT: Duration = Duration::from_secs(2);

/// Where threads find what they are asked. Several may share one.
type Inbox = Mutex<Receiver<Box<dyn Op>>>;

/// A queue and the threads that work it off.
pub(crate) struct Worker {
    /// Taken when the worker is dropped: the threads end when nobody can ask them any more.
    queue: Option<Sender<Box<dyn Op>>>,
    threads: Vec<JoinHandle<()>>,
}

impl Worker {
    /// One thread that takes everything waiting and commits it as one group.
    pub(crate) fn writer(engine: Engine) -> Result<Self, StoreError> {
        Self::start("sqlite-writer", vec![engine], |engine, inbox| {
            while let Some(group) = next_group(inbox) {
                engine.commit(group);
            }
        })
    }

    /// One thread for each connection, all on one queue.
    pub(crate) fn readers(engines: Vec<Engine>) -> Result<Self, StoreError> {
        Self::start("sqlite-reader", engines, |engine, inbox| {
            while let Some(op) = next(inbox) {
                engine.read(op);
            }
        })
    }

    fn start(
        name: &str,
        engines: Vec<Engine>,
        work: fn(&Engine, &Inbox),
    ) -> Result<Self, StoreError> {
        let (queue, inbox) = mpsc::channel(QUEUE_MAX);
        let inbox = Arc::new(Mutex::new(inbox));
        let mut threads = Vec::new();
        for engine in engines {
            let inbox = Arc::clone(&inbox);
            let thread = thread::Builder::new()
                .name(name.to_owned())
                .spawn(move || work(&engine, &inbox))
                .map_err(|error| StoreError::Unavailable(Box::new(error)))?;
            threads.push(thread);
        }
        let queue = Some(queue);
        Ok(Self { queue, threads })
    }

    /// How many more would fit into the queue, and how many are in it.
    #[cfg(test)]
    pub(crate) fn room(&self) -> (usize, usize) {
        let queue = self.queue.as_ref().unwrap();
        (queue.capacity(), queue.max_capacity() - queue.capacity())
    }

    /// Puts an operation into the queue; waits a little when that is full.
    pub(crate) async fn ask(&self, op: Box<dyn Op>) -> Result<(), StoreError> {
        let gone = || StoreError::Unavailable("the store's thread has ended".into());
        let queue = self.queue.as_ref().ok_or_else(gone)?;
        // Only a full queue needs a timer, and with it a runtime.
        let op = match queue.try_send(op) {
            Ok(()) => return Ok(()),
            Err(TrySendError::Closed(_)) => return Err(gone()),
            Err(TrySendError::Full(op)) => op,
        };
        match queue.send_timeout(op, ROOM_WAIT).await {
            Ok(()) => Ok(()),
            Err(SendTimeoutError::Closed(_)) => Err(gone()),
            Err(SendTimeoutError::Timeout(_)) => Err(StoreError::Busy(
                format!("{QUEUE_MAX} operations wait already").into(),
            )),
        }
    }
}

impl Drop for Worker {
    /// Waits for the threads, so that their connections are closed before the lock is given up.
    fn drop(&mut self) {
        self.queue = None;
        for thread in self.threads.drain(..) {
            // A thread that panicked has ended too.
            let _ = thread.join();
        }
    }
}

fn next(inbox: &Inbox) -> Option<Box<dyn Op>> {
    let mut inbox = inbox.lock().unwrap_or_else(PoisonError::into_inner);
    inbox.blocking_recv()
}

/// Waits for one operation and takes along what has gathered behind it. There is no timer: the
/// group grows while the one before it is being synced.
fn next_group(inbox: &Inbox) -> Option<Vec<Box<dyn Op>>> {
    let mut inbox = inbox.lock().unwrap_or_else(PoisonError::into_inner);
    let mut group = vec![inbox.blocking_recv()?];
    while group.len() < GROUP_MAX
        && let Ok(op) = inbox.try_recv()
    {
        group.push(op);
    }
    Some(group)
}
