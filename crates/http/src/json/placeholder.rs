//! What an operator sends to have a nonce used up that nobody holds.

use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::scalar::object as any_object;
use crate::given::{Extras, Given, Text, Whole, object};

/// A nonce to be used up
#[derive(Default, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = PlaceholderRequest)]
pub(crate) struct PlaceholderBody<'a> {
    /// The chain's configured name; may be left out while only one is configured
    #[schema(value_type = Option<String>)]
    pub(crate) chain: Given<Text<'a>>,
    /// Which nonce; one of the signer's `gaps` or `freeNonces`
    #[schema(value_type = u64, minimum = 0, maximum = 9_223_372_036_854_775_807_isize)]
    pub(crate) nonce: Given<Whole>,
    /// In a person's words; it is kept with the name of the key as the transaction's `meta`
    #[schema(value_type = String, min_length = 1, max_length = 1000, pattern = "^[^\\x00]*\\S[^\\x00]*$")]
    pub(crate) reason: Given<Text<'a>>,
    /// A JSON object of the operator's own: ticket and the like. With the reason it has up to 16 KiB
    #[schema(schema_with = any_object, required = false)]
    pub(crate) audit: Option<&'a RawValue>,
    /// The operator's own name for it: the same name gives the same placeholder, however often it is sent
    #[schema(value_type = Option<String>, min_length = 1, max_length = 200, pattern = "^[^\\s\\x00-\\x1f\\x7f-\\x9f]([^\\x00-\\x1f\\x7f-\\x9f]*[^\\s\\x00-\\x1f\\x7f-\\x9f])?$")]
    pub(crate) request_id: Given<Text<'a>>,
    #[schema(ignore)]
    pub(crate) extras: Extras,
}

object!(PlaceholderBody {
    "chain" => chain,
    "nonce" => nonce,
    "reason" => reason,
    "audit" => audit,
    "requestId" => request_id,
});
