//! Whether the promises are kept, looked at after each write and each block. It knows what is in the store,
//! what is on the chain and what clients were told: nothing of how nodes think.

mod chain;
mod rows;
mod ends;
mod lists;

use std::collections::{BTreeMap, BTreeSet};

use alloy_primitives::{B256, Bytes};
use fencepost_app::directory::InFlightUntil;
use fencepost_app::ports::{Clock, Held, Holder, Lead, Record, Store};
use fencepost_domain::attempt::Kind;
use fencepost_domain::ids::{FeedSeq, Lane, LaneId, Nonce, Token, TxId};
use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

pub(crate) use chain::{Mirror, PAYEE};

use crate::profile::Profile;
use crate::sometimes::Rare;
use crate::world::World;

/// What is known of a lane.
#[derive(Debug, Clone)]
struct LaneFacts {
    token: Token,
    cursor: Nonce,
    seq: u64,
    leader: Option<Holder>,
    /// When the lease was last seen to be renewed, by the store's clock; none once it is given up.
    kept_at: Option<Timestamp>,
    /// Its cursor was raised to what the chain said.
    followed: bool,
    /// Nonces that were given back at some time.
    freed: BTreeSet<u64>,
    /// Those of them that the chain was said to have used.
    forgotten: BTreeSet<u64>,
}

/// What is known of stored bytes.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    pub(crate) tx: TxId,
    pub(crate) n: u32,
    pub(crate) kind: Kind,
    pub(crate) at: Instant,
    raw: Bytes,
}

/// Remembers what it has seen, and compares.
pub(crate) struct Checker {
    lanes: BTreeMap<LaneId, LaneFacts>,
    /// Rows as they were last read.
    pub(crate) rows: BTreeMap<TxId, Record>,
    /// Whose a nonce is for ever, because bytes for it are stored.
    bound: BTreeMap<(LaneId, u64), TxId>,
    /// Transactions of ours with stored bytes.
    signed: BTreeSet<TxId>,
    /// Who holds a nonce.
    holders: BTreeMap<(LaneId, u64), TxId>,
    pub(crate) attempts: BTreeMap<B256, Known>,
    /// How many attempts a transaction has.
    counts: BTreeMap<TxId, u32>,
    pub(crate) mirror: Mirror,
    /// Those that were final at some time.
    ended_once: BTreeSet<TxId>,
    /// Transactions for which a remedy is open, or was lately.
    remedied: BTreeSet<TxId>,
    feed: u64,
    lists: lists::Lists,
}

impl Checker {
    pub(crate) fn new(profile: &Profile, lanes: &[Lane], ids: &[LaneId]) -> Self {
        let facts = LaneFacts {
            token: Token::default(),
            cursor: Nonce::default(),
            seq: 0,
            leader: None,
            kept_at: None,
            followed: false,
            freed: BTreeSet::new(),
            forgotten: BTreeSet::new(),
        };
        Self {
            lanes: ids.iter().map(|id| (*id, facts.clone())).collect(),
            rows: BTreeMap::new(),
            bound: BTreeMap::new(),
            signed: BTreeSet::new(),
            holders: BTreeMap::new(),
            attempts: BTreeMap::new(),
            counts: BTreeMap::new(),
            mirror: Mirror::new(profile.chain.finality, lanes),
            ended_once: BTreeSet::new(),
            remedied: BTreeSet::new(),
            feed: 0,
            lists: lists::Lists::default(),
        }
    }

    /// The newest token of a lane.
    pub(crate) fn token(&self, lane: LaneId) -> Token {
        self.lanes[&lane].token
    }

    /// An operator has lowered a cursor.
    pub(crate) fn lower(&mut self, lane: LaneId, to: Nonce) {
        self.lane(lane).cursor = to;
    }

    /// The cursor of a lane goes where the chain is said to be: nonces in between are nobody's.
    pub(crate) fn follow(&mut self, lane: LaneId) {
        self.lane(lane).followed = true;
    }

    /// All endpoints say that the chain has used nonces below this: those that were given back are nobody's.
    pub(crate) fn forget_free(&mut self, lane: LaneId, below: Nonce) {
        let facts = self.lane(lane);
        facts.forgotten.extend(facts.freed.range(..below.get()));
    }

    /// Whether a nonce may be nobody's because of what the chain was said to be.
    pub(crate) fn followed(&self, lane: LaneId, nonce: u64) -> bool {
        let facts = &self.lanes[&lane];
        facts.followed || facts.forgotten.contains(&nonce)
    }

    pub(crate) fn open_remedy(&mut self, tx: TxId) {
        self.remedied.insert(tx);
    }

    /// Whether a remedy is open for something that has not ended.
    pub(crate) fn remedies_are_open(&self, of: Option<LaneId>) -> bool {
        self.remedied.iter().any(|tx| {
            let row = self.rows.get(tx);
            row.is_some_and(|row| {
                !row.state.is_final() && of.is_none_or(|lane| lane == row.lane_id)
            })
        })
    }

    /// Whether bytes of this hash are stored, and whose they are.
    pub(crate) fn known(&self, hash: &B256) -> Option<&Known> {
        self.attempts.get(hash)
    }

    /// How many attempts were stored for a transaction.
    pub(crate) fn attempts_of(&self, tx: TxId) -> u32 {
        self.counts.get(&tx).copied().unwrap_or_default()
    }

    /// Whether nobody holds one of the nonces from `from` up to this one.
    pub(crate) fn has_gap(&self, lane: LaneId, from: u64, below: u64) -> bool {
        (from..below).any(|nonce| !self.holders.contains_key(&(lane, nonce)))
    }

    fn lane(&mut self, lane: LaneId) -> &mut LaneFacts {
        self.lanes.get_mut(&lane).expect("there are no other lanes")
    }
}

impl World {
    /// The lease lives on, or is given up.
    pub(crate) fn kept(&self, lane: LaneId, lives: bool) {
        let now = self.store_clock.now();
        self.checker().lane(lane).kept_at = lives.then_some(now);
    }

    /// I1: nobody is taken over in its time, and only the store's clock says when that is over.
    fn in_its_time(&self, lane: LaneId, holder: &Holder, kept_at: Option<Timestamp>) {
        let terms = self.profile.settings.lease;
        let now = self.store_clock.now();
        let past = kept_at.map(|at| now.duration_since(at));
        let least = SignedDuration::try_from(terms.duration + terms.skew).expect("it is short");
        if let Some(past) = past.filter(|past| *past < least) {
            let facts = format!("{holder:?} leads lane {} {past:?} after a renewal", lane.0);
            self.violate("I1 nobody is taken over in its time", facts);
        }
    }

    /// I3: a token never goes back, and is new when a lane changes hands.
    pub(crate) fn led(&self, lane: LaneId, holder: &Holder, lead: &Lead) {
        let mut checker = self.checker();
        let open = checker.remedies_are_open(Some(lane));
        let facts = checker.lane(lane);
        let before = facts.leader.replace(holder.clone());
        let kept_at = facts.kept_at.replace(self.store_clock.now());
        let (old, new) = (facts.token, lead.token);
        facts.token = old.max(new);
        let is_other = before.as_ref().is_some_and(|before| before != holder);
        let bad = new < old || (is_other && new == old) || lead.next_nonce < facts.cursor;
        let cursor = facts.cursor;
        facts.cursor = lead.next_nonce.max(cursor);
        drop(checker);
        if bad {
            let facts = format!(
                "lane {} {old:?} {cursor:?} then {holder:?} {lead:?}",
                lane.0
            );
            self.violate("I3 no going back", facts);
        }
        let was_alive = before.filter(|before| before.node != holder.node);
        if was_alive.is_some() {
            self.in_its_time(lane, holder, kept_at);
        }
        if is_other && new > old {
            self.saw(Rare::Takeover);
            let busy = |name: &str| {
                let found = self.all().into_iter().find(|member| member.name == name);
                found.is_some_and(|member| member.line.batches_under_way() > 0)
            };
            if was_alive.is_some_and(|before| busy(before.node.as_str())) {
                self.saw(Rare::TakeoverInBatch);
            }
            if open {
                self.saw(Rare::TakeoverInRemedy);
            }
        }
    }

    /// Nonces were given. The cursor is where the answer says, and not lower than it was.
    pub(crate) fn given(&self, held: Held, given: &[u64], cursor: Nonce) {
        let mut checker = self.checker();
        let facts = checker.lane(held.lane);
        let before = facts.cursor;
        facts.cursor = before.max(cursor);
        let reused = given.iter().any(|nonce| facts.freed.contains(nonce));
        drop(checker);
        if cursor < before {
            let facts = format!("lane {}: cursor {before} then {cursor}", held.lane.0);
            self.violate("I3 no going back", facts);
        }
        if reused {
            self.saw(Rare::FreeReused);
        }
    }

    /// `in_flight_until = "final"`: whoever gets a nonce now is one of so many that are not final. Placeholders use up
    /// nonces that were given before, and what a reorg brings back after its end was let go in good faith.
    pub(crate) fn one_after_the_other(&self, held: Held, given: usize) {
        let limit = self.profile.max_in_flight;
        let Some(limit) = limit.filter(|limit| limit.until == InFlightUntil::Final) else {
            return;
        };
        let checker = self.checker();
        let open = checker.rows.values().filter(|row| {
            let is_open = row.state.nonce().is_some() && !row.state.is_final();
            is_open && row.lane_id == held.lane && !checker.ended_once.contains(&row.tx)
        });
        let open: Vec<TxId> = open.map(|row| row.tx).collect();
        drop(checker);
        if given > 0 && open.len() + given > limit.max {
            let (lane, max) = (held.lane.0, limit.max);
            let facts =
                format!("lane {lane}: {given} more, of {max}, while {open:?} are not final");
            self.violate("in_flight_until = final: one after the other", facts);
        }
        if given > 0 && limit.max == 1 {
            self.saw(Rare::OneAfterTheOther);
        }
    }

    /// I11: numbers in the feed follow each other, in the order of commits.
    pub(crate) fn numbered(&self, seqs: &[FeedSeq]) {
        for seq in seqs {
            let mut checker = self.checker();
            let expected = checker.feed + 1;
            checker.feed = seq.get();
            drop(checker);
            if seq.get() != expected {
                let facts = format!("number {seq} was given where {expected} was next");
                self.violate("I11 the feed has no holes", facts);
            }
        }
    }

    /// The lanes as the store has them: nothing of them ever goes back.
    pub(crate) async fn look_at_lanes(&self) {
        let views = self
            .store
            .lanes(None, 100)
            .await
            .expect("it is asked directly");
        for view in views {
            let mut checker = self.checker();
            let facts = checker.lane(view.id);
            let (token, cursor, seq) = (facts.token, facts.cursor, facts.seq);
            facts.token = token.max(view.token);
            facts.cursor = cursor.max(view.next_nonce);
            facts.seq = view.lane_seq.get();
            drop(checker);
            let back = view.token < token || view.next_nonce < cursor || view.lane_seq.get() < seq;
            if back {
                let facts = format!("{token} {cursor} {seq} then {view:?}");
                self.violate("I3 no going back", facts);
            }
        }
    }

    /// I4: bytes that get to an endpoint are stored, these and no others.
    pub(crate) async fn sent(&self, who: &str, hash: B256, raw: &Bytes) {
        let known = self.checker().known(&hash).cloned();
        match known {
            Some(known) if known.raw == *raw => self.newest(who, hash, &known),
            Some(_) | None => {
                let facts = format!("{who} sent {hash}, of which no bytes are stored");
                self.violate("I4 write-ahead broadcast", facts);
            }
        }
    }

    /// Older bytes of a transaction are never sent again by whoever leads its lane. Those that left just
    /// before, or leave a node that does not lead any more, cannot be held back.
    fn newest(&self, who: &str, hash: B256, known: &Known) {
        let checker = self.checker();
        if checker.attempts_of(known.tx) == known.n {
            return;
        }
        let row = &checker.rows[&known.tx];
        let newer = checker.attempts.values().filter(|each| {
            each.tx == known.tx && each.n > known.n && each.at.elapsed() > 4 * self.lease()
        });
        let leads = checker.lanes[&row.lane_id].leader.as_ref();
        let leads = leads.is_some_and(|holder| holder.node.as_str() == who);
        let kinds: Vec<Kind> = newer.map(|each| each.kind).collect();
        drop(checker);
        if leads && !kinds.is_empty() {
            let facts = format!("{who} sent {hash}, {known:?}, with {kinds:?} stored long before");
            self.violate("older bytes are not sent again", facts);
        }
    }
}
