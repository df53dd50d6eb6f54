//! A write without a reply is unknown. Only behind a new token is "not there" a fact: so the lane is
//! bid for anew, and then its requests are looked for by id.

use std::collections::HashMap;

use fencepost_domain::ids::TxId;
use fencepost_domain::mutant::Mutant;

use super::work::{Ask, Work};
use super::worker::Worker;
use crate::causes::Causes;
use crate::lifecycle::accept::Verdict;
use crate::ports::{Acquired, Bid, READ_LIMIT_MAX, Record, StoreError};
use crate::writes::{Write, lane_error};

impl Worker {
    /// Finds out what became of requests whose statement was not answered.
    pub(super) async fn resolve(&mut self, works: Vec<Work>) {
        let bids: Vec<Bid> = works
            .iter()
            .map(|work| Bid {
                lane: work.seat.id,
                fresh: !Mutant::DoubtUnderOldToken.is_on(),
            })
            .collect();
        self.doubted.extend(bids.iter().map(|bid| bid.lane));
        let answers = match self.node.bid(&bids).await {
            Ok(answers) => answers,
            Err(error) => {
                for work in works {
                    self.stays_unknown(&work, &error);
                    work.tell_all(&Verdict::Unknown);
                }
                return;
            }
        };
        for (work, answer) in works.into_iter().zip(answers) {
            let leader = match answer {
                Acquired::Leading(_) => None,
                Acquired::Led(leader) => Some(leader),
                // The old statement may still run.
                Acquired::Ghost(_) | Acquired::Busy | Acquired::UnknownLane => {
                    work.tell_all(&Verdict::Unknown);
                    continue;
                }
            };
            self.doubted.remove(&work.seat.id);
            match self.find(&work.asks).await {
                Ok(mut there) => {
                    let mut missing = Vec::new();
                    for ask in work.asks {
                        match there.remove(&ask.tx.tx) {
                            Some(record) => {
                                self.node.log_stored(Write::Create, record.token, &record);
                                ask.tell(Verdict::New(Box::new(record)));
                            }
                            None => missing.push(ask),
                        }
                    }
                    match leader {
                        None => self.again(missing),
                        Some(leader) => {
                            for ask in missing {
                                ask.tell(Verdict::NotLeader(Some(leader.clone())));
                            }
                        }
                    }
                }
                Err(error) => {
                    self.stays_unknown(&work, &error);
                    for ask in work.asks {
                        ask.tell(Verdict::Unknown);
                    }
                }
            }
        }
    }

    fn stays_unknown(&self, work: &Work, error: &StoreError) {
        let lane = work.seat.id;
        let held = work.held.unwrap_or_else(|| self.node.last_held(lane));
        let first = work.asks.first().map(|ask| ask.tx.tx.to_string());
        let (tx_id, requests) = (first.unwrap_or_default(), work.asks.len());
        lane_error!(self.node, held, tx_id, requests, error = %Causes(error), "the outcome of a write stays unknown");
    }

    async fn find(&self, asks: &[Ask]) -> Result<HashMap<TxId, Record>, StoreError> {
        let ids: Vec<TxId> = asks.iter().map(|ask| ask.tx.tx).collect();
        let mut there = HashMap::new();
        for ids in ids.chunks(READ_LIMIT_MAX) {
            let found = self.node.store.find_many(ids).await?;
            there.extend(found.into_iter().map(|record| (record.tx, record)));
        }
        Ok(there)
    }
}
