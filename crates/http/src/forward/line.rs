//! The line to one leader for one lane. One call is under way at a time, and whoever comes meanwhile
//! goes with the next, in the order in which they came: so the leader sees a lane's requests in order,
//! and a crowd costs few calls.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fencepost_app::ports::Unforwarded;
use fencepost_domain::ids::Lane;
use serde_json::value::RawValue;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};
use tracing::Instrument;

use super::call::Caller;
use super::wire::Told;

/// The most that one call carries; its body must be read whole before any of it is stored.
pub(crate) const REQUESTS_MAX: usize = 512;
/// The same in bytes. The first request goes whatever it weighs.
const BYTES_MAX: usize = 512 * 1024;
/// The most that wait for one lane's leader; all of them would be late anyway.
const WAITING_MAX: usize = 20_000;

/// Where to, and for which lane.
type Route = (String, Lane);

/// One request on its way.
pub(super) struct Carried {
    number: u64,
    pub(super) handed: Box<RawValue>,
    pub(super) deadline: Instant,
    reply: oneshot::Sender<Result<Told, Failed>>,
}

/// Why a call brought nothing; each request of it is told.
#[derive(Debug, Clone)]
pub(super) enum Failed {
    NotSent(String),
    Unanswered(String),
}

impl From<Failed> for Unforwarded {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::NotSent(why) => Self::NotSent(why.into()),
            Failed::Unanswered(why) => Self::Unanswered(why.into()),
        }
    }
}

/// All lines. A line is there while someone works it.
pub(super) struct Lines {
    caller: Arc<Caller>,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    lines: HashMap<Route, VecDeque<Carried>>,
    numbers: u64,
}

impl Lines {
    pub(super) fn new(caller: Arc<Caller>) -> Self {
        Self {
            caller,
            waiting: Mutex::default(),
        }
    }

    /// Has a request carried, behind those of earlier calls for its lane.
    pub(super) async fn carry(
        self: &Arc<Self>,
        url: &str,
        lane: Lane,
        handed: Box<RawValue>,
        deadline: Instant,
    ) -> Result<Told, Failed> {
        let route = (url.to_owned(), lane);
        let (reply, told) = oneshot::channel();
        let number = self.put(&route, handed, deadline, reply)?;
        match timeout_at(deadline, told).await {
            Ok(Ok(told)) => told,
            Ok(Err(_)) => Err(Failed::Unanswered("nobody carries it".to_owned())),
            // What still stands in the line has not left this process, and now never will.
            Err(_) if self.take_back(&route, number) => {
                Err(Failed::NotSent("those before it took too long".to_owned()))
            }
            Err(_) => Err(Failed::Unanswered(
                "its answer was not there in time".to_owned(),
            )),
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(
        self: &Arc<Self>,
        route: &Route,
        handed: Box<RawValue>,
        deadline: Instant,
        reply: oneshot::Sender<Result<Told, Failed>>,
    ) -> Result<u64, Failed> {
        let mut waiting = self.waiting();
        waiting.numbers += 1;
        let number = waiting.numbers;
        let carried = Carried {
            number,
            handed,
            deadline,
            reply,
        };
        if let Some(line) = waiting.lines.get_mut(route) {
            if line.len() >= WAITING_MAX {
                return Err(Failed::NotSent("too many wait for the leader".to_owned()));
            }
            line.push_back(carried);
            return Ok(number);
        }
        let line = VecDeque::from([carried]);
        waiting.lines.insert(route.clone(), line);
        drop(waiting);
        let (lines, route) = (Arc::clone(self), route.clone());
        tokio::spawn(async move { lines.work(&route).await }.in_current_span());
        Ok(number)
    }

    fn take_back(&self, route: &Route, number: u64) -> bool {
        let mut waiting = self.waiting();
        let Some(line) = waiting.lines.get_mut(route) else {
            return false;
        };
        let at = line.iter().position(|carried| carried.number == number);
        at.and_then(|at| line.remove(at)).is_some()
    }

    /// Calls until nobody waits.
    async fn work(&self, route: &Route) {
        while let Some(list) = self.next(route) {
            let (url, lane) = route;
            let handed: Vec<&RawValue> = list.iter().map(|each| &*each.handed).collect();
            let deadlines = list.iter().map(|each| each.deadline);
            let deadline = deadlines.max().unwrap_or_else(Instant::now);
            match self.caller.call(url, *lane, &handed, deadline).await {
                Ok(told) => {
                    for (carried, told) in list.into_iter().zip(told) {
                        let _ = carried.reply.send(Ok(told));
                    }
                }
                Err(failed) => {
                    // Nobody may pass those that failed: they go into the lane's queue now.
                    let behind = self.empty(route);
                    for carried in list {
                        let _ = carried.reply.send(Err(failed.clone()));
                    }
                    let why = Failed::NotSent("the call before it failed".to_owned());
                    for carried in behind {
                        let _ = carried.reply.send(Err(why.clone()));
                    }
                }
            }
        }
    }

    /// What the next call carries; the line ends with none.
    fn next(&self, route: &Route) -> Option<Vec<Carried>> {
        let mut waiting = self.waiting();
        let line = waiting.lines.get_mut(route)?;
        let (mut list, mut bytes) = (Vec::new(), 0);
        while let Some(carried) = line.pop_front() {
            if carried.reply.is_closed() {
                continue;
            }
            bytes += carried.handed.get().len();
            if list.len() == REQUESTS_MAX || (bytes > BYTES_MAX && !list.is_empty()) {
                line.push_front(carried);
                break;
            }
            list.push(carried);
        }
        if list.is_empty() {
            waiting.lines.remove(route);
            return None;
        }
        Some(list)
    }

    fn empty(&self, route: &Route) -> VecDeque<Carried> {
        let mut waiting = self.waiting();
        let line = waiting.lines.get_mut(route);
        line.map(std::mem::take).unwrap_or_default()
    }
}
