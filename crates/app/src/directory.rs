//! The lanes that this node may lead: those whose signer it has.

use std::collections::HashMap;

use fencepost_domain::ids::{Lane, LaneId, Nonce};
use fencepost_domain::mutant::Mutant;
use fencepost_domain::state::State;

use crate::ports::{CountMode, READ_LIMIT_MAX, Store, StoreError};

/// Where a lane begins that has given no nonce yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// As `Chain`, where the operator has not said so: in a store that this node does not know, the account must be
    /// unused.
    Unset(CountMode),
    /// At the chain's count, once all endpoints agree about it.
    Chain(CountMode),
    /// At this nonce, unless the chain has used it.
    At(Nonce),
}

impl Default for Start {
    fn default() -> Self {
        Self::Unset(CountMode::Pending)
    }
}

impl Start {
    /// How the chain is asked before the lane begins. A fixed start is compared with blocks alone: what
    /// waits in the pools above it is what the operator chose to leave to others.
    #[must_use]
    pub const fn mode(self) -> CountMode {
        match self {
            Self::Unset(mode) | Self::Chain(mode) => mode,
            Self::At(_) => CountMode::Latest,
        }
    }

    /// The configured first nonce, if there is one.
    #[must_use]
    pub const fn at(self) -> Option<Nonce> {
        match self {
            Self::Unset(_) | Self::Chain(_) => None,
            Self::At(nonce) => Some(nonce),
        }
    }
}

/// How many of a lane may be in flight at once. Reservations count like transactions: all nonces above one
/// that is lent wait for its holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InFlightLimit {
    /// So many, at least one.
    pub max: usize,
    /// When one of them stops counting.
    pub until: InFlightUntil,
}

/// Until when a transaction or a reservation that holds a nonce counts as in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InFlightUntil {
    /// Until it is in a block. After a reorg it counts again.
    Mined,
    /// Until it has ended. With a limit of one the next nonce is given only when the last one is final.
    Final,
}

impl InFlightUntil {
    /// Whether something in this state counts.
    #[must_use]
    pub fn counts(self, state: &State) -> bool {
        let is_open = state.nonce().is_some() && !state.is_final();
        match self {
            Self::Mined => is_open && state.inclusion().is_none(),
            Self::Final if Mutant::RoomWhenMined.is_on() => Self::Mined.counts(state),
            Self::Final => is_open,
        }
    }
}

/// One lane of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seat {
    /// The store's name for it.
    pub id: LaneId,
    /// What it is.
    pub lane: Lane,
    /// How many may be in flight; none is no limit.
    pub max_in_flight: Option<InFlightLimit>,
    /// We have its key. Without it, its nonces are only lent.
    pub signs: bool,
    /// Where it begins.
    pub start: Start,
}

/// A lane that is to be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewSeat {
    /// What it is.
    pub lane: Lane,
    /// How many may be in flight; none is no limit.
    pub max_in_flight: Option<InFlightLimit>,
    /// We have its key.
    pub signs: bool,
    /// Where it begins.
    pub start: Start,
}

/// All lanes of ours, by what they are and by id.
#[derive(Debug, Default)]
pub struct Directory {
    by_lane: HashMap<Lane, Seat>,
    by_id: HashMap<LaneId, Lane>,
}

impl Directory {
    /// Opens these lanes in the store.
    pub async fn open(store: &dyn Store, lanes: &[NewSeat]) -> Result<Self, StoreError> {
        let mut directory = Self::default();
        for chunk in lanes.chunks(READ_LIMIT_MAX) {
            let named: Vec<Lane> = chunk.iter().map(|new| new.lane).collect();
            let ids = store.open_lanes(&named).await?;
            for (new, id) in chunk.iter().zip(ids) {
                let seat = Seat {
                    id,
                    lane: new.lane,
                    max_in_flight: new.max_in_flight,
                    signs: new.signs,
                    start: new.start,
                };
                directory.by_lane.insert(new.lane, seat);
                directory.by_id.insert(id, new.lane);
            }
        }
        Ok(directory)
    }

    /// The lane, if it is ours to lead.
    #[must_use]
    pub fn seat(&self, lane: Lane) -> Option<Seat> {
        self.by_lane.get(&lane).copied()
    }

    /// The same, by id.
    #[must_use]
    pub fn seat_by_id(&self, id: LaneId) -> Option<Seat> {
        self.seat(*self.by_id.get(&id)?)
    }

    /// All of them, by id.
    pub fn lanes(&self) -> impl Iterator<Item = Lane> {
        let mut all: Vec<(LaneId, Lane)> =
            self.by_id.iter().map(|(id, lane)| (*id, *lane)).collect();
        all.sort_unstable_by_key(|(id, _)| *id);
        all.into_iter().map(|(_, lane)| lane)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_lane.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_lane.is_empty()
    }
}
