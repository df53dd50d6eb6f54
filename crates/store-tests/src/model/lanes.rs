//! Nodes, leases and views of the model.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fencepost_app::ports::{
    Acquired, Backlog, Beat, Bid, Held, Holder, LaneView, Lead, Leader, Orphan, PausedLanes, Peer,
    Reach, Renewed, StoreError, Taken, check,
};
use fencepost_domain::flat::Name;
use fencepost_domain::ids::{
    ChainId, Incarnation, Lane, LaneId, LaneSeq, NodeId, Nonce, Token, TxId,
};
use fencepost_domain::state::{State, Why};

use super::memory::{LaneRow, Node, Whole};

impl Whole {
    pub(super) fn join(&mut self, node: &NodeId, url: &str) -> Result<Incarnation, StoreError> {
        check::url(url)?;
        let last = self.nodes.get(node).map(|node| node.incarnation);
        let incarnation = last.unwrap_or_default().plus(1).unwrap();
        let row = Node {
            incarnation,
            url: url.to_owned(),
            beat_at: self.now,
            chains: Vec::new(),
        };
        self.nodes.insert(node.clone(), row);
        Ok(incarnation)
    }

    pub(super) fn beat(&mut self, holder: &Holder, chains: &[Reach]) -> Result<Beat, StoreError> {
        check::chains(chains)?;
        let now = self.now;
        let Some(node) = self.nodes.get_mut(&holder.node) else {
            return Err(StoreError::Invalid("the node never joined".to_owned()));
        };
        if node.incarnation > holder.incarnation {
            return Ok(Beat::Ghost(node.incarnation));
        }
        node.beat_at = now;
        node.chains = chains.to_vec();
        let lately = |node: &Node| node.beat_at + self.terms.duration * 3 >= now;
        let alive = self.nodes.iter().filter(|(_, node)| lately(node));
        let peers = alive.map(|(id, node)| Peer {
            node: id.clone(),
            incarnation: node.incarnation,
            url: node.url.clone(),
            chains: node.chains.clone(),
        });
        Ok(Beat::Alive(peers.collect()))
    }

    pub(super) fn open_lanes(&mut self, lanes: &[Lane]) -> Result<Vec<LaneId>, StoreError> {
        check::lanes(lanes)?;
        Ok(lanes.iter().map(|lane| self.open_lane(*lane)).collect())
    }

    fn open_lane(&mut self, lane: Lane) -> LaneId {
        if let Some((id, _)) = self.lanes.iter().find(|(_, row)| row.lane == lane) {
            return *id;
        }
        let id = LaneId(self.lanes.last_key_value().map_or(1, |(id, _)| id.0 + 1));
        let row = LaneRow {
            lane,
            owner: None,
            token: Token::default(),
            expires_at: self.now,
            next_nonce: Nonce::ZERO,
            lane_seq: LaneSeq::default(),
            paused: None,
            free: BTreeSet::new(),
            queue: Vec::new(),
            due: BTreeMap::new(),
        };
        self.lanes.insert(id, row);
        id
    }

    pub(super) fn acquire(
        &mut self,
        holder: &Holder,
        url: &str,
        bids: &[Bid],
    ) -> Result<Vec<Acquired>, StoreError> {
        check::bids(url, bids)?;
        let joined = self.nodes.get(&holder.node).map(|node| node.incarnation);
        if let Some(later) = joined.filter(|joined| *joined > holder.incarnation) {
            return Ok(vec![Acquired::Ghost(later); bids.len()]);
        }
        Ok(bids
            .iter()
            .map(|bid| self.acquire_one(holder, url, *bid))
            .collect())
    }

    fn acquire_one(&mut self, holder: &Holder, url: &str, bid: Bid) -> Acquired {
        let (now, until) = (self.now, self.later(self.terms.duration));
        let (skew, absurd) = (self.terms.skew, self.terms.absurd());
        let Some(row) = self.lanes.get_mut(&bid.lane) else {
            return Acquired::UnknownLane;
        };
        let taken = match &row.owner {
            None => Taken::Inserted,
            Some((owner, _)) if owner == holder && row.expires_at > now && !bid.fresh => {
                Taken::Kept
            }
            Some((owner, _)) if owner.node == holder.node => {
                if owner.incarnation > holder.incarnation {
                    return Acquired::Ghost(owner.incarnation);
                }
                Taken::Retaken
            }
            Some((owner, url)) => {
                let dead = row.expires_at + skew <= now || row.expires_at > now + absurd;
                if !dead {
                    return Acquired::Led(leader(row, owner, url));
                }
                Taken::Stolen
            }
        };
        if taken != Taken::Kept {
            row.token = row.token.plus(1).unwrap();
        }
        row.owner = Some((holder.clone(), url.to_owned()));
        row.expires_at = until;
        Acquired::Leading(Lead {
            token: row.token,
            taken,
            next_nonce: row.next_nonce,
            paused: row.paused,
        })
    }

    pub(super) fn renew(
        &mut self,
        holder: &Holder,
        held: &[Held],
    ) -> Result<Vec<Renewed>, StoreError> {
        check::held(held)?;
        let mut answers = Vec::new();
        for held in held {
            if self.leads(holder, *held) {
                self.renew_lease(held.lane);
                answers.push(Renewed::Kept);
            } else {
                answers.push(Renewed::Fenced);
            }
        }
        Ok(answers)
    }

    pub(super) fn release(
        &mut self,
        holder: &Holder,
        held: &[Held],
    ) -> Result<Vec<LaneId>, StoreError> {
        check::held(held)?;
        let mut released = BTreeSet::new();
        for held in held {
            let now = self.now;
            let Some(row) = self.lanes.get_mut(&held.lane) else {
                continue;
            };
            let ours = row.owner.as_ref().is_some_and(|(owner, _)| owner == holder);
            if ours && row.token == held.token {
                row.owner = None;
                row.expires_at = now;
                released.insert(held.lane);
            }
        }
        Ok(released.into_iter().collect())
    }

    pub(super) fn unwatched(
        &self,
        within: Duration,
        after: Option<LaneId>,
        limit: usize,
    ) -> Result<Vec<Orphan>, StoreError> {
        check::limit(limit)?;
        let found = self.lanes.iter().filter(|(id, row)| {
            Some(**id) > after
                && self.is_dead(row)
                && row.next_nonce > Nonce::ZERO
                && row.expires_at + within > self.now
        });
        let found = found.map(|(id, row)| Orphan {
            id: *id,
            lane: row.lane,
        });
        Ok(found.take(limit).collect())
    }

    fn is_dead(&self, row: &LaneRow) -> bool {
        row.owner.is_none() || row.expires_at + self.terms.skew <= self.now
    }

    pub(super) fn orphans(
        &self,
        after: Option<LaneId>,
        limit: usize,
    ) -> Result<Vec<Orphan>, StoreError> {
        check::limit(limit)?;
        let orphaned = self.lanes.iter().filter(|(id, row)| {
            let dead = self.is_dead(row);
            let mut open = self.remedies.iter().filter(|each| each.is_open());
            let asked = open.any(|each| each.lane == **id);
            dead && (!row.queue.is_empty() || !row.due.is_empty() || asked)
        });
        let orphans = orphaned
            .filter(|(id, _)| Some(**id) > after)
            .map(|(id, row)| Orphan {
                id: *id,
                lane: row.lane,
            });
        Ok(orphans.take(limit).collect())
    }

    pub(super) fn lane(&self, lane: Lane) -> Option<LaneView> {
        let (id, row) = self.lanes.iter().find(|(_, row)| row.lane == lane)?;
        Some(self.view(*id, row))
    }

    pub(super) fn lane_views(
        &self,
        after: Option<LaneId>,
        limit: usize,
    ) -> Result<Vec<LaneView>, StoreError> {
        check::limit(limit)?;
        let views = self.lanes.iter().filter(|(id, _)| Some(**id) > after);
        Ok(views
            .map(|(id, row)| self.view(*id, row))
            .take(limit)
            .collect())
    }

    pub(super) fn backlog(
        &self,
        after: Option<TxId>,
        limit: usize,
    ) -> Result<Vec<Backlog>, StoreError> {
        check::limit(limit)?;
        let mut open: BTreeMap<TxId, ChainId> = BTreeMap::new();
        for row in self.lanes.values() {
            let unfinished = row.due.keys().chain(&row.queue);
            open.extend(unfinished.map(|tx| (*tx, row.lane.chain)));
        }
        let page = open.into_iter().filter(|(tx, _)| Some(*tx) > after);
        let mut chains: BTreeMap<(ChainId, Option<&str>), Backlog> = BTreeMap::new();
        for (tx, chain) in page.take(limit) {
            let record = &self.records[&tx];
            let stuck = if let State::Stuck(stuck) = &record.state {
                Some(stuck.why)
            } else {
                None
            };
            let backlog = chains
                .entry((chain, stuck.map(Why::word)))
                .or_insert_with(|| Backlog {
                    chain,
                    stuck,
                    count: 0,
                    oldest_at: self.records[&tx].created_at,
                    last: tx,
                });
            backlog.count += 1;
            backlog.last = tx;
        }
        Ok(chains.into_values().collect())
    }

    pub(super) fn paused_lanes(&self) -> Vec<PausedLanes> {
        let mut counted: BTreeMap<ChainId, Vec<PausedLanes>> = BTreeMap::new();
        for row in self.lanes.values() {
            let Some(reason) = row.paused else {
                continue;
            };
            let chain = row.lane.chain;
            let here = counted.entry(chain).or_default();
            match here.iter_mut().find(|each| each.reason == reason) {
                Some(known) => known.count += 1,
                None => here.push(PausedLanes {
                    chain,
                    reason,
                    count: 1,
                }),
            }
        }
        counted.into_values().flatten().collect()
    }

    fn view(&self, id: LaneId, row: &LaneRow) -> LaneView {
        let open: Vec<_> = row.due.keys().map(|tx| &self.records[tx]).collect();
        let waiting = row.queue.iter().map(|tx| &self.records[tx]);
        let alive = row.owner.as_ref().filter(|_| row.expires_at > self.now);
        let count = |n: usize| u64::try_from(n).unwrap();
        LaneView {
            id,
            lane: row.lane,
            leader: alive.map(|(owner, url)| leader(row, owner, url)),
            token: row.token,
            next_nonce: row.next_nonce,
            lane_seq: row.lane_seq,
            paused: row.paused,
            in_flight: count(
                open.iter()
                    .filter(|tx| tx.state.inclusion().is_none())
                    .count(),
            ),
            queued: count(row.queue.len()),
            stuck: count(
                open.iter()
                    .filter(|tx| tx.state.name() == Name::Stuck)
                    .count(),
            ),
            oldest_at: waiting
                .chain(open.iter().copied())
                .map(|tx| tx.created_at)
                .min(),
            head: open
                .iter()
                .min_by_key(|tx| tx.state.nonce())
                .map(|tx| Box::new((*tx).clone())),
            free: row.free.iter().copied().collect(),
        }
    }
}

fn leader(row: &LaneRow, owner: &Holder, url: &str) -> Leader {
    Leader {
        node: owner.node.clone(),
        incarnation: owner.incarnation,
        url: url.to_owned(),
        token: row.token,
        expires_at: row.expires_at,
    }
}
