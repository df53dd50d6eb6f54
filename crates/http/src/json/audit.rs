//! The whole audit, in order: what was asked for and done, by whom, and what was refused.

use fencepost_app::ports::Act;
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::scalar::{Eip55, Foreign, Moment, foreign};
use super::words;
use crate::chains::Chains;

/// Something that a person, a policy or a node did, or was refused
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AuditEntry {
    /// Its number; later ones have greater ones, and some numbers are missing for ever
    id: i64,
    /// A remedy's action; PAUSE, RESUME, RECONCILE, RAISE_CURSOR, LOWER_CURSOR or IMPORT of a signer; or CALL, a call that was refused
    action: String,
    /// The name of the API key, the policy, or the node that acted by itself
    by: String,
    /// Why; of a refused call, the title of the problem that it was answered with
    reason: String,
    /// The words of the one who asked; of a refused call its method, its path, and `leftOut`: how many refused calls before it were not stored
    #[schema(schema_with = foreign, required = true)]
    audit: Option<Foreign>,
    /// ASKED, CLAIMED by the signer's leader, DONE, or REFUSED for the reason in `result`. What is not closed yet is told as it stands
    #[schema(schema_with = words::progress, required = true)]
    state: &'static str,
    /// The chain's configured name
    #[schema(required = true)]
    chain: Option<String>,
    /// The signer that it is about
    #[schema(required = true)]
    signer: Option<Eip55>,
    /// The transaction that it is about
    #[schema(required = true)]
    tx_id: Option<Uuid>,
    /// The node that carried it out, else the node that was called
    #[schema(required = true)]
    node: Option<String>,
    /// The fencing token: under which a remedy was claimed, or of the signer after an act on it
    #[schema(required = true, minimum = 0)]
    token: Option<u64>,
    /// What was true of the signer before an act on it
    #[schema(required = true)]
    before: Option<String>,
    /// What was true of the signer after it
    #[schema(required = true)]
    after: Option<String>,
    /// What came of it; of a refused call the status and the code of the answer
    #[schema(required = true)]
    result: Option<String>,
    /// When it was asked for or done
    at: Moment,
    /// When it was over
    #[schema(required = true)]
    closed_at: Option<Moment>,
}

impl AuditEntry {
    pub(crate) fn of(act: Act, chains: &Chains) -> Self {
        let (claimed_by, claimed_under) = act.claimed.unzip();
        let node = claimed_by.or(act.audit.node);
        let token = claimed_under.or(act.token);
        let (before, after) = act
            .before_after
            .as_deref()
            .and_then(|change| change.split_once(" -> "))
            .unzip();
        Self {
            id: act.id.0,
            action: act.action,
            by: act.audit.by,
            reason: act.audit.reason,
            audit: act.audit.details.as_deref().map(Foreign::new),
            state: act.progress.word(),
            chain: act.lane.map(|lane| chains.name(lane.chain).into_owned()),
            signer: act.lane.map(|lane| Eip55(lane.signer)),
            tx_id: act.tx.map(|tx| tx.0),
            node: node.map(|node| node.as_str().to_owned()),
            token: token.map(|token| token.get()),
            before: before.map(str::to_owned),
            after: after.map(str::to_owned),
            result: act.result,
            at: Moment(act.asked_at),
            closed_at: act.closed_at.map(Moment),
        }
    }
}

/// A stretch of the audit, oldest first
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AuditEntries {
    /// The entries that this key may see
    #[schema(max_items = 1000)]
    pub(crate) entries: Vec<AuditEntry>,
    /// The last number that was looked at: `after` of the next request. The same as in the request where nothing more is there
    pub(crate) next: i64,
}
