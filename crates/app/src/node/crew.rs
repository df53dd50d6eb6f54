//! Putting a node together: its ports, its desks, and those who work at them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use fencepost_domain::ids::ChainId;
use tokio::sync::{Semaphore, mpsc, watch};

use super::Node;
use crate::directory::Directory;
use crate::lane::gather::{self, Scribe};
use crate::lane::lease::Leases;
use crate::lane::worker::Worker;
use crate::lifecycle::completion::Watch;
use crate::lifecycle::finality::Completer;
use crate::lifecycle::follow::Follower;
use crate::lifecycle::follow::board::Board;
use crate::lifecycle::queue::Clerk;
use crate::lifecycle::submit::{Shipment, Shipper};
use crate::lifecycle::waiting::Waiters;
use crate::meters::Meters;
use crate::ports::{
    Chain, Clock, Holder, LaneBatch, LaneMoves, Peers, Policy, Signer, Store, Ticks,
};
use crate::settings::{ChainSettings, Settings};
use crate::skew::Skew;
use crate::store_memory::StoreMemory;
use crate::writes::WriteLog;

/// How many reports wait for one worker. Tasks that report wait when it is full; the follower does not.
const REPORTS_MAX: usize = 4_096;
/// How many lanes' bytes wait to be sent on one chain, and how many endings wait to be written. What
/// finds no place is handed over at the worker's next look.
const HANDED_MAX: usize = 4_096;

/// What a node is made of.
pub struct Parts {
    /// What the operator chose.
    pub settings: Settings,
    /// The one place where anything is kept.
    pub store: Arc<dyn Store>,
    /// The chains, where they are asked.
    pub chain: Option<Arc<dyn Chain>>,
    /// Whoever has the keys. Without it, and without the chains, transactions end at ALLOCATED.
    pub signer: Option<Arc<dyn Signer>>,
    /// Who decides about stuck transactions.
    pub policy: Arc<dyn Policy>,
    /// The way to other nodes.
    pub peers: Arc<dyn Peers>,
    /// The time of day.
    pub clock: Arc<dyn Clock>,
    /// The time as it passes.
    pub ticks: Arc<dyn Ticks>,
    /// Who we are.
    pub holder: Holder,
    /// Where other nodes reach us.
    pub url: String,
    /// The configured chains.
    pub chains: Vec<ChainSettings>,
    /// What this node knows of its store from before.
    pub store_memory: Arc<StoreMemory>,
    /// The lanes that are ours to lead.
    pub directory: Directory,
    /// What is counted.
    pub meters: Meters,
}

/// A node and those who work in it; each of them is to be driven by a task of its own.
pub struct Crew {
    /// The node.
    pub node: Arc<Node>,
    /// One for each share of the lanes.
    pub workers: Vec<Worker>,
    /// Who puts the creates of all workers together.
    pub(crate) creates: Scribe<LaneBatch>,
    /// Who puts their moves together.
    pub(crate) moves: Scribe<LaneMoves>,
    /// Who puts requests into the queues of lanes.
    pub clerk: Clerk,
    /// Who writes what the feed tells.
    pub completer: Completer,
    /// Who sends, one for each chain.
    pub shippers: Vec<Shipper>,
    /// Who follows, one for each chain.
    pub followers: Vec<Follower>,
}

impl Node {
    /// Puts a node together.
    #[must_use]
    pub fn assemble(parts: Parts) -> Crew {
        let count = parts.settings.workers.max(1);
        let room = parts.settings.worker_queue_max.max(1);
        let (desks, inboxes): (Vec<_>, Vec<_>) = (0..count).map(|_| mpsc::channel(room)).unzip();
        let (reports, told): (Vec<_>, Vec<_>) =
            (0..count).map(|_| mpsc::channel(REPORTS_MAX)).unzip();
        let (creates, new) = gather::channel(count);
        let (moves, moving) = gather::channel(count);
        let (clerk, wanted) = mpsc::channel(room);
        let (completer, endings) = mpsc::channel(HANDED_MAX);
        let ids: Vec<ChainId> = parts.chains.iter().map(|chain| chain.id).collect();
        let (shippers, shipments): (Vec<_>, Vec<_>) =
            ids.iter().map(|_| mpsc::channel(HANDED_MAX)).unzip();
        let boards = ids.iter().map(|_| Arc::new(Board::default()));
        parts.meters.incarnation(&parts.holder);
        parts.meters.clock_skew_allowance(parts.settings.lease.skew);
        let node = Arc::new(Self {
            writes: WriteLog::new(parts.settings.logged_writes_per_second),
            leases: Leases::new(Arc::clone(&parts.ticks), parts.settings.lease),
            skew: Skew::default(),
            receipt_slots: slots(&ids, parts.settings.receipt_workers),
            settings: parts.settings,
            store: parts.store,
            chain: parts.chain,
            signer: parts.signer,
            policy: parts.policy,
            peers: parts.peers,
            clock: parts.clock,
            ticks: parts.ticks,
            holder: parts.holder,
            url: parts.url,
            chains: parts.chains,
            store_memory: parts.store_memory,
            directory: parts.directory,
            meters: parts.meters,
            feed: Watch::default(),
            waiters: Waiters::default(),
            creates,
            moves,
            desks,
            reports,
            boards: ids.iter().copied().zip(boards).collect(),
            shippers: ids.iter().copied().zip(shippers).collect(),
            completer,
            hands: Mutex::default(),
            clerk,
            living: Mutex::default(),
            ghost: watch::Sender::new(None),
            draining: watch::Sender::new(false),
            in_hand: Arc::default(),
            unreached: Mutex::default(),
            halted: Mutex::default(),
            nudged: Mutex::default(),
        });
        let workers = inboxes
            .into_iter()
            .zip(told)
            .enumerate()
            .map(|(desk, (inbox, told))| Worker::new(Arc::clone(&node), desk, inbox, told))
            .collect();
        let (shippers, followers) = outward(&node, shipments);
        Crew {
            workers,
            creates: Scribe::new(Arc::clone(&node), new),
            moves: Scribe::new(Arc::clone(&node), moving),
            clerk: Clerk::new(Arc::clone(&node), wanted),
            completer: Completer::new(Arc::clone(&node), endings),
            shippers,
            followers,
            node,
        }
    }
}

/// So many places for each chain.
fn slots(chains: &[ChainId], each: usize) -> HashMap<ChainId, Semaphore> {
    let slot = |chain: &ChainId| (*chain, Semaphore::new(each.max(1)));
    chains.iter().map(slot).collect()
}

/// Who sends and who follows, for each chain.
fn outward(
    node: &Arc<Node>,
    shipments: Vec<mpsc::Receiver<Shipment>>,
) -> (Vec<Shipper>, Vec<Follower>) {
    let Some(port) = node.chain.as_ref().filter(|_| node.has_life()) else {
        return (vec![], vec![]);
    };
    let each = node.chains.iter().zip(shipments).map(|(chain, inbox)| {
        let (node, port) = (|| Arc::clone(node), || Arc::clone(port));
        let board = Arc::clone(&node().boards[&chain.id]);
        (
            Shipper::new(node(), port(), chain.id, inbox),
            Follower::new(node(), port(), chain.clone(), board),
        )
    });
    each.unzip()
}
