//! Where a lane begins that has given no nonce yet: at the chain's count, or at its configured nonce. A wrong
//! first nonce cannot be taken back, so where that is not clear the lane waits.

use std::time::Duration;

use fencepost_domain::ids::Nonce;
use fencepost_domain::nonce::{Beginning, ChainCount, begin};

use super::align::Answer;
use super::work::{Work, Works};
use super::worker::Worker;
use crate::causes::Causes;
use crate::directory::Seat;
use crate::lifecycle::failed;
use crate::ports::{Held, StoreError};
use crate::writes::lane_error;

impl Worker {
    /// A lane that has given no nonce begins where its chain and its configuration say, or waits.
    pub(super) async fn begin_lane(
        &mut self,
        work: &mut Option<Work>,
        seat: Seat,
        held: Held,
        count: ChainCount,
        now: Duration,
    ) -> Result<(), StoreError> {
        let beginning = begin(seat.start.at(), count);
        let (reason, lowest, highest) = match beginning {
            Beginning::At(first) => {
                self.unbegun.remove(&held.lane);
                if first > Nonce::ZERO {
                    return self.raise(work, held, first, now).await;
                }
                self.aligned(held, first, now, Answer::Given);
                return Ok(());
            }
            Beginning::Disagreed(count) => ("disagreed", count.lowest, count.highest),
            Beginning::Used { start, latest } => ("used", start, latest),
        };
        // It is compared every few seconds while requests wait; one line for each reason is enough.
        if self.unbegun.insert(held.lane, reason) != Some(reason) {
            self.node.meters.start_waits(reason);
            lane_error!(self.node, held, reason, %lowest, %highest, "a new lane cannot begin: its endpoints disagree about the account's count, or the chain has used signer.start; requests wait, and `signers cursor` decides");
        }
        self.aligned(held, Nonce::ZERO, now, Answer::Needed);
        self.wait_for_chain(work.take());
        Ok(())
    }

    /// Without a chain to compare with, a new lane begins at its configured nonce.
    pub(super) async fn begin_unasked(&mut self, works: &mut Works) {
        if self.node.settings.chain_query.is_some() && self.node.chain.is_some() {
            return;
        }
        let fixed = works.values().filter_map(|work| {
            let (held, first) = (work.held?, work.seat.start.at()?);
            let memory = self.memory.get(&held.lane)?;
            (memory.cursor == Nonce::ZERO && first > Nonce::ZERO).then_some((held, first))
        });
        let now = self.node.ticks.ticks();
        for (held, first) in fixed.collect::<Vec<_>>() {
            let mut work = works.remove(&held.lane);
            if let Err(error) = self.raise(&mut work, held, first, now).await {
                tracing::warn!(error = %Causes(&error), lane = held.lane.0, "a new lane could not begin");
                self.memory.remove(&held.lane);
                if let Some(work) = work.take() {
                    work.tell_all(&failed(&error));
                }
            }
            works.extend(work.map(|work| (held.lane, work)));
        }
    }
}
