//! From what a policy says to what is written and carried out: fees are chosen, bytes that it brings are checked, and
//! a payload that it brings is signed. What may not be done becomes NOOP, with the reason.

use fencepost_domain::attempt::{self, Attempt, SignedFees};
use fencepost_domain::decision::{self, After, Purpose, Severity, Subject};
use fencepost_domain::ids::Nonce;
use fencepost_domain::request::{Ceilings, Fees, Payload};
use fencepost_domain::state::Why;
use fencepost_domain::{Bytes, fee, gas, raw};

use crate::causes::Causes;
use crate::lifecycle::fill::{Row, Terms, Unfilled, sign_instead};
use crate::node::Node;
use crate::ports::check::{DETAILS_BYTES_MAX, clean, cut};
use crate::ports::{Action, Advice, Audit, Decided, Instead, Plight, Policy, Record, RemedyId};

/// A round that was claimed for a transaction, and what the policy is asked.
#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) remedy: RemedyId,
    pub(crate) plight: Plight,
    /// Its stored row.
    pub(crate) row: Row,
    /// Who wants the policy asked and why, if it was an operator.
    pub(crate) asked: Option<Audit>,
}

/// An advice as it is written. Fees that a policy leaves open are chosen here, so that what is claimed says
/// what will be signed; fees that nobody may sign make it NOOP.
pub(crate) async fn settled(
    node: &Node,
    policy: &dyn Policy,
    question: &Question,
    advice: Advice,
) -> Decided {
    let plight = &question.plight;
    let asked = question.asked.as_ref();
    let mut decided = Decided {
        remedy: question.remedy,
        action: advice.action.filter(|action| *action != Action::Decide),
        fees: None,
        raw: None,
        severity: advice.severity,
        after: advice.after,
        audit: by(policy, asked, &advice.reason, advice.details.clone()),
    };
    if decided.action == Some(Action::Placeholder) && plight.why == Some(Why::Gap) {
        decided.action = Some(Action::Fill);
    }
    let Some(action) = decided.action else {
        return decided;
    };
    let chosen = match &advice.instead {
        None => fees(node, action, plight, &advice).await,
        Some(instead) => bytes(node, action, question, instead, advice.fees).await,
    };
    match chosen {
        Ok(Chosen::Fees(fees)) => decided.fees = Some(fees),
        Ok(Chosen::Bytes(attempt)) => {
            decided.fees = attempt.fees;
            decided.raw = Some(attempt.raw);
        }
        Ok(Chosen::Open) => {}
        // At the cap only sending the same again is left.
        Ok(Chosen::AtCap) => decided.action = Some(Action::Resubmit),
        Err(why) => {
            let (signer, node_id) = (plight.lane.signer, node.holder.node.as_str());
            tracing::warn!(%signer, tx_id = %plight.tx, node_id, policy = policy.name(), why, "the policy's decision cannot be carried out; nothing is done");
            decided.action = None;
            let why = format!("{why}; the policy said: {}", advice.reason);
            decided.audit = by(policy, asked, &why, advice.details.clone());
        }
    }
    decided
}

/// The bytes that a policy has brought, checked, or those of the payload that it has brought, signed.
async fn bytes(
    node: &Node,
    action: Action,
    question: &Question,
    instead: &Instead,
    fees: Option<SignedFees>,
) -> Result<Chosen, String> {
    let plight = &question.plight;
    let Some(purpose) = purpose(action) else {
        return Err(format!(
            "{} brings no transaction of its own",
            action.word()
        ));
    };
    let (executes, ready) = match instead {
        Instead::Payload(payload) => (payload.clone(), None),
        Instead::Raw(raw) => {
            let (executes, attempt) = raw::read(raw, plight.lane, plight.nonce)
                .map_err(|why| format!("rawTransaction {why}"))?;
            (executes, Some(attempt))
        }
    };
    let subject = Subject {
        signer: plight.lane.signer,
        payload: plight.payload.as_ref(),
        newest: plight.newest,
    };
    let kind = decision::kind(purpose, subject, &executes)
        .map_err(|why| format!("the decision's transaction {why}"))?;
    if kind == attempt::Kind::Substitute && !node.settings.allow_other_payload {
        return Err(
            "the decision brings another payload, and stuck.allow_other_payload is false"
                .to_owned(),
        );
    }
    if let Some(ready) = ready {
        check_ready(&ready, &executes, plight, node.ceilings(plight.lane.chain))?;
        return Ok(Chosen::Bytes(ready));
    }
    let seat = node.directory.seat(plight.lane);
    let seat = seat.ok_or("this node does not have the signer")?;
    let terms = Terms {
        remedy: question.remedy,
        fees,
        older: plight.fees,
    };
    let named = (plight.nonce, plight.tx, &question.row);
    let signed = sign_instead(node, seat, named, (kind, executes), terms).await;
    signed.map(Chosen::Bytes).map_err(|why| match why {
        Unfilled::AtCap => "the fees are at the chain's ceiling".to_owned(),
        Unfilled::Unreachable(why)
        | Unfilled::Later(why)
        | Unfilled::Reverted(why)
        | Unfilled::NoFunds(why)
        | Unfilled::Refused(why)
        | Unfilled::Tampered(why)
        | Unfilled::Key(why) => format!("the decision's transaction cannot be signed: {why}"),
    })
}

/// Bytes that were signed elsewhere hold to the same limits as our own.
fn check_ready(
    ready: &Attempt,
    executes: &Payload,
    plight: &Plight,
    ceilings: Ceilings,
) -> Result<(), String> {
    if plight.hashes.contains(&ready.hash) {
        return Err(
            "rawTransaction is stored already: RESUBMIT sends the newest bytes again".to_owned(),
        );
    }
    if executes.gas().is_some_and(|gas| gas > gas::GAS_MAX) {
        return Err(format!("rawTransaction has more gas than {}", gas::GAS_MAX));
    }
    let fees = ready.fees.ok_or("rawTransaction has no fees")?;
    if plight.fees.is_some() {
        return given(fees, plight, ceilings).map(|_| ());
    }
    within(fees, ceilings)
}

/// What an action is to pay.
enum Chosen {
    Fees(SignedFees),
    /// Whatever these bytes pay.
    Bytes(Attempt),
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
    let has_fees = advice.fees.is_some();
    match action {
        Action::Fill | Action::Resubmit if has_fees => {
            return Err(format!("{} takes no fees", action.word()));
        }
        Action::Replace => {}
        Action::Cancel | Action::Placeholder if is_bound || has_fees => {}
        Action::Fill if is_bound => {}
        Action::Cancel | Action::Placeholder | Action::Fill | Action::Resubmit | Action::Decide => {
            return Ok(Chosen::Open);
        }
    }
    let chain = plight.lane.chain;
    let mut ceilings = node.ceilings(chain);
    if let Some(fees) = advice.fees {
        // A cancel needs nothing to replace.
        if action != Action::Replace && plight.fees.is_none() {
            return within(fees, ceilings).map(|()| Chosen::Fees(fees));
        }
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
    within(fees, ceilings)?;
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

fn within(fees: SignedFees, ceilings: Ceilings) -> Result<(), String> {
    let above =
        fees.max_fee > ceilings.max_fee || fees.max_priority_fee > Some(ceilings.max_priority_fee);
    if above {
        return Err("the fees are above the chain's ceilings".to_owned());
    }
    Ok(())
}

/// What a policy has decided beyond an action and fees.
#[derive(Default)]
pub(crate) struct Extra {
    pub(crate) raw: Option<Bytes>,
    pub(crate) after: Option<After>,
    pub(crate) note: Option<String>,
}

impl Extra {
    pub(crate) fn of(
        raw: Option<Bytes>,
        severity: Option<Severity>,
        after: Option<After>,
        (action, reason): (Action, &str),
    ) -> Self {
        let note = severity.map(|severity| noted(action.word(), severity, reason));
        Self { raw, after, note }
    }
}

/// What the event of an urgent decision says.
pub(crate) fn noted(action: &str, severity: Severity, reason: &str) -> String {
    format!("{action} ({}): {reason}", severity.word())
}

/// Who decides, and why. Where an operator had the policy asked, the audit has the words of both.
pub(crate) fn by(
    policy: &dyn Policy,
    asked: Option<&Audit>,
    reason: &str,
    details: Option<String>,
) -> Audit {
    let fits = |text: &String| text.len() <= DETAILS_BYTES_MAX && !text.contains('\0');
    if details.as_ref().is_some_and(|text| !fits(text)) {
        tracing::warn!(
            policy = policy.name(),
            "what the policy wants kept is too long; it is left out"
        );
    }
    let details = details.filter(fits);
    let name = policy.name();
    let (by, reason, details) = match asked {
        None => (format!("policy {name}"), reason.to_owned(), details),
        Some(asked) => (
            format!("policy {name}, asked by {}", asked.by),
            format!("{reason} (asked: {})", asked.reason),
            both(asked.details.as_deref(), details),
        ),
    };
    Audit {
        by: clean(&cut(&by)).into_owned(),
        reason: clean(&cut(&reason)).into_owned(),
        details,
        node: None,
    }
}

/// What the operator and the policy want kept. Each is JSON text, so the object of both is; where that is too long, the
/// operator's ticket stays.
fn both(asked: Option<&str>, policy: Option<String>) -> Option<String> {
    let Some(asked) = asked else { return policy };
    let both = format!(
        "{{\"asked\":{asked},\"policy\":{}}}",
        policy.as_deref().unwrap_or("null")
    );
    let fits = both.len() <= DETAILS_BYTES_MAX;
    Some(if fits { both } else { asked.to_owned() })
}

/// Bytes of a decision as the attempt that they are. They were checked before the decision was written; what is stored
/// is read again, because the transaction may have moved since.
pub(crate) fn brought(
    raw: &Bytes,
    action: Action,
    record: &Record,
    nonce: Nonce,
    newest: Option<&Attempt>,
) -> Result<Attempt, String> {
    let (executes, attempt) = raw::read(raw, record.lane, nonce)
        .map_err(|why| format!("the transaction that the policy brought {why}"))?;
    let subject = Subject {
        signer: record.lane.signer,
        payload: record.payload.as_ref(),
        newest: newest.map(|newest| newest.kind),
    };
    let kind = purpose(action).map(|purpose| decision::kind(purpose, subject, &executes));
    let kind = kind.ok_or_else(|| format!("{} brings no transaction", action.word()))?;
    let kind = kind.map_err(|why| format!("the transaction that the policy brought {why}"))?;
    Ok(Attempt { kind, ..attempt })
}

/// What an action wants done with the nonce, if it signs.
pub(crate) const fn purpose(action: Action) -> Option<Purpose> {
    match action {
        Action::Replace => Some(Purpose::Replace),
        Action::Cancel => Some(Purpose::Cancel),
        Action::Placeholder => Some(Purpose::Placeholder),
        Action::Decide | Action::Resubmit | Action::Fill => None,
    }
}
