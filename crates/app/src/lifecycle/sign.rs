//! Signing: what the client left open is filled in, the key signs, and the bytes are stored before
//! anyone may send them. A key that fails stops only its own lane.

use std::sync::Arc;
use std::time::Duration;

use fencepost_domain::U256;
use fencepost_domain::attempt::{Attempt, Kind, Unsigned};
use fencepost_domain::fee;
use fencepost_domain::gas;
use fencepost_domain::ids::{LaneId, Nonce, TxId};
use fencepost_domain::request::{Fees, Payload};
use fencepost_domain::state::{self, Why};
use fencepost_domain::transition::Input;
use futures::{StreamExt, stream};

use crate::directory::Seat;
use crate::lane::entry::{Busy, Known};
use crate::lane::moves::Then;
use crate::lane::report::Report;
use crate::lane::worker::{REST, Worker, backoff};
use crate::node::Node;
use crate::ports::{Chain, ChainUnavailable, Estimate, Held, Signer, Unsignable};

/// How many of one lane are signed in one go.
const BATCH: usize = 64;
/// How many of them are asked of the key at once.
const AT_ONCE: usize = 8;
/// How long a key may fail before the head of its lane is told as stuck.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often in a row a chain that cannot be asked, or a key that cannot be used, makes the wait longer. More
/// would keep a lane waiting long after it is back; the endpoints have waits of their own.
const UNREACHABLE_MAX: u32 = 4;

/// How often the head of a lane must be seen to revert before it is rejected.
const REVERTS: u32 = 3;

/// What became of one transaction that was to be signed.
#[derive(Debug)]
pub(crate) struct Filled {
    nonce: Nonce,
    tx: TxId,
    is_head: bool,
    result: Result<Attempt, Unfilled>,
}

/// Why there are no bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unfilled {
    /// No endpoint of the chain answers.
    Unreachable(String),
    /// The chain cannot say, or not now.
    Later(String),
    /// It would be reverted now.
    Reverted(String),
    /// The signer says no for good.
    Refused(String),
    /// The key cannot be used.
    Key(String),
}

/// One transaction to be signed.
struct Draft {
    nonce: Nonce,
    tx: TxId,
    /// All below it was in blocks when it was asked for.
    is_head: bool,
    payload: Option<Payload>,
    kind: Kind,
}

impl Worker {
    /// Hands what is next to the signer, one batch of a lane at a time.
    pub(crate) fn sign(&mut self, lane: LaneId) {
        let now = self.node.ticks.ticks();
        let (Some(chain), Some(signer)) = (self.node.chain.clone(), self.node.signer.clone())
        else {
            return;
        };
        let Some(track) = self.tracks.get_mut(&lane) else {
            return;
        };
        if track.tasks.signing || now < track.rests_until {
            return;
        }
        let head = track.unmined().next().map(|(nonce, _)| nonce);
        let mut drafts = Vec::new();
        for nonce in track.signable(now).into_iter().take(BATCH) {
            let Some(entry) = track.get_mut(nonce) else {
                continue;
            };
            // Without what is to be executed there is nothing to sign.
            if entry.kind == state::Kind::Managed && entry.payload.is_none() {
                continue;
            }
            entry.busy = Busy::Signing;
            drafts.push(Draft {
                nonce,
                tx: entry.tx,
                is_head: head == Some(nonce),
                payload: entry.payload.clone(),
                kind: match entry.kind {
                    state::Kind::Managed => Kind::Original,
                    state::Kind::Placeholder | state::Kind::Reserved => Kind::Placeholder,
                },
            });
        }
        if drafts.is_empty() {
            return;
        }
        track.tasks.signing = true;
        let (seat, held) = (track.seat, track.held);
        let node = Arc::clone(&self.node);
        self.node.hand(async move {
            let results = fill(&node, &*chain, &*signer, seat, drafts).await;
            node.report(Report::Signed { held, results }).await;
        });
    }

    /// Bytes came back from the signer: they are to be stored.
    pub(crate) async fn signed(&mut self, held: Held, results: Vec<Filled>) {
        let lane = held.lane;
        let Some(track) = self
            .tracks
            .get_mut(&lane)
            .filter(|track| track.held == held)
        else {
            return;
        };
        track.tasks.signing = false;
        let head = track.unmined().next().map(|(nonce, _)| nonce);
        for filled in results {
            let Filled {
                nonce,
                tx,
                is_head,
                result,
            } = filled;
            // The lane may have been read anew meanwhile, and the nonce be another transaction's: bytes
            // are stored only for the one that they were signed for.
            let track = self.tracks.get(&lane);
            let entry = track.and_then(|track| track.get(nonce));
            if !entry.is_some_and(|entry| entry.tx == tx && entry.busy == Busy::Signing) {
                continue;
            }
            match result {
                Ok(attempt) => self.store_bytes(lane, nonce, attempt).await,
                Err(Unfilled::Refused(why)) => self.reject(lane, nonce, why).await,
                // What is pending below it may change what it does, and one node may lag: only the head
                // is judged, and not by one look.
                Err(Unfilled::Reverted(why)) if is_head && self.reverts_again(lane, nonce) => {
                    self.reject(lane, nonce, why).await;
                }
                Err(Unfilled::Reverted(why) | Unfilled::Later(why)) => {
                    self.sign_later(lane, nonce, &why, u32::MAX);
                }
                Err(Unfilled::Unreachable(why)) => {
                    self.sign_later(lane, nonce, &why, UNREACHABLE_MAX);
                }
                Err(Unfilled::Key(why)) => self.key_fails(lane, nonce, head, &why).await,
            }
        }
    }

    async fn store_bytes(&mut self, lane: LaneId, nonce: Nonce, attempt: Attempt) {
        let Some(track) = self.tracks.get_mut(&lane) else {
            return;
        };
        track.failing_since = None;
        let Some(entry) = track.get(nonce) else {
            return;
        };
        let n = entry.attempts.last().map_or(1, |known| known.n + 1);
        let known = Known {
            n,
            hash: attempt.hash,
            kind: attempt.kind,
        };
        let (input, raw) = (Input::Sign(attempt.kind, attempt.hash), attempt.raw.clone());
        let planned = self
            .plan(lane, nonce, input, Then::Signed(known, raw), |step| {
                // Due at once: if we die before we have sent it, the next leader does.
                step.attempt(attempt).due_in(Duration::ZERO)
            })
            .await;
        if planned.is_err() {
            self.idle(lane, nonce);
        }
    }

    /// Refused before any bytes were stored: the nonce is given back.
    async fn reject(&mut self, lane: LaneId, nonce: Nonce, why: String) {
        let input = Input::Reject;
        let told = self
            .plan(lane, nonce, input, Then::Nothing, |step| step.error(why))
            .await;
        if told.is_err() {
            self.idle(lane, nonce);
        }
    }

    /// Counts that the head of a lane would be reverted; whether that was often enough.
    fn reverts_again(&mut self, lane: LaneId, nonce: Nonce) -> bool {
        let track = self.tracks.get_mut(&lane);
        let Some(entry) = track.and_then(|track| track.get_mut(nonce)) else {
            return false;
        };
        entry.reverts += 1;
        entry.reverts >= REVERTS
    }

    fn sign_later(&mut self, lane: LaneId, nonce: Nonce, why: &str, longer_max: u32) {
        let now = self.node.ticks.ticks();
        let track = self.tracks.get_mut(&lane);
        if let Some(entry) = track.and_then(|track| track.get_mut(nonce)) {
            entry.busy = Busy::No;
            entry.failures += 1;
            entry.due_at = now + backoff(entry.failures.min(longer_max), entry.tx);
            if entry.failures == 1 {
                tracing::warn!(tx_id = %entry.tx, %nonce, why, "it cannot be signed now; it is tried again");
            }
        }
    }

    /// The key fails: its lane rests, and its head is told as stuck when that lasts.
    async fn key_fails(&mut self, lane: LaneId, nonce: Nonce, head: Option<Nonce>, why: &str) {
        let now = self.node.ticks.ticks();
        self.sign_later(lane, nonce, why, UNREACHABLE_MAX);
        let Some(track) = self.tracks.get_mut(&lane) else {
            return;
        };
        track.rests_until = now + REST;
        let since = *track.failing_since.get_or_insert(now);
        if head == Some(nonce) && now.saturating_sub(since) >= PATIENCE {
            let signer = track.seat.lane.signer;
            let stuck = self
                .plan(
                    lane,
                    nonce,
                    Input::Stick(Why::SignerError),
                    Then::Nothing,
                    |step| step.error(why),
                )
                .await;
            if stuck.is_ok() {
                self.node.meters.stuck(Why::SignerError);
                tracing::error!(%signer, %nonce, why, "the key fails: nothing of this signer is sent until it works again");
            }
        }
    }

    /// Nothing is under way with this transaction any more.
    pub(crate) fn idle(&mut self, lane: LaneId, nonce: Nonce) {
        let track = self.tracks.get_mut(&lane);
        if let Some(entry) = track.and_then(|track| track.get_mut(nonce)) {
            entry.busy = Busy::No;
        }
    }
}

/// Fills and signs a batch of a lane, in order.
async fn fill(
    node: &Node,
    chain: &dyn Chain,
    signer: &dyn Signer,
    seat: Seat,
    drafts: Vec<Draft>,
) -> Vec<Filled> {
    stream::iter(drafts)
        .map(|draft| async move {
            Filled {
                nonce: draft.nonce,
                tx: draft.tx,
                is_head: draft.is_head,
                result: fill_one(node, chain, signer, seat, draft).await,
            }
        })
        .buffered(AT_ONCE)
        .collect()
        .await
}

async fn fill_one(
    node: &Node,
    chain: &dyn Chain,
    signer: &dyn Signer,
    seat: Seat,
    draft: Draft,
) -> Result<Attempt, Unfilled> {
    let asked = draft.payload.as_ref().map_or(Fees::Ours, Payload::fees);
    let quote = match asked {
        // Nothing is left to choose.
        Fees::Legacy { .. }
        | Fees::Dynamic {
            max_fee: Some(_),
            max_priority_fee: Some(_),
        } => fee::Quote {
            base_fee: None,
            tip: 0,
        },
        Fees::Ours | Fees::Dynamic { .. } => {
            chain.quote(seat.lane.chain).await.map_err(unreachable)?
        }
    };
    let fees = fee::choose(asked, quote, node.ceilings(seat.lane.chain));
    let gas = match &draft.payload {
        None => gas::least(false, &[], &[]),
        Some(payload) => match payload.gas() {
            Some(gas) => gas,
            None => estimate(chain, seat, payload).await?,
        },
    };
    let unsigned = Unsigned {
        chain: seat.lane.chain,
        nonce: draft.nonce,
        // A placeholder does nothing but use the nonce up.
        to: match &draft.payload {
            Some(payload) => payload.to(),
            None => Some(seat.lane.signer),
        },
        value: draft
            .payload
            .as_ref()
            .and_then(Payload::value)
            .unwrap_or(U256::ZERO),
        data: draft
            .payload
            .as_ref()
            .and_then(|payload| payload.given_data().cloned())
            .unwrap_or_default(),
        gas,
        fees,
        access: draft
            .payload
            .as_ref()
            .and_then(|payload| payload.given_access().map(<[_]>::to_vec)),
    };
    let signed = signer.sign(seat.lane.signer, &unsigned).await;
    let signed = signed.map_err(|error| match error {
        Unsignable::Refused(why) => Unfilled::Refused(why),
        Unsignable::Unusable(why) => Unfilled::Key(why),
    })?;
    Ok(Attempt {
        kind: draft.kind,
        hash: signed.hash,
        raw: signed.raw,
        fees: Some(fees),
    })
}

async fn estimate(chain: &dyn Chain, seat: Seat, payload: &Payload) -> Result<u64, Unfilled> {
    match chain
        .estimate(seat.lane, payload)
        .await
        .map_err(unreachable)?
    {
        Estimate::Gas(gas) => {
            let least = gas::least(payload.to().is_none(), payload.data(), payload.access());
            Ok(gas.max(least))
        }
        Estimate::Reverted(why) => Err(Unfilled::Reverted(
            why.unwrap_or_else(|| "execution reverted".to_owned()),
        )),
        Estimate::NoFunds(why) | Estimate::Refused(why) => Err(Unfilled::Later(why)),
    }
}

fn unreachable(error: ChainUnavailable) -> Unfilled {
    Unfilled::Unreachable(crate::causes::Causes(&error).to_string())
}
