//! Leading on demand: lanes of a turn that are not ours are bid for, all in one statement.

use fencepost_domain::ids::LaneId;

use super::work::Works;
use super::worker::Worker;
use crate::causes::Causes;
use crate::lifecycle::accept::Verdict;
use crate::node::Node;
use crate::ports::{Acquired, Bid, Held, Lead, StoreError, Taken};
use crate::writes::{Line, Write};

impl Node {
    /// Bids for lanes and notes what the answers mean for our leases.
    pub(crate) async fn bid(&self, bids: &[Bid]) -> Result<Vec<Acquired>, StoreError> {
        let sent = self.leases.sending();
        let answers = self.store.acquire(&self.holder, &self.url, bids).await?;
        for (bid, answer) in bids.iter().zip(&answers) {
            let result = match answer {
                Acquired::Leading(lead) => {
                    let held = Held {
                        lane: bid.lane,
                        token: lead.token,
                    };
                    self.leases.keep(held, sent);
                    self.log_taken(held, lead);
                    lead.taken.word()
                }
                Acquired::Led(_) => "led",
                Acquired::Ghost(later) => {
                    self.become_ghost(*later);
                    "ghost"
                }
                Acquired::Busy => "busy",
                Acquired::UnknownLane => "unknown_lane",
            };
            self.meters.acquired(result);
        }
        self.meters.led(self.leases.len());
        Ok(answers)
    }

    fn log_taken(&self, held: Held, lead: &Lead) {
        let from = match lead.taken {
            Taken::Kept => return,
            Taken::Inserted => "nobody",
            Taken::Stolen => "another node",
            Taken::Retaken => "this node",
        };
        self.log_write(&Line {
            write: Write::Acquire,
            held,
            tx: None,
            nonce: Some(lead.next_nonce),
            from: (from, None),
            to: ("this node", None),
        });
    }
}

impl Worker {
    /// After this, all that is left in the turn is led by us.
    pub(super) async fn lead(&mut self, works: &mut Works) {
        let mut bids = Vec::new();
        for (lane, work) in &mut *works {
            let doubted = self.doubted.contains(lane);
            work.held = self.node.leases.held(*lane).filter(|_| !doubted);
            // What waits in a lane is its leader's business; nobody becomes one for that alone here,
            // but a leader in doubt must get out of it.
            if work.held.is_none() && (work.len() > 0 || doubted) {
                bids.push(Bid {
                    lane: *lane,
                    fresh: doubted,
                });
            }
        }
        let doubted = &self.doubted;
        works.retain(|lane, work| work.held.is_some() || work.len() > 0 || doubted.contains(lane));
        if bids.is_empty() {
            return;
        }
        let answers = match self.node.bid(&bids).await {
            Ok(answers) => answers,
            Err(error) => {
                // Nothing of the requests has been sent yet, whatever became of the bid.
                tracing::warn!(error = %Causes(&error), lanes = bids.len(), "bidding for lanes failed");
                for bid in bids {
                    self.drop_lane(works, bid.lane, &Verdict::Unavailable);
                }
                return;
            }
        };
        for (bid, answer) in bids.into_iter().zip(answers) {
            self.take(works, bid.lane, answer);
        }
    }

    fn take(&mut self, works: &mut Works, lane: LaneId, answer: Acquired) {
        match answer {
            Acquired::Leading(lead) => {
                self.doubted.remove(&lane);
                if let Some(work) = works.get_mut(&lane) {
                    work.held = Some(Held {
                        lane,
                        token: lead.token,
                    });
                }
            }
            Acquired::Led(leader) => {
                // Behind another's token nothing of ours can still apply.
                self.doubted.remove(&lane);
                self.drop_lane(works, lane, &Verdict::NotLeader(Some(leader)));
            }
            Acquired::Busy => self.drop_lane(works, lane, &Verdict::NotLeader(None)),
            Acquired::Ghost(_) | Acquired::UnknownLane => {
                self.drop_lane(works, lane, &Verdict::Unavailable);
            }
        }
    }
}
