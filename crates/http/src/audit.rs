//! Who did something, why, and their own words about it: what operators must say with every act.

use fencepost_app::ports::Audit;
use fencepost_app::ports::check::{AUDIT_CHARS_MAX, DETAILS_BYTES_MAX};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::access::Caller;
use crate::api::Served;
use crate::faults::Faults;
use crate::given::{Given, Text};

/// What an operator gave. Without faults there is a reason.
pub(crate) struct Words {
    reason: Option<String>,
    details: Option<String>,
}

impl Words {
    pub(crate) fn read(
        reason: Given<Text<'_>>,
        audit: Option<&RawValue>,
        faults: &mut Faults,
    ) -> Self {
        let reason = faults.required("reason", reason).map(|text| text.0);
        Self {
            reason: faults.read("reason", reason.as_deref(), reason_of),
            details: faults.read("audit", audit.map(RawValue::get), details_of),
        }
    }

    /// As the store keeps it.
    pub(crate) fn by(self, caller: &Caller, served: &Served) -> Audit {
        Audit {
            by: caller.name.to_string(),
            reason: self.reason.expect("what cannot be read is a fault"),
            details: self.details,
            node: Some(served.node.holder().node.clone()),
        }
    }
}

fn reason_of(text: &str) -> Result<String, String> {
    let is_short = text.chars().count() <= AUDIT_CHARS_MAX;
    if is_short && !text.trim().is_empty() && !text.contains('\0') {
        Ok(text.to_owned())
    } else {
        Err(format!("must be 1 to {AUDIT_CHARS_MAX} characters of text"))
    }
}

/// An object within the bound, readable for everyone who will get it back.
pub(crate) fn details_of(text: &str) -> Result<String, String> {
    if text.len() > DETAILS_BYTES_MAX {
        return Err(format!("is above the limit of {DETAILS_BYTES_MAX} bytes"));
    }
    if !text.trim_start().starts_with('{') {
        return Err("must be an object".to_owned());
    }
    serde_json::from_str::<Map<String, Value>>(text).map_err(|error| error.to_string())?;
    Ok(text.to_owned())
}
