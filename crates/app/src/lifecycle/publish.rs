//! Publishing confirmations: the events of a transaction carry the blocks on top of the one it is in. What readers of
//! the events have is compared with the chain, so that nothing is missing or out of date, whoever led before.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fencepost_domain::confirmation::{List, Publish, Stretch};
use fencepost_domain::event::{Event, Kind};
use fencepost_domain::ids::{LaneId, TxId};
use fencepost_domain::mutant::Mutant;
use fencepost_domain::transition::Input;

use super::follow::Sight;
use super::follow::board::Whose;
use crate::causes::Causes;
use crate::lane::entry::{Busy, Entry};
use crate::lane::moves::Then;
use crate::lane::worker::Worker;
use crate::ports::StoreError;

/// Of how many transactions the events are read in one go: each has as many rows as blocks on top.
const BATCH: usize = 128;

impl Worker {
    /// The chain on top of a transaction has changed, and readers want to know.
    pub(crate) async fn covered(&mut self, whose: Whose, chain: Arc<Stretch>) {
        let ends = self.keep_chain(whose, chain);
        // If its end cannot be written, this is published before it is tried again.
        if ends == Some(false) {
            self.publish(whose, false).await;
        }
    }

    /// Remembers the chain on top of a transaction. Says whether its end is being written; none if it is not here.
    pub(crate) fn keep_chain(&mut self, whose: Whose, chain: Arc<Stretch>) -> Option<bool> {
        let entry = self.entry(whose)?;
        entry.chain = Some(chain);
        Some(entry.busy == Busy::Ending)
    }

    fn entry(&mut self, whose: Whose) -> Option<&mut Entry> {
        let entry = self.tracks.get_mut(&whose.lane)?.get_mut(whose.nonce)?;
        (entry.tx == whose.tx).then_some(entry)
    }

    /// Publishes what readers of its events lack, or have and was replaced.
    pub(crate) async fn publish(&mut self, whose: Whose, ends: bool) {
        if self.entry(whose).is_some_and(|entry| is_unread(entry)) {
            self.learn_published(whose.lane, &[whose.tx]).await;
        }
        let seat = self.node.directory.seat_by_id(whose.lane);
        let Some(rule) = seat.and_then(|seat| self.node.finality(seat.lane.chain)) else {
            return;
        };
        let Some(entry) = self.entry(whose) else {
            return;
        };
        let (Some(at), Some(chain)) = (entry.inclusion(), &entry.chain) else {
            return;
        };
        let Some(list) = &entry.published else {
            return;
        };
        let publish = Publish::after(list, at.block, chain, rule.published());
        let late = Mutant::ForkToldLate.is_on() && !ends && matches!(publish, Publish::Replace(_));
        if publish == Publish::Nothing || late {
            return;
        }
        let input = Input::Covered(publish);
        let planned = self
            .plan(whose.lane, whose.nonce, input, Then::Nothing, |step| step)
            .await;
        if let Err(refusal) = planned {
            tracing::warn!(tx_id = %whose.tx, %refusal, "its confirmations cannot be published");
        }
    }

    /// Reads what was published of transactions that are in a block since before we led their lane.
    pub(crate) async fn read_published(&mut self, lane: LaneId, sights: &[(Whose, Sight)]) {
        let mut unread: BTreeSet<TxId> = BTreeSet::new();
        for (whose, sight) in sights {
            let (Sight::Covered(chain) | Sight::Final(_, Some(chain))) = sight else {
                continue;
            };
            if let Some(entry) = self.entry(*whose).filter(|entry| is_unread(entry)) {
                entry.chain = Some(Arc::clone(chain));
                unread.insert(whose.tx);
            }
        }
        let unread: Vec<TxId> = unread.into_iter().collect();
        for txs in unread.chunks(BATCH) {
            self.learn_published(lane, txs).await;
        }
    }

    async fn learn_published(&mut self, lane: LaneId, txs: &[TxId]) {
        match self.listed(txs).await {
            Ok(mut lists) => {
                let Some(track) = self.tracks.get_mut(&lane) else {
                    return;
                };
                for (_, entry) in track.iter_mut() {
                    if let Some(mut list) = lists.remove(&entry.tx) {
                        if Mutant::ConfirmationsFromNow.is_on() {
                            list = all_of(entry);
                        }
                        entry.published = Some(list);
                    }
                }
            }
            Err(error) => {
                tracing::warn!(error = %Causes(&error), lane = lane.0, "reading a lane's published confirmations failed");
                // Its transactions go onto the board again, and the follower tells of the chain again.
                self.forget(lane);
            }
        }
    }

    /// What was published of these, as their events say.
    async fn listed(&self, txs: &[TxId]) -> Result<BTreeMap<TxId, List<()>>, StoreError> {
        let mut lists: BTreeMap<TxId, List<()>> =
            txs.iter().map(|tx| (*tx, List::empty())).collect();
        for stored in self.node.store.listing(txs).await? {
            if let Some(list) = lists.get_mut(&stored.tx) {
                list.read(&stored.event, ());
            }
        }
        Ok(lists)
    }
}

fn is_unread(entry: &Entry) -> bool {
    entry.published.is_none() && entry.inclusion().is_some()
}

/// Everything that is on top now, as if it had been published: what a broken build believes.
fn all_of(entry: &Entry) -> List<()> {
    let mut list = List::empty();
    if let (Some(at), Some(chain)) = (entry.inclusion(), &entry.chain)
        && let Publish::Append(blocks) = Publish::after(&list, at.block, chain, u64::MAX)
    {
        list.read(&Event::new(Kind::Confirmations).confirmations(blocks), ());
    }
    list
}
