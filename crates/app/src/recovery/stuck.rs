//! What does not move is told: the first of a lane that is in no block for too long, was sent too often, or
//! has too many waiting behind it. It is told once, with its reason, and still ends if the chain lets it.

use std::time::Duration;

use fencepost_domain::event;
use fencepost_domain::ids::{LaneId, Nonce};
use fencepost_domain::state::{State, Why};
use fencepost_domain::transition::Input;

use super::gap::named;
use crate::lane::entry::Busy;
use crate::lane::front::Front;
use crate::lane::moves::Then;
use crate::lane::track::Track;
use crate::lane::worker::Worker;
use crate::ports::Move;
use crate::settings::StuckAfter;
use crate::writes::lane_error;

impl Worker {
    /// Looks after those of a lane that do not move.
    pub(crate) async fn watch(&mut self, lane: LaneId) {
        let now = self.node.ticks.ticks();
        if let Some(track) = self.tracks.get_mut(&lane) {
            track.front(now);
        }
        self.read_loans_again(lane).await;
        self.examine(lane);
        if self.unblock(lane).await {
            return;
        }
        self.judge(lane, now).await;
        self.consult(lane);
    }

    /// What only waited for the holder of a lower nonce is not stuck any more once that is used or given back:
    /// no policy may hear of it before it has waited on its own account.
    async fn unblock(&mut self, lane: LaneId) -> bool {
        let Some(track) = self.tracks.get_mut(&lane).filter(|track| track.unblocked) else {
            return false;
        };
        track.unblocked = false;
        let now = self.node.ticks.ticks();
        let front = track.front(now).map(|front| front.nonce);
        let stuck = front.and_then(|nonce| track.get(nonce)?.stuck());
        let Some(nonce) = front.filter(|_| stuck == Some(Why::NoReceipt)) else {
            return false;
        };
        // Refused only when it is not stuck any more.
        let _ = self
            .plan(lane, nonce, Input::Clear, Then::Nothing, |step| step)
            .await;
        true
    }

    /// Tells that a transaction cannot move by itself; whether that is news. `with` adds what belongs to
    /// the move.
    pub(crate) async fn stick(
        &mut self,
        lane: LaneId,
        nonce: Nonce,
        why: Why,
        text: &str,
        with: impl FnOnce(Move) -> Move,
    ) -> bool {
        let input = Input::Stick(why);
        let planned = self
            .plan(lane, nonce, input, Then::Nothing, |step| {
                let step = with(step);
                if text.is_empty() {
                    step
                } else {
                    step.error(text)
                }
            })
            .await;
        planned.is_ok()
    }

    /// Counts and logs what got stuck, once it is written: a person must look.
    pub(crate) fn alert(&self, lane: LaneId, nonce: Nonce, step: &Move) {
        let State::Stuck(stuck) = &step.to else {
            return;
        };
        if step.event.kind != event::Kind::Stuck {
            return;
        }
        self.node.meters.stuck(stuck.why);
        let track = self.tracks.get(&lane);
        let held = track.map_or_else(|| self.node.last_held(lane), |track| track.held);
        let (from, reason) = (step.from.0.word(), stuck.why.word());
        let text = step.error.as_deref().unwrap_or_default();
        lane_error!(self.node, held, tx_id = %step.tx, %nonce, from, to = "STUCK", reason, text, "stuck: {}", meaning(stuck.why));
    }

    /// Tells the first of the lane as stuck, if it has waited for too long. The chain was looked at before:
    /// perhaps it is in a block, or its nonce is used.
    async fn judge(&mut self, lane: LaneId, now: Duration) {
        let settings = self.node.settings.stuck;
        let probe = self.node.settings.stale_receipt_timeout;
        let Some(track) = self.tracks.get_mut(&lane) else {
            return;
        };
        let Some(front) = track.front(now) else {
            return;
        };
        if !is_overdue(track, front, settings, probe, now) {
            return;
        }
        // Whatever was found then, or that nobody could be asked.
        if track.examined_at.is_none_or(|at| at < front.since) {
            track.suspect = true;
            return;
        }
        let lent = track.lent().next().map(|(nonce, entry)| (nonce, entry.tx));
        let lent = lent.filter(|(nonce, _)| *nonce < front.nonce);
        let entry = track.get(front.nonce);
        let refused = entry.is_some_and(|entry| entry.refused);
        let unsigned = entry.filter(|entry| entry.attempts.is_empty());
        let unsigned = unsigned.map(|entry| entry.unsigned_for.clone().unwrap_or_default());
        let gaps = track.gaps.as_ref();
        let gaps = gaps.filter(|gaps| gaps.nonces.first().is_some_and(|gap| *gap < front.nonce));
        let (why, text) = match lent {
            // Whoever has its payload replaced for that would lose it for nothing.
            _ if gaps.is_some() => (Why::Gap, gaps.map(named).unwrap_or_default()),
            Some((nonce, tx)) => {
                let text = format!("nonce {nonce} below it is lent out as {tx}");
                (Why::NoReceipt, text)
            }
            // Nothing was sent of it that could be in a block.
            None if unsigned.is_some() => {
                let why = unsigned.unwrap_or_default();
                (Why::SignerError, format!("it cannot be signed: {why}"))
            }
            // What nodes said is its newest error already.
            None if refused => (Why::Refused, String::new()),
            None => (Why::NoReceipt, String::new()),
        };
        self.stick(lane, front.nonce, why, &text, |step| step).await;
    }
}

fn is_overdue(
    track: &Track,
    front: Front,
    settings: StuckAfter,
    probe: Duration,
    now: Duration,
) -> bool {
    let Some(entry) = track.get(front.nonce) else {
        return false;
    };
    // One that nobody has tried to sign yet waits for us, not for the chain.
    let tried = !entry.attempts.is_empty() || entry.unsigned_for.is_some();
    let idle = entry.busy == Busy::No && entry.stuck().is_none() && tried;
    let age = now.saturating_sub(front.since);
    let tired = entry.tries >= settings.attempts && age >= probe.min(settings.age);
    let behind = u64::try_from(track.backlog()).unwrap_or(u64::MAX);
    let crowded = settings.backlog > 0 && behind > settings.backlog && age >= settings.backlog_age;
    idle && (age >= settings.age || tired || crowded)
}

const fn meaning(why: Why) -> &'static str {
    match why {
        Why::NoReceipt => "it is in no block for too long, and all later ones of its signer wait",
        Why::Refused => "every node refuses its bytes",
        Why::NonceTaken => "a transaction that is not ours has used its nonce",
        Why::Gap => "a lower nonce is held by nobody",
        Why::NoFunds => "its signer cannot pay",
        Why::SignerError => "the key fails: nothing of this signer is signed until it works again",
        Why::ReorgAfterFinal => "a block that was final has been replaced",
        Why::Tampered => {
            "its stored row is not the one that was accepted: it is not signed, and all later ones of its signer wait"
        }
    }
}
