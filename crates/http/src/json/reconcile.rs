//! Comparing a signer with its chain: what an operator sends, and what it came to.

use fencepost_app::operate::Reconciled;
use fencepost_app::ports::PauseReason;
use fencepost_domain::ids::Nonce;
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::scalar::{Eip55, object as any_object};
use super::words;
use crate::chains::Chains;
use crate::given::{Extras, Flag, Given, Text, object};

/// Why a signer is reconciled with its chain; it is kept with the name of the key
#[derive(Default, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = ReconcileRequest)]
pub(crate) struct ReconcileBody<'a> {
    /// The chain's configured name; may be left out while only one is configured
    #[schema(value_type = Option<String>)]
    pub(crate) chain: Given<Text<'a>>,
    /// In a person's words
    #[schema(value_type = String, min_length = 1, max_length = 1000, pattern = "^[^\\x00]*\\S[^\\x00]*$")]
    pub(crate) reason: Given<Text<'a>>,
    /// Only tell what it would come to
    #[schema(value_type = Option<bool>)]
    pub(crate) dry_run: Given<Flag>,
    /// A JSON object of the operator's own, up to 16 KiB: ticket and the like
    #[schema(schema_with = any_object, required = false)]
    pub(crate) audit: Option<&'a RawValue>,
    #[schema(ignore)]
    pub(crate) extras: Extras,
}

object!(ReconcileBody {
    "chain" => chain,
    "reason" => reason,
    "dryRun" => dry_run,
    "audit" => audit,
});

/// What reconciling a signer came to, or would come to
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Reconciliation {
    /// The address
    signer: Eip55,
    /// The chain's configured name
    chain: String,
    /// Nothing was changed
    dry_run: bool,
    /// The next nonce to be given
    next_nonce: NonceChange,
    /// How many transactions of it the chain has in blocks
    chain_latest: u64,
    /// The same with what waits in the pools
    chain_pending: u64,
    /// Nonces that were given back and that the chain has used meanwhile
    dropped_free_nonces: Vec<u64>,
    /// Nonces from the chain's count up that nobody holds: later ones wait until they are filled
    gaps: Vec<u64>,
    /// Why no nonces are given, if so
    paused: PauseEnd,
}

/// A nonce before and after
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NonceChange {
    /// Before
    pub(super) before: u64,
    /// After
    pub(super) after: u64,
}

/// Why no nonces are given, before and after
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = PauseChange)]
pub(crate) struct PauseEnd {
    /// Before
    #[schema(schema_with = words::paused, required = true)]
    before: Option<&'static str>,
    /// After
    #[schema(schema_with = words::paused, required = true)]
    after: Option<&'static str>,
}

impl Reconciliation {
    pub(crate) fn of(told: &Reconciled, dry_run: bool, chains: &Chains) -> Self {
        let before = &told.before;
        let numbers = |nonces: &[Nonce]| nonces.iter().map(|nonce| nonce.get()).collect();
        Self {
            signer: Eip55(before.lane.signer),
            chain: chains.name(before.lane.chain).into_owned(),
            dry_run,
            next_nonce: NonceChange {
                before: before.next_nonce.get(),
                after: told.next_nonce.get(),
            },
            chain_latest: told.latest.get(),
            chain_pending: told.pending.get(),
            dropped_free_nonces: numbers(&told.dropped),
            gaps: numbers(&told.gaps),
            paused: PauseEnd {
                before: before.paused.map(PauseReason::word),
                after: told.paused.map(PauseReason::word),
            },
        }
    }
}
