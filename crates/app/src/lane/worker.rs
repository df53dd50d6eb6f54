//! The worker of a share of the lanes. It is serial: two statements of this node never meet in a
//! lane. What arrives while one statement is under way makes the next batch. It waits for the store
//! only: signing and chains have tasks of their own, which report to it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use fencepost_domain::ids::{LaneId, Token, TxId};
use futures::FutureExt;
use tokio::sync::mpsc;
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::align::Aligned;
use super::entry::Busy;
use super::gather::Returning;
use super::memory::Memory;
use super::moves::Plans;
use super::report::Report;
use super::track::Track;
use super::work::{self, Ask, Job, Work, Works};
use crate::lifecycle::accept::Verdict;
use crate::lifecycle::finality::Ending;
use crate::lifecycle::follow::Sight;
use crate::lifecycle::follow::board::Whose;
use crate::node::Node;
use crate::ports::Held;
use crate::recovery::errand::Errand;

/// How often lanes are looked at for what has become due. Shorter costs time for nothing, longer
/// delays what was put off.
const TICK: Duration = Duration::from_millis(200);
/// How many looks pass between two searches for lanes that nobody told us of.
const SWEEP_TICKS: u64 = 10;
/// How long a lane that cannot go on rests.
pub(crate) const REST: Duration = Duration::from_secs(1);
/// The first wait after a failure; each further one doubles it.
const BACKOFF_FIRST: Duration = Duration::from_millis(500);
const BACKOFF_MAX: Duration = Duration::from_secs(60);

/// How long something that failed so often in a row is left alone. Spread by its id, so that those
/// that failed together do not all come back together.
pub(crate) fn backoff(failures: u32, tx: TxId) -> Duration {
    let doubled = BACKOFF_FIRST * 2_u32.pow(failures.saturating_sub(1).min(10));
    let spread = u32::from(tx.0.as_bytes()[15]);
    let wait = doubled.min(BACKOFF_MAX);
    wait + wait * spread / 1_024
}

/// One worker.
pub struct Worker {
    pub(crate) node: Arc<Node>,
    inbox: mpsc::Receiver<Job>,
    reports: mpsc::Receiver<Report>,
    timer: Interval,
    ticks: u64,
    /// Our place among the workers.
    desk: usize,
    pub(crate) memory: HashMap<LaneId, Memory>,
    /// Lanes in which a statement of ours may still run: only a new token puts an end to it.
    pub(crate) doubted: BTreeSet<LaneId>,
    /// What goes into the next turn, ahead of what arrives.
    again: Vec<Job>,
    /// A statement waits to hear whether we have more for it.
    pub(super) returning: Option<Returning>,
    /// When lanes were last compared with the chain, and under which token.
    pub(super) aligned: HashMap<LaneId, (Token, Aligned)>,
    /// Lanes of which the chain is being asked where they stand, with what waits for the answer.
    pub(super) parked: BTreeMap<LaneId, Option<Work>>,
    /// New lanes that cannot begin, and why.
    pub(super) unbegun: HashMap<LaneId, &'static str>,
    /// What waited for such an answer and has it.
    pub(super) released: Vec<Work>,
    /// The unfinished transactions of lanes we lead.
    pub(crate) tracks: BTreeMap<LaneId, Track>,
    /// Lanes whose transactions are to be read.
    pub(crate) unread: BTreeSet<LaneId>,
    /// Decided, not written.
    pub(crate) plans: Plans,
    /// Decided, not handed to the completer.
    pub(crate) endings: BTreeMap<LaneId, Ending>,
    /// What was seen of transactions whose ending is being written.
    postponed: Vec<(Whose, Sight)>,
    /// Remedies that we have claimed and not carried out. They outlive what is in mind of their lanes:
    /// under our token nobody is shown them again.
    pub(crate) errands: BTreeMap<TxId, Errand>,
    /// Lanes in which holders of lent nonces may have spoken.
    pub(crate) settled: BTreeSet<LaneId>,
    /// Lanes for which remedies may have been asked.
    pub(crate) asked_for: BTreeSet<LaneId>,
}

/// What woke a worker.
struct Turn {
    jobs: Vec<Job>,
    reports: Vec<Report>,
    ticked: bool,
}

impl Worker {
    pub(crate) fn new(
        node: Arc<Node>,
        desk: usize,
        inbox: mpsc::Receiver<Job>,
        reports: mpsc::Receiver<Report>,
    ) -> Self {
        let mut timer = interval(TICK);
        timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            node,
            inbox,
            reports,
            timer,
            ticks: 0,
            desk,
            memory: HashMap::new(),
            doubted: BTreeSet::new(),
            again: vec![],
            returning: None,
            aligned: HashMap::new(),
            parked: BTreeMap::new(),
            unbegun: HashMap::new(),
            released: vec![],
            tracks: BTreeMap::new(),
            unread: BTreeSet::new(),
            plans: Plans::default(),
            endings: BTreeMap::new(),
            postponed: vec![],
            errands: BTreeMap::new(),
            settled: BTreeSet::new(),
            asked_for: BTreeSet::new(),
        }
    }

    /// Works until the node is gone.
    pub async fn run(mut self) {
        while let Some(turn) = self.collect().await {
            self.turn(turn).await;
        }
    }

    /// What there is to do: at most a batch of requests, and all reports that are there.
    async fn collect(&mut self) -> Option<Turn> {
        let most = self.node.settings.batch_max.max(1);
        let mut turn = Turn {
            jobs: std::mem::take(&mut self.again),
            reports: vec![],
            ticked: false,
        };
        if turn.jobs.is_empty() {
            if self.inbox.is_empty() && self.reports.is_empty() {
                self.returning = None;
            }
            tokio::select! {
                biased;
                found = self.reports.recv_many(&mut turn.reports, most) => (found > 0).then_some(())?,
                found = self.inbox.recv_many(&mut turn.jobs, most) => (found > 0).then_some(())?,
                _ = self.timer.tick() => turn.ticked = true,
            }
        }
        // Reports and requests must not keep the clock from being looked at.
        turn.ticked |= self.timer.tick().now_or_never().is_some();
        while turn.reports.len() < most
            && let Ok(report) = self.reports.try_recv()
        {
            turn.reports.push(report);
        }
        while turn.jobs.len() < most
            && let Ok(job) = self.inbox.try_recv()
        {
            turn.jobs.push(job);
        }
        Some(turn)
    }

    /// One pass: what was reported is written down; the lanes are made ours, what waits in them goes
    /// first, then what has come in; and then what is next to do outside is begun.
    async fn turn(&mut self, turn: Turn) {
        let mut touched: BTreeSet<LaneId> = turn.reports.iter().map(Report::lane).collect();
        for report in turn.reports {
            self.take_in(report).await;
        }
        self.write().await;
        let released = std::mem::take(&mut self.released);
        let mut works = work::sort(&self.node, released, turn.jobs);
        touched.extend(works.keys());
        self.lead(&mut works).await;
        self.recall(&mut works).await;
        self.begin_unasked(&mut works).await;
        self.align(&mut works);
        self.promote(&mut works).await;
        self.create(works).await;
        if self.node.has_life() {
            if turn.ticked {
                self.tick(&mut touched).await;
            }
            for lane in touched {
                self.attend(lane).await;
            }
            self.write().await;
            self.complete();
        } else if self.node.lends_by_clock() {
            self.lend_by_clock(turn.ticked, touched).await;
        }
    }

    /// Lanes with something unfinished are looked at, whatever happens.
    async fn tick(&mut self, touched: &mut BTreeSet<LaneId>) {
        self.sweep();
        let open = self.tracks.iter().filter(|(_, track)| !track.is_empty());
        let open: Vec<LaneId> = open.map(|(lane, _)| *lane).collect();
        self.resubmit(&open).await;
        touched.extend(open);
        touched.extend(&self.unread);
        let settled: Vec<LaneId> = self.asked_for.iter().copied().collect();
        touched.extend(settled);
        for lane in &self.doubted {
            self.node.nudge(*lane);
        }
        self.retell().await;
    }

    /// Lanes that we lead and have never looked at: whoever made them ours could not tell us.
    pub(crate) fn sweep(&mut self) {
        self.ticks = self.ticks.wrapping_add(1);
        if !self.ticks.is_multiple_of(SWEEP_TICKS) {
            return;
        }
        for held in self.node.leases.all() {
            if self.node.desk(held.lane) == self.desk && !self.tracks.contains_key(&held.lane) {
                self.unread.insert(held.lane);
            }
        }
    }

    /// Has in mind what is next to do in a lane; puts out of mind one that is not ours.
    pub(crate) async fn has_in_mind(&mut self, lane: LaneId) -> bool {
        if self.load(lane).await {
            return true;
        }
        // Whoever leads it reads it; if that is us again, we are told.
        if self.node.leases.held(lane).is_none() {
            self.unread.remove(&lane);
            self.settled.remove(&lane);
            self.asked_for.remove(&lane);
            if self.tracks.contains_key(&lane) {
                self.forget(lane);
                self.unread.remove(&lane);
            }
        }
        false
    }

    /// Begins what is next to do in a lane.
    async fn attend(&mut self, lane: LaneId) {
        if !self.has_in_mind(lane).await {
            return;
        }
        self.finish_again(lane).await;
        self.read_settled_loans(lane).await;
        if self.asked_for.remove(&lane) {
            self.claim_errands(lane).await;
        }
        self.fetch_bytes(lane).await;
        self.sign(lane);
        self.send(lane);
        self.ask(lane);
        self.watch(lane).await;
    }

    async fn take_in(&mut self, report: Report) {
        match report {
            Report::Signed { held, results } => self.signed(held, results).await,
            Report::Sent { held, replies } => self.sent(held, replies).await,
            Report::Unsent { held, nonces } => self.unsent(held, &nonces),
            Report::Asked {
                held,
                nonces,
                receipts,
            } => self.asked(held, nonces, receipts).await,
            Report::Seen { lane, sights } => {
                self.read_published(lane, &sights).await;
                for (whose, sight) in sights {
                    self.saw(whose, sight).await;
                }
            }
            Report::LookAgain(lane) => self.forget(lane),
            Report::Settled(lane) => {
                // Which nonces are free may have changed; the rest is read once for all that came together.
                self.memory.remove(&lane);
                self.asked_for.insert(lane);
                self.settled.insert(lane);
            }
            Report::Remedied(lane) => {
                self.asked_for.insert(lane);
            }
            Report::Examined { held, seen } => self.examined(held, seen).await,
            Report::Consulted { held, tx, opened } => self.consulted(held, tx, opened).await,
            Report::Advised { held, tx, advised } => self.advised(held, tx, advised).await,
            Report::Expired { held, due, counts } => self.expired(held, due, counts).await,
            Report::Ended {
                held,
                moves,
                answer,
            } => {
                self.ended(held, moves, answer);
                self.retell().await;
            }
            Report::Vouched {
                held,
                named,
                answer,
            } => self.vouched(held, named, answer).await,
            Report::Counted {
                held,
                count,
                latest,
            } => self.counted(held, count, latest).await,
        }
    }

    async fn saw(&mut self, whose: Whose, sight: Sight) {
        // What was seen later is judged by what was seen before it.
        if self.plans.holds(whose.tx) {
            self.write().await;
        }
        let track = self.tracks.get(&whose.lane);
        let entry = track.and_then(|track| track.get(whose.nonce));
        let ends = entry.is_some_and(|entry| entry.tx == whose.tx && entry.busy == Busy::Ending);
        // What the chain was when it was seen is old by then: the newest is kept instead.
        if ends && !matches!(sight, Sight::Covered(_)) {
            self.postpone(whose, sight);
            return;
        }
        match sight {
            Sight::Mined(receipt) => self.mined(whose.lane, whose, *receipt, true).await,
            Sight::Reorged(block) => self.reorged(whose.lane, whose, block).await,
            Sight::Final(block, chain) => {
                if let Some(chain) = chain {
                    self.keep_chain(whose, chain);
                }
                self.finish(whose.lane, whose, block).await;
            }
            Sight::Covered(chain) => self.covered(whose, chain).await,
        }
    }

    /// Takes it in later: once its ending is written, or once the store can be read.
    pub(crate) fn postpone(&mut self, whose: Whose, sight: Sight) {
        self.postponed.push((whose, sight));
    }

    /// What could not be taken in before, again.
    async fn retell(&mut self) {
        for (whose, sight) in std::mem::take(&mut self.postponed) {
            self.saw(whose, sight).await;
        }
    }

    pub(super) fn again(&mut self, asks: Vec<Ask>) {
        self.again
            .extend(asks.into_iter().map(|ask| Job::Create(Box::new(ask))));
    }

    pub(super) fn drain_again(&mut self, lane: LaneId) {
        self.again.push(Job::Drain(lane));
    }

    /// The store says that the lane is not ours: what we remember of it is void.
    pub(crate) fn fenced(&mut self, held: Held, op: &'static str) {
        self.node.meters.fenced(op);
        let (signer, node_id) = (
            self.node.signer_of(held.lane),
            self.node.holder.node.as_str(),
        );
        tracing::warn!(%signer, node_id, token = %held.token, op, "fenced: another node leads the lane");
        self.node.leases.lose(held);
        self.memory.remove(&held.lane);
        self.drop_errands(held.lane, None);
        self.forget(held.lane);
    }

    /// Takes a lane out of the turn, with one answer for all that is asked of it.
    pub(super) fn drop_lane(&mut self, works: &mut Works, lane: LaneId, verdict: &Verdict) {
        self.memory.remove(&lane);
        if let Some(work) = works.remove(&lane) {
            work.tell_all(verdict);
        }
    }
}
