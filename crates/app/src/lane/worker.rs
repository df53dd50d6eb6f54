//! The worker of a share of the lanes. It is serial: two statements of this node never meet in a
//! lane. What arrives while one statement is under way makes the next batch.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use fencepost_domain::ids::LaneId;
use tokio::sync::mpsc;

use super::memory::Memory;
use super::work::{self, Ask, Job, Works};
use crate::lifecycle::accept::Verdict;
use crate::node::Node;
use crate::ports::Held;

/// One worker.
pub struct Worker {
    pub(super) node: Arc<Node>,
    inbox: mpsc::Receiver<Job>,
    pub(super) memory: HashMap<LaneId, Memory>,
    /// Lanes in which a statement of ours may still run: only a new token puts an end to it.
    pub(super) doubted: HashSet<LaneId>,
    /// What goes into the next turn, ahead of what arrives.
    again: Vec<Job>,
}

impl Worker {
    pub(crate) fn new(node: Arc<Node>, inbox: mpsc::Receiver<Job>) -> Self {
        Self {
            node,
            inbox,
            memory: HashMap::new(),
            doubted: HashSet::new(),
            again: vec![],
        }
    }

    /// Works until the node is gone.
    pub async fn run(mut self) {
        while let Some(jobs) = self.collect().await {
            self.turn(jobs).await;
        }
    }

    /// What there is to do, at least one job and at most a batch.
    async fn collect(&mut self) -> Option<Vec<Job>> {
        let most = self.node.settings.batch_max.max(1);
        let mut jobs = std::mem::take(&mut self.again);
        if jobs.is_empty() && self.inbox.recv_many(&mut jobs, most).await == 0 {
            return None;
        }
        while jobs.len() < most {
            match self.inbox.try_recv() {
                Ok(job) => jobs.push(job),
                Err(_) => break,
            }
        }
        Some(jobs)
    }

    /// One pass: the lanes are made ours, what waits in them goes first, then what has come in.
    async fn turn(&mut self, jobs: Vec<Job>) {
        let mut works = work::sort(&self.node, jobs);
        self.lead(&mut works).await;
        self.recall(&mut works).await;
        self.align(&mut works).await;
        self.promote(&mut works).await;
        self.create(works).await;
    }

    pub(super) fn again(&mut self, asks: Vec<Ask>) {
        self.again
            .extend(asks.into_iter().map(|ask| Job::Create(Box::new(ask))));
    }

    pub(super) fn drain_again(&mut self, lane: LaneId) {
        self.again.push(Job::Drain(lane));
    }

    /// The store says that the lane is not ours: what we remember of it is void.
    pub(super) fn fenced(&mut self, held: Held, op: &'static str) {
        self.node.meters.fenced(op);
        let node_id = self.node.holder.node.as_str();
        tracing::warn!(node_id, lane = held.lane.0, token = %held.token, op, "fenced: another node leads the lane");
        self.node.leases.lose(held);
        self.memory.remove(&held.lane);
    }

    /// Takes a lane out of the turn, with one answer for all that is asked of it.
    pub(super) fn drop_lane(&mut self, works: &mut Works, lane: LaneId, verdict: &Verdict) {
        self.memory.remove(&lane);
        if let Some(work) = works.remove(&lane) {
            work.tell_all(verdict);
        }
    }
}
