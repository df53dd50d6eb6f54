//! Asking the stuck policy. A round is opened in the store and claimed behind the fence before the policy
//! hears of it, and its answer is written before anything is done: so it is asked once for each round, and
//! nothing is done twice. A round whose leader is gone is over without an answer.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use fencepost_domain::attempt::SignedFees;
use fencepost_domain::fee;
use fencepost_domain::ids::{Lane, LaneId, Nonce, TxId};
use fencepost_domain::request::{Ceilings, Fees};
use fencepost_domain::state::Why;
use futures::FutureExt;
use jiff::Timestamp;
use tokio::time::timeout;

use crate::causes::Causes;
use crate::lane::entry::Busy;
use crate::lane::report::Report;
use crate::lane::track::Track;
use crate::lane::worker::Worker;
use crate::node::Node;
use crate::ports::check::{DETAILS_BYTES_MAX, clean, cut};
use crate::ports::{
    Action, Acts, Advice, AskedRemedy, Audit, Decided, Decision, Held, NewRemedy, Plight, Policy,
    RemedyId, StoreError,
};

/// How soon a policy that had nothing to say is looked at again.
const AGAIN: Duration = Duration::from_secs(2);
/// The longest that any policy is waited for, whatever it promises itself.
const PATIENCE: Duration = Duration::from_mins(2);

/// A round that was opened for a transaction, and what the policy is told.
#[derive(Debug)]
pub(crate) struct Opened {
    remedy: RemedyId,
    plight: Plight,
}

/// What is known of a plight without asking the store.
struct Symptoms {
    lane: Lane,
    tx: TxId,
    nonce: Nonce,
    why: Why,
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
    pub(crate) async fn consulted(&mut self, held: Held, tx: TxId, opened: Option<Opened>) {
        let now = self.node.ticks.ticks();
        let Some(track) = self
            .tracks
            .get_mut(&held.lane)
            .filter(|track| track.held == held)
        else {
            return;
        };
        let Some(Opened { remedy, plight }) = opened else {
            track.tasks.care.consulting = false;
            return;
        };
        if let Some(entry) = track.get_mut(plight.nonce) {
            entry.consulted_until = now + self.node.settings.stuck.age;
        }
        // Under our token nobody else can have claimed it, and nobody will.
        let claimed = self.claim_round(held, remedy).await;
        if !claimed {
            if let Some(track) = self.tracks.get_mut(&held.lane) {
                track.tasks.care.consulting = false;
            }
            return;
        }
        let (policy, node) = (Arc::clone(&self.node.policy), Arc::clone(&self.node));
        self.node.hand(async move {
            let deciding = AssertUnwindSafe(policy.decide(&plight)).catch_unwind();
            let advice = match timeout(PATIENCE, deciding).await {
                Ok(Ok(advice)) => advice,
                Ok(Err(_)) => Advice::noop("the policy broke down"),
                Err(_) => Advice::noop("the policy did not answer"),
            };
            let advised = settled(&node, &*policy, remedy, &plight, advice).await;
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
                let (reason, by) = (advised.audit.reason.as_str(), advised.audit.by.as_str());
                let action = advised.action.map_or("NOOP", Action::word);
                tracing::info!(tx_id = %tx, by, reason, action, "the stuck policy has decided");
                self.node.meters.remedied(Action::Decide, "done");
                if let Some(action) = advised.action {
                    self.undertake_decided(held, tx, advised.remedy, action, advised.fees)
                        .await;
                }
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
    let gaps = track.gaps.as_ref().map(|gaps| gaps.nonces.clone());
    Some(Symptoms {
        lane: track.seat.lane,
        tx: entry.tx,
        nonce,
        why: entry.stuck()?,
        age: now.saturating_sub(since),
        backlog: u64::try_from(track.backlog()).unwrap_or(u64::MAX),
        gaps: gaps
            .unwrap_or_default()
            .into_iter()
            .filter(|gap| *gap < nonce)
            .collect(),
    })
}

/// Opens a round, if the policy is worth asking.
async fn open(node: &Node, symptoms: Symptoms) -> Result<Option<Opened>, StoreError> {
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
    let plight = Plight {
        chain: node.chain_name(symptoms.lane.chain).to_owned(),
        lane: symptoms.lane,
        tx,
        kind: record.kind,
        nonce: symptoms.nonce,
        request_id: record.request_id,
        meta: record.meta,
        hashes: attempts.iter().map(|each| each.attempt.hash).collect(),
        fees: attempts.last().and_then(|each| each.attempt.fees),
        state: record.state.name(),
        why: symptoms.why,
        submit_attempts: record.submit_attempts,
        last_error: record.last_error,
        age: symptoms.age,
        backlog: symptoms.backlog,
        gaps: symptoms.gaps,
        round,
    };
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
            audit: by(&*node.policy, plight.why.word(), None),
        })
        .await?;
    Ok(match asked {
        AskedRemedy::Asked(remedy) => Some(Opened { remedy, plight }),
        AskedRemedy::Running(_)
        | AskedRemedy::RoundTaken { .. }
        | AskedRemedy::AlreadyFinal
        | AskedRemedy::NotFound => None,
    })
}

fn by(policy: &dyn Policy, reason: &str, details: Option<String>) -> Audit {
    let fits = |text: &String| text.len() <= DETAILS_BYTES_MAX && !text.contains('\0');
    if details.as_ref().is_some_and(|text| !fits(text)) {
        tracing::warn!(
            policy = policy.name(),
            "what the policy wants kept is too long; it is left out"
        );
    }
    let details = details.filter(fits);
    Audit {
        by: format!("policy {}", policy.name()),
        reason: clean(&cut(reason)).into_owned(),
        details,
    }
}

/// An advice as it is written. Fees that a policy leaves open are chosen here, so that what is claimed says
/// what will be signed; fees that nobody may sign make it NOOP.
async fn settled(
    node: &Node,
    policy: &dyn Policy,
    remedy: RemedyId,
    plight: &Plight,
    advice: Advice,
) -> Decided {
    let mut decided = Decided {
        remedy,
        action: advice.action.filter(|action| *action != Action::Decide),
        fees: None,
        audit: by(policy, &advice.reason, advice.details.clone()),
    };
    if decided.action == Some(Action::Placeholder) && plight.why == Why::Gap {
        decided.action = Some(Action::Fill);
    }
    let Some(action) = decided.action else {
        return decided;
    };
    match fees(node, action, plight, &advice).await {
        Ok(Chosen::Fees(fees)) => decided.fees = Some(fees),
        Ok(Chosen::Open) => {}
        // At the cap only sending the same again is left.
        Ok(Chosen::AtCap) => decided.action = Some(Action::Resubmit),
        Err(why) => {
            tracing::warn!(tx_id = %plight.tx, policy = policy.name(), why, "what the policy said cannot be done");
            decided.action = None;
            decided.audit.reason = clean(&cut(&why)).into_owned();
        }
    }
    decided
}

/// What an action is to pay.
enum Chosen {
    Fees(SignedFees),
    /// Whatever the chain asks for when it is signed.
    Open,
    /// Nothing more may be paid.
    AtCap,
}

async fn fees(
    node: &Node,
    action: Action,
    plight: &Plight,
    advice: &Advice,
) -> Result<Chosen, String> {
    let is_bound = advice.fee_max.is_some() || advice.bump_percent.is_some();
    match action {
        Action::Replace => {}
        Action::Cancel | Action::Placeholder | Action::Fill if is_bound => {}
        Action::Cancel | Action::Placeholder | Action::Fill | Action::Resubmit | Action::Decide => {
            return Ok(Chosen::Open);
        }
    }
    let chain = plight.lane.chain;
    let mut ceilings = node.ceilings(chain);
    if let Some(fees) = advice.fees.filter(|_| action == Action::Replace) {
        return given(fees, plight, ceilings).map(Chosen::Fees);
    }
    if let Some(most) = advice.fee_max {
        ceilings.max_fee = ceilings.max_fee.min(most);
    }
    let Some(port) = &node.chain else {
        return Err("there is no chain to ask".to_owned());
    };
    let quote = port.quote(chain).await;
    let quote = quote.map_err(|error| Causes(&error).to_string())?;
    let Some(older) = plight.fees.filter(|_| action != Action::Fill) else {
        if action == Action::Replace {
            return Err("nothing was signed yet that could be replaced".to_owned());
        }
        // Bytes of their own pay what the chain asks for, if the rule lets them.
        let fees = fee::choose(Fees::Ours, quote, node.ceilings(chain));
        if fees.max_fee > ceilings.max_fee {
            return Err(format!(
                "the chain asks for {}, above the {} that may be paid",
                fees.max_fee, ceilings.max_fee
            ));
        }
        return Ok(Chosen::Open);
    };
    let percent = advice.bump_percent.unwrap_or(node.bump_percent(chain));
    match fee::bump(older, percent, quote, ceilings) {
        Some(fees) => Ok(Chosen::Fees(fees)),
        None if action == Action::Replace => Ok(Chosen::AtCap),
        None => Err(format!(
            "{} has nothing left to pay below {}",
            action.word(),
            ceilings.max_fee
        )),
    }
}

/// The fees that a policy names, if they may be signed and nodes take them.
fn given(fees: SignedFees, plight: &Plight, ceilings: Ceilings) -> Result<SignedFees, String> {
    let Some(older) = plight.fees else {
        return Err("nothing was signed yet that could be replaced".to_owned());
    };
    let above =
        fees.max_fee > ceilings.max_fee || fees.max_priority_fee > Some(ceilings.max_priority_fee);
    if above {
        return Err("the fees are above the chain's ceilings".to_owned());
    }
    let least = fee::least_over(older, fee::BUMP_PERCENT_MIN);
    if fee::is_over(fees, least) {
        Ok(fees)
    } else {
        Err(format!(
            "the fees are too low: at least {} is needed",
            least.max_fee
        ))
    }
}
