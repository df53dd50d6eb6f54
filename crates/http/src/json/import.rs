//! A signer's cursor and open nonces, as they come from another service and go back to it.

use fencepost_app::import::{self, Export, ImportReport, OpenNonce};
use fencepost_domain::ids::{Lane, Nonce, RequestId};
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;
use uuid::Uuid;

use super::reconcile::NonceChange;
use super::scalar::{AddressText, BytesText, Eip55, Hash, Hex, WordText, object as any_object};
use super::words;
use crate::chains::Chains;
use crate::given::{Extras, Flag, Given, List, Text, Whole, object};

/// The most open nonces that one import takes.
pub(crate) const OPEN_MAX: usize = fencepost_app::ports::IMPORT_MAX;

/// Where the next nonce is to be, and why; it is kept with the name of the key
#[derive(Default, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = CursorRequest)]
pub(crate) struct CursorBody<'a> {
    /// The chain's configured name; may be left out while only one is configured
    #[schema(value_type = Option<String>)]
    pub(crate) chain: Given<Text<'a>>,
    /// The next nonce to be given
    #[schema(value_type = u64, minimum = 0, maximum = 9_223_372_036_854_775_807_isize)]
    pub(crate) next_nonce: Given<Whole>,
    /// In a person's words
    #[schema(value_type = String, min_length = 1, max_length = 1000, pattern = "^[^\\x00]*\\S[^\\x00]*$")]
    pub(crate) reason: Given<Text<'a>>,
    /// A JSON object of the operator's own, up to 16 KiB: ticket and the like
    #[schema(schema_with = any_object, required = false)]
    pub(crate) audit: Option<&'a RawValue>,
    #[schema(ignore)]
    pub(crate) extras: Extras,
}

object!(CursorBody {
    "chain" => chain,
    "nextNonce" => next_nonce,
    "reason" => reason,
    "audit" => audit,
});

/// A signer's cursor and the nonces that another service has given and that are not final
#[derive(Default, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = ImportRequest)]
pub(crate) struct ImportBody<'a> {
    /// The signer, as in the path; an export has it, so that a file says whose it is
    #[schema(value_type = Option<AddressText>)]
    pub(crate) signer: Given<Text<'a>>,
    /// The chain's configured name; may be left out while only one is configured
    #[schema(value_type = Option<String>)]
    pub(crate) chain: Given<Text<'a>>,
    /// The next nonce to be given: above every open one
    #[schema(value_type = u64, minimum = 0, maximum = 9_223_372_036_854_775_807_isize)]
    pub(crate) next_nonce: Given<Whole>,
    /// Nonces that were given and are not final
    #[schema(value_type = Vec<OpenItem>, max_items = 1000)]
    pub(crate) open: Given<List<Given<OpenItem<'a>>, OPEN_MAX>>,
    /// In a person's words
    #[schema(value_type = String, min_length = 1, max_length = 1000, pattern = "^[^\\x00]*\\S[^\\x00]*$")]
    pub(crate) reason: Given<Text<'a>>,
    /// A JSON object of the operator's own, up to 16 KiB: ticket and the like
    #[schema(schema_with = any_object, required = false)]
    pub(crate) audit: Option<&'a RawValue>,
    /// Check everything and tell what it would come to; change nothing
    #[schema(value_type = Option<bool>)]
    pub(crate) dry_run: Given<Flag>,
    #[schema(ignore)]
    pub(crate) extras: Extras,
}

object!(ImportBody {
    "signer" => signer,
    "chain" => chain,
    "nextNonce" => next_nonce,
    "open" => open,
    "reason" => reason,
    "audit" => audit,
    "dryRun" => dry_run,
});

/// One nonce that another service has given
#[derive(Default, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = OpenNonceInput)]
pub(crate) struct OpenItem<'a> {
    /// The nonce
    #[schema(value_type = u64, minimum = 0, maximum = 9_223_372_036_854_775_807_isize)]
    pub(crate) nonce: Given<Whole>,
    /// The client's own name for it; one per signer
    #[schema(value_type = Option<String>, min_length = 1, max_length = 200, pattern = "^[^\\s\\x00-\\x1f\\x7f-\\x9f]([^\\x00-\\x1f\\x7f-\\x9f]*[^\\s\\x00-\\x1f\\x7f-\\x9f])?$")]
    pub(crate) request_id: Given<Text<'a>>,
    /// The hash that was sent; with SUBMITTED it must be there
    #[schema(value_type = Option<WordText>)]
    pub(crate) tx_hash: Given<Text<'a>>,
    /// The signed bytes, with TRACKING only: the signer's, for this chain and nonce. They are followed, and sent
    /// again when they disappear. TRACKING without them is followed by its hash alone, as SUBMITTED
    #[schema(value_type = Option<BytesText>)]
    pub(crate) raw_transaction: Given<Text<'a>>,
    /// How long the reservation lasts, in seconds, with RESERVED only; a day where not given
    #[schema(value_type = Option<u64>, minimum = 1, maximum = 86400)]
    pub(crate) ttl_seconds: Given<Whole>,
    /// RESERVED: nothing was sent, and it becomes a reservation. SUBMITTED: its hash was sent by someone who
    /// keeps the bytes. TRACKING: it becomes a transaction of ours
    #[schema(schema_with = words::open_state, required = true)]
    pub(crate) state: Given<Text<'a>>,
    #[schema(ignore)]
    pub(crate) extras: Extras,
}

object!(OpenItem {
    "nonce" => nonce,
    "requestId" => request_id,
    "txHash" => tx_hash,
    "rawTransaction" => raw_transaction,
    "ttlSeconds" => ttl_seconds,
    "state" => state,
});

/// What an import came to, or would come to
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Importation {
    /// The address
    signer: Eip55,
    /// The chain's configured name
    chain: String,
    /// Nothing was changed
    dry_run: bool,
    /// The next nonce to be given
    next_nonce: NonceChange,
    /// How many transactions of it the chain has in blocks, where the chain can be asked
    #[schema(required = true)]
    chain_latest: Option<u64>,
    /// The same with what waits in the pools
    #[schema(required = true)]
    chain_pending: Option<u64>,
    /// Nonces from the chain's count up to the next nonce that nobody holds, the lowest hundred: later ones wait
    /// until they are used
    gaps: Vec<u64>,
    /// What was taken over, in the order of the list
    open: Vec<TakenOver>,
}

/// One nonce that was taken over
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TakenOver {
    /// The nonce
    nonce: u64,
    /// The client's own name for it
    #[schema(required = true)]
    request_id: Option<String>,
    /// The transaction or reservation that it is now; none in a dry run
    #[schema(required = true)]
    tx_id: Option<Uuid>,
    /// What the holder of a reservation shows; none in a dry run, and none for a transaction of ours
    #[schema(required = true)]
    lock_token: Option<Uuid>,
    /// How far it is; what became of it since is told under its `txId`
    #[schema(schema_with = words::open_state, required = true)]
    state: &'static str,
    /// The hash that is followed
    #[schema(required = true)]
    tx_hash: Option<Hash>,
}

impl Importation {
    pub(crate) fn of(told: &ImportReport, dry_run: bool, lane: Lane, chains: &Chains) -> Self {
        let number = |nonce: Nonce| nonce.get();
        Self {
            signer: Eip55(lane.signer),
            chain: chains.name(lane.chain).into_owned(),
            dry_run,
            next_nonce: NonceChange {
                before: told.from.get(),
                after: told.next_nonce.get(),
            },
            chain_latest: told.latest.map(number),
            chain_pending: told.pending.map(number),
            gaps: told.gaps.iter().map(|nonce| nonce.get()).collect(),
            open: told
                .open
                .iter()
                .map(|open| TakenOver::of(open, dry_run))
                .collect(),
        }
    }
}

impl TakenOver {
    fn of(open: &import::TakenOver, dry_run: bool) -> Self {
        Self {
            nonce: open.nonce.get(),
            request_id: open.request_id.as_ref().map(name),
            tx_id: (!dry_run).then_some(open.tx.0),
            lock_token: open.lock.map(|lock| lock.0).filter(|_| !dry_run),
            state: open.state.word(),
            tx_hash: open.hash.map(Hash),
        }
    }
}

fn name(request_id: &RequestId) -> String {
    request_id.as_str().to_owned()
}

/// A signer's cursor and open nonces: what an import takes
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Export)]
pub(crate) struct Exported {
    /// The address
    signer: Eip55,
    /// The chain's configured name
    chain: String,
    /// The next nonce to be given
    next_nonce: u64,
    /// Nonces that were given and are not final, lowest first
    open: Vec<OpenOut>,
    /// A reason that an import may keep
    reason: String,
}

/// One nonce that was given and is not final
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = OpenNonce)]
pub(crate) struct OpenOut {
    /// The nonce
    nonce: u64,
    /// The client's own name for it
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    request_id: Option<String>,
    /// The hash that was sent: of several the one that is in a block, else the newest
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    tx_hash: Option<Hash>,
    /// The signed bytes of that hash, where nothing else was ever signed for the nonce
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    raw_transaction: Option<Hex>,
    /// How far it is
    #[schema(schema_with = words::open_state, required = true)]
    state: &'static str,
}

/// The most bytes of an item besides its `rawTransaction`: names, quotes, a hash, and a request id of which each
/// character may need six.
const ITEM_BYTES_MAX: usize = 2_048;

impl Exported {
    /// Nothing where more are open than an import takes, or where its body would be longer than this.
    pub(crate) fn of(told: &Export, chains: &Chains, bytes_max: usize) -> Option<Self> {
        let lane = told.view.lane;
        let chain = chains.name(lane.chain).into_owned();
        let open = told.open.as_ref()?;
        let raw = |open: &OpenNonce| open.raw.as_ref().map_or(0, |raw| 2 * raw.len());
        let bytes: usize = open.iter().map(|open| raw(open) + ITEM_BYTES_MAX).sum();
        if bytes > bytes_max {
            return None;
        }
        let open = open.iter().map(OpenOut::of).collect();
        Some(Self {
            signer: Eip55(lane.signer),
            next_nonce: told.view.next_nonce.get(),
            open,
            reason: format!("exported from {chain}"),
            chain,
        })
    }
}

impl OpenOut {
    fn of(open: &OpenNonce) -> Self {
        Self {
            nonce: open.nonce.get(),
            request_id: open.request_id.as_ref().map(name),
            tx_hash: open.hash.map(Hash),
            raw_transaction: open.raw.clone().map(Hex),
            state: open.state.word(),
        }
    }
}
