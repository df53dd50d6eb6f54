//! What was asked for and done: the remedies of a transaction, and the acts on a signer itself.

use fencepost_app::ports::Act;
use fencepost_domain::decision::{After, Severity};
use serde::Serialize;
use utoipa::ToSchema;

use super::remedy::Fees;
use super::scalar::{Foreign, Moment, foreign};
use super::words;
use crate::access::Caller;

/// Something that was asked for a transaction, by an operator or by the stuck policy
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Remedy {
    /// Its number; later ones have greater ones
    remedy_id: i64,
    /// Which round of this transaction, from 1
    #[schema(minimum = 1)]
    round: u32,
    /// RESUBMIT, REPLACE, CANCEL, PLACEHOLDER or, where that was asked behind a gap, FILL; DECIDE while the policy is asked, NOOP when it wanted nothing
    action: String,
    /// The fees that were asked for
    #[schema(required = true)]
    fees: Option<Fees>,
    /// The name of the operator's key, or the policy
    by: String,
    /// Why
    reason: String,
    /// The words of whoever asked; none for a key that sees no nonces, where they are about one
    #[schema(schema_with = foreign, required = true)]
    audit: Option<Foreign>,
    /// ASKED, CLAIMED by the signer's leader, DONE, or REFUSED for the reason in `result`
    #[schema(schema_with = words::progress, required = true)]
    state: &'static str,
    /// How urgent the policy called it
    #[schema(schema_with = words::severity, required = true)]
    severity: Option<&'static str>,
    /// Where the policy wanted the transaction to stand afterwards
    #[schema(schema_with = words::after, required = true)]
    then: Option<&'static str>,
    /// The node that claimed it
    #[schema(required = true)]
    node: Option<String>,
    /// The fencing token under which it was claimed
    #[schema(required = true, minimum = 1)]
    token: Option<u64>,
    /// What came of it
    #[schema(required = true)]
    result: Option<String>,
    /// When it was asked for
    asked_at: Moment,
    /// When it was over
    #[schema(required = true)]
    closed_at: Option<Moment>,
}

impl Remedy {
    /// A row as a caller may see it; none for an act that is no remedy.
    pub(crate) fn of(act: Act, caller: &Caller) -> Option<Self> {
        let details = act.audit.details.as_deref();
        let details = details.filter(|text| caller.may_read(text));
        Some(Self {
            remedy_id: act.id.0,
            round: act.round?,
            action: act.action,
            fees: act.fees.map(Fees::from),
            by: act.audit.by,
            reason: caller.words(act.audit.reason),
            audit: details.map(Foreign::new),
            state: act.progress.word(),
            severity: act.severity.map(Severity::word),
            then: act.after.map(After::word),
            token: act.claimed.as_ref().map(|(_, token)| token.get()),
            node: act.claimed.map(|(node, _)| node.as_str().to_owned()),
            result: act.result.map(|text| caller.words(text)),
            asked_at: Moment(act.asked_at),
            closed_at: act.closed_at.map(Moment),
        })
    }
}

/// All that was asked for a transaction, newest first
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Remedies {
    /// The newest 1,000
    #[schema(max_items = 1000)]
    pub(crate) remedies: Vec<Remedy>,
}

/// Something that was done to a signer itself
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SignerAct {
    /// Its number; later ones have greater ones
    id: i64,
    /// PAUSE, RESUME, RECONCILE, RAISE_CURSOR, LOWER_CURSOR or IMPORT
    action: String,
    /// The name of the operator's key, or the node that found something
    by: String,
    /// Why
    reason: String,
    /// The words of whoever did it
    #[schema(schema_with = foreign, required = true)]
    audit: Option<Foreign>,
    /// What it has changed
    #[schema(required = true)]
    before_after: Option<String>,
    /// When
    at: Moment,
}

impl From<Act> for SignerAct {
    fn from(act: Act) -> Self {
        Self {
            id: act.id.0,
            action: act.action,
            by: act.audit.by,
            reason: act.audit.reason,
            audit: act.audit.details.as_deref().map(Foreign::new),
            before_after: act.before_after,
            at: Moment(act.asked_at),
        }
    }
}

/// What was done to a signer, newest first
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SignerActs {
    /// The acts
    pub(crate) acts: Vec<SignerAct>,
    /// Gives the next page; none where there is none
    #[schema(required = true)]
    pub(crate) next_cursor: Option<String>,
}

#[cfg(test)]
mod tests {
    use fencepost_app::ports::{Audit, Progress, RemedyId};
    use fencepost_domain::attempt::SignedFees;
    use fencepost_domain::ids::{NodeId, Token, TxId};
    use jiff::Timestamp;
    use serde_json::{json, to_value};
    use uuid::Uuid;

    use super::*;

    fn act() -> Act {
        Act {
            id: RemedyId(7),
            lane: None,
            token: None,
            tx: Some(TxId(Uuid::nil())),
            round: Some(2),
            action: "REPLACE".to_owned(),
            fees: Some(SignedFees {
                max_fee: 110,
                max_priority_fee: Some(11),
            }),
            severity: None,
            after: None,
            audit: Audit {
                by: "ops".to_owned(),
                reason: "it hangs".to_owned(),
                details: Some(r#"{"ticket": 5}"#.to_owned()),
                node: None,
            },
            progress: Progress::Done,
            claimed: Some((NodeId::new("n1").unwrap(), Token::NONE)),
            result: Some("attempt 2".to_owned()),
            before_after: Some("paused=none -> paused=OPERATOR".to_owned()),
            asked_at: Timestamp::UNIX_EPOCH,
            closed_at: Some(Timestamp::UNIX_EPOCH),
        }
    }

    #[test]
    fn a_remedy_is_told_whole() {
        let expected = json!({
            "remedyId": 7, "round": 2, "action": "REPLACE",
            "fees": { "maxFeePerGas": "110", "maxPriorityFeePerGas": "11" }, "by": "ops",
            "reason": "it hangs", "audit": { "ticket": 5 }, "state": "DONE", "node": "n1", "token": 0, "severity": null, "then": null,
            "result": "attempt 2", "askedAt": "1970-01-01T00:00:00Z", "closedAt": "1970-01-01T00:00:00Z",
        });
        assert_eq!(
            to_value(Remedy::of(act(), &Caller::operator())).unwrap(),
            expected
        );
    }

    #[test]
    fn what_is_not_there_yet_is_null() {
        let mut bare = act();
        (bare.fees, bare.claimed, bare.result, bare.closed_at) = (None, None, None, None);
        bare.audit.details = None;
        bare.progress = Progress::Asked;
        let told = to_value(Remedy::of(bare, &Caller::operator())).unwrap();
        for field in ["fees", "audit", "node", "result", "closedAt"] {
            assert_eq!(told.get(field), Some(&json!(null)), "{field}");
        }
        assert_eq!(told["state"], "ASKED");
        let legacy = Act {
            fees: Some(SignedFees {
                max_fee: 110,
                max_priority_fee: None,
            }),
            ..act()
        };
        let told = to_value(Remedy::of(legacy, &Caller::operator())).unwrap();
        assert_eq!(told["fees"], json!({ "gasPrice": "110" }));
    }

    #[test]
    fn an_act_on_a_signer_is_told_whole() {
        let expected = json!({
            "id": 7, "action": "REPLACE", "by": "ops", "reason": "it hangs", "audit": { "ticket": 5 },
            "beforeAfter": "paused=none -> paused=OPERATOR", "at": "1970-01-01T00:00:00Z",
        });
        assert_eq!(to_value(SignerAct::from(act())).unwrap(), expected);
    }
}
