//! Comparing a lane with its chain: how far the account is there, what has used nonces of ours, and which
//! nonces nobody holds. Asked outside the worker, when something waits for longer than usual.

use std::sync::Arc;
use std::time::Duration;

use fencepost_domain::B256;
use fencepost_domain::ids::{LaneId, Nonce, TxId};
use fencepost_domain::state::{Block, State, Why};
use jiff::Timestamp;

use crate::causes::Causes;
use crate::directory::Seat;
use crate::lane::entry::Entry;
use crate::lane::report::Report;
use crate::lane::track::Track;
use crate::lane::worker::Worker;
use crate::lifecycle::follow::board::Whose;
use crate::node::Node;
use crate::ports::{
    Chain, ChainUnavailable, Consumer, CountMode, CursorMove, CursorMoved, Held, Key, PageQuery,
    Receipt,
};
use crate::writes::lane_error;

/// How many of a lane are asked about in one look; the others wait behind them.
const EXAMINED_MAX: usize = 64;
/// For how many of them it is asked what has used their nonces: each costs some requests.
const CONSUMED_MAX: usize = 8;
/// How many of a lane's newest are looked at for one that is in a block.
const PASSED_MAX: usize = 256;
/// The most gaps that are looked at; more are as bad.
const GAPS_MAX: usize = 100;
/// How soon a lane is looked at again when something says that the chain is not as we think.
const SOON: Duration = Duration::from_secs(2);

/// What a look at the chain has found.
#[derive(Debug)]
pub(crate) struct Findings {
    /// How many of the signer's transactions are in blocks.
    latest: Nonce,
    /// All endpoints say so.
    unanimous: bool,
    /// Receipts of ours that were not seen before.
    receipts: Vec<(Nonce, TxId, Receipt)>,
    /// Whose nonces are used without one of their hashes having a receipt, and by what.
    consumed: Vec<(Nonce, TxId, Option<Consumer>)>,
    /// The newest block when that was asked.
    head: Option<Block>,
    /// From the chain's count up; none where the store could not be read.
    gaps: Option<Vec<Nonce>>,
    /// When the one before the lane's first was last written: that long at most it has been the first.
    freed_at: Option<(Nonce, Timestamp)>,
}

/// One transaction to ask about.
struct Question {
    nonce: Nonce,
    tx: TxId,
    hashes: Vec<B256>,
    /// What is said to have used its nonce.
    foreign: Option<B256>,
    lent: bool,
}

impl Worker {
    /// Begins a look at the chain, if it is time for one.
    pub(crate) fn examine(&mut self, lane: LaneId) {
        let now = self.node.ticks.ticks();
        let usual = self.node.settings.stale_receipt_timeout;
        let usual = usual.min(self.node.settings.stuck.age);
        let Some(chain) = self.node.chain.clone() else {
            return;
        };
        let Some(track) = self.tracks.get_mut(&lane) else {
            return;
        };
        if track.tasks.care.examining || !is_due(track, usual, now) {
            return;
        }
        let questions = questions(track);
        if questions.is_empty() {
            return;
        }
        track.tasks.care.examining = true;
        track.suspect = false;
        let front = track.front(now).map(|front| front.nonce);
        let (held, seat, node) = (track.held, track.seat, Arc::clone(&self.node));
        self.node.hand(async move {
            let seen = look(&node, &*chain, seat, questions, front).await;
            node.report(Report::Examined { held, seen }).await;
        });
    }

    /// What was found is taken in.
    pub(crate) async fn examined(&mut self, held: Held, seen: Result<Findings, ChainUnavailable>) {
        let (lane, now) = (held.lane, self.node.ticks.ticks());
        let Some(track) = self
            .tracks
            .get_mut(&lane)
            .filter(|track| track.held == held)
        else {
            return;
        };
        track.tasks.care.examining = false;
        track.examined_at = Some(now);
        let found = match seen {
            Ok(found) => found,
            Err(error) => {
                tracing::debug!(error = %Causes(&error), lane = lane.0, "the chain cannot be compared with the lane now");
                return;
            }
        };
        if let Some((nonce, at)) = found.freed_at {
            let since = self.ticks_at(at);
            if let Some(track) = self.tracks.get_mut(&lane) {
                track.waits_since(nonce, since);
            }
        }
        for (nonce, tx, receipt) in found.receipts {
            let whose = Whose { lane, nonce, tx };
            self.mined(lane, whose, receipt, false).await;
        }
        self.consumed(lane, found.latest, found.head, found.consumed)
            .await;
        if let Some(gaps) = found.gaps {
            self.gapped(lane, gaps).await;
            self.fill_gaps(held).await;
        }
        if found.unanimous {
            self.drop_free(held, found.latest).await;
        }
    }

    /// Nonces that were given back and that the chain has used are nobody's to give. Returns whether the
    /// chain's count can be believed.
    pub(crate) async fn drop_free(&mut self, held: Held, latest: Nonce) -> bool {
        let memory = self.memory.get(&held.lane);
        let lowest = memory.and_then(|memory| memory.free.first());
        if lowest.is_none_or(|lowest| *lowest >= latest) {
            return true;
        }
        // What is too far ahead to be believed of the cursor is not believed of these either.
        let cursor = memory.map_or(latest, |memory| memory.cursor);
        if latest.get() > cursor.get().saturating_add(self.node.settings.max_jump) {
            return false;
        }
        self.memory.remove(&held.lane);
        let cursor = CursorMove::Forget {
            holder: self.node.holder.clone(),
            held,
            below: latest,
        };
        let audit = self.audit("free nonces that the chain has used are dropped");
        match self
            .node
            .store
            .move_cursor(held.lane, &cursor, &audit)
            .await
        {
            Ok(CursorMoved::Fenced) => self.fenced(held, "raise"),
            Ok(_) => {
                lane_error!(self.node, held, nonce = %latest, "nonces that were given back are used on chain: someone else uses this key");
            }
            Err(error) => self.doubt(held, &error),
        }
        true
    }
}

fn is_due(track: &mut Track, usual: Duration, now: Duration) -> bool {
    let ago = track.examined_at.map(|at| now.saturating_sub(at));
    if track.suspect {
        return ago.is_none_or(|ago| ago >= SOON);
    }
    // Of one whose nonce is said to be used the follower is told where, once that is sure.
    let mut unmined = track.unmined();
    let told = |entry: &Entry| entry.stuck() == Some(Why::NonceTaken);
    if unmined.any(|(_, entry)| told(entry) && !entry.is_told_taken()) {
        return ago.is_none_or(|ago| ago >= SOON);
    }
    drop(unmined);
    let front = track.front(now).map(|front| front.since);
    let lent = track.lent().map(|(_, entry)| entry.since).min();
    let waits = |since: Option<Duration>| since.is_some_and(|since| now >= since + usual);
    (waits(front) || waits(lent)) && ago.is_none_or(|ago| ago >= usual)
}

fn questions(track: &Track) -> Vec<Question> {
    let ours = track.unmined().take(EXAMINED_MAX);
    let lent = track.lent().take(EXAMINED_MAX);
    ours.chain(lent)
        // Of whose nonce is surely used, and told to be, the follower tells the rest.
        .filter(|(_, entry)| !entry.is_told_taken())
        .map(|(nonce, entry)| Question {
            nonce,
            tx: entry.tx,
            hashes: entry.attempts.iter().map(|known| known.hash).collect(),
            lent: entry.is_lent(),
            foreign: match &entry.state {
                State::Stuck(stuck) => stuck.foreign,
                State::Queued(_)
                | State::Allocated(_)
                | State::Tracking(_)
                | State::Confirmed(_)
                | State::Failed(_)
                | State::Reserved(_)
                | State::Submitted(_)
                | State::Used(_)
                | State::Recyclable(_) => None,
            },
        })
        .collect()
}

async fn look(
    node: &Node,
    chain: &dyn Chain,
    seat: Seat,
    questions: Vec<Question>,
    front: Option<Nonce>,
) -> Result<Findings, ChainUnavailable> {
    let count = chain.count(seat.lane, CountMode::Latest).await?;
    let latest = count.highest;
    let used: Vec<Question> = questions
        .into_iter()
        .filter(|question| question.nonce < latest)
        .collect();
    let mut receipts = Vec::new();
    let (mut consumed, mut head) = (Vec::new(), None);
    if !used.is_empty() {
        let hashes: Vec<B256> = used.iter().flat_map(|each| each.hashes.clone()).collect();
        let answers = chain.receipts(seat.lane.chain, &hashes).await?;
        let mut answers = answers.into_iter();
        let mut unseen = Vec::new();
        for question in used {
            let ours = answers.by_ref().take(question.hashes.len());
            match ours.collect::<Vec<_>>().into_iter().flatten().next() {
                Some(receipt) => receipts.push((question.nonce, question.tx, receipt)),
                None => unseen.push(question),
            }
        }
        if count.is_unanimous() && !unseen.is_empty() {
            let tip = chain.tip(seat.lane.chain).await?.head.block;
            consumed = consumers(node, chain, seat, unseen, tip).await?;
            head = Some(tip);
        }
    }
    Ok(Findings {
        latest,
        unanimous: count.is_unanimous(),
        receipts,
        consumed,
        head,
        gaps: gaps(node, seat, latest).await,
        freed_at: freed_at(node, seat, front).await,
    })
}

async fn consumers(
    node: &Node,
    chain: &dyn Chain,
    seat: Seat,
    unseen: Vec<Question>,
    head: Block,
) -> Result<Vec<(Nonce, TxId, Option<Consumer>)>, ChainUnavailable> {
    let mut consumed = Vec::new();
    for question in unseen.into_iter().take(CONSUMED_MAX) {
        let mut by = chain.consumer(seat.lane, question.nonce).await?;
        // Too long ago to be searched for, but known from then.
        if let (None, Some(foreign)) = (by, question.foreign) {
            let receipts = chain.receipts(seat.lane.chain, &[foreign]).await?;
            let found = receipts.into_iter().flatten().next();
            by = found.map(|receipt| Consumer {
                block: receipt.block,
                hash: Some(foreign),
            });
        }
        let hash = by.and_then(|by| by.hash);
        // A block with nothing on top of it is often replaced, and ours may be in the one that comes.
        if by.is_some_and(|by| by.block.number >= head.number) {
            continue;
        }
        // Its receipt is late, that is all.
        if hash.is_some_and(|hash| question.hashes.contains(&hash)) {
            continue;
        }
        // A count alone, which a broken endpoint makes up, does not use a lent nonce.
        if by.is_none() && question.lent && !is_passed(node, seat, question.nonce).await {
            continue;
        }
        consumed.push((question.nonce, question.tx, by));
    }
    Ok(consumed)
}

/// Whether one of the lane's newest is in a block with a higher nonce: then this one is used too.
async fn is_passed(node: &Node, seat: Seat, nonce: Nonce) -> bool {
    let newest = PageQuery {
        lane: Some(seat.lane),
        limit: PASSED_MAX,
        ..PageQuery::default()
    };
    let newest = node.store.page(&newest).await.unwrap_or_default();
    newest.iter().any(|record| {
        let above = record.state.nonce().is_some_and(|other| other > nonce);
        above && record.state.inclusion().is_some()
    })
}

async fn gaps(node: &Node, seat: Seat, latest: Nonce) -> Option<Vec<Nonce>> {
    match node.store.gaps(seat.id, latest, GAPS_MAX).await {
        Ok(gaps) => Some(gaps),
        Err(error) => {
            tracing::debug!(error = %Causes(&error), lane = seat.id.0, "a lane's gaps could not be read");
            None
        }
    }
}

async fn freed_at(node: &Node, seat: Seat, front: Option<Nonce>) -> Option<(Nonce, Timestamp)> {
    let front = front?;
    let before = front.get().checked_sub(1)?;
    let key = Key::Nonce(seat.lane, Nonce::new(before).ok()?);
    let record = node.store.find(&key).await.ok()??;
    let at = record.state.inclusion().map(|_| record.updated_at);
    Some((front, at?))
}
