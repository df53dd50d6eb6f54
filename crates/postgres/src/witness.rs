//! What the database acknowledged to this node and the node has perhaps passed on: the memory that a failover is judged
//! by. Bounded: one entry for each lane, and the newest of what was acknowledged outside of lanes that this node led.
//!
//! Each session knows the server that it was opened on, and what it acknowledges counts for that server alone. A session
//! on a new server closes the chapter of the one before in the moment it is opened; an answer of the old server that
//! comes later counts as lost, so nothing is added to a chapter that may have been reported.
//!
//! Statements name what they acknowledge in columns `ack_…`. What a node reads for itself after a lost reply is added by
//! [`Memory::says`] and [`Memory::saw`].

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fencepost_app::ports::{StoreError, Terms};
use fencepost_app::store_memory::StoreMemory;
use fencepost_domain::failover::Witness;
use fencepost_domain::ids::{LaneSeq, Nonce, Token};
use fencepost_domain::store_identity::{Server, is_behind};
use jiff::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;
use uuid::Uuid;

use crate::failover::Failover;

/// How many acknowledgements outside of led lanes are remembered. A server's log ends at one point: if the oldest of these
/// is there, so is all before it. Fewer, and a loss may reach further back than is remembered; more is memory.
const SAID_MAX: usize = 10_000;
/// What was acknowledged longer ago is not looked for: no server that lags so far is made the primary, and the row may
/// have been retired since.
const SAID_FOR: Duration = Duration::from_hours(1);
/// How many closed chapters are kept. A later server may continue none of the last few: fewer, and what an older one
/// acknowledged is not looked for there; each holds as much memory as the present one.
const CHAPTERS_MAX: usize = 4;
/// The part of a lease that is not trusted, as for leases themselves.
const MARGIN_PART: u32 = 10;

/// Something that this node acknowledged in a lane without leading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Said {
    /// A request that waits for its nonce.
    Request(Uuid),
    /// A reservation that lasts until then.
    Until(Uuid, Timestamp),
    /// A remedy of a transaction.
    Remedy(i64, Uuid),
    /// An operator's act on the lane.
    Act(Uuid),
}

impl Said {
    pub(crate) const fn id(self) -> Uuid {
        match self {
            Self::Request(id) | Self::Until(id, _) | Self::Remedy(_, id) | Self::Act(id) => id,
        }
    }

    pub(crate) const fn until(self) -> Option<Timestamp> {
        match self {
            Self::Until(_, until) => Some(until),
            Self::Request(_) | Self::Remedy(..) | Self::Act(_) => None,
        }
    }

    pub(crate) const fn remedy(self) -> Option<i64> {
        match self {
            Self::Remedy(remedy, _) => Some(remedy),
            Self::Request(_) | Self::Until(..) | Self::Act(_) => None,
        }
    }
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request(tx) => write!(f, "the queued request {tx}"),
            Self::Until(tx, until) => write!(f, "the end {until} of reservation {tx}"),
            Self::Remedy(remedy, tx) => write!(f, "remedy {remedy} of {tx}"),
            Self::Act(act) => write!(f, "an operator's act {act}"),
        }
    }
}

/// What is known of one lane.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Lane {
    /// While we led it last.
    pub(crate) witness: Option<Witness>,
    /// When the statement was sent that renewed our lease last. None once we have given it up.
    renewed: Option<Instant>,
    /// The newest event that we heard of without leading it.
    pub(crate) seen: LaneSeq,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Known {
    pub(crate) lanes: HashMap<i64, Lane>,
    /// Oldest first.
    pub(crate) said: VecDeque<(Instant, i64, Said)>,
    /// Older ones were forgotten.
    pub(crate) forgot: bool,
    /// The newest number of the feed that was read.
    pub(crate) fed: i64,
}

/// Counts the servers that this process has met. Zero is a server without our tables yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Generation(u64);

/// What one server acknowledged, closed when the next one was met.
#[derive(Debug)]
pub(crate) struct Chapter {
    pub(crate) era: Uuid,
    pub(crate) known: Known,
    closed: Instant,
}

impl Chapter {
    /// Whether our lease on a lane had not run out when the next server was met.
    pub(crate) fn leads(&self, lane: &Lane, terms: Terms) -> bool {
        let trust = terms.duration - terms.duration / MARGIN_PART;
        lane.renewed.is_some_and(|sent| self.closed < sent + trust)
    }
}

/// A failover that this node has not reported on.
#[derive(Debug, Clone)]
pub(crate) struct Frozen {
    /// The era of the server that was met.
    pub(crate) era: Uuid,
    pub(crate) at: Instant,
    /// Oldest first. With each the era of the server that has our report of it.
    pub(crate) chapters: Vec<(Arc<Chapter>, Option<Uuid>)>,
    /// A chapter was forgotten before it was reported.
    pub(crate) forgot: bool,
}

/// What the hosts of the URL have shown.
#[derive(Default)]
struct Surveyed {
    /// The highest timeline of each system.
    highest: HashMap<i64, i64>,
    /// The system to use, where hosts of others can be written to as well.
    system: Option<i64>,
}

#[derive(Default)]
struct Inner {
    server: Option<Server>,
    generation: Generation,
    known: Known,
    /// As in [`Frozen`].
    chapters: VecDeque<(Arc<Chapter>, Option<Uuid>)>,
    forgot: bool,
    /// When the newest server was met, while it waits for our report. Readers of the feed wait for that too.
    unreported: Option<Instant>,
}

/// The memory of one node.
pub(crate) struct Memory {
    pub(crate) mode: Failover,
    pub(crate) terms: Terms,
    /// What outlives this process: the newest server, and those that were left behind.
    kept: Arc<StoreMemory>,
    surveyed: Mutex<Surveyed>,
    inner: Mutex<Inner>,
    /// The server was last seen to keep readers of the feed waiting.
    feed_waits: AtomicBool,
    /// Another server was met, which may lack that this node has started.
    unjoined: AtomicBool,
}

impl Memory {
    pub(crate) fn new(mode: Failover, terms: Terms, kept: Arc<StoreMemory>) -> Self {
        Self {
            mode,
            terms,
            kept,
            surveyed: Mutex::default(),
            inner: Mutex::default(),
            feed_waits: AtomicBool::new(false),
            unjoined: AtomicBool::new(false),
        }
    }

    /// Whether a server of this timeline was left behind by a failover.
    pub(crate) fn is_stale(&self, system: i64, timeline: i64) -> bool {
        let met = self.lock().server;
        let surveyed = self.surveyed();
        let shown = surveyed.highest.get(&system);
        met.is_some_and(|met| is_behind(system, timeline, met))
            || shown.is_some_and(|highest| timeline < *highest)
            || surveyed.system.is_some_and(|chosen| chosen != system)
            || self.kept.is_behind(system, timeline)
    }

    /// A host of the URL has shown this timeline.
    pub(crate) fn survey(&self, system: i64, timeline: i64) {
        let mut surveyed = self.surveyed();
        let highest = surveyed.highest.entry(system).or_insert(timeline);
        *highest = timeline.max(*highest);
    }

    /// These systems can be written to. Among several only the known one is used; false where none is known.
    pub(crate) fn choose_system(&self, writable: Vec<i64>) -> bool {
        let met = self.lock().server.map(|server| server.system);
        let known = met.or_else(|| self.kept.system());
        let mut surveyed = self.surveyed();
        surveyed.system = known.filter(|known| writable.contains(known));
        surveyed.system.is_some() || writable.len() < 2
    }

    fn surveyed(&self) -> MutexGuard<'_, Surveyed> {
        self.surveyed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A session leads to this server. None where a failover has left it behind. A server that is new closes the
    /// chapter of the one before.
    pub(crate) fn meet(&self, met: Server) -> Option<Generation> {
        if self.kept.has_left(met) {
            return None;
        }
        let mut inner = self.lock();
        let Some(server) = inner.server else {
            self.kept.met_server(met);
            inner.server = Some(met);
            inner.generation.0 += 1;
            return Some(inner.generation);
        };
        if server == met {
            return Some(inner.generation);
        }
        // Before anything is acknowledged there: a restart must not lead back to the server of before.
        self.kept.met_server(met);
        inner.server = Some(met);
        inner.generation.0 += 1;
        self.set_unjoined(true);
        let known = std::mem::take(&mut inner.known);
        if self.mode == Failover::Witness {
            inner.close(server.era, known);
        }
        Some(inner.generation)
    }

    /// The newest server's. A session that is taken later leads to that server or to a newer one.
    pub(crate) fn generation(&self) -> Generation {
        self.lock().generation
    }

    /// Whether sessions on a server may be used: another node may have told of a newer one.
    pub(crate) fn is_present(&self, of: Generation) -> bool {
        let inner = self.lock();
        of == inner.generation && !self.is_left(&inner)
    }

    fn is_left(&self, inner: &Inner) -> bool {
        inner
            .server
            .is_some_and(|server| self.kept.has_left(server))
    }

    /// Takes in what rows of an answer acknowledge, which a session on this server has sent. False where a newer server
    /// was met since: then the answer counts as lost.
    pub(crate) fn acknowledge(&self, of: Generation, sent: Instant, rows: &[Row]) -> bool {
        let mut inner = self.lock();
        if of != inner.generation || self.is_left(&inner) {
            return false;
        }
        let names = rows.first().map_or(&[][..], |row| row.columns());
        if names.iter().any(|column| column.name() == "ack_lane") {
            for row in rows {
                inner.known.learn(row, sent);
            }
        }
        true
    }

    /// Events that were seen to be stored. As above.
    pub(crate) fn saw(&self, of: Generation, lane: i64, seq: LaneSeq) -> Result<(), StoreError> {
        let mut inner = self.present(of)?;
        let lane = inner.known.lanes.entry(lane).or_default();
        lane.seen = lane.seen.max(seq);
        Ok(())
    }

    /// Something was found stored outside of lanes that we lead. As above.
    pub(crate) fn says(&self, of: Generation, lane: i64, said: Said) -> Result<(), StoreError> {
        self.present(of)?.known.say(lane, said);
        Ok(())
    }

    /// Numbers of the feed up to this one are told. As above.
    pub(crate) fn feeds(&self, of: Generation, head: i64) -> Result<(), StoreError> {
        let mut inner = self.present(of)?;
        if inner.unreported.is_some() {
            return Err(behind());
        }
        inner.known.fed = inner.known.fed.max(head);
        Ok(())
    }

    /// These leases are given up: others may take the lanes from now on.
    pub(crate) fn gives_up(&self, lanes: &[i64]) {
        let mut inner = self.lock();
        for lane in lanes {
            if let Some(lane) = inner.known.lanes.get_mut(lane) {
                lane.renewed = None;
            }
        }
    }

    /// The newest failover, until we have reported on it.
    pub(crate) fn frozen(&self) -> Option<Frozen> {
        let inner = self.lock();
        Some(Frozen {
            at: inner.unreported?,
            era: inner.server?.era,
            chapters: inner.chapters.iter().cloned().collect(),
            forgot: inner.forgot,
        })
    }

    /// A server of this era has our report. Where a newer one was met meanwhile, that one still needs it.
    pub(crate) fn reported(&self, era: Uuid) {
        let mut inner = self.lock();
        if inner.server.is_none_or(|server| server.era != era) {
            return;
        }
        inner.unreported = None;
        for (_, reported) in &mut inner.chapters {
            *reported = Some(era);
        }
        inner.forgot = false;
    }

    /// Says so, and what it was before.
    pub(crate) fn set_unjoined(&self, unjoined: bool) -> bool {
        self.unjoined.swap(unjoined, Ordering::Relaxed)
    }

    pub(crate) fn feed_waits(&self) -> bool {
        self.feed_waits.load(Ordering::Relaxed)
    }

    pub(crate) fn set_feed_waits(&self, waits: bool) {
        self.feed_waits.store(waits, Ordering::Relaxed);
    }

    /// The memory, while the server of a session is the newest.
    fn present(&self, of: Generation) -> Result<MutexGuard<'_, Inner>, StoreError> {
        let inner = self.lock();
        if of == inner.generation && !self.is_left(&inner) {
            Ok(inner)
        } else {
            Err(behind())
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn close(&mut self, era: Uuid, mut known: Known) {
        known.said.retain(|(at, ..)| at.elapsed() < SAID_FOR);
        let closed = Instant::now();
        let chapter = Chapter { era, known, closed };
        self.chapters.push_back((Arc::new(chapter), None));
        if self.chapters.len() > CHAPTERS_MAX
            && let Some((_, reported)) = self.chapters.pop_front()
        {
            self.forgot |= reported.is_none();
        }
        self.unreported = Some(closed);
    }
}

impl Known {
    fn learn(&mut self, row: &Row, sent: Instant) {
        let Some(lane): Option<i64> = of(row, "ack_lane") else {
            return;
        };
        let seq = of(row, "ack_seq").and_then(|seq| LaneSeq::from_column(seq).ok());
        if let Some(token) = of(row, "ack_token").and_then(|token| Token::from_column(token).ok()) {
            let nonce = of(row, "ack_nonce").and_then(|nonce| Nonce::from_column(nonce).ok());
            let witness = Witness {
                token,
                next_nonce: nonce.unwrap_or_default(),
                lane_seq: seq.unwrap_or_default(),
            };
            self.lanes.entry(lane).or_default().leads(witness, sent);
        } else if let Some(seq) = seq {
            let lane = self.lanes.entry(lane).or_default();
            lane.seen = lane.seen.max(seq);
        }
        if let Some(said) = said(row) {
            self.say(lane, said);
        }
    }

    fn say(&mut self, lane: i64, said: Said) {
        if self.said.len() == SAID_MAX {
            self.said.pop_front();
            self.forgot = true;
        }
        self.said.push_back((Instant::now(), lane, said));
    }
}

impl Lane {
    /// An answer may be overtaken by one to a later question.
    fn leads(&mut self, told: Witness, sent: Instant) {
        match &mut self.witness {
            Some(known) if told.token < known.token => return,
            Some(known) if told.token == known.token => {
                known.next_nonce = known.next_nonce.max(told.next_nonce);
                known.lane_seq = known.lane_seq.max(told.lane_seq);
            }
            Some(_) | None => self.witness = Some(told),
        }
        self.renewed = self.renewed.max(Some(sent));
    }
}

fn said(row: &Row) -> Option<Said> {
    if let Some(act) = of(row, "ack_act") {
        return Some(Said::Act(act));
    }
    let tx: Uuid = of(row, "ack_tx")?;
    Some(match (of(row, "ack_until"), of(row, "ack_remedy")) {
        (Some(until), _) => Said::Until(tx, until),
        (None, Some(remedy)) => Said::Remedy(remedy, tx),
        (None, None) => Said::Request(tx),
    })
}

/// A column that not every statement has.
fn of<'a, T: FromSql<'a>>(row: &'a Row, name: &str) -> Option<T> {
    row.try_get::<_, Option<T>>(name).ok().flatten()
}

fn behind() -> StoreError {
    StoreError::Unavailable("the database was failed over meanwhile".into())
}
