//! Signing: what is next of a lane is handed to the key, and the bytes are stored before anyone may send
//! them. A key that fails stops only its own lane.

use super::submit::Shipment;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fencepost_domain::attempt::{Attempt, Kind};
use fencepost_domain::ids::{LaneId, Nonce, TxId};
use fencepost_domain::mutant::Mutant;
use fencepost_domain::state::{self, Why};
use fencepost_domain::transition::{Input, Refusal};

use super::fill::{Draft, Filled, Row, Terms, Unfilled, executes, fill};
use crate::lane::entry::{Busy, Known};
use crate::lane::moves::Then;
use crate::lane::report::Report;
use crate::lane::track::Track;
use crate::lane::worker::{REST, Worker, backoff};
use crate::ports::{Closing, Held};
use crate::recovery::errand::Errand;

/// How many of one lane are signed in one go.
const BATCH: usize = 64;
/// How long a key may fail before the head of its lane is told as stuck.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often in a row a chain that cannot be asked, or a key that cannot be used, makes the wait longer. More
/// would keep a lane waiting long after it is back; the endpoints have waits of their own.
const UNREACHABLE_MAX: u32 = 4;

/// How often the head of a lane must be seen to revert before it is rejected.
const REVERTS: u32 = 3;

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
        let mut drafts = errands(&self.errands, track, now);
        for nonce in track.signable(now).into_iter().take(BATCH) {
            let Some(entry) = track.get_mut(nonce) else {
                continue;
            };
            // What is to be cancelled is not signed.
            if self.errands.contains_key(&entry.tx) {
                continue;
            }
            entry.busy = Busy::Signing;
            drafts.push(Draft {
                nonce,
                tx: entry.tx,
                is_head: head == Some(nonce),
                payload: entry.payload.clone(),
                row: Some(Row::of_entry(entry)),
                kind: match entry.kind {
                    state::Kind::Managed => Kind::Original,
                    state::Kind::Placeholder | state::Kind::Reserved => Kind::Placeholder,
                },
                errand: None,
                ready: None,
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
                errand,
                result,
            } = filled;
            // The lane may have been read anew meanwhile, and the nonce be another transaction's: bytes
            // are stored only for the one that they were signed for.
            let track = self.tracks.get(&lane);
            let entry = track.and_then(|track| track.get(nonce));
            if !entry.is_some_and(|entry| entry.tx == tx && entry.busy == Busy::Signing) {
                continue;
            }
            // Somebody wants its nonce used up instead: its payload is not signed any more.
            let instead = self.errands.get(&tx);
            if errand.is_none() && instead.is_some_and(|errand| errand.signs.is_some()) {
                self.idle(lane, nonce);
                continue;
            }
            if let Some(remedy) = errand {
                self.errand_filled(held, (nonce, tx), remedy, head, result)
                    .await;
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
                Err(Unfilled::NoFunds(why)) => self.unpaid(lane, nonce, is_head, &why).await,
                Err(Unfilled::Reverted(why) | Unfilled::Later(why)) => {
                    self.sign_later(lane, nonce, &why, u32::MAX);
                }
                // Only what replaces others has older fees.
                Err(Unfilled::AtCap) => self.idle(lane, nonce),
                Err(Unfilled::Unreachable(why)) => {
                    self.sign_later(lane, nonce, &why, UNREACHABLE_MAX);
                }
                Err(Unfilled::Key(why)) => self.key_fails(lane, nonce, head, &why).await,
                Err(Unfilled::Tampered(why)) => self.tampered(lane, nonce, &why).await,
            }
        }
    }

    async fn store_bytes(&mut self, lane: LaneId, nonce: Nonce, attempt: Attempt) {
        if self
            .store_closing(lane, nonce, attempt, None)
            .await
            .is_err()
        {
            self.idle(lane, nonce);
        }
    }

    /// Bytes are to be stored, and with them that a remedy is carried out.
    /// `note` takes the place of the event's own words.
    pub(crate) async fn store_closing(
        &mut self,
        lane: LaneId,
        nonce: Nonce,
        attempt: Attempt,
        closing: Option<(Closing, Option<String>)>,
    ) -> Result<(), Refusal> {
        let Some(track) = self.tracks.get_mut(&lane) else {
            return Ok(());
        };
        track.failing_since = None;
        let Some(entry) = track.get(nonce) else {
            return Ok(());
        };
        let n = entry.attempts.last().map_or(1, |known| known.n + 1);
        let known = Known {
            n,
            hash: attempt.hash,
            kind: attempt.kind,
        };
        let (input, raw) = (Input::Sign(attempt.kind, attempt.hash), attempt.raw.clone());
        if Mutant::SendBeforeStore.is_on() {
            let shipment = Shipment::one(track.held, nonce, n, raw.clone());
            self.node.ship(track.seat.lane.chain, shipment);
        }
        self.plan(lane, nonce, input, Then::Signed(known, raw), |step| {
            // Due at once: if we die before we have sent it, the next leader does.
            let mut step = step.attempt(attempt).due_in(Duration::ZERO);
            let Some((closing, note)) = closing else {
                return step;
            };
            if let Some(note) = note {
                step.event = step.event.note(&note);
            }
            step.closing(closing)
        })
        .await
    }

    /// The signer cannot pay. Its lane waits for funds, and its head says so.
    async fn unpaid(&mut self, lane: LaneId, nonce: Nonce, is_head: bool, why: &str) {
        self.sign_later(lane, nonce, why, UNREACHABLE_MAX);
        if is_head {
            self.stick(lane, nonce, Why::NoFunds, why, |step| step)
                .await;
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

    pub(crate) fn sign_later(&mut self, lane: LaneId, nonce: Nonce, why: &str, longer_max: u32) {
        let now = self.node.ticks.ticks();
        let track = self.tracks.get_mut(&lane);
        if let Some(entry) = track.and_then(|track| track.get_mut(nonce)) {
            entry.busy = Busy::No;
            entry.failures += 1;
            entry.due_at = now + backoff(entry.failures.min(longer_max), entry.tx);
            entry.unsigned_for = Some(why.to_owned());
            if entry.failures == 1 {
                tracing::warn!(tx_id = %entry.tx, %nonce, why, "it cannot be signed now; it is tried again");
            }
        }
    }

    /// The key fails: its lane rests, and its head is told as stuck when that lasts.
    pub(crate) async fn key_fails(
        &mut self,
        lane: LaneId,
        nonce: Nonce,
        head: Option<Nonce>,
        why: &str,
    ) {
        let now = self.node.ticks.ticks();
        self.sign_later(lane, nonce, why, UNREACHABLE_MAX);
        let Some(track) = self.tracks.get_mut(&lane) else {
            return;
        };
        track.rests_until = now + REST;
        let since = *track.failing_since.get_or_insert(now);
        if head == Some(nonce) && now.saturating_sub(since) >= PATIENCE {
            self.stick(lane, nonce, Why::SignerError, why, |step| step)
                .await;
        }
    }

    /// The stored row is not the one that was accepted. Nothing of it is signed, and what is behind it waits for a person.
    /// The row is read again now and then: once it is mended, it goes on by itself.
    async fn tampered(&mut self, lane: LaneId, nonce: Nonce, why: &str) {
        self.sign_later(lane, nonce, why, u32::MAX);
        self.stick(lane, nonce, Why::Tampered, why, |step| step)
            .await;
    }

    /// Nothing is under way with this transaction any more.
    pub(crate) fn idle(&mut self, lane: LaneId, nonce: Nonce) {
        let track = self.tracks.get_mut(&lane);
        if let Some(entry) = track.and_then(|track| track.get_mut(nonce)) {
            entry.busy = Busy::No;
        }
    }
}

/// What is to be signed because somebody wants it.
fn errands(wanted: &BTreeMap<TxId, Errand>, track: &mut Track, now: Duration) -> Vec<Draft> {
    let mut drafts = Vec::new();
    for (tx, errand) in wanted {
        let Some(kind) = errand.signs.filter(|_| errand.held == track.held) else {
            continue;
        };
        let entry = track.get_mut(errand.nonce);
        let Some(entry) = entry.filter(|entry| entry.tx == *tx) else {
            continue;
        };
        if entry.busy != Busy::No || errand.next > now || drafts.len() >= BATCH {
            continue;
        }
        entry.busy = Busy::Signing;
        let payload = errand.payload.clone();
        drafts.push(Draft {
            nonce: errand.nonce,
            tx: *tx,
            is_head: false,
            payload: payload.filter(|_| executes(kind)),
            row: errand.row.clone().filter(|_| kind == Kind::Replacement),
            kind,
            ready: errand.ready.clone(),
            errand: Some(Terms {
                remedy: errand.remedy,
                fees: errand.fees,
                older: errand.older,
            }),
        });
    }
    drafts
}
