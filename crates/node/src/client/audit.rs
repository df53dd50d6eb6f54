//! Why an operator does something, as the fields that every such request has.

use serde_json::{Map, Value};

use crate::cli::audit::Why;
use crate::failure::Failure;

/// What a request says about why: its `reason` and, where there is more, `audit`.
pub(super) struct Told {
    pub(super) reason: Value,
    pub(super) audit: Option<Value>,
}

impl Told {
    /// A ticket is a field of the audit, and one of two tickets would be lost.
    pub(super) fn of(why: Why) -> Result<Self, Failure> {
        let mut audit = why.audit;
        if let Some(ticket) = why.ticket {
            let fields = audit.get_or_insert_with(Map::new);
            if fields.contains_key("ticket") {
                let twice = "--ticket: --audit has a field \"ticket\" already";
                return Err(Failure::Usage(twice.to_owned()));
            }
            fields.insert("ticket".to_owned(), Value::String(ticket));
        }
        Ok(Self {
            reason: Value::String(why.reason),
            audit: audit.map(Value::Object),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_ticket_is_a_field_of_the_audit() {
        let why = |ticket: Option<&str>, audit: Value| Why {
            reason: "slow".to_owned(),
            ticket: ticket.map(str::to_owned),
            audit: audit.as_object().cloned(),
        };
        let check = |why: Why, audit: Option<Value>| {
            let told = Told::of(why).ok().map(|told| (told.reason, told.audit));
            assert_eq!(told, Some((json!("slow"), audit)));
        };
        check(why(None, Value::Null), None);
        check(why(None, json!({})), Some(json!({})));
        check(why(Some("T"), Value::Null), Some(json!({"ticket": "T"})));
        check(
            why(Some("T"), json!({"by": 1})),
            Some(json!({"by": 1, "ticket": "T"})),
        );
        let twice = Told::of(why(Some("T"), json!({"ticket": "U"}))).err();
        assert_eq!(twice.map(|failure| failure.code()), Some(2));
    }
}
