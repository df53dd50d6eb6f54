//! The lanes that this node may lead: those whose signer it has.

use std::collections::HashMap;

use fencepost_domain::ids::{Lane, LaneId};

use crate::ports::{READ_LIMIT_MAX, Store, StoreError};

/// One lane of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seat {
    /// The store's name for it.
    pub id: LaneId,
    /// What it is.
    pub lane: Lane,
    /// How many may hold a nonce without being in a block; none is no limit.
    pub max_in_flight: Option<usize>,
    /// We have its key. Without it, its nonces are only lent.
    pub signs: bool,
}

/// A lane that is to be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewSeat {
    /// What it is.
    pub lane: Lane,
    /// How many may hold a nonce without being in a block; none is no limit.
    pub max_in_flight: Option<usize>,
    /// We have its key.
    pub signs: bool,
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
