//! What the business says, read as strictly as what clients say: whatever is not clear is not done.

use fencepost_app::ports::check::cut;
use fencepost_app::ports::{Action, Advice, Instead, Plight};
use fencepost_domain::amount;
use fencepost_domain::decision::{After, Severity};
use fencepost_domain::request::{Ceilings, Draft, Payload};
use serde_json::value::RawValue;

use crate::audit::details_of;
use crate::faults::Faults;
use crate::given::{Amount, Extras, Given, Slot, Text, object};
use crate::json::remedy::FeesBody;
use crate::json::words::ADVISED;
use crate::replacement;

/// The word for doing nothing.
const NOOP: &str = "NOOP";

/// A decision, field by field.
#[derive(Default)]
struct AnswerBody<'a> {
    action: Given<Text<'a>>,
    fees: Given<FeesBody<'a>>,
    transaction: Given<TransactionBody<'a>>,
    raw_transaction: Given<Text<'a>>,
    severity: Given<Text<'a>>,
    then: Given<Text<'a>>,
    reason: Given<Text<'a>>,
    audit: Option<&'a RawValue>,
    extras: Extras,
}

object!(AnswerBody {
    "action" => action,
    "fees" => fees,
    "transaction" => transaction,
    "rawTransaction" => raw_transaction,
    "severity" => severity,
    "then" => then,
    "reason" => reason,
    "audit" => audit,
});

/// A transaction that the business brings for the nonce.
#[derive(Default)]
struct TransactionBody<'a> {
    to: Given<Text<'a>>,
    value: Given<Amount<'a>>,
    data: Given<Text<'a>>,
    gas: Given<Amount<'a>>,
    fees: Given<FeesBody<'a>>,
    extras: Extras,
}

object!(TransactionBody {
    "to" => to,
    "value" => value,
    "data" => data,
    "gas" => gas,
    "fees" => fees,
});

/// The advice, or what is wrong with the answer.
pub(super) fn read(text: &str, plight: &Plight, ceilings: Ceilings) -> Result<Advice, String> {
    let given: Given<AnswerBody<'_>> =
        serde_json::from_str(text).map_err(|error| format!("its answer is not JSON: {error}"))?;
    let mut faults = Faults::default();
    let body = faults.required("its answer", given).unwrap_or_default();
    faults.extras("", body.extras);
    let action = faults.required("action", body.action).map(|text| text.0);
    let action = faults.read("action", action.as_deref(), action_of);
    let reason = faults.text("reason", body.reason);
    let details = faults.read("audit", body.audit.map(RawValue::get), details_of);
    let severity = faults.text("severity", body.severity);
    let severity = faults.read("severity", severity.as_deref(), severity_of);
    let after = faults.text("then", body.then);
    let after = faults.read("then", after.as_deref(), after_of);
    let signs = matches!(
        action,
        Some(Some(Action::Replace | Action::Cancel | Action::Placeholder))
    );
    let brings = [
        ("fees", body.fees.is_filled()),
        ("transaction", body.transaction.is_filled()),
        ("rawTransaction", body.raw_transaction.is_filled()),
    ];
    for (field, _) in brings.into_iter().filter(|(_, given)| *given && !signs) {
        faults.add(field, "goes with REPLACE, CANCEL and PLACEHOLDER only");
    }
    let mut fees_given = body.fees;
    let mut instead = None;
    if let Some(mut transaction) = faults.given("transaction", body.transaction) {
        let theirs = std::mem::take(&mut transaction.fees);
        if theirs.is_filled() {
            if fees_given.is_filled() {
                faults.add("transaction.fees", "cannot stand beside fees");
            }
            fees_given = theirs;
        }
        instead = payload(transaction, ceilings, &mut faults).map(Instead::Payload);
    }
    if let Some(raw) = faults.text("rawTransaction", body.raw_transaction) {
        if instead.is_some() || fees_given.is_filled() {
            let why = "cannot stand beside transaction or fees: it is signed already";
            faults.add("rawTransaction", why);
        }
        let raw = faults.read("rawTransaction", Some(&*raw), amount::bytes);
        instead = raw.map(Instead::Raw);
    }
    let fees = faults.given("fees", fees_given);
    let fees = fees.and_then(|fees| replacement::read(fees, &mut faults));
    if let Some(fees) = fees {
        replacement::check_ceilings(fees, ceilings, &mut faults);
        if let Some(newest) = plight.fees {
            replacement::check_bump(fees, newest, &mut faults);
        }
    }
    if !faults.is_empty() {
        return Err(format!("its answer is wrong: {}", faults.words()));
    }
    let reason = reason.filter(|reason| !reason.trim().is_empty());
    let reason = reason.unwrap_or_else(|| "it gave no reason".into());
    Ok(Advice {
        action: action.flatten(),
        fees,
        instead,
        severity,
        after,
        bump_percent: None,
        fee_max: None,
        reason: cut(&reason).into_owned(),
        details,
    })
}

fn payload(body: TransactionBody<'_>, ceilings: Ceilings, faults: &mut Faults) -> Option<Payload> {
    faults.extras("transaction.", body.extras);
    let draft = Draft {
        to: faults.text("transaction.to", body.to),
        value: faults.amount("transaction.value", body.value),
        data: faults.text("transaction.data", body.data),
        gas: faults.amount("transaction.gas", body.gas),
        ..Draft::default()
    };
    let wrong = match Payload::parse(&draft, ceilings) {
        Ok(payload) => return Some(payload),
        Err(wrong) => wrong,
    };
    for fault in wrong {
        faults.add(&format!("transaction.{}", fault.field), fault.why);
    }
    None
}

fn severity_of(word: &str) -> Result<Severity, String> {
    let words = Severity::ALL.iter().map(|each| each.word());
    one_of(Severity::from_word(word), words)
}

fn after_of(word: &str) -> Result<After, String> {
    let words = After::ALL.iter().map(|each| each.word());
    one_of(After::from_word(word), words)
}

fn one_of<T, E>(
    found: Result<T, E>,
    words: impl Iterator<Item = &'static str>,
) -> Result<T, String> {
    found.map_err(|_| format!("is not one of {}", words.collect::<Vec<_>>().join(", ")))
}

fn action_of(word: &str) -> Result<Option<Action>, String> {
    if word == NOOP {
        return Ok(None);
    }
    let action = ADVISED.into_iter().find(|action| action.word() == word);
    action.map(Some).ok_or_else(|| {
        let words = ADVISED.map(Action::word);
        format!("is not one of {NOOP}, {}", words.join(", "))
    })
}
