//! One lane's batch on its way through the rounds of a create.

use std::collections::HashMap;

use fencepost_app::ports::{Body, LaneBatch, LaneCreated, LaneRefusal, NewTx, Record, Stored};
use fencepost_domain::ids::{LaneId, Nonce, TxId};
use fencepost_domain::nonce::{self, Plan};
use jiff::Timestamp;

use crate::known::{Fate, Found};
use crate::lane_state::LaneState;

pub(crate) struct Work<'a> {
    pub(crate) batch: &'a LaneBatch,
    found: Found,
    fates: Vec<Fate>,
    pub(crate) outcome: Option<Outcome>,
}

/// What became of a lane.
pub(crate) enum Outcome {
    Written(Written),
    Refused(LaneRefusal),
}

pub(crate) struct Written {
    pub(crate) layout: Layout,
    pub(crate) at: Timestamp,
    pub(crate) more_free: bool,
}

/// Which nonce each new item gets: fixed before the first try.
#[derive(Clone)]
pub(crate) struct Layout {
    pub(crate) plan: Plan,
    pub(crate) places: Vec<(usize, Nonce)>,
}

impl<'a> Work<'a> {
    pub(crate) fn new(batch: &'a LaneBatch) -> Self {
        let mut work = Self {
            batch,
            found: Found::default(),
            fates: vec![],
            outcome: None,
        };
        work.learn(Found::default());
        work
    }

    /// Takes in what was found stored, and sees the items anew. True when that changed any.
    pub(crate) fn learn(&mut self, found: Found) -> bool {
        self.found.absorb(found);
        let lane = self.lane();
        let fates = self.found.fates(self.batch.txs.iter().map(|tx| (lane, tx)));
        let changed = fates != self.fates;
        self.fates = fates;
        changed
    }

    pub(crate) const fn lane(&self) -> LaneId {
        self.batch.held.lane
    }

    /// Items that are neither stored nor repeated in the batch.
    pub(crate) fn new_places(&self) -> impl Iterator<Item = usize> {
        let fates = self.fates.iter().enumerate();
        fates
            .filter(|(_, fate)| **fate == Fate::New)
            .map(|(place, _)| place)
    }

    /// Items that no stored row answers yet.
    pub(crate) fn unanswered(&self) -> impl Iterator<Item = usize> {
        let fates = self.fates.iter().enumerate();
        fates
            .filter(|(_, fate)| **fate != Fate::Stored)
            .map(|(place, _)| place)
    }

    pub(crate) fn is_open(&self) -> bool {
        self.outcome.is_none() && self.new_places().next().is_some()
    }

    pub(crate) fn lay_out(&self) -> Result<Layout, LaneRefusal> {
        let counted = self
            .new_places()
            .filter(|place| self.asked(*place).is_none())
            .count();
        let plan = nonce::plan(&self.batch.free, self.batch.cursor, counted)
            .map_err(|_| LaneRefusal::Exhausted)?;
        let mut given = plan.nonces.iter().copied();
        let lay = |place| {
            let nonce = self.asked(place).or_else(|| given.next());
            nonce.map(|nonce| (place, nonce))
        };
        let places = self.new_places().filter_map(lay).collect();
        Ok(Layout { plan, places })
    }

    /// The first time after which one of these is not to be given a nonce.
    pub(crate) fn until(&self, layout: &Layout) -> Option<Timestamp> {
        let places = layout.places.iter();
        places
            .filter_map(|(place, _)| self.batch.txs[*place].not_after)
            .min()
    }

    /// The nonce that a placeholder asks for; others take what comes.
    pub(crate) fn asked(&self, place: usize) -> Option<Nonce> {
        match self.batch.txs[place].body {
            Body::Placeholder(nonce) => Some(nonce),
            Body::Managed(_) | Body::Reserved(_) => None,
        }
    }

    /// The first ones of items that the batch repeats: they answer for the others.
    pub(crate) fn repeated(&self) -> impl Iterator<Item = TxId> {
        self.fates.iter().filter_map(|fate| match fate {
            Fate::Repeat(first) => Some(self.batch.txs[*first].tx),
            Fate::New | Fate::Stored => None,
        })
    }

    /// The answer, given what is stored of repeated items and the row of a lane that had
    /// nothing new.
    pub(crate) fn answer(
        self,
        stored: &HashMap<TxId, Record>,
        idle: Option<&LaneState>,
    ) -> LaneCreated {
        let (nonces, at, next_nonce, more_free) = match (&self.outcome, idle) {
            (Some(Outcome::Refused(why)), _) => return LaneCreated::Refused(*why),
            (Some(Outcome::Written(written)), _) => {
                let mut nonces = vec![None; self.batch.txs.len()];
                for (place, nonce) in &written.layout.places {
                    nonces[*place] = Some(*nonce);
                }
                (
                    nonces,
                    Some(written.at),
                    written.layout.plan.next,
                    written.more_free,
                )
            }
            // Nothing was new: nothing is spent, and no leadership is needed to say so.
            (None, Some(state)) => (vec![], None, state.next_nonce, state.more_free),
            (None, None) => return LaneCreated::Refused(LaneRefusal::UnknownLane),
        };
        let answer = |(place, tx): (usize, &NewTx)| {
            if let (Some(nonce), Some(at)) = (nonces.get(place).copied().flatten(), at) {
                return Some(Stored::New { nonce, at });
            }
            let record = match self.fates[place] {
                Fate::Stored => self.found.record(place),
                Fate::Repeat(first) => stored.get(&self.batch.txs[first].tx),
                Fate::New => None,
            };
            let record = record?.clone();
            Some(if tx.matches(self.lane(), &record) {
                Stored::Known(Box::new(record))
            } else {
                Stored::Conflict(Box::new(record))
            })
        };
        match self.batch.txs.iter().enumerate().map(answer).collect() {
            Some(txs) => LaneCreated::Done {
                txs,
                next_nonce,
                more_free,
            },
            // What we stored a moment ago cannot be found: someone deletes under us.
            None => LaneCreated::Refused(LaneRefusal::Stale),
        }
    }
}
