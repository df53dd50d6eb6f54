//! Errands: remedies that a leader has claimed and not carried out. They are signed or sent, and closed by the
//! statement that stores what was done; whatever comes between, they are neither lost nor done twice.

use std::time::Duration;

use fencepost_domain::attempt::{self, Attempt, SignedFees};
use fencepost_domain::decision::After;
use fencepost_domain::ids::{LaneId, Nonce, TxId};
use fencepost_domain::request::Payload;
use fencepost_domain::state::Why;

use crate::causes::Causes;
use crate::lane::worker::{REST, Worker};
use crate::lifecycle::fill::{Row, Unfilled};
use crate::ports::{Action, Closing, Held, Move, RemedyId};

/// A remedy that we have claimed and not carried out.
#[derive(Debug, Clone)]
pub(crate) struct Errand {
    pub(crate) held: Held,
    pub(crate) remedy: RemedyId,
    pub(crate) action: Action,
    pub(crate) nonce: Nonce,
    /// Which bytes are to be signed; none are for sending the newest again.
    pub(crate) signs: Option<attempt::Kind>,
    /// What somebody wants paid.
    pub(crate) fees: Option<SignedFees>,
    /// What the newest bytes pay.
    pub(crate) older: Option<SignedFees>,
    /// What a replacement executes.
    pub(crate) payload: Option<Payload>,
    /// The row that has it.
    pub(crate) row: Option<Row>,
    /// Bytes that a policy's decision has brought.
    pub(crate) ready: Option<Attempt>,
    /// What its event says, where a policy has called it urgent.
    pub(crate) note: Option<String>,
    /// Where a policy wants the transaction to stand afterwards.
    pub(crate) after: Option<After>,
    /// Nothing is tried before this.
    pub(crate) next: Duration,
}

impl Errand {
    /// It is carried out by sending the newest bytes.
    pub(super) fn sends(&self) -> bool {
        self.signs.is_none() && self.action != Action::Fill
    }
}

impl Worker {
    /// Bytes came back from the signer, or why there are none.
    pub(crate) async fn errand_filled(
        &mut self,
        held: Held,
        (nonce, tx): (Nonce, TxId),
        remedy: RemedyId,
        head: Option<Nonce>,
        result: Result<Attempt, Unfilled>,
    ) {
        let errand = self.errands.get(&tx);
        let Some(errand) = errand.filter(|each| each.remedy == remedy && each.held == held) else {
            return self.idle(held.lane, nonce);
        };
        let (note, after) = (errand.note.clone(), errand.after);
        let why = match result {
            Ok(attempt) => {
                let closing = Closing {
                    remedy,
                    refused: None,
                };
                let closing = Some((closing, note));
                let stored = self.store_closing(held.lane, nonce, attempt, closing).await;
                match stored {
                    Ok(()) if after == Some(After::Stuck) => {
                        return self.stand(held, nonce, After::Stuck).await;
                    }
                    Ok(()) => return,
                    Err(refusal) => refusal.to_string(),
                }
            }
            Err(Unfilled::AtCap) => {
                self.idle(held.lane, nonce);
                return self.send_at_cap(held, tx).await;
            }
            Err(Unfilled::Refused(why) | Unfilled::Reverted(why)) => why,
            Err(Unfilled::Tampered(why)) => {
                self.idle(held.lane, nonce);
                self.give_up(held, tx, &why).await;
                let (lane, reason) = (held.lane, Why::Tampered);
                self.stick(lane, nonce, reason, &why, |step| step).await;
                return;
            }
            Err(
                Unfilled::Unreachable(why)
                | Unfilled::Later(why)
                | Unfilled::NoFunds(why)
                | Unfilled::Key(why),
            ) => {
                return self.errand_unsigned(held, (nonce, tx), head, &why).await;
            }
        };
        self.idle(held.lane, nonce);
        self.give_up(held, tx, &why).await;
    }

    /// It cannot be signed now. Bytes that are there are sent meanwhile as before.
    async fn errand_unsigned(
        &mut self,
        held: Held,
        (nonce, tx): (Nonce, TxId),
        head: Option<Nonce>,
        why: &str,
    ) {
        self.put_errand_off(tx);
        let entry = self.tracks.get(&held.lane);
        let entry = entry.and_then(|track| track.get(nonce));
        if entry.is_some_and(|entry| entry.attempts.is_empty()) {
            self.key_fails(held.lane, nonce, head, why).await;
        } else {
            tracing::warn!(tx_id = %tx, why, "a remedy cannot be signed now; it is tried again");
            self.idle(held.lane, nonce);
        }
    }

    fn put_errand_off(&mut self, tx: TxId) {
        let next = self.node.ticks.ticks() + REST;
        if let Some(errand) = self.errands.get_mut(&tx) {
            errand.next = next;
        }
    }

    /// Nothing higher may be paid: what is left is sending the same bytes again.
    async fn send_at_cap(&mut self, held: Held, tx: TxId) {
        let Some(errand) = self.errands.get_mut(&tx) else {
            return;
        };
        if errand.action != Action::Replace {
            return self
                .give_up(held, tx, "the fees are at the chain's ceiling")
                .await;
        }
        errand.signs = None;
        let nonce = errand.nonce;
        tracing::warn!(tx_id = %tx, "the fees are at the chain's ceiling: the same bytes are sent again");
        let track = self.tracks.get_mut(&held.lane);
        if let Some(entry) = track.and_then(|track| track.get_mut(nonce)) {
            entry.to_send = true;
        }
    }

    /// A remedy cannot be carried out.
    async fn give_up(&mut self, held: Held, tx: TxId, why: &str) {
        let Some(errand) = self.errands.get(&tx).cloned() else {
            return;
        };
        self.write().await;
        match self.node.store.find_many(&[tx]).await {
            Ok(mut found) => {
                if let Some(record) = found.pop() {
                    self.refuse(held, &record, errand.remedy, errand.action, why)
                        .await;
                }
            }
            Err(error) => {
                tracing::warn!(error = %Causes(&error), tx_id = %tx, "a transaction whose remedy is over could not be read");
                self.put_errand_off(tx);
            }
        }
    }

    /// A move was written that closes a remedy.
    pub(crate) fn errand_over(&mut self, step: &Move) {
        if step.closes.is_none() {
            return;
        }
        if let (Some(errand), Some(closing)) = (self.errands.remove(&step.tx), &step.closes) {
            let refused = closing.refused.is_some();
            let result = if refused { "refused" } else { "done" };
            self.node.meters.remedied(errand.action, result);
        }
    }

    /// Errands of a lane that were claimed under another token: whoever has the newest is shown them.
    pub(crate) fn drop_errands(&mut self, lane: LaneId, but: Option<Held>) {
        self.errands
            .retain(|_, errand| errand.held.lane != lane || Some(errand.held) == but);
    }

    /// Whether somebody wants the newest bytes sent again.
    pub(crate) fn is_to_resubmit(&self, tx: TxId) -> bool {
        let errand = self.errands.get(&tx);
        errand.is_some_and(Errand::sends)
    }

    /// The bytes of a transaction were sent: the remedy that this carries out, if somebody asked for it.
    pub(crate) fn resubmitted(&self, lane: LaneId, nonce: Nonce) -> Option<Closing> {
        let entry = self.tracks.get(&lane)?.get(nonce)?;
        let errand = self.errands.get(&entry.tx)?;
        let sent = errand.sends() && errand.held == self.tracks.get(&lane)?.held;
        sent.then_some(Closing {
            remedy: errand.remedy,
            refused: None,
        })
    }
}
