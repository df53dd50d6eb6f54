//! Remedies: claimed behind the fence, and made an errand, or closed at once. Whatever is mined in the end
//! decides; a remedy that comes too late is closed with the reason, and is no error.

use std::sync::Arc;
use std::time::Duration;

use fencepost_domain::attempt::{self, SignedFees};
use fencepost_domain::event::{self, Event};
use fencepost_domain::ids::{LaneId, Nonce, TxId};
use fencepost_domain::raw;
use fencepost_domain::state::{State, Stuck, Why};
use fencepost_domain::transition::{Input, Transition};

use crate::causes::Causes;
use crate::lane::entry::Need;
use crate::lane::worker::Worker;
use crate::lifecycle::fill::Row;
use crate::ports::{
    Action, ClaimedRemedy, Closing, Held, LaneMoved, LaneMoves, Move, Record, RemedyId,
    StoredAttempt,
};
use crate::recovery::decided::{Extra, brought};
use crate::recovery::errand::Errand;
use crate::writes::words;

/// How many remedies of a lane are claimed in one go.
const CLAIMED_MAX: usize = 64;

/// What is asked of a transaction.
pub(crate) struct Wanted {
    pub(crate) remedy: RemedyId,
    pub(crate) action: Action,
    fees: Option<SignedFees>,
    /// What a policy has decided beyond that.
    decided: Extra,
    pub(crate) record: Record,
}

impl Worker {
    /// Takes the remedies of a lane that nobody has begun under our token.
    pub(crate) async fn claim_errands(&mut self, lane: LaneId) {
        let Some(held) = self.node.leases.held(lane) else {
            return;
        };
        for claimed in self.claim(held).await {
            self.undertake(held, claimed).await;
        }
    }

    /// The same, for a round of the policy that we have just opened; whether it is ours.
    pub(crate) async fn claim_round(&mut self, held: Held, round: RemedyId) -> bool {
        let mut ours = false;
        for claimed in self.claim(held).await {
            if claimed.id == round {
                ours = true;
            } else {
                self.undertake(held, claimed).await;
            }
        }
        ours
    }

    async fn claim(&mut self, held: Held) -> Vec<ClaimedRemedy> {
        // What is decided and not written would be decided on what was read before.
        self.write().await;
        if self.node.leases.held(held.lane) != Some(held) {
            return vec![];
        }
        let (sent, store) = (self.node.leases.sending(), Arc::clone(&self.node.store));
        match store
            .claim_remedies(&self.node.holder, &[held], CLAIMED_MAX)
            .await
        {
            Ok(claimed) if claimed.fenced.is_empty() => {
                self.node.leases.keep(held, sent);
                claimed.remedies
            }
            Ok(_) => {
                self.fenced(held, "claim");
                vec![]
            }
            Err(error) => {
                tracing::warn!(error = %Causes(&error), lane = held.lane.0, "claiming remedies failed");
                self.doubt(held, &error);
                vec![]
            }
        }
    }

    async fn undertake(&mut self, held: Held, claimed: ClaimedRemedy) {
        // A question that nobody was asked yet: an operator's, or of a leader that died before it claimed its own.
        if claimed.action == Action::Decide && claimed.is_first_claim {
            return self.ask_claimed(held, claimed).await;
        }
        let (tx, action) = (claimed.record.tx, claimed.action);
        let (by, reason) = (claimed.audit.by.as_str(), claimed.audit.reason.as_str());
        let ((from, _), signer) = (words(&claimed.record.state), claimed.record.lane.signer);
        let (node_id, nonce) = (self.node.holder.node.as_str(), claimed.record.state.nonce());
        let nonce = nonce.map_or_else(|| "-".to_owned(), |nonce| nonce.to_string());
        tracing::info!(%signer, tx_id = %tx, node_id, token = %held.token, nonce, from, to = from, action = action.word(), by, reason, "a remedy is carried out");
        self.begin(
            held,
            Wanted {
                remedy: claimed.id,
                action,
                fees: claimed.fees,
                decided: Extra::of(
                    claimed.raw,
                    claimed.severity,
                    claimed.after,
                    (action, &claimed.audit.reason),
                ),
                record: claimed.record,
            },
        )
        .await;
    }

    /// What a policy has decided, in a round that we have claimed.
    pub(crate) async fn undertake_decided(
        &mut self,
        held: Held,
        tx: TxId,
        remedy: RemedyId,
        (action, fees): (Action, Option<SignedFees>),
        decided: Extra,
    ) {
        match self.node.store.find_many(&[tx]).await {
            Ok(mut found) => {
                if let Some(record) = found.pop() {
                    let wanted = Wanted {
                        remedy,
                        action,
                        fees,
                        decided,
                        record,
                    };
                    self.begin(held, wanted).await;
                }
            }
            // It stays claimed; behind a new token it is shown again.
            Err(error) => {
                tracing::warn!(error = %Causes(&error), tx_id = %tx, "a transaction that is to be remedied could not be read");
                self.doubted.insert(held.lane);
            }
        }
    }

    async fn begin(&mut self, held: Held, wanted: Wanted) {
        match course(&wanted) {
            Course::Sign | Course::Send => {
                match self.node.store.attempts(&[wanted.record.tx]).await {
                    Ok(attempts) => self.take_on(held, wanted, attempts).await,
                    Err(error) => {
                        tracing::warn!(error = %Causes(&error), tx_id = %wanted.record.tx, "the bytes of a transaction that is to be remedied could not be read");
                        self.doubted.insert(held.lane);
                    }
                }
            }
            Course::Fill => self.fill_later(held, &wanted),
            Course::End => self.cancel_queued(held, wanted).await,
            Course::Refuse(why) => {
                self.refuse(held, &wanted.record, wanted.remedy, wanted.action, why)
                    .await
            }
        }
    }

    /// Gaps are filled after the next look at the chain: what is in mind of them may be old.
    fn fill_later(&mut self, held: Held, wanted: &Wanted) {
        let record = &wanted.record;
        let Some(nonce) = record.state.nonce() else {
            return;
        };
        self.errands.insert(
            record.tx,
            Errand {
                held,
                remedy: wanted.remedy,
                action: wanted.action,
                nonce,
                signs: None,
                fees: None,
                older: None,
                payload: None,
                row: None,
                ready: None,
                note: None,
                after: None,
                next: Duration::ZERO,
            },
        );
        if let Some(track) = self.tracks.get_mut(&held.lane) {
            track.suspect = true;
        }
    }

    /// Has in mind what is to be signed or sent.
    async fn take_on(&mut self, held: Held, wanted: Wanted, attempts: Vec<StoredAttempt>) {
        let Wanted {
            remedy,
            action,
            fees,
            decided,
            record,
        } = wanted;
        let Some(nonce) = record.state.nonce() else {
            return;
        };
        let newest = attempts.last().map(|newest| newest.attempt.clone());
        let ready = decided.raw.as_ref();
        let ready = ready.map(|raw| brought(raw, action, &record, nonce, newest.as_ref()));
        let ready = match ready.transpose() {
            Ok(ready) => ready,
            Err(why) => return self.refuse(held, &record, remedy, action, &why).await,
        };
        let mut payload = record.payload.clone();
        let signs = match (action, newest.as_ref().map(|newest| newest.kind)) {
            _ if ready.is_some() => ready.as_ref().map(|ready| ready.kind),
            (Action::Resubmit | Action::Replace, None) => {
                let why = "nothing was signed yet";
                return self.refuse(held, &record, remedy, action, why).await;
            }
            (Action::Resubmit | Action::Decide | Action::Fill, _) => None,
            // What was called off stays so: only its own bytes are paid better.
            (Action::Replace, Some(attempt::Kind::Cancel)) | (Action::Cancel, _) => {
                Some(attempt::Kind::Cancel)
            }
            (Action::Replace, Some(attempt::Kind::Placeholder)) | (Action::Placeholder, _) => {
                Some(attempt::Kind::Placeholder)
            }
            // Only what a policy has put in the payload's place is paid better.
            (Action::Replace, Some(attempt::Kind::Substitute)) => {
                let raw = newest.as_ref().map(|newest| newest.raw.clone());
                match raw::read(&raw.unwrap_or_default(), record.lane, nonce) {
                    Ok((substitute, _)) => payload = Some(substitute),
                    Err(why) => {
                        let why = format!("its newest bytes cannot be read: they have {why}");
                        return self.refuse(held, &record, remedy, action, &why).await;
                    }
                }
                Some(attempt::Kind::Substitute)
            }
            (Action::Replace, Some(_)) => Some(attempt::Kind::Replacement),
        };
        let tx = record.tx;
        let errand = Errand {
            held,
            remedy,
            action,
            nonce,
            signs,
            fees,
            older: newest.and_then(|newest| newest.fees),
            payload,
            row: Some(Row::of(&record)),
            ready,
            note: decided.note,
            after: decided.after,
            next: Duration::ZERO,
        };
        self.errands.insert(tx, errand);
        self.remember(held, record, attempts);
        let track = self.tracks.get_mut(&held.lane);
        let entry = track.and_then(|track| track.get_mut(nonce));
        if let Some(entry) = entry.filter(|entry| entry.tx == tx) {
            entry.to_send |= signs.is_none() && entry.need() == Need::Block;
        }
    }

    /// Closes a remedy that is not carried out, with the reason.
    pub(crate) async fn refuse(
        &mut self,
        held: Held,
        record: &Record,
        remedy: RemedyId,
        action: Action,
        why: &str,
    ) {
        let (signer, node_id) = (record.lane.signer, self.node.holder.node.as_str());
        tracing::info!(%signer, tx_id = %record.tx, node_id, token = %held.token, action = action.word(), why, "a remedy is not carried out");
        let same = Transition {
            to: record.state.clone(),
            event: Event::new(event::Kind::Remedied).note(&format!("{}: {why}", action.word())),
        };
        let closing = Closing {
            remedy,
            refused: Some(why.to_owned()),
        };
        let step = Move::of(record, same).closing(closing);
        if self.close(held, record, step, "refused", action).await {
            self.errands.remove(&record.tx);
        }
    }

    /// Tells an urgent decision that leaves the transaction as it is.
    pub(crate) async fn note_decision(&mut self, held: Held, nonce: Nonce, note: &str) {
        self.write().await;
        let entry = self.tracks.get(&held.lane);
        let Some(entry) = entry.and_then(|track| track.get(nonce)) else {
            return;
        };
        let same = Transition {
            to: entry.state.clone(),
            event: Event::new(event::Kind::Remedied).note(note),
        };
        let step = Move::on(entry.tx, entry.version, &entry.state, same);
        let batch = [LaneMoves {
            held,
            moves: vec![step],
        }];
        self.write_alone(held, batch, Some(nonce)).await;
    }

    /// Writes a move that closes a remedy.
    pub(crate) async fn close(
        &mut self,
        held: Held,
        record: &Record,
        step: Move,
        result: &'static str,
        action: Action,
    ) -> bool {
        let batch = [LaneMoves {
            held,
            moves: vec![step],
        }];
        let written = self.write_alone(held, batch, record.state.nonce()).await;
        if written {
            self.node.meters.remedied(action, result);
        }
        written
    }

    /// Writes one move by itself, and keeps what is in mind of the transaction up to date.
    async fn write_alone(
        &mut self,
        held: Held,
        batch: [LaneMoves; 1],
        nonce: Option<Nonce>,
    ) -> bool {
        let (sent, store) = (self.node.leases.sending(), Arc::clone(&self.node.store));
        let steps = &batch[0].moves;
        let answers = if steps.iter().any(|step| step.event.kind.is_told()) {
            store.complete(&self.node.holder, &batch).await
        } else {
            store.apply(&self.node.holder, &batch).await
        };
        match answers.map(|mut answers| answers.pop()) {
            Ok(Some(LaneMoved::Done(_))) => {
                self.node.leases.keep(held, sent);
                for step in steps {
                    self.node.waiters.moved(step.tx, &step.to);
                    self.node.log_move(held, nonce, step);
                    self.node.meters.ended(&step.to);
                    let track = self.tracks.get_mut(&held.lane);
                    let entry = track.and_then(|track| track.get_mut(nonce?));
                    let entry =
                        entry.filter(|entry| entry.tx == step.tx && entry.version == step.version);
                    if let (Some(entry), Ok(version)) = (entry, step.version.plus(1)) {
                        entry.version = version;
                    }
                }
                true
            }
            Ok(Some(LaneMoved::Fenced)) => {
                self.fenced(held, "apply");
                false
            }
            // It moved meanwhile: behind a new token it is shown again.
            Ok(_) => {
                self.doubted.insert(held.lane);
                self.forget(held.lane);
                false
            }
            Err(error) => {
                self.doubted.insert(held.lane);
                self.doubt(held, &error);
                false
            }
        }
    }

    async fn cancel_queued(&mut self, held: Held, wanted: Wanted) {
        let record = &wanted.record;
        let Ok(ended) = record.state.clone().apply(Input::Cancel) else {
            return;
        };
        let closing = Closing {
            remedy: wanted.remedy,
            refused: None,
        };
        let step = Move::of(record, ended).closing(closing);
        self.close(held, record, step, "done", wanted.action).await;
    }
}

/// How a remedy is carried out.
enum Course {
    /// Other bytes are signed.
    Sign,
    /// The newest bytes are sent.
    Send,
    /// Gaps below it are filled.
    Fill,
    /// It ends at once.
    End,
    Refuse(&'static str),
}

fn course(wanted: &Wanted) -> Course {
    if wanted.action == Action::Decide {
        return Course::Refuse("its leader was gone before the policy had answered");
    }
    match &wanted.record.state {
        State::Queued(_) if wanted.action == Action::Cancel => Course::End,
        State::Queued(_) => Course::Refuse("it has no nonce yet: only CANCEL ends it"),
        State::Reserved(_) | State::Submitted(_) => Course::Refuse("its holder signs for it"),
        state if state.is_final() => Course::Refuse("it has ended"),
        state if state.inclusion().is_some() => Course::Refuse("it is in a block"),
        State::Stuck(Stuck {
            why: Why::NonceTaken,
            ..
        }) => Course::Refuse("its nonce is used"),
        State::Stuck(Stuck { why: Why::Gap, .. }) if wanted.action == Action::Fill => Course::Fill,
        _ if wanted.action == Action::Fill => Course::Refuse("it does not wait for a gap any more"),
        State::Allocated(_)
        | State::Tracking(_)
        | State::Stuck(_)
        | State::Confirmed(_)
        | State::Failed(_)
        | State::Used(_)
        | State::Recyclable(_) => match wanted.action {
            Action::Resubmit => Course::Send,
            Action::Decide
            | Action::Replace
            | Action::Cancel
            | Action::Placeholder
            | Action::Fill => Course::Sign,
        },
    }
}
