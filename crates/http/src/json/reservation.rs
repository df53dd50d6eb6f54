//! Nonces that are lent: what their holders send, and what they get.

use fencepost_app::ports::Record;
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::scalar::{AddressText, Eip55, Hash, Moment, WordText};
use super::transaction::shown_hash;
use super::words;
use crate::access::Caller;
use crate::chains::Chains;
use crate::given::{Extras, Given, Text, Whole, object};

/// The longest time for which a nonce is lent at once: later ones of the signer wait all that time. An
/// extension gives as much again.
pub(crate) const TTL_SECONDS_MAX: u64 = 86_400;
/// The most nonces that one request reserves.
pub(crate) const COUNT_MAX: u64 = 100;

/// A nonce to be lent
#[derive(Default, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = ReserveRequest)]
pub(crate) struct ReserveBody<'a> {
    /// Whose nonce
    #[schema(value_type = AddressText)]
    pub(crate) signer: Given<Text<'a>>,
    /// The chain's configured name; may be left out while only one is configured
    #[schema(value_type = Option<String>)]
    pub(crate) chain: Given<Text<'a>>,
    /// The client's own name for it: the same name gives the same reservation, however often it is sent
    #[schema(value_type = Option<String>, min_length = 1, max_length = 200, pattern = "^[^\\s\\x00-\\x1f\\x7f-\\x9f]([^\\x00-\\x1f\\x7f-\\x9f]*[^\\s\\x00-\\x1f\\x7f-\\x9f])?$")]
    pub(crate) request_id: Given<Text<'a>>,
    /// For how long, in seconds; `reservation.ttl` where not given
    #[schema(value_type = Option<u64>, minimum = 1, maximum = 86400)]
    pub(crate) ttl_seconds: Given<Whole>,
    /// How many; the answer is then a list
    #[schema(value_type = Option<u64>, minimum = 1, maximum = 100)]
    pub(crate) count: Given<Whole>,
    #[schema(ignore)]
    pub(crate) extras: Extras,
}

object!(ReserveBody {
    "signer" => signer,
    "chain" => chain,
    "requestId" => request_id,
    "ttlSeconds" => ttl_seconds,
    "count" => count,
});

/// That something was sent with a lent nonce
#[derive(Default, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = SubmittedRequest)]
pub(crate) struct SubmittedBody<'a> {
    /// What the reservation was answered with
    #[schema(value_type = Uuid)]
    pub(crate) lock_token: Given<Text<'a>>,
    /// The hash of what was sent
    #[schema(value_type = WordText)]
    pub(crate) tx_hash: Given<Text<'a>>,
    #[schema(ignore)]
    pub(crate) extras: Extras,
}

object!(SubmittedBody {
    "lockToken" => lock_token,
    "txHash" => tx_hash,
});

/// That nothing was sent with a lent nonce, and nothing will be
#[derive(Default, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = RecycleRequest)]
pub(crate) struct RecycleBody<'a> {
    /// What the reservation was answered with
    #[schema(value_type = Uuid)]
    pub(crate) lock_token: Given<Text<'a>>,
    #[schema(ignore)]
    pub(crate) extras: Extras,
}

object!(RecycleBody {
    "lockToken" => lock_token,
});

/// That a lent nonce is needed for longer
#[derive(Default, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = ExtendRequest)]
pub(crate) struct ExtendBody<'a> {
    /// What the reservation was answered with
    #[schema(value_type = Uuid)]
    pub(crate) lock_token: Given<Text<'a>>,
    /// For how long from now on, in seconds; what was promised before is never cut short
    #[schema(value_type = u64, minimum = 1, maximum = 86400)]
    pub(crate) ttl_seconds: Given<Whole>,
    #[schema(ignore)]
    pub(crate) extras: Extras,
}

object!(ExtendBody {
    "lockToken" => lock_token,
    "ttlSeconds" => ttl_seconds,
});

/// A nonce that is lent to whoever signs and sends by itself
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Reservation {
    /// Its id; it is found under it as a transaction of kind `reserved` too
    reservation_id: Uuid,
    /// Whose nonce
    signer: Eip55,
    /// The chain's configured name
    chain: String,
    /// The client's own name for it
    #[schema(required = true)]
    request_id: Option<String>,
    /// The nonce; of a reservation that was given back, the one it had. None for a key that sees no nonces and shows
    /// no lock token
    #[schema(required = true)]
    nonce: Option<u64>,
    /// What every later call about it must show. Whoever only reads a reservation is not told it
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    lock_token: Option<Uuid>,
    /// RESERVED, then SUBMITTED and USED, or RECYCLABLE when it was given back
    #[schema(schema_with = words::reservation, required = true)]
    state: &'static str,
    /// What its holder says it has sent; once something has used the nonce, what that is
    #[schema(required = true)]
    tx_hash: Option<Hash>,
    /// What its holder says it has sent, whatever has used the nonce; none where it has said nothing
    #[schema(required = true)]
    named_hash: Option<Hash>,
    /// Until when nobody else is given the nonce, unless something was sent
    expires_at: Moment,
}

impl Reservation {
    /// A row as its holder sees it; none for one that is no reservation.
    pub(crate) fn of(record: &Record, chains: &Chains) -> Option<Self> {
        let state = &record.state;
        let terms = record.reservation?;
        let nonce = state.nonce().or(state.gave_back())?;
        Some(Self {
            reservation_id: record.tx.0,
            signer: Eip55(record.lane.signer),
            chain: chains.name(record.lane.chain).into_owned(),
            request_id: record.request_id.as_ref().map(|id| id.as_str().to_owned()),
            nonce: Some(nonce.get()),
            lock_token: Some(terms.lock.0),
            state: state.name().word(),
            tx_hash: shown_hash(state).map(Hash),
            // Only a holder gives a reservation a hash.
            named_hash: state.hash().map(Hash),
            expires_at: Moment(terms.expires_at),
        })
    }

    /// The same for a caller that only reads.
    pub(crate) fn without_lock(self, caller: &Caller) -> Self {
        Self {
            lock_token: None,
            nonce: self.nonce.filter(|_| caller.sees_nonces),
            ..self
        }
    }
}

/// Reservations of one request
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Reservations {
    /// As many as were asked for
    #[schema(max_items = 100)]
    pub(crate) reservations: Vec<Reservation>,
}
