//! What the business says, read as strictly as what clients say: whatever is not clear is not done.

use fencepost_app::ports::check::cut;
use fencepost_app::ports::{Action, Advice, Plight};
use fencepost_domain::request::Ceilings;
use serde_json::value::RawValue;

use crate::audit::details_of;
use crate::faults::Faults;
use crate::given::{Extras, Given, Slot, Text, object};
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
    reason: Given<Text<'a>>,
    audit: Option<&'a RawValue>,
    extras: Extras,
}

object!(AnswerBody {
    "action" => action,
    "fees" => fees,
    "reason" => reason,
    "audit" => audit,
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
    if body.fees.is_filled() && action != Some(Some(Action::Replace)) {
        faults.add("fees", "are for REPLACE only");
    }
    let fees = faults.given("fees", body.fees);
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
        bump_percent: None,
        fee_max: None,
        reason: cut(&reason).into_owned(),
        details,
    })
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
