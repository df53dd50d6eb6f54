//! Remedies: claimed behind the fence, and made an errand, or closed at once. Whatever is mined in the end
//! decides; a remedy that comes too late is closed with the reason, and is no error.

use std::sync::Arc;
use std::time::Duration;

use fencepost_domain::attempt::{self, SignedFees};
use fencepost_domain::event::{self, Event};
use fencepost_domain::ids::{LaneId, TxId};
use fencepost_domain::state::{State, Stuck, Why};
use fencepost_domain::transition::{Input, Transition};

use crate::causes::Causes;
use crate::lane::entry::Need;
use crate::lane::worker::Worker;
use crate::ports::{
    Action, ClaimedRemedy, Closing, Held, LaneMoved, LaneMoves, Move, Record, RemedyId,
    StoredAttempt,
};
use crate::recovery::errand::Errand;

/// How many remedies of a lane are claimed in one go.
const CLAIMED_MAX: usize = 64;

/// What is asked of a transaction.
pub(crate) struct Wanted {
    pub(crate) remedy: RemedyId,
    pub(crate) action: Action,
    fees: Option<SignedFees>,
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
        let (tx, action) = (claimed.record.tx, claimed.action);
        let (by, reason) = (claimed.audit.by.as_str(), claimed.audit.reason.as_str());
        tracing::info!(tx_id = %tx, action = action.word(), by, reason, "a remedy is carried out");
        self.begin(
            held,
            Wanted {
                remedy: claimed.id,
                action,
                fees: claimed.fees,
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
        action: Action,
        fees: Option<SignedFees>,
    ) {
        match self.node.store.find_many(&[tx]).await {
            Ok(mut found) => {
                if let Some(record) = found.pop() {
                    let wanted = Wanted {
                        remedy,
                        action,
                        fees,
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
            record,
        } = wanted;
        let Some(nonce) = record.state.nonce() else {
            return;
        };
        let newest = attempts.last().map(|newest| newest.attempt.clone());
        let signs = match (action, newest.as_ref().map(|newest| newest.kind)) {
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
            payload: record.payload.clone(),
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
        tracing::info!(tx_id = %record.tx, action = action.word(), why, "a remedy is not carried out");
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

    /// Writes a move that closes a remedy.
    pub(crate) async fn close(
        &mut self,
        held: Held,
        record: &Record,
        step: Move,
        result: &'static str,
        action: Action,
    ) -> bool {
        let (sent, store) = (self.node.leases.sending(), Arc::clone(&self.node.store));
        let told = step.event.kind.is_told();
        let batch = [LaneMoves {
            held,
            moves: vec![step],
        }];
        let answers = if told {
            store.complete(&self.node.holder, &batch).await
        } else {
            store.apply(&self.node.holder, &batch).await
        };
        match answers.map(|mut answers| answers.pop()) {
            Ok(Some(LaneMoved::Done(_))) => {
                self.node.leases.keep(held, sent);
                self.node.meters.remedied(action, result);
                let nonce = record.state.nonce();
                let track = self.tracks.get_mut(&held.lane);
                let entry = track.and_then(|track| track.get_mut(nonce?));
                let entry =
                    entry.filter(|entry| entry.tx == record.tx && entry.version == record.version);
                if let (Some(entry), Ok(version)) = (entry, record.version.plus(1)) {
                    entry.version = version;
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
