//! This node: its ports, what it leads, and the desks of its workers.

mod crew;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fencepost_domain::fee;
use fencepost_domain::finality::Rule;
use fencepost_domain::ids::{ChainId, Incarnation, LaneId};
use fencepost_domain::request::Ceilings;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;

pub use crew::{Crew, Parts};

use crate::directory::{Directory, Seat};
use crate::lane::gather::Inbox;
use crate::lane::lease::Leases;
use crate::lane::report::Report;
use crate::lane::work::{Ask, Job};
use crate::lifecycle::accept::Verdict;
use crate::lifecycle::completion::Watch;
use crate::lifecycle::finality::Ending;
use crate::lifecycle::follow::board::Board;
use crate::lifecycle::queue::Wanted;
use crate::lifecycle::submit::Shipment;
use crate::lifecycle::waiting::Waiters;
use crate::meters::Meters;
use crate::ports::{
    Chain, Clock, Holder, LaneBatch, LaneMoves, Peer, Peers, Policy, Signer, Store, Ticks,
};
use crate::settings::{ChainSettings, Settings};
use crate::skew::Skew;
use crate::store_memory::StoreMemory;
use crate::writes::WriteLog;

/// This node.
pub struct Node {
    pub(crate) settings: Settings,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) chain: Option<Arc<dyn Chain>>,
    pub(crate) signer: Option<Arc<dyn Signer>>,
    pub(crate) policy: Arc<dyn Policy>,
    pub(crate) peers: Arc<dyn Peers>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ticks: Arc<dyn Ticks>,
    pub(crate) holder: Holder,
    pub(crate) url: String,
    pub(crate) chains: Vec<ChainSettings>,
    pub(crate) store_memory: Arc<StoreMemory>,
    pub(crate) directory: Directory,
    pub(crate) meters: Meters,
    pub(crate) writes: WriteLog,
    pub(crate) leases: Leases,
    pub(crate) skew: Skew,
    pub(crate) feed: Watch,
    pub(crate) waiters: Waiters,
    /// How many questions for receipts are under way, for each chain.
    pub(crate) receipt_slots: HashMap<ChainId, Semaphore>,
    /// Where workers have their creates and their moves written.
    pub(crate) creates: Inbox<LaneBatch>,
    pub(crate) moves: Inbox<LaneMoves>,
    desks: Vec<mpsc::Sender<Job>>,
    reports: Vec<mpsc::Sender<Report>>,
    boards: HashMap<ChainId, Arc<Board>>,
    shippers: HashMap<ChainId, mpsc::Sender<Shipment>>,
    completer: mpsc::Sender<Ending>,
    hands: Mutex<JoinSet<()>>,
    clerk: mpsc::Sender<Wanted>,
    living: Mutex<Vec<Peer>>,
    ghost: watch::Sender<Option<Incarnation>>,
    draining: watch::Sender<bool>,
    in_hand: Arc<AtomicUsize>,
    /// Since when no endpoint of a chain has answered.
    unreached: Mutex<HashMap<ChainId, Duration>>,
    /// Lanes of the whole store that give no nonces, as last counted.
    pub(crate) halted: Mutex<Option<HaltedLanes>>,
    /// Lanes whose workers were told that something waits, and have not begun.
    nudged: Mutex<HashSet<LaneId>>,
}

/// How many lanes give no nonces.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HaltedLanes {
    /// Paused, by an operator or because the chain does not fit.
    pub paused: u64,
    /// Held since the database was failed over.
    pub held: u64,
}

/// A worker's desk is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Full;

impl Node {
    /// Whether transactions go on after they have got their nonces.
    #[must_use]
    pub fn has_life(&self) -> bool {
        self.chain.is_some() && self.signer.is_some()
    }

    /// Whether reservations end by the store's clock, because this node has no chain to ask.
    #[must_use]
    pub fn lends_by_clock(&self) -> bool {
        self.chain.is_none()
    }

    /// How long after its hash was named a reservation is used, where no chain says so before.
    #[must_use]
    pub fn used_after(&self) -> Duration {
        self.settings.lending.used_after
    }

    /// The greatest fees we sign on a chain.
    pub(crate) fn ceilings(&self, chain: ChainId) -> Ceilings {
        let chain = self.chains.iter().find(|known| known.id == chain);
        chain.map_or(
            Ceilings {
                max_fee: 0,
                max_priority_fee: 0,
            },
            |chain| chain.ceilings,
        )
    }

    /// How much more a replacement on a chain pays.
    pub(crate) fn bump_percent(&self, chain: ChainId) -> u32 {
        let chain = self.chains.iter().find(|known| known.id == chain);
        chain.map_or(fee::BUMP_PERCENT_MIN, |chain| chain.bump_percent)
    }

    /// When a block of a chain is final.
    pub(crate) fn finality(&self, chain: ChainId) -> Option<Rule> {
        let known = self.chains.iter().find(|known| known.id == chain);
        known.map(|known| known.finality)
    }

    /// A chain's configured name.
    pub(crate) fn chain_name(&self, chain: ChainId) -> &str {
        let known = self.chains.iter().find(|known| known.id == chain);
        known.map_or("", |known| known.name.as_str())
    }

    pub(crate) fn board(&self, chain: ChainId) -> Option<&Board> {
        self.boards.get(&chain).map(|board| &**board)
    }

    /// Runs something outside the workers. It ends with the node.
    pub(crate) fn hand(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut hands = self.hands.lock().unwrap_or_else(PoisonError::into_inner);
        while hands.try_join_next().is_some() {}
        hands.spawn(work);
    }

    /// Ends all that runs outside the workers.
    pub(crate) fn drop_hands(&self) {
        let mut hands = self.hands.lock().unwrap_or_else(PoisonError::into_inner);
        hands.abort_all();
        hands.detach_all();
    }

    /// Tells a lane's worker what happened, and waits for a place.
    pub(crate) async fn report(&self, report: Report) {
        let desk = self.desk(report.lane());
        // A worker that is gone has nothing to write.
        let _ = self.reports[desk].send(report).await;
    }

    /// The same, at once or not at all.
    pub(crate) fn report_now(&self, lane: LaneId, report: Report) -> Result<(), Full> {
        let desk = self.desk(lane);
        self.reports[desk].try_send(report).map_err(|_| Full)
    }

    /// Hands bytes to whoever sends on this chain, at once or not at all.
    pub(crate) fn ship(&self, chain: ChainId, shipment: Shipment) -> bool {
        let shipper = self.shippers.get(&chain);
        shipper.is_some_and(|shipper| shipper.try_send(shipment).is_ok())
    }

    /// Hands endings to the completer, at once or not at all.
    pub(crate) fn end(&self, ending: Ending) -> bool {
        self.completer.try_send(ending).is_ok()
    }

    /// The lane's worker looks at what was written for the lane. Only whoever leads it needs to.
    pub fn look_at(&self, seat: Seat) {
        // One that finds no room looks by itself, a little later.
        let _ = self.report_now(seat.id, Report::Settled(seat.id));
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &dyn Store {
        &*self.store
    }

    /// What this node knows of its store.
    #[must_use]
    pub fn store_memory(&self) -> &StoreMemory {
        &self.store_memory
    }

    /// Who we are.
    #[must_use]
    pub const fn holder(&self) -> &Holder {
        &self.holder
    }

    /// The lanes that are ours to lead.
    #[must_use]
    pub const fn directory(&self) -> &Directory {
        &self.directory
    }

    /// What is counted.
    #[must_use]
    pub const fn meters(&self) -> &Meters {
        &self.meters
    }

    /// Whether somebody decides about stuck transactions.
    #[must_use]
    pub fn has_policy(&self) -> bool {
        !self.policy.is_passive()
    }

    /// What the operator chose.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The time of day.
    #[must_use]
    pub fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    /// How many lanes we lead, as far as we know.
    #[must_use]
    pub fn led(&self) -> usize {
        self.leases.len()
    }

    /// Lanes of the whole store that give no nonces, as the gauges last counted them.
    #[must_use]
    pub fn halted_lanes(&self) -> Option<HaltedLanes> {
        *self.halted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nodes that lived at the last look, ourselves among them.
    #[must_use]
    pub fn living(&self) -> Vec<Peer> {
        self.living
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(crate) fn set_living(&self, peers: Vec<Peer>) {
        *self.living.lock().unwrap_or_else(PoisonError::into_inner) = peers;
    }

    /// A later start of our own id was seen: nothing of ours lands any more.
    pub(crate) fn become_ghost(&self, later: Incarnation) {
        let node = self.holder.node.as_str();
        self.ghost.send_if_modified(|seen| {
            let first = seen.replace(later).is_none();
            if first {
                // Before anyone is woken: whoever waits for this ends the process.
                tracing::error!(code = "node_id_in_use", node_id = node, %later, "another process runs under this node id; this one ends");
            }
            first
        });
    }

    /// Resolves when a later start of our own id was seen.
    pub async fn ghosted(&self) -> Incarnation {
        let mut seen = self.ghost.subscribe();
        loop {
            if let Some(later) = *seen.borrow_and_update() {
                return later;
            }
            if seen.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// From now on nothing is accepted; what is in hand is finished.
    pub fn drain(&self) {
        self.draining.send_replace(true);
    }

    /// Resolves when the node is stopping.
    pub async fn drained(&self) {
        let mut draining = self.draining.subscribe();
        // The sender is ours: it cannot be gone.
        let _ = draining.wait_for(|stopping| *stopping).await;
    }

    /// Whether the node is stopping.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        *self.draining.borrow()
    }

    /// Puts a request on the desk of the lane's worker, at once or not at all.
    pub(crate) fn ask(&self, ask: Ask) -> Result<(), Full> {
        let desk = self.desk(ask.seat.id);
        let put = self.desks[desk].try_send(Job::Create(Box::new(ask)));
        self.meters.desk_depth(desk, self.depth(desk));
        put.map_err(|_| Full)
    }

    /// Tells the lane's worker that something waits in it. A full desk will see to it by itself.
    pub(crate) fn nudge(&self, lane: LaneId) {
        let new = self.nudged().insert(lane);
        if new
            && self.desks[self.desk(lane)]
                .try_send(Job::Drain(lane))
                .is_err()
        {
            self.nudged().remove(&lane);
        }
    }

    /// Whether the worker was told and has not begun; from now on it has.
    pub(crate) fn is_nudged(&self, lane: LaneId) -> bool {
        self.nudged().remove(&lane)
    }

    pub(crate) fn unreached(&self) -> std::sync::MutexGuard<'_, HashMap<ChainId, Duration>> {
        self.unreached
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn nudged(&self) -> std::sync::MutexGuard<'_, HashSet<LaneId>> {
        self.nudged.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands a request to the clerk, or says that too many wait for it.
    pub(crate) fn want(&self, wanted: Wanted) {
        if let Err(error) = self.clerk.try_send(wanted) {
            let _ = error.into_inner().reply.send(Verdict::Overloaded);
        }
    }

    pub(crate) fn desk(&self, lane: LaneId) -> usize {
        // Ids count up; a multiplication spreads those of one configuration over the workers.
        let mixed = lane.0.cast_unsigned().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let count = u64::try_from(self.desks.len()).unwrap_or(1);
        usize::try_from(mixed % count).unwrap_or(0)
    }

    fn depth(&self, desk: usize) -> usize {
        let desk = &self.desks[desk];
        desk.max_capacity() - desk.capacity()
    }

    /// How many requests have no answer yet.
    #[must_use]
    pub fn in_hand(&self) -> usize {
        self.in_hand.load(Ordering::Relaxed)
    }

    pub(crate) fn take_in_hand(&self) -> InHand {
        self.in_hand.fetch_add(1, Ordering::Relaxed);
        InHand(Arc::clone(&self.in_hand))
    }
}

/// One request that has no answer yet.
pub(crate) struct InHand(Arc<AtomicUsize>);

impl Drop for InHand {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
