//! What is not ours to settle: another node leads the lane, or nobody. It is handed to the leader; what that does not
//! settle waits in the lane's queue, or asks again where it cannot wait.

use std::time::Duration;

use fencepost_domain::ids::TxId;
use fencepost_domain::mutant::Mutant;
use fencepost_domain::state::Wait;
use futures::future::join_all;
use tokio::time::{Instant, timeout_at};
use uuid::Uuid;

use super::accept::{Origin, Reply, Verdict};
use crate::causes::Causes;
use crate::directory::Seat;
use crate::node::{InHand, Node};
use crate::ports::{Body, Key, Leader, NewTx, Unforwarded};
use crate::settings::NotLeader;

/// A request that cannot wait for a leader asks for one again for no longer than this, however long a leader has to
/// answer: its client waits for that as well, and not for ever.
const INSISTING: Duration = Duration::from_secs(5);
/// Pauses between two questions of a request that cannot wait for a leader.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LAST_PAUSE: Duration = Duration::from_millis(200);

/// A client's request for a lane that is not ours.
pub(super) struct Moved {
    pub(super) seat: Seat,
    pub(super) tx: NewTx,
    pub(super) leader: Option<Leader>,
    /// It keeps a node that stops from going.
    pub(super) _in_hand: InHand,
}

/// What the leader has not settled, and what is to be told of it if nothing else comes.
type Left = (Box<Moved>, Reply, Verdict);

impl Node {
    /// The lane is not ours. All of them are handed over at once and in order, which [`Peers`] keeps
    /// for calls of one lane; what the leader does not settle goes into the lane's queue, in order too.
    ///
    /// [`Peers`]: crate::ports::Peers
    pub(super) async fn elsewhere(&self, share: Vec<(Box<Moved>, Reply)>) {
        if self.settings.not_leader == NotLeader::Reject {
            return self.give_up(share.into_iter().map(unled).collect()).await;
        }
        let until = Instant::now() + self.settings.forward_deadline.min(INSISTING);
        let mut warned = false;
        let (mut waiting, mut urgent) = (Vec::new(), Vec::new());
        for (moved, reply, verdict) in self.hand_over(share, &mut warned).await {
            if matches!(moved.tx.body, Body::Managed(_)) {
                // In the queue the id is stored once, whether the leader stored it or not.
                let answer = self.enqueue(moved.seat, moved.tx.clone(), Wait::Leader);
                waiting.push((moved, reply, verdict == Verdict::Unknown, answer));
            } else {
                urgent.push((moved, reply, verdict));
            }
        }
        let waiting = async {
            for (moved, reply, doubtful, answer) in waiting {
                let verdict = answer.await.unwrap_or(Verdict::Unknown);
                let nothing = matches!(verdict, Verdict::Overloaded | Verdict::Unavailable);
                let verdict = if doubtful && nothing {
                    Verdict::Unknown
                } else {
                    verdict
                };
                self.tell(moved.tx.tx, Origin::Client, reply, verdict);
            }
        };
        tokio::join!(waiting, self.insist(urgent, until, warned));
    }

    /// These have to have their nonces now, and only the leader gives any. Where nobody leads the lane, or
    /// another node is just taking it, that is soon over: until then they ask again, all at once.
    async fn insist(&self, urgent: Vec<Left>, until: Instant, mut warned: bool) {
        let urgent = self.give_up_hopeless(urgent).await;
        let mut urgent = self.tell_known(urgent).await;
        for pause in pauses() {
            if urgent.is_empty() {
                return;
            }
            let again = Instant::now() + pause;
            // What is in hand keeps our lanes from being given up when we stop.
            if again >= until || timeout_at(again, self.drained()).await.is_ok() {
                return self.give_up(urgent).await;
            }
            let share = urgent.into_iter().map(|(moved, reply, _)| {
                let pending = self.put(moved.seat, moved.tx, Origin::Client, None);
                (pending, reply)
            });
            let moved = self.follow_all(share.collect()).await;
            let left = self.hand_over(moved, &mut warned).await;
            urgent = self.give_up_hopeless(left).await;
        }
    }

    /// Of which more is known than that this was not the leader: asking again would not change it.
    async fn give_up_hopeless(&self, left: Vec<Left>) -> Vec<Left> {
        let (hopeful, hopeless) = left
            .into_iter()
            .partition(|(.., verdict)| matches!(verdict, Verdict::NotLeader(_)));
        self.give_up(hopeless).await;
        hopeful
    }

    /// Tells those that are known, and returns the others.
    async fn tell_known(&self, urgent: Vec<Left>) -> Vec<Left> {
        let looks = urgent.iter().map(|(moved, _, verdict)| {
            let otherwise = verdict.clone();
            self.known_or(moved.seat, &moved.tx, otherwise)
        });
        let looked = join_all(looks).await;
        let mut unknown = Vec::new();
        for ((moved, reply, verdict), found) in urgent.into_iter().zip(looked) {
            if matches!(found, Verdict::Known(_) | Verdict::Conflict(_)) {
                self.tell(moved.tx.tx, Origin::Client, reply, found);
            } else {
                unknown.push((moved, reply, verdict));
            }
        }
        unknown
    }

    /// What was told last is the answer, unless the request is known by now.
    async fn give_up(&self, urgent: Vec<Left>) {
        let looking = urgent
            .into_iter()
            .map(|(moved, reply, verdict)| async move {
                let verdict = self.known_or(moved.seat, &moved.tx, verdict).await;
                self.tell(moved.tx.tx, Origin::Client, reply, verdict);
            });
        join_all(looking).await;
    }

    /// Tells those that the leader has settled, and returns the others with what it said of them, or what
    /// is to be said without it. These are still to be stored, unless it has stored one without our
    /// knowing, or still may: then the verdict is [`Verdict::Unknown`].
    async fn hand_over(&self, share: Vec<(Box<Moved>, Reply)>, warned: &mut bool) -> Vec<Left> {
        // The last one was told last.
        let leader = share.last().and_then(|(moved, _)| moved.leader.clone());
        let Some(leader) = leader.filter(|leader| leader.node != self.holder.node) else {
            return share.into_iter().map(unled).collect();
        };
        let (within, requests) = (self.settings.forward_deadline, share.len());
        // The first look at each of these futures, in which the call is made, goes in their order.
        let named: Vec<NewTx> = share
            .iter()
            .map(|(moved, _)| forwarded(&moved.tx))
            .collect();
        let forwards = share
            .iter()
            .zip(&named)
            .map(|((moved, _), tx)| self.peers.forward(&leader.url, moved.seat.lane, tx, within));
        let forwarded = join_all(forwards).await;
        let mut left = Vec::new();
        for ((moved, reply), answer) in share.into_iter().zip(forwarded) {
            match answer {
                // It has lost the lane meanwhile, could do nothing, or cannot say.
                Ok(
                    verdict @ (Verdict::NotLeader(_)
                    | Verdict::Unavailable
                    | Verdict::Overloaded
                    | Verdict::Unknown),
                ) => left.push((moved, reply, verdict)),
                Ok(verdict) => self.tell(moved.tx.tx, Origin::Client, reply, verdict),
                Err(error) => {
                    if !std::mem::replace(warned, true) {
                        unforwarded(&leader, moved.tx.tx, requests, &error);
                    }
                    let verdict = match error {
                        Unforwarded::NotSent(_) => Verdict::NotLeader(moved.leader.clone()),
                        Unforwarded::Unanswered(_) => Verdict::Unknown,
                    };
                    left.push((moved, reply, verdict));
                }
            }
        }
        left
    }

    /// A known request is answered by any node, even by one that takes no new ones; of another this is told.
    pub(crate) async fn known_or(&self, seat: Seat, tx: &NewTx, otherwise: Verdict) -> Verdict {
        let Some(request_id) = tx.request_id.clone() else {
            return otherwise;
        };
        match self.store.find(&Key::Request(seat.lane, request_id)).await {
            Ok(Some(record)) => Verdict::found(seat, tx, record),
            Ok(None) => otherwise,
            Err(error) => {
                tracing::warn!(error = %Causes(&error), "looking for a known request failed");
                // A look that failed makes nothing certain that was not.
                if otherwise == Verdict::Unknown {
                    Verdict::Unknown
                } else {
                    Verdict::Unavailable
                }
            }
        }
    }
}

/// Nothing was done for it yet.
fn unled((moved, reply): (Box<Moved>, Reply)) -> Left {
    let verdict = Verdict::NotLeader(moved.leader.clone());
    (moved, reply, verdict)
}

fn pauses() -> impl Iterator<Item = Duration> {
    std::iter::successors(Some(FIRST_PAUSE), |pause| {
        Some((*pause * 2).min(LAST_PAUSE))
    })
}

/// A request as the leader gets it: with the id that we gave it, so that it is stored once wherever it goes.
fn forwarded(tx: &NewTx) -> NewTx {
    let mut tx = tx.clone();
    if Mutant::ForwardWithoutId.is_on() {
        tx.tx = TxId(Uuid::from_u128(tx.tx.0.as_u128() ^ 2));
    }
    tx
}

/// Told once for all that came together, by the first of them.
fn unforwarded(leader: &Leader, tx: TxId, requests: usize, error: &Unforwarded) {
    let leader = leader.node.as_str();
    tracing::warn!(leader, tx_id = %tx.0, requests, error = %Causes(error), "forwarding failed; transactions that the leader did not settle wait in the lane's queue");
}
