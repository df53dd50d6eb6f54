//! Remedies: what operators ask for, and what was asked for and done.

use fencepost_domain::U256;
use fencepost_domain::attempt::SignedFees;
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::scalar::{AmountText, Wei, object as any_object};
use super::words;
use crate::given::{Amount, Extras, Given, Text, object};

/// What is to be done to a transaction
#[derive(Default, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = RemedyRequest)]
pub(crate) struct RemedyBody<'a> {
    /// RESUBMIT sends the newest bytes again, REPLACE signs the payload again with higher fees, CANCEL
    /// and PLACEHOLDER use the nonce up instead, FILL uses up the nonces below one that is STUCK/GAP and
    /// never touches its own (PLACEHOLDER of one that is STUCK/GAP is stored as FILL). ASK has the stuck policy asked now;
    /// its decision takes the place of the question
    #[schema(schema_with = words::action, required = true)]
    pub(crate) action: Given<Text<'a>>,
    /// In a person's words; it is kept with the name of the key
    #[schema(value_type = String, min_length = 1, max_length = 1000, pattern = "^[^\\x00]*\\S[^\\x00]*$")]
    pub(crate) reason: Given<Text<'a>>,
    /// For REPLACE: with which fees. Without them it is the smallest bump that nodes take
    #[schema(value_type = Option<FeesBody>)]
    pub(crate) fees: Given<FeesBody<'a>>,
    /// A JSON object of the operator's own, up to 16 KiB: ticket and the like
    #[schema(schema_with = any_object, required = false)]
    pub(crate) audit: Option<&'a RawValue>,
    #[schema(ignore)]
    pub(crate) extras: Extras,
}

object!(RemedyBody {
    "action" => action,
    "reason" => reason,
    "fees" => fees,
    "audit" => audit,
});

/// The fees of a replacement, in the style of what it replaces: `maxFeePerGas` and
/// `maxPriorityFeePerGas`, or `gasPrice`. Both pay at least 10 % more, rounded up
#[derive(Default, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = FeesRequest)]
pub(crate) struct FeesBody<'a> {
    /// The EIP-1559 cap, in wei per gas
    #[schema(value_type = Option<AmountText>)]
    pub(crate) max_fee_per_gas: Given<Amount<'a>>,
    /// The EIP-1559 tip, in wei per gas
    #[schema(value_type = Option<AmountText>)]
    pub(crate) max_priority_fee_per_gas: Given<Amount<'a>>,
    /// Wei per gas, as before EIP-1559
    #[schema(value_type = Option<AmountText>)]
    pub(crate) gas_price: Given<Amount<'a>>,
    #[schema(ignore)]
    pub(crate) extras: Extras,
}

object!(FeesBody {
    "maxFeePerGas" => max_fee_per_gas,
    "maxPriorityFeePerGas" => max_priority_fee_per_gas,
    "gasPrice" => gas_price,
});

/// Fees in wei per gas
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged, rename_all_fields = "camelCase")]
pub(crate) enum Fees {
    /// As of EIP-1559
    Dynamic {
        /// The cap
        max_fee_per_gas: Wei,
        /// The tip
        max_priority_fee_per_gas: Wei,
    },
    /// As before EIP-1559
    Legacy {
        /// The price
        gas_price: Wei,
    },
}

impl From<SignedFees> for Fees {
    fn from(fees: SignedFees) -> Self {
        let wei = |fee: u128| Wei(U256::from(fee));
        match fees.max_priority_fee {
            None => Self::Legacy {
                gas_price: wei(fees.max_fee),
            },
            Some(tip) => Self::Dynamic {
                max_fee_per_gas: wei(fees.max_fee),
                max_priority_fee_per_gas: wei(tip),
            },
        }
    }
}
