//! Telling leaders to look at their lanes. Nothing depends on it, so it must not cost much: for each lane
//! one call is under way, and all that comes meanwhile is told with one more.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fencepost_domain::ids::Lane;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tracing::Instrument;

use super::call::Caller;
use super::line::Failed;

/// Where to, and for which lane.
type Route = (String, Lane);

/// All that are under way, and whether each is to be told once more.
pub(super) struct Nudges {
    caller: Arc<Caller>,
    under_way: Mutex<HashMap<Route, bool>>,
}

impl Nudges {
    pub(super) fn new(caller: Arc<Caller>) -> Self {
        Self {
            caller,
            under_way: Mutex::default(),
        }
    }

    /// Has the leader told, after this call began. Behind another call it returns at once: the leader
    /// is told when that one is over.
    pub(super) async fn tell(
        self: &Arc<Self>,
        url: &str,
        lane: Lane,
        within: Duration,
    ) -> Result<(), Failed> {
        let route = (url.to_owned(), lane);
        match self.under_way().entry(route.clone()) {
            Entry::Occupied(mut entry) => {
                entry.insert(true);
                return Ok(());
            }
            Entry::Vacant(entry) => {
                entry.insert(false);
            }
        }
        let (reply, told) = oneshot::channel();
        let nudges = Arc::clone(self);
        // In a task of its own: a caller that goes away must not leave its route as under way.
        tokio::spawn(async move { nudges.work(&route, within, reply).await }.in_current_span());
        let lost = |_| Failed::Unanswered("nobody tells it".to_owned());
        told.await.map_err(lost)?
    }

    async fn work(
        &self,
        route: &Route,
        within: Duration,
        reply: oneshot::Sender<Result<(), Failed>>,
    ) {
        let mut reply = Some(reply);
        loop {
            let (url, lane) = route;
            let told = self.caller.nudge(url, *lane, Instant::now() + within).await;
            if let Some(reply) = reply.take() {
                let _ = reply.send(told);
            }
            if !self.is_wanted_again(route) {
                return;
            }
        }
    }

    /// Whether someone came meanwhile; if not, the route is free.
    fn is_wanted_again(&self, route: &Route) -> bool {
        let mut under_way = self.under_way();
        let again = under_way.get_mut(route).is_some_and(std::mem::take);
        if !again {
            under_way.remove(route);
        }
        again
    }

    fn under_way(&self) -> MutexGuard<'_, HashMap<Route, bool>> {
        self.under_way
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
