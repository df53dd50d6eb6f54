//! Lanes with unfinished work and no living leader are adopted, and, while there is room, those in which all
//! has ended lately: a reorg may undo an end. Nodes share them by a hash that all compute alike, so that they
//! do not all jump; what stays orphaned is anyone's.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use fencepost_domain::ids::{ChainId, LaneId, NodeId};
use fencepost_domain::keccak256;

use crate::lane::report::Report;
use crate::node::Node;
use crate::ports::{Acquired, Bid, LaneView, Orphan, READ_LIMIT_MAX, StoreError};

/// How long a node waits for the one whose turn it is. Shorter, and all jump at once; longer, and a
/// node that has just died keeps lanes waiting.
const PATIENCE: Duration = Duration::from_millis(150);

/// How often remedies are looked for that nobody has told us of.
const REMEDIES_EVERY: Duration = Duration::from_secs(1);

/// How often lanes are looked for that nobody watches any more: that reads them all.
const UNWATCHED_EVERY: Duration = Duration::from_secs(30);

/// How many of them are adopted in one pass: each is read.
const WATCHED_MAX: usize = 64;

/// For how long after its leader was lost a lane is still worth watching: 256 blocks of most chains.
const WATCHED_FOR: Duration = Duration::from_hours(1);

/// How many lanes whose rows are held are bid for alone in one pass: each may wait for long.
const ALONE_MAX: usize = 2;

/// Who looks for lanes without a leader, and for those of ours in which something waits.
pub struct Adopter {
    node: Arc<Node>,
    /// Since when an orphan that is another's turn has been seen.
    seen: HashMap<LaneId, Duration>,
    /// Orphans of the pages so far.
    sweep: HashSet<LaneId>,
    orphans_after: Option<LaneId>,
    queued_after: Option<LaneId>,
    remedies_after: Option<LaneId>,
    remedies_at: Option<Duration>,
    unwatched_after: Option<LaneId>,
    unwatched_at: Option<Duration>,
    /// Those that another node had its turn for, in the last look.
    unwatched: HashSet<LaneId>,
    /// Where the search for what an earlier start of ours led is, until it is over.
    inherits: Option<Inherits>,
}

/// How far the search for what an earlier start led is.
struct Inherits {
    after: Option<LaneId>,
}

impl Adopter {
    /// Has seen nothing yet.
    #[must_use]
    pub fn new(node: Arc<Node>) -> Self {
        Self {
            node,
            seen: HashMap::new(),
            sweep: HashSet::new(),
            orphans_after: None,
            queued_after: None,
            remedies_after: None,
            remedies_at: None,
            unwatched_after: None,
            unwatched_at: None,
            unwatched: HashSet::new(),
            inherits: Some(Inherits { after: None }),
        }
    }

    /// One pass over a page of each.
    pub async fn pass(&mut self) -> Result<(), StoreError> {
        self.inherit().await?;
        self.adopt().await?;
        self.watch().await?;
        self.nudge().await?;
        self.remedies().await
    }

    /// What an earlier start of ours led is ours at once: that process is gone, so nobody needs to wait
    /// for its leases to run out.
    async fn inherit(&mut self) -> Result<(), StoreError> {
        let Some(Inherits { after }) = self.inherits else {
            return Ok(());
        };
        let page = self.node.store.lanes(after, READ_LIMIT_MAX).await?;
        let holder = &self.node.holder;
        let earlier = |view: &&LaneView| {
            let leader = view.leader.as_ref();
            leader.is_some_and(|leader| {
                leader.node == holder.node && leader.incarnation < holder.incarnation
            })
        };
        let known = |view: &&LaneView| self.node.directory.seat_by_id(view.id).is_some();
        let bids: Vec<Bid> = page
            .iter()
            .filter(known)
            .filter(earlier)
            .map(|view| Bid {
                lane: view.id,
                fresh: false,
            })
            .collect();
        if !bids.is_empty() {
            for (bid, answer) in bids.iter().zip(self.node.bid(&bids).await?) {
                if let Acquired::Leading(_) = answer {
                    self.adopted(bid.lane);
                }
            }
        }
        let last = page.last().map(|view| view.id);
        let more = next_page(last, page.len());
        self.inherits = more.map(|after| Inherits { after: Some(after) });
        Ok(())
    }

    async fn adopt(&mut self) -> Result<(), StoreError> {
        let page = self
            .node
            .store
            .orphans(self.orphans_after, READ_LIMIT_MAX)
            .await?;
        self.orphans_after = next_page(page.last().map(|orphan| orphan.id), page.len());
        self.sweep.extend(page.iter().map(|orphan| orphan.id));
        if self.orphans_after.is_none() {
            // What the whole sweep did not show is nobody's orphan any more.
            let sweep = std::mem::take(&mut self.sweep);
            self.seen.retain(|lane, _| sweep.contains(lane));
        }
        let mut mine = Vec::new();
        for orphan in page {
            let known = self.node.directory.seat_by_id(orphan.id).is_some();
            if known && self.is_my_turn(orphan.id, orphan.lane.chain) {
                mine.push(Bid {
                    lane: orphan.id,
                    fresh: false,
                });
            }
        }
        if mine.is_empty() {
            return Ok(());
        }
        let answers = self.node.bid(&mine).await?;
        let mut busy = Vec::new();
        for (bid, answer) in mine.iter().zip(answers) {
            match answer {
                Acquired::Leading(_) => self.adopted(bid.lane),
                Acquired::Busy => busy.push(*bid),
                Acquired::Led(_) | Acquired::Ghost(_) | Acquired::UnknownLane => {}
            }
        }
        // A bid for one lane waits for its row, and ends whoever holds it for too long.
        for bid in busy.into_iter().take(ALONE_MAX) {
            if let Some(Acquired::Leading(_)) = self.node.bid(&[bid]).await?.first() {
                self.adopted(bid.lane);
            }
        }
        Ok(())
    }

    /// Adopts lanes in which all has ended, as many as we may lead.
    async fn watch(&mut self) -> Result<(), StoreError> {
        let now = self.node.ticks.ticks();
        let ago = self.unwatched_at.map(|at| now.saturating_sub(at));
        let begins = self.unwatched_after.is_none();
        let room = self.node.room();
        if room == 0 || (begins && ago.is_some_and(|ago| ago < UNWATCHED_EVERY)) {
            return Ok(());
        }
        self.unwatched_at = Some(now);
        let limit = room.min(WATCHED_MAX);
        let store = &self.node.store;
        let page = store
            .unwatched(WATCHED_FOR, self.unwatched_after, limit)
            .await?;
        self.unwatched_after = page
            .last()
            .map(|lane| lane.id)
            .filter(|_| page.len() == limit);
        if begins {
            self.unwatched
                .retain(|lane| page.iter().any(|each| each.id == *lane));
        }
        let mut bids = Vec::new();
        for Orphan { id, lane } in page {
            let known = self.node.directory.seat_by_id(id).is_some();
            if known && self.node.reaches_id(lane.chain) && self.is_mine(id, lane.chain) {
                bids.push(Bid {
                    lane: id,
                    fresh: false,
                });
            }
        }
        if bids.is_empty() {
            return Ok(());
        }
        for (bid, answer) in bids.iter().zip(self.node.bid(&bids).await?) {
            if let Acquired::Leading(_) = answer {
                self.adopted(bid.lane);
            }
        }
        Ok(())
    }

    fn adopted(&mut self, lane: LaneId) {
        self.seen.remove(&lane);
        self.node.nudge(lane);
    }

    /// It is our turn, or was another's when we last looked.
    fn is_mine(&mut self, lane: LaneId, chain: ChainId) -> bool {
        self.is_first(lane, chain) || !self.unwatched.insert(lane)
    }

    fn is_my_turn(&mut self, lane: LaneId, chain: ChainId) -> bool {
        let now = self.node.ticks.ticks();
        let since = *self.seen.entry(lane).or_insert(now);
        // It would be given up again at once: a node without `rpc` can do nothing for it that another cannot.
        if self.node.lends_by_clock() && self.node.is_reached_elsewhere(chain) {
            return false;
        }
        self.is_first(lane, chain) || now.saturating_sub(since) >= PATIENCE
    }

    /// Whether all living nodes agree that we are the first to take it.
    fn is_first(&self, lane: LaneId, chain: ChainId) -> bool {
        let living = self.node.living();
        // A node that cannot reach the chain can do nothing for the lane, unless nobody can.
        let reaching = living.iter().filter(|peer| peer.reaches(chain));
        let any = reaching.clone().next().is_some();
        let first = living
            .iter()
            .filter(|peer| !any || peer.reaches(chain))
            .map(|peer| &peer.node)
            .max_by_key(|node| weight(node, lane));
        first.is_none_or(|node| *node == self.node.holder.node)
    }

    /// Lanes of ours in which something waits are told to their workers.
    async fn nudge(&mut self) -> Result<(), StoreError> {
        let page = self
            .node
            .store
            .queued_lanes(self.queued_after, READ_LIMIT_MAX)
            .await?;
        self.queued_after = next_page(page.last().copied(), page.len());
        for lane in page {
            if self.node.leases.held(lane).is_some() {
                self.node.nudge(lane);
            }
        }
        Ok(())
    }

    /// Lanes of ours in which somebody wants something done are told to their workers.
    async fn remedies(&mut self) -> Result<(), StoreError> {
        let now = self.node.ticks.ticks();
        let ago = self.remedies_at.map(|at| now.saturating_sub(at));
        if ago.is_some_and(|ago| ago < REMEDIES_EVERY) {
            return Ok(());
        }
        self.remedies_at = Some(now);
        let page = self
            .node
            .store
            .remedy_lanes(self.remedies_after, READ_LIMIT_MAX)
            .await?;
        self.remedies_after = next_page(page.last().copied(), page.len());
        for lane in page {
            if self.node.leases.held(lane).is_some() {
                // One that finds no room is told at the next look.
                let _ = self.node.report_now(lane, Report::Remedied(lane));
            }
        }
        Ok(())
    }
}

/// Where the next page begins; after the last one, at the front again.
const fn next_page(last: Option<LaneId>, found: usize) -> Option<LaneId> {
    if found < READ_LIMIT_MAX { None } else { last }
}

/// The node with the greatest weight is the first to take the lane. All nodes agree on it.
fn weight(node: &NodeId, lane: LaneId) -> [u8; 32] {
    let mut name = node.as_str().as_bytes().to_vec();
    name.extend(lane.0.to_be_bytes());
    keccak256(name).0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_nodes_share_lanes_about_evenly_and_a_lost_one_moves_only_its_own() {
        let names = ["a", "b", "c"].map(|name| NodeId::new(name).expect("a name"));
        let first = |nodes: &[NodeId], lane| {
            let winner = nodes.iter().max_by_key(|node| weight(node, LaneId(lane)));
            winner.cloned().expect("one of them")
        };
        let all: Vec<NodeId> = (0..3_000).map(|lane| first(&names, lane)).collect();
        for name in &names {
            let share = all.iter().filter(|winner| *winner == name).count();
            assert!((800..1_200).contains(&share), "{name:?}: {share}");
        }
        for (lane, before) in (0..3_000).zip(&all) {
            let after = first(&names[..2], lane);
            assert!(*before == names[2] || *before == after, "lane {lane}");
        }
    }
}
