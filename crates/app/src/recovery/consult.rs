//! Asking the stuck policy. A round is opened in the store and claimed behind the fence before the policy
//! hears of it, and its answer is written before anything is done: so it is asked once for each round, and
//! nothing is done twice. A round whose leader is gone is over without an answer.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use fencepost_domain::decision::{After, Severity};
use fencepost_domain::ids::{Lane, LaneId, Nonce, TxId};
use fencepost_domain::state::{State, Why};
use fencepost_domain::transition::Input;
use futures::FutureExt;
use jiff::Timestamp;
use tokio::time::timeout;

use crate::causes::Causes;
use crate::lane::entry::Busy;
use crate::lane::moves::Then;
use crate::lane::report::Report;
use crate::lane::track::Track;
use crate::lane::worker::Worker;
use crate::lifecycle::fill::Row;
use crate::node::Node;
use crate::ports::{
    Action, Acts, Advice, AskedRemedy, ClaimedRemedy, Decided, Decision, Held, NewRemedy, Plight,
    Record, StoreError, StoredAttempt,
};
use crate::recovery::decided::{Extra, Question, by, noted, settled};

/// How soon a policy that had nothing to say is looked at again.
const AGAIN: Duration = Duration::from_secs(2);
/// The longest that any policy is waited for, whatever it promises itself.
const PATIENCE: Duration = Duration::from_mins(2);

/// What is known of a plight without asking the store.
struct Symptoms {
    lane: Lane,
    tx: TxId,
    nonce: Nonce,
    why: Option<Why>,
    age: Duration,
    backlog: u64,
    gaps: Vec<Nonce>,
}

impl Worker {
    /// Begins a round for the one that the lane waits for, if it is time for one.
    pub(crate) fn consult(&mut self, lane: LaneId) {
        let now = self.node.ticks.ticks();
        if self.node.policy.is_passive() {
            return;
        }
        let Some(track) = self.tracks.get_mut(&lane) else {
            return;
        };
        if track.tasks.care.consulting || now < track.rests_until {
            return;
        }
        let Some(symptoms) = symptoms(track, now) else {
            return;
        };
        if self.errands.contains_key(&symptoms.tx) {
            return;
        }
        track.tasks.care.consulting = true;
        if let Some(entry) = track.get_mut(symptoms.nonce) {
            entry.consulted_until = now + AGAIN;
        }
        let (held, tx, node) = (track.held, symptoms.tx, Arc::clone(&self.node));
        self.node.hand(async move {
            let opened = match open(&node, symptoms).await {
                Ok(opened) => opened,
                Err(error) => {
                    tracing::warn!(error = %Causes(&error), tx_id = %tx, "a round of the stuck policy could not be opened");
                    None
                }
            };
            node.report(Report::Consulted { held, tx, opened }).await;
        });
    }

    /// A round was opened, or there was no reason for one.
    pub(crate) async fn consulted(&mut self, held: Held, tx: TxId, opened: Option<Box<Question>>) {
        let now = self.node.ticks.ticks();
        let Some(track) = self
            .tracks
            .get_mut(&held.lane)
            .filter(|track| track.held == held)
        else {
            return;
        };
        let Some(question) = opened else {
            track.tasks.care.consulting = false;
            return;
        };
        if let Some(entry) = track.get_mut(question.plight.nonce) {
            entry.consulted_until = now + self.node.settings.stuck.age;
        }
        // Under our token nobody else can have claimed it, and nobody will.
        let claimed = self.claim_round(held, question.remedy).await;
        if !claimed {
            if let Some(track) = self.tracks.get_mut(&held.lane) {
                track.tasks.care.consulting = false;
            }
            return;
        }
        self.ask_policy(held, tx, *question);
    }

    /// An operator wants the policy asked, and the question is ours.
    pub(crate) async fn ask_claimed(&mut self, held: Held, claimed: ClaimedRemedy) {
        let (tx, remedy, record) = (claimed.record.tx, claimed.id, claimed.record);
        let refused = match record.state.nonce() {
            _ if self.node.policy.is_passive() => Some("the signer's leader has no stuck policy"),
            None => Some("it has no nonce yet: only CANCEL ends it"),
            Some(_) if record.state.inclusion().is_some() => Some("it is in a block"),
            Some(_) => None,
        };
        if let Some(why) = refused {
            let action = Action::Decide;
            return self.refuse(held, &record, remedy, action, why).await;
        }
        let now = self.node.ticks.ticks();
        let track = self.tracks.get_mut(&held.lane);
        let symptoms = track.map(|track| asked_about(track, &record, now));
        let attempts = self.node.store.attempts(&[tx]).await;
        let (Some(symptoms), Ok(attempts)) = (symptoms, attempts) else {
            let (action, why) = (Action::Decide, "the transaction could not be read");
            return self.refuse(held, &record, remedy, action, why).await;
        };
        let question = Question {
            remedy,
            row: Row::of(&record),
            plight: plight(&self.node, symptoms, record, &attempts, claimed.round),
            asked: Some(claimed.audit),
        };
        self.ask_policy(held, tx, question);
    }

    /// Asks the policy in a task of its own; its decision comes back as a report.
    fn ask_policy(&self, held: Held, tx: TxId, question: Question) {
        let (policy, node) = (Arc::clone(&self.node.policy), Arc::clone(&self.node));
        self.node.hand(async move {
            let deciding = AssertUnwindSafe(policy.decide(&question.plight)).catch_unwind();
            let advice = match timeout(PATIENCE, deciding).await {
                Ok(Ok(advice)) => advice,
                Ok(Err(_)) => Advice::noop("the policy broke down"),
                Err(_) => Advice::noop("the policy did not answer"),
            };
            let advised = settled(&node, &*policy, &question, advice).await;
            node.report(Report::Advised { held, tx, advised }).await;
        });
    }

    /// What the policy wants done is written, and then done.
    pub(crate) async fn advised(&mut self, held: Held, tx: TxId, advised: Decided) {
        let lane = held.lane;
        if let Some(track) = self.tracks.get_mut(&lane) {
            track.tasks.care.consulting = false;
        }
        if self.node.leases.held(lane) != Some(held) {
            // If it is ours again under the same token, only a new one shows the round.
            self.doubted.insert(lane);
            return;
        }
        self.write().await;
        let sent = self.node.leases.sending();
        let store = Arc::clone(&self.node.store);
        let answer = store.decide_remedy(&self.node.holder, held, &advised).await;
        match answer {
            Ok(Decision::Written) => {
                self.node.leases.keep(held, sent);
                self.log_decision(held, tx, &advised);
                self.node.meters.remedied(Action::Decide, "done");
                let action = advised.action.map_or("NOOP", Action::word);
                self.node.meters.decided(action, advised.severity);
                self.carry_out(held, tx, advised).await;
            }
            Ok(Decision::Fenced) => self.fenced(held, "decide"),
            Ok(Decision::Gone) => {}
            Err(error) => {
                tracing::warn!(error = %Causes(&error), tx_id = %tx, "what a policy decided could not be written");
                // The round is claimed under this token, and only behind a new one is it shown again.
                self.doubted.insert(held.lane);
                self.doubt(held, &error);
            }
        }
    }

    /// At the level that the policy has asked for.
    fn log_decision(&self, held: Held, tx: TxId, advised: &Decided) {
        let (reason, by) = (advised.audit.reason.as_str(), advised.audit.by.as_str());
        let action = advised.action.map_or("NOOP", Action::word);
        let severity = advised.severity.map_or("-", Severity::word);
        let after = advised.after.map_or("-", After::word);
        let (signer, node_id) = (
            self.node.signer_of(held.lane),
            self.node.holder.node.as_str(),
        );
        let token = held.token;
        match advised.severity {
            Some(Severity::Critical) => {
                tracing::error!(%signer, tx_id = %tx, node_id, %token, by, reason, action, severity, then = after, "the stuck policy has decided");
            }
            Some(Severity::Warning) => {
                tracing::warn!(%signer, tx_id = %tx, node_id, %token, by, reason, action, severity, then = after, "the stuck policy has decided");
            }
            Some(Severity::Info) | None => {
                tracing::info!(%signer, tx_id = %tx, node_id, %token, by, reason, action, severity, then = after, "the stuck policy has decided");
            }
        }
    }

    /// Does what was decided and written.
    async fn carry_out(&mut self, held: Held, tx: TxId, advised: Decided) {
        let nonce = self.tracks.get(&held.lane);
        let nonce = nonce.and_then(|track| track.nonce_of(tx));
        // Sending the same again leaves a transaction where it stands; so does doing nothing.
        if let (None | Some(Action::Resubmit), Some(nonce)) = (advised.action, nonce) {
            if let Some(severity) = advised.severity {
                let action = advised.action.map_or("NOOP", Action::word);
                let note = noted(action, severity, &advised.audit.reason);
                self.note_decision(held, nonce, &note).await;
            }
            if let Some(after) = advised.after {
                self.stand(held, nonce, after).await;
            }
        }
        let Some(action) = advised.action else {
            return;
        };
        let reason = advised.audit.reason.as_str();
        let (severity, after) = (advised.severity, advised.after);
        let extra = Extra::of(advised.raw, severity, after, (action, reason));
        let fees = advised.fees;
        self.undertake_decided(held, tx, advised.remedy, (action, fees), extra)
            .await;
    }

    /// Puts a transaction where a policy wants it: back to TRACKING, or STUCK at once. What only the chain can prove
    /// stays as it is.
    pub(crate) async fn stand(&mut self, held: Held, nonce: Nonce, after: After) {
        self.write().await;
        let lane = held.lane;
        let track = self.tracks.get(&lane).filter(|track| track.held == held);
        let Some(entry) = track.and_then(|track| track.get(nonce)) else {
            return;
        };
        let lifted = match (after, entry.stuck()) {
            (
                After::Track,
                Some(Why::NoReceipt | Why::Refused | Why::SignerError | Why::NoFunds),
            ) => true,
            (After::Stuck, None) if !entry.attempts.is_empty() => false,
            // A gap, a taken nonce and a replaced final block are facts, not opinions.
            (After::Track, _) | (After::Stuck, _) => return,
        };
        if lifted {
            // Refused only when it has moved meanwhile.
            let _ = self
                .plan(lane, nonce, Input::Clear, Then::Nothing, |step| step)
                .await;
        } else {
            let text = "the stuck policy wants a person to look";
            self.stick(lane, nonce, Why::NoReceipt, text, |step| step)
                .await;
        }
    }
}

/// The one that a policy is asked about: the lane's first, or the first that waits for a gap.
fn symptoms(track: &mut Track, now: Duration) -> Option<Symptoms> {
    let front = track.front(now)?;
    let lent_below = track
        .lent()
        .next()
        .is_some_and(|(nonce, _)| nonce < front.nonce);
    let is_stuck = |nonce: Nonce| {
        track
            .get(nonce)
            .is_some_and(|entry| entry.stuck().is_some())
    };
    let first = is_stuck(front.nonce) && !lent_below;
    let behind_gap = || {
        let mut unmined = track.unmined();
        let found = unmined.find(|(_, entry)| entry.stuck() == Some(Why::Gap))?;
        Some(found.0)
    };
    let nonce = if first { front.nonce } else { behind_gap()? };
    let entry = track.get(nonce)?;
    if entry.busy != Busy::No || now < entry.consulted_until {
        return None;
    }
    let since = if first { front.since } else { entry.since };
    Some(Symptoms {
        lane: track.seat.lane,
        tx: entry.tx,
        nonce,
        why: Some(entry.stuck()?),
        age: now.saturating_sub(since),
        backlog: u64::try_from(track.backlog()).unwrap_or(u64::MAX),
        gaps: gaps_below(track, nonce),
    })
}

/// Opens a round, if the policy is worth asking.
async fn open(node: &Node, symptoms: Symptoms) -> Result<Option<Box<Question>>, StoreError> {
    let tx = symptoms.tx;
    // Before the bytes: what was done until then is among them.
    let acts = node.store.acts(Acts::Tx(tx), None, 1).await?;
    let Some(record) = node.store.find_many(&[tx]).await?.pop() else {
        return Ok(None);
    };
    let attempts = node.store.attempts(&[tx]).await?;
    let spacing = node.settings.stuck.age;
    // Whoever led before us, or an operator, has done something about it just now.
    let recent = acts.first().is_some_and(|act| {
        let done = act.closed_at.unwrap_or(Timestamp::MAX);
        let until = done.saturating_add(spacing).unwrap_or(Timestamp::MAX);
        until > node.clock.now()
    });
    if recent {
        return Ok(None);
    }
    let round = acts.first().and_then(|act| act.round).unwrap_or(0) + 1;
    let row = Row::of(&record);
    let plight = plight(node, symptoms, record, &attempts, round);
    if !node.policy.is_worth_asking(&plight) {
        return Ok(None);
    }
    let asked = node
        .store
        .ask_remedy(&NewRemedy {
            tx,
            round,
            action: Action::Decide,
            fees: None,
            audit: by(&*node.policy, None, plight.why.map_or("", Why::word), None),
        })
        .await?;
    Ok(match asked {
        AskedRemedy::Asked(remedy) => Some(Box::new(Question {
            remedy,
            plight,
            row,
            asked: None,
        })),
        AskedRemedy::Running(_)
        | AskedRemedy::RoundTaken { .. }
        | AskedRemedy::AlreadyFinal
        | AskedRemedy::NotFound => None,
    })
}

/// The same for one that somebody asks about, wherever it stands.
fn asked_about(track: &mut Track, record: &Record, now: Duration) -> Symptoms {
    let front = track.front(now);
    let nonce = record.state.nonce().unwrap_or(Nonce::ZERO);
    let entry = track.get(nonce).filter(|entry| entry.tx == record.tx);
    let since = match front {
        Some(front) if front.nonce == nonce => Some(front.since),
        Some(_) | None => entry.map(|entry| entry.since),
    };
    let why = match &record.state {
        State::Stuck(stuck) => Some(stuck.why),
        State::Queued(_)
        | State::Allocated(_)
        | State::Tracking(_)
        | State::Confirmed(_)
        | State::Failed(_)
        | State::Reserved(_)
        | State::Submitted(_)
        | State::Used(_)
        | State::Recyclable(_) => None,
    };
    Symptoms {
        lane: record.lane,
        tx: record.tx,
        nonce,
        why,
        age: now.saturating_sub(since.unwrap_or(now)),
        backlog: u64::try_from(track.backlog()).unwrap_or(u64::MAX),
        gaps: gaps_below(track, nonce),
    }
}

fn gaps_below(track: &Track, nonce: Nonce) -> Vec<Nonce> {
    let gaps = track.gaps.as_ref().map(|gaps| gaps.nonces.clone());
    let gaps = gaps.unwrap_or_default().into_iter();
    gaps.filter(|gap| *gap < nonce).collect()
}

/// Everything that a policy is asked about a transaction.
fn plight(
    node: &Node,
    symptoms: Symptoms,
    record: Record,
    attempts: &[StoredAttempt],
    round: u32,
) -> Plight {
    let newest = attempts.last().map(|each| &each.attempt);
    Plight {
        chain: node.chain_name(symptoms.lane.chain).to_owned(),
        lane: symptoms.lane,
        tx: record.tx,
        kind: record.kind,
        nonce: symptoms.nonce,
        request_id: record.request_id,
        meta: record.meta,
        hashes: attempts.iter().map(|each| each.attempt.hash).collect(),
        fees: newest.and_then(|newest| newest.fees),
        newest: newest.map(|newest| newest.kind),
        payload: record.payload,
        state: record.state.name(),
        sub_state: record.state.sub(),
        why: symptoms.why,
        submit_attempts: record.submit_attempts,
        last_error: record.last_error,
        age: symptoms.age,
        backlog: symptoms.backlog,
        gaps: symptoms.gaps,
        round,
    }
}
