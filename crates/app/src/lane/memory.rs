//! What a leader remembers of a lane. Good under one token only, and dropped whenever a write did not
//! go as it should: then the store is asked again.

use std::time::Duration;

use fencepost_domain::ids::{Nonce, Token};
use futures::future::join_all;

use super::work::Works;
use super::worker::Worker;
use crate::causes::Causes;
use crate::lifecycle::failed;
use crate::ports::{Held, LaneView};

#[derive(Debug)]
pub(crate) struct Memory {
    pub(crate) token: Token,
    pub(crate) cursor: Nonce,
    /// Nonces that were given back, lowest first.
    pub(crate) free: Vec<Nonce>,
    /// Something may wait in the lane's queue.
    pub(crate) waiting: bool,
    /// Until when the lane's queue is left alone while nobody asks.
    pub(crate) rests_until: Duration,
}

impl Memory {
    fn of(view: LaneView, held: Held) -> Self {
        Self {
            token: held.token,
            cursor: view.next_nonce,
            free: view.free,
            waiting: view.queued > 0,
            rests_until: Duration::ZERO,
        }
    }
}

impl Worker {
    /// Reads what is not remembered. Lanes that cannot be read are answered and taken out.
    pub(super) async fn recall(&mut self, works: &mut Works) {
        let unknown: Vec<(fencepost_domain::ids::Lane, Held)> = works
            .values()
            .filter_map(|work| Some((work.seat.lane, work.held?)))
            .filter(|(_, held)| {
                let known = self.memory.get(&held.lane);
                known.is_none_or(|memory| memory.token != held.token)
            })
            .collect();
        let views = unknown.iter().map(|(lane, _)| self.node.store.lane(*lane));
        let views = join_all(views).await;
        for ((_, held), view) in unknown.into_iter().zip(views) {
            // An old count of the chain still takes part in the maximum: the cursor was raised to it.
            match view {
                Ok(Some(view)) => {
                    self.begin_track(held, &view);
                    self.memory.insert(held.lane, Memory::of(view, held));
                }
                Ok(None) => self.drop_lane(
                    works,
                    held.lane,
                    &crate::lifecycle::accept::Verdict::Unavailable,
                ),
                Err(error) => {
                    tracing::warn!(error = %Causes(&error), lane = held.lane.0, "reading a lane failed");
                    self.drop_lane(works, held.lane, &failed(&error));
                }
            }
        }
    }
}
