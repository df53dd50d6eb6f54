//! Sending: stored bytes go to every endpoint, in nonce order, no more of a lane than its window
//! lets. What comes of it is written down; whatever may have been sent counts as sent.

use std::sync::Arc;
use std::time::Duration;

use fencepost_domain::Bytes;
use fencepost_domain::attempt::Outcome;
use fencepost_domain::ids::{ChainId, LaneId, Nonce};
use fencepost_domain::mutant::Mutant;
use fencepost_domain::rejection::{Rejection, Reply};
use fencepost_domain::state::Why;
use fencepost_domain::transition::Input;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;

use crate::lane::entry::{Busy, Need};
use crate::lane::moves::Then;
use crate::lane::report::Report;
use crate::lane::worker::{Worker, backoff};
use crate::node::Node;
use crate::ports::check::WAIT_MAX;
use crate::ports::{Chain, Held};

/// How many of one lane go out in one go.
const PARCELS_MAX: usize = 128;
/// How many go out in one request of all lanes together.
const BATCH: usize = 256;
/// How many such requests are under way at once, for each chain.
const AT_ONCE: usize = 8;
/// While so many are, the next one waits for company. Fewer, and bytes wait for no good reason; more, and a busy
/// node asks its endpoints more often than it has to.
const AT_EASE: usize = 2;
/// For so long: an endpoint that is slow must not hold up what others would take at once.
const COMPANY: Duration = Duration::from_millis(50);

/// Bytes of one lane, in nonce order.
#[derive(Debug)]
pub(crate) struct Shipment {
    held: Held,
    parcels: Vec<Parcel>,
}

#[derive(Debug, Clone)]
struct Parcel {
    nonce: Nonce,
    n: u32,
    raw: Bytes,
}

impl Shipment {
    /// One transaction's bytes.
    pub(super) fn one(held: Held, nonce: Nonce, n: u32, raw: Bytes) -> Self {
        Self {
            held,
            parcels: vec![Parcel { nonce, n, raw }],
        }
    }
}

impl Worker {
    /// Ships what is next to go out, one shipment of a lane at a time: so its order is kept.
    pub(crate) fn send(&mut self, lane: LaneId) {
        let now = self.node.ticks.ticks();
        let Some(track) = self.tracks.get_mut(&lane) else {
            return;
        };
        if track.tasks.sending || now < track.rests_until {
            return;
        }
        let mut parcels = Vec::new();
        for nonce in track.sendable().into_iter().take(PARCELS_MAX) {
            let entry = track.get(nonce);
            let newest =
                entry.and_then(|entry| Some((entry.attempts.last()?, entry.raw.as_ref()?)));
            if let Some((known, raw)) = newest {
                parcels.push(Parcel {
                    nonce,
                    n: known.n,
                    raw: raw.clone(),
                });
            }
        }
        let nonces: Vec<Nonce> = parcels.iter().map(|parcel| parcel.nonce).collect();
        let shipment = Shipment {
            held: track.held,
            parcels,
        };
        if nonces.is_empty() || !self.node.ship(track.seat.lane.chain, shipment) {
            return;
        }
        track.tasks.sending = true;
        for nonce in nonces {
            if let Some(entry) = track.get_mut(nonce) {
                entry.busy = Busy::Sending;
                // From here on it is set by what happens meanwhile.
                entry.to_send = false;
            }
        }
    }

    /// What came of sending is to be written down.
    pub(crate) async fn sent(&mut self, held: Held, replies: Vec<(Nonce, u32, Reply)>) {
        let lane = held.lane;
        let now = self.node.ticks.ticks();
        let Some(track) = self
            .tracks
            .get_mut(&lane)
            .filter(|track| track.held == held)
        else {
            return;
        };
        track.tasks.sending = false;
        let mut gap_below = None;
        for (nonce, n, reply) in replies {
            self.node.meters.submitted(reply.outcome);
            let Some(entry) = self.sent_entry(lane, nonce, now, &reply) else {
                continue;
            };
            if reply.why == Some(Rejection::NonceTooHigh) {
                gap_below.get_or_insert(nonce);
            }
            self.note(lane, nonce, n, reply, entry).await;
        }
        if let Some(above) = gap_below {
            self.send_below(lane, above);
        }
    }

    /// Brings what we have in mind up to date; returns when it is due again.
    fn sent_entry(
        &mut self,
        lane: LaneId,
        nonce: Nonce,
        now: Duration,
        reply: &Reply,
    ) -> Option<Duration> {
        let interval = self.node.settings.resubmit_interval;
        let track = self.tracks.get_mut(&lane)?;
        track.suspect |= reply.why == Some(Rejection::NonceTooLow);
        let entry = track.get_mut(nonce)?;
        if entry.busy == Busy::Sending {
            entry.busy = Busy::No;
        }
        entry.refused = reply.outcome == Outcome::Refused;
        if entry.tries > 0 {
            self.node.meters.resubmitted(reply.outcome);
        }
        entry.tries = entry.tries.saturating_add(1);
        // The chain may have taken it long ago: its receipt is asked for at once.
        if reply.why == Some(Rejection::NonceTooLow) {
            entry.asked_at = None;
        }
        let interval = interval.unwrap_or(WAIT_MAX);
        let due_in = match reply.outcome {
            Outcome::Accepted => {
                entry.failures = 0;
                interval
            }
            Outcome::Ambiguous | Outcome::Refused => {
                entry.failures += 1;
                backoff(entry.failures, entry.tx).min(interval)
            }
        };
        entry.due_at = now + due_in;
        Some(due_in)
    }

    async fn note(&mut self, lane: LaneId, nonce: Nonce, n: u32, reply: Reply, due_in: Duration) {
        let outcome = reply.outcome;
        // What an endpoint says with its yes ("already known") must not hide why it said no before.
        let text = reply.text.clone();
        let text = text.filter(|_| outcome != Outcome::Accepted);
        let closing = self.resubmitted(lane, nonce);
        let with = |step: crate::ports::Move| {
            let step = step.sent(n, outcome).due_in(due_in);
            let step = match closing {
                Some(closing) => step.closing(closing),
                None => step,
            };
            match text {
                Some(text) => step.error(text),
                None => step,
            }
        };
        let first_refused = self.tracks.get(&lane).is_some_and(|track| {
            track
                .window()
                .find(|(_, entry)| entry.refused)
                .map(|(first, _)| first)
                == Some(nonce)
        });
        let track = self.tracks.get(&lane);
        let was = track.and_then(|track| track.get(nonce)?.stuck());
        let stuck = match (reply.why, was) {
            (Some(Rejection::Invalid), _) if outcome == Outcome::Refused => Some(Why::Refused),
            (Some(Rejection::NoFunds), _) if outcome == Outcome::Refused && first_refused => {
                Some(Why::NoFunds)
            }
            // Whoever says that its nonce is used has not looked at its price.
            (Some(Rejection::NonceTooLow), Some(Why::Refused | Why::NoFunds)) => {
                Some(Why::NoReceipt)
            }
            (Some(_) | None, _) => None,
        };
        if outcome == Outcome::Refused && Mutant::GiveBackAfterSigning.is_on() {
            let _ = self
                .plan(lane, nonce, Input::Reject, Then::Nothing, with)
                .await;
            return;
        }
        let text = reply.text.as_deref().unwrap_or_default();
        if let Some(why) = stuck
            && self.stick(lane, nonce, why, text, with.clone()).await
        {
            return;
        }
        // Refused only where nothing is left to say of it.
        let _ = self
            .plan(lane, nonce, Input::Sent(outcome), Then::Nothing, with)
            .await;
    }

    /// A node lacks a lower nonce: all that is below goes out again.
    fn send_below(&mut self, lane: LaneId, above: Nonce) {
        let Some(track) = self.tracks.get_mut(&lane) else {
            return;
        };
        for (nonce, entry) in track.iter_mut() {
            if nonce < above && entry.need() == Need::Block && entry.busy == Busy::No {
                entry.due_at = Duration::ZERO;
            }
        }
    }

    /// Nothing was sent: we could not believe any more that the lane is ours.
    pub(crate) fn unsent(&mut self, held: Held, nonces: &[Nonce]) {
        let Some(track) = self.tracks.get_mut(&held.lane) else {
            return;
        };
        if track.held == held {
            track.tasks.sending = false;
            for nonce in nonces {
                if let Some(entry) = track.get_mut(*nonce) {
                    entry.busy = Busy::No;
                    entry.to_send = true;
                }
            }
        }
    }
}

/// Who sends the bytes of all lanes of one chain.
pub struct Shipper {
    node: Arc<Node>,
    chain: Arc<dyn Chain>,
    id: ChainId,
    inbox: mpsc::Receiver<Shipment>,
    slots: Arc<Semaphore>,
    easy: Arc<Semaphore>,
}

impl Shipper {
    pub(crate) fn new(
        node: Arc<Node>,
        chain: Arc<dyn Chain>,
        id: ChainId,
        inbox: mpsc::Receiver<Shipment>,
    ) -> Self {
        Self {
            node,
            chain,
            id,
            inbox,
            slots: Arc::new(Semaphore::new(AT_ONCE)),
            easy: Arc::new(Semaphore::new(AT_EASE)),
        }
    }

    /// Sends until the node is gone. Shipments that wait while others are under way go together.
    pub async fn run(mut self) {
        loop {
            let Ok(slot) = Arc::clone(&self.slots).acquire_owned().await else {
                return;
            };
            let mut shipments = Vec::new();
            if self.inbox.recv_many(&mut shipments, 1).await == 0 {
                return;
            }
            let easy = timeout(COMPANY, Arc::clone(&self.easy).acquire_owned()).await;
            let mut size: usize = shipments.iter().map(|each| each.parcels.len()).sum();
            while size < BATCH {
                let Ok(next) = self.inbox.try_recv() else {
                    break;
                };
                size += next.parcels.len();
                shipments.push(next);
            }
            let (node, chain, id) = (Arc::clone(&self.node), Arc::clone(&self.chain), self.id);
            self.node.hand(async move {
                ship(&node, &*chain, id, shipments).await;
                drop((slot, easy));
            });
        }
    }
}

async fn ship(node: &Node, chain: &dyn Chain, id: ChainId, shipments: Vec<Shipment>) {
    let (ours, lost): (Vec<Shipment>, Vec<Shipment>) = shipments
        .into_iter()
        .partition(|each| node.leases.held(each.held.lane) == Some(each.held));
    for shipment in lost {
        let nonces = shipment.parcels.iter().map(|parcel| parcel.nonce).collect();
        let held = shipment.held;
        node.report(Report::Unsent { held, nonces }).await;
    }
    let raws: Vec<Bytes> = ours
        .iter()
        .flat_map(|each| &each.parcels)
        .map(|parcel| parcel.raw.clone())
        .collect();
    if raws.is_empty() {
        return;
    }
    let mut replies = chain.send(id, &raws).await.into_iter();
    for shipment in ours {
        let held = shipment.held;
        let replies = shipment
            .parcels
            .into_iter()
            .map(|parcel| {
                let reply = replies.next().unwrap_or_else(|| Reply::together([]));
                (parcel.nonce, parcel.n, reply)
            })
            .collect();
        node.report(Report::Sent { held, replies }).await;
    }
}
