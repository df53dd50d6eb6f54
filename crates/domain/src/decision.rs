//! What a stuck policy may decide beyond an action: how urgent it is, where the transaction stands afterwards, and
//! bytes of its own. Which kind of attempt such bytes are decides how the transaction ends if they are mined.

use alloy_primitives::Address;

use crate::attempt::Kind;
use crate::request::Payload;

words! {
    /// How urgent the decision is for people.
    Severity("severity") {
        /// For the record.
        Info = "info",
        /// Somebody should look today.
        Warning = "warning",
        /// Somebody must look now.
        Critical = "critical",
    }
}

words! {
    /// Where the transaction stands once the decision is carried out.
    After("then_state") {
        /// It is TRACKING: it has the full time to be mined before it counts as stuck again.
        Track = "track",
        /// It is STUCK at once: a person must look, and it still ends if the chain lets it.
        Stuck = "stuck",
    }
}

/// What a decision wants done with the nonce.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// The payload is to be mined, or what the decision brings instead of it.
    Replace,
    /// The payload is no longer wanted.
    Cancel,
    /// Later nonces wait.
    Placeholder,
}

/// Why a decision's own bytes are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// A cancel was signed, so its client was or will be told that the payload is not executed.
    #[error("executes the payload again, although it was cancelled before")]
    CalledOff,
    /// CANCEL and PLACEHOLDER exist in order not to execute it.
    #[error("executes the payload that is to be given up")]
    OwnPayload,
}

/// A transaction, as far as it matters for bytes that a decision brings.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// Who sends.
    pub signer: Address,
    /// Its own payload; none for a placeholder.
    pub payload: Option<&'a Payload>,
    /// The kind of its newest bytes.
    pub newest: Option<Kind>,
}

/// What kind of attempt bytes are that execute this.
pub fn kind(purpose: Purpose, subject: Subject<'_>, executes: &Payload) -> Result<Kind, Unfit> {
    let is_nothing = executes.executes_same(&Payload::nothing(subject.signer));
    let is_own = match subject.payload {
        Some(payload) => executes.executes_same(payload),
        None => is_nothing,
    };
    match purpose {
        Purpose::Replace if !is_own => Ok(Kind::Substitute),
        Purpose::Replace => match (subject.payload, subject.newest) {
            (None, _) => Ok(Kind::Placeholder),
            (Some(_), None) => Ok(Kind::Original),
            (Some(_), Some(Kind::Cancel | Kind::Placeholder)) => Err(Unfit::CalledOff),
            (
                Some(_),
                Some(Kind::Original | Kind::Replacement | Kind::Substitute | Kind::External),
            ) => Ok(Kind::Replacement),
        },
        // A payload that does nothing itself cannot be told from its own cancel: that is what it is then.
        Purpose::Cancel if is_nothing => Ok(Kind::Cancel),
        Purpose::Placeholder if is_nothing => Ok(Kind::Placeholder),
        Purpose::Cancel | Purpose::Placeholder if is_own => Err(Unfit::OwnPayload),
        Purpose::Cancel | Purpose::Placeholder => Ok(Kind::Substitute),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{Ceilings, Draft};

    const SIGNER: Address = Address::repeat_byte(1);

    fn pays(to: Address, value: &str, gas: Option<&str>) -> Payload {
        let draft = Draft {
            to: Some(to.to_string()),
            value: Some(value.to_owned()),
            gas: gas.map(str::to_owned),
            ..Draft::default()
        };
        let ceilings = Ceilings {
            max_fee: u128::MAX,
            max_priority_fee: u128::MAX,
        };
        Payload::parse(&draft, ceilings).unwrap()
    }

    #[test]
    fn what_bytes_execute_decides_what_they_are() {
        let own = pays(Address::repeat_byte(2), "7", None);
        let same = pays(Address::repeat_byte(2), "7", Some("50000"));
        let other = pays(Address::repeat_byte(3), "7", None);
        let dearer = pays(Address::repeat_byte(2), "8", None);
        let nothing = pays(SIGNER, "0", None);
        let check = |purpose, newest, executes: &Payload, expected| {
            let subject = Subject {
                signer: SIGNER,
                payload: Some(&own),
                newest,
            };
            let found = kind(purpose, subject, executes);
            assert_eq!(found, expected, "{purpose:?} {newest:?} {executes:?}");
        };
        use Purpose::{Cancel, Placeholder, Replace};
        check(Replace, None, &same, Ok(Kind::Original));
        check(Replace, Some(Kind::Original), &same, Ok(Kind::Replacement));
        check(
            Replace,
            Some(Kind::Substitute),
            &same,
            Ok(Kind::Replacement),
        );
        for called_off in [Kind::Cancel, Kind::Placeholder] {
            check(Replace, Some(called_off), &same, Err(Unfit::CalledOff));
        }
        for newest in [None, Some(Kind::Original), Some(Kind::Cancel)] {
            for executes in [&other, &dearer] {
                for purpose in [Replace, Cancel, Placeholder] {
                    check(purpose, newest, executes, Ok(Kind::Substitute));
                }
            }
            check(Replace, newest, &nothing, Ok(Kind::Substitute));
            check(Cancel, newest, &nothing, Ok(Kind::Cancel));
            check(Placeholder, newest, &nothing, Ok(Kind::Placeholder));
            check(Cancel, newest, &same, Err(Unfit::OwnPayload));
            check(Placeholder, newest, &same, Err(Unfit::OwnPayload));
        }
    }

    #[test]
    fn a_placeholder_has_nothing_to_execute() {
        let nothing = pays(SIGNER, "0", None);
        let subject = Subject {
            signer: SIGNER,
            payload: None,
            newest: Some(Kind::Placeholder),
        };
        let found = |executes| kind(Purpose::Replace, subject, executes);
        assert_eq!(found(&nothing), Ok(Kind::Placeholder));
        let other = pays(Address::repeat_byte(3), "1", None);
        assert_eq!(found(&other), Ok(Kind::Substitute));
    }
}
