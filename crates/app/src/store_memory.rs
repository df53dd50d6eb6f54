//! What this node knows of its store beyond what the store says of itself: which store it is, the newest server of it
//! that this node or another one has worked on, and where the other nodes are. It outlives the process in a file, so
//! that neither an old primary that comes back nor an empty store by accident is taken for the store of before.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use fencepost_domain::store_identity::{Server, StoreId, is_behind};
use uuid::Uuid;

/// How many servers are remembered as left behind. Fewer, and one of many that come back is taken for a new one.
const LEFT_MAX: usize = 16;
/// How many other nodes are remembered. Fewer, and a node that starts alone asks fewer of them; more is a longer file.
pub const PEERS_MAX: usize = 16;

/// What is written down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// The store.
    pub store: StoreId,
    /// The newest server of it, where it is replicated.
    pub server: Option<Server>,
    /// The eras of servers that a failover has left behind, oldest first.
    pub left: Vec<Uuid>,
    /// Where other nodes of the store were reached.
    pub peers: Vec<String>,
}

/// The store that a node works on, as it says to other nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreInUse {
    /// The store.
    pub store: StoreId,
    /// The newest server that the node has worked on.
    pub server: Option<Server>,
    /// The node knew the store before it started, or has compared all its lanes with the chain.
    pub is_acquainted: bool,
}

/// Writes it down.
pub trait Keeper: Send + Sync {
    /// Returns when it is durable, or after it was logged that it could not be written.
    fn keep(&self, kept: &Kept);
}

#[derive(Debug, Default)]
struct Inner {
    store: Option<StoreId>,
    server: Option<Server>,
    left: VecDeque<Uuid>,
    peers: Vec<String>,
    is_acquainted: bool,
    /// This process works on `store`. Until then servers may be those of another one.
    is_met: bool,
}

/// The memory of one node.
#[derive(Default)]
pub struct StoreMemory {
    inner: Mutex<Inner>,
    keeper: Option<Box<dyn Keeper>>,
}

impl fmt::Debug for StoreMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lock().fmt(f)
    }
}

impl StoreMemory {
    /// The memory of a node that may have run before.
    #[must_use]
    pub fn new(kept: Option<Kept>, keeper: Box<dyn Keeper>) -> Self {
        let inner = kept.map_or_else(Inner::default, |kept| Inner {
            store: Some(kept.store),
            server: kept.server,
            left: kept.left.into(),
            peers: kept.peers,
            is_acquainted: true,
            is_met: false,
        });
        Self {
            inner: Mutex::new(inner),
            keeper: Some(keeper),
        }
    }

    /// Of a store that is taken as it is found, and that nothing is written down of: one that lives no longer than the
    /// process.
    #[must_use]
    pub fn unkept() -> Self {
        let inner = Inner {
            is_acquainted: true,
            ..Inner::default()
        };
        Self {
            inner: Mutex::new(inner),
            keeper: None,
        }
    }

    /// The store that was remembered, or the one that was met.
    #[must_use]
    pub fn store(&self) -> Option<StoreId> {
        self.lock().store
    }

    /// Whether this node knew the store before, or has compared its lanes with the chain. Until then a chain that is
    /// ahead of a lane means that the store may lack transactions.
    #[must_use]
    pub fn is_acquainted(&self) -> bool {
        self.lock().is_acquainted
    }

    /// The database system of the newest server.
    #[must_use]
    pub fn system(&self) -> Option<i64> {
        self.lock().server.map(|server| server.system)
    }

    /// Whether a failover has left behind a server of this timeline.
    #[must_use]
    pub fn is_behind(&self, system: i64, timeline: i64) -> bool {
        let newest = self.lock().server;
        newest.is_some_and(|newest| is_behind(system, timeline, newest))
    }

    /// The same of a server whose era is known.
    #[must_use]
    pub fn has_left(&self, server: Server) -> bool {
        let inner = self.lock();
        let newest = inner.server;
        inner.left.contains(&server.era)
            || newest.is_some_and(|newest| is_behind(server.system, server.timeline, newest))
    }

    /// The store that this node works on, the remembered one or one in its place.
    pub fn met(&self, store: StoreId) {
        let mut inner = self.lock();
        inner.is_met = true;
        if inner.store.replace(store) != Some(store) {
            inner.left.clear();
        }
        self.keep(inner);
    }

    /// A session leads to this server, which no failover has left behind.
    pub fn met_server(&self, server: Server) {
        let mut inner = self.lock();
        if inner.server == Some(server) {
            return;
        }
        inner.follow(server);
        self.keep(inner);
    }

    /// Another node works on this server. True where it is newer than all that this node knew.
    pub fn heard(&self, other: &StoreInUse) -> bool {
        let mut inner = self.lock();
        let (Some(newer), Some(newest)) = (other.server, inner.server) else {
            return false;
        };
        let is_newer = inner.store == Some(other.store)
            && is_behind(newest.system, newest.timeline, newer)
            && !inner.left.contains(&newer.era);
        if is_newer {
            inner.follow(newer);
            self.keep(inner);
        }
        is_newer
    }

    /// Whether another node vouches for the server that this node works on.
    #[must_use]
    pub fn is_vouched(&self, other: &StoreInUse) -> bool {
        let inner = self.lock();
        let is_same = inner.store == Some(other.store) && inner.server == other.server;
        other.is_acquainted && is_same && !inner.is_acquainted
    }

    /// From now on the store is known, and remembered over restarts.
    pub fn get_acquainted(&self) {
        let mut inner = self.lock();
        inner.is_acquainted = true;
        self.keep(inner);
    }

    /// Where other nodes are reached. Those that are not among them any more are remembered while there is room.
    pub fn met_peers(&self, mut urls: Vec<String>) {
        urls.sort_unstable();
        let mut inner = self.lock();
        for known in &inner.peers {
            if urls.len() < PEERS_MAX && !urls.contains(known) {
                urls.push(known.clone());
            }
        }
        urls.truncate(PEERS_MAX);
        if inner.peers != urls {
            inner.peers = urls;
            self.keep(inner);
        }
    }

    /// Where other nodes were reached.
    #[must_use]
    pub fn peers(&self) -> Vec<String> {
        self.lock().peers.clone()
    }

    /// The store and the server that this node works on. None before a store was met.
    #[must_use]
    pub fn in_use(&self) -> Option<StoreInUse> {
        let inner = self.lock();
        Some(StoreInUse {
            store: inner.store?,
            server: inner.server,
            is_acquainted: inner.is_acquainted,
        })
    }

    /// A store that was not compared with the chain is not written down: the next start compares it again.
    fn keep(&self, inner: MutexGuard<'_, Inner>) {
        let (Some(keeper), Some(store), true) = (
            &self.keeper,
            inner.store,
            inner.is_acquainted && inner.is_met,
        ) else {
            return;
        };
        let kept = Kept {
            store,
            server: inner.server,
            left: inner.left.iter().copied().collect(),
            peers: inner.peers.clone(),
        };
        // Under the lock: of two changes the later one is what stays written.
        keeper.keep(&kept);
        drop(inner);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn follow(&mut self, server: Server) {
        if let Some(old) = self.server.replace(server)
            && old.era != server.era
        {
            self.left.push_back(old.era);
        }
        if self.left.len() > LEFT_MAX {
            self.left.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[derive(Default)]
    struct File(Mutex<Option<Kept>>);

    impl Keeper for Arc<File> {
        fn keep(&self, kept: &Kept) {
            *self.0.lock().unwrap() = Some(kept.clone());
        }
    }

    fn server(timeline: i64, era: u128) -> Server {
        Server {
            system: 9,
            timeline,
            era: Uuid::from_u128(era),
        }
    }

    const STORE: StoreId = StoreId(Uuid::from_u128(1));

    fn begun(file: &Arc<File>) -> StoreMemory {
        let memory = StoreMemory::new(None, Box::new(Arc::clone(file)));
        memory.met(STORE);
        memory.met_server(server(1, 11));
        memory
    }

    #[test]
    fn a_store_is_written_down_only_when_the_node_is_acquainted_with_it() {
        let file = Arc::new(File::default());
        let memory = begun(&file);
        assert!(!memory.is_acquainted());
        assert_eq!(*file.0.lock().unwrap(), None);
        memory.get_acquainted();
        let kept = file.0.lock().unwrap().clone().unwrap();
        assert_eq!((kept.store, kept.server), (STORE, Some(server(1, 11))));
        assert!(StoreMemory::new(Some(kept), Box::new(Arc::clone(&file))).is_acquainted());
    }

    #[test]
    fn what_a_failover_left_behind_is_refused_after_a_restart() {
        let file = Arc::new(File::default());
        let memory = begun(&file);
        memory.get_acquainted();
        memory.met_server(server(2, 22));
        memory.met_server(server(2, 23));
        let kept = file.0.lock().unwrap().clone();
        let memory = StoreMemory::new(kept, Box::new(Arc::clone(&file)));
        for (behind, expected) in [
            (server(1, 11), true),
            (server(1, 99), true),
            // The same timeline as the newest: the name tells them apart.
            (server(2, 22), true),
            (server(2, 23), false),
            (server(3, 30), false),
        ] {
            assert_eq!(memory.has_left(behind), expected, "{behind:?}");
        }
        assert!(memory.is_behind(9, 1) && !memory.is_behind(9, 2) && !memory.is_behind(8, 1));
    }

    #[test]
    fn a_peer_on_a_newer_server_of_the_same_store_leaves_ours_behind() {
        let file = Arc::new(File::default());
        let memory = begun(&file);
        memory.get_acquainted();
        let used = |store, server| StoreInUse {
            store,
            server: Some(server),
            is_acquainted: true,
        };
        let other = StoreId(Uuid::from_u128(2));
        assert!(!memory.heard(&used(other, server(2, 22))));
        assert!(!memory.heard(&used(STORE, server(1, 12))));
        assert!(!memory.is_behind(9, 1));
        assert!(memory.heard(&used(STORE, server(2, 22))));
        assert!(memory.is_behind(9, 1) && memory.has_left(server(1, 11)));
        assert!(!memory.has_left(server(2, 22)));
    }
}
