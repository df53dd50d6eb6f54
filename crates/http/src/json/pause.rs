//! What an operator sends to pause or resume a signer.

use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::scalar::object as any_object;
use crate::given::{Extras, Given, Text, object};

/// Why a signer is paused or resumed; it is kept with the name of the key
#[derive(Default, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = PauseRequest)]
pub(crate) struct PauseBody<'a> {
    /// The chain's configured name; may be left out while only one is configured
    #[schema(value_type = Option<String>)]
    pub(crate) chain: Given<Text<'a>>,
    /// In a person's words
    #[schema(value_type = String, min_length = 1, max_length = 1000, pattern = "^[^\\x00]*\\S[^\\x00]*$")]
    pub(crate) reason: Given<Text<'a>>,
    /// A JSON object of the operator's own, up to 16 KiB: ticket and the like
    #[schema(schema_with = any_object, required = false)]
    pub(crate) audit: Option<&'a RawValue>,
    #[schema(ignore)]
    pub(crate) extras: Extras,
}

object!(PauseBody {
    "chain" => chain,
    "reason" => reason,
    "audit" => audit,
});
