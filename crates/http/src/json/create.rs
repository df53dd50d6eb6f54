//! What clients send to have a transaction sent, field by field as it stood in the body.

use serde_json::value::RawValue;
use utoipa::ToSchema;
use utoipa::openapi::schema::{AnyOfBuilder, Array, ArrayBuilder};
use utoipa::openapi::{Ref, RefOr, Schema};

use super::scalar::{AddressText, AmountText, BytesText, Moment, WordText, foreign};
use crate::given::{Amount, Extras, Given, List, Text, object};

/// The most that an access list can hold of anything: more bytes than a transaction may have.
pub(crate) const ACCESS_MAX: usize = 10_000;
/// The most requests of a batch.
pub(crate) const BATCH_MAX: usize = 1_000;

/// A transaction to be sent
#[derive(Default, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = CreateRequest)]
pub(crate) struct CreateBody<'a> {
    /// Who sends
    #[schema(value_type = AddressText)]
    pub(crate) signer: Given<Text<'a>>,
    /// The chain's configured name; may be left out while only one is configured
    #[schema(value_type = Option<String>)]
    pub(crate) chain: Given<Text<'a>>,
    /// The client's own name for it: the same name gives the same transaction, however often it is sent
    #[schema(value_type = Option<String>, min_length = 1, max_length = 200, pattern = "^[^\\s\\x00-\\x1f\\x7f-\\x9f]([^\\x00-\\x1f\\x7f-\\x9f]*[^\\s\\x00-\\x1f\\x7f-\\x9f])?$")]
    pub(crate) request_id: Given<Text<'a>>,
    /// What is to be executed
    #[schema(value_type = PayloadBody)]
    pub(crate) payload: Given<PayloadBody<'a>>,
    /// Not to be given a nonce after this time
    #[schema(value_type = Option<Moment>)]
    pub(crate) not_after: Given<Text<'a>>,
    /// Any JSON of the client's own, up to 16 KiB; kept and given back, never compared
    #[schema(schema_with = foreign, required = false)]
    pub(crate) meta: Option<&'a RawValue>,
    #[schema(ignore)]
    pub(crate) extras: Extras,
}

object!(CreateBody {
    "signer" => signer,
    "chain" => chain,
    "requestId" => request_id,
    "payload" => payload,
    "notAfter" => not_after,
    "meta" => meta,
});

/// What is to be executed. `gasPrice` excludes `maxFeePerGas` and `maxPriorityFeePerGas`; fees that are
/// not given are chosen when it is signed
#[derive(Default, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = PayloadRequest)]
pub(crate) struct PayloadBody<'a> {
    /// The receiver; without one a contract is created
    #[schema(value_type = Option<AddressText>)]
    pub(crate) to: Given<Text<'a>>,
    /// Wei to send
    #[schema(value_type = Option<AmountText>)]
    pub(crate) value: Given<Amount<'a>>,
    /// Call data or init code
    #[schema(value_type = Option<BytesText>)]
    pub(crate) data: Given<Text<'a>>,
    /// The gas limit; estimated when missing
    #[schema(value_type = Option<AmountText>)]
    pub(crate) gas: Given<Amount<'a>>,
    /// Wei per gas, as before EIP-1559
    #[schema(value_type = Option<AmountText>)]
    pub(crate) gas_price: Given<Amount<'a>>,
    /// The EIP-1559 cap, in wei per gas
    #[schema(value_type = Option<AmountText>)]
    pub(crate) max_fee_per_gas: Given<Amount<'a>>,
    /// The EIP-1559 tip, in wei per gas
    #[schema(value_type = Option<AmountText>)]
    pub(crate) max_priority_fee_per_gas: Given<Amount<'a>>,
    /// What will be touched
    #[schema(value_type = Option<Vec<AccessBody>>)]
    pub(crate) access_list: Given<List<Given<AccessBody<'a>>, ACCESS_MAX>>,
    #[schema(ignore)]
    pub(crate) extras: Extras,
}

object!(PayloadBody {
    "to" => to,
    "value" => value,
    "data" => data,
    "gas" => gas,
    "gasPrice" => gas_price,
    "maxFeePerGas" => max_fee_per_gas,
    "maxPriorityFeePerGas" => max_priority_fee_per_gas,
    "accessList" => access_list,
});

/// One entry of an access list
#[derive(Default, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = AccessRequest)]
pub(crate) struct AccessBody<'a> {
    /// The account that is touched
    #[schema(value_type = AddressText)]
    pub(crate) address: Given<Text<'a>>,
    /// Its storage keys
    #[schema(value_type = Option<Vec<WordText>>)]
    pub(crate) storage_keys: Given<List<Given<Text<'a>>, ACCESS_MAX>>,
    #[schema(ignore)]
    pub(crate) extras: Extras,
}

object!(AccessBody {
    "address" => address,
    "storageKeys" => storage_keys,
});

/// Many transactions to be sent
#[derive(Default, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = BatchRequest)]
pub(crate) struct BatchBody<'a> {
    /// In the order in which they get their nonces
    #[schema(schema_with = requests, required = true)]
    pub(crate) requests: Given<List<&'a RawValue, BATCH_MAX>>,
    #[schema(ignore)]
    pub(crate) extras: Extras,
}

object!(BatchBody {
    "requests" => requests,
});

/// A batch takes anything as a request: what is none is refused in its own result.
fn requests() -> Array {
    let request = Ref::from_schema_name("CreateRequest");
    let items = AnyOfBuilder::new().item(request).item(foreign());
    let about = "What is not a CreateRequest is refused in its own result";
    ArrayBuilder::new()
        .items(RefOr::T(Schema::AnyOf(items.build())))
        .max_items(Some(BATCH_MAX))
        .description(Some(about))
        .build()
}
