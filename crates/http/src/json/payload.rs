//! What is to be executed, spelled back as it was understood. A field that was not given is not there.

use fencepost_domain::U256;
use fencepost_domain::request::{self, Fees};
use serde::Serialize;
use utoipa::ToSchema;

use super::scalar::{Eip55, Hash, Hex, Wei};

/// What is to be executed. Only what the client gave is here
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Payload {
    /// The receiver; without one a contract is created
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    to: Option<Eip55>,
    /// Wei to send
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    value: Option<Wei>,
    /// Call data or init code
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    data: Option<Hex>,
    /// The gas limit
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    gas: Option<Wei>,
    /// Wei per gas, as before EIP-1559
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    gas_price: Option<Wei>,
    /// The EIP-1559 cap, in wei per gas
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    max_fee_per_gas: Option<Wei>,
    /// The EIP-1559 tip, in wei per gas
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    max_priority_fee_per_gas: Option<Wei>,
    /// What will be touched
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    access_list: Option<Vec<Access>>,
}

/// One entry of an access list
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AccessEntry)]
pub(crate) struct Access {
    /// The account that is touched
    address: Eip55,
    /// Its storage keys
    storage_keys: Vec<Hash>,
}

impl From<&request::Payload> for Payload {
    fn from(payload: &request::Payload) -> Self {
        let wei = |fee: u128| Wei(U256::from(fee));
        let (price, cap, tip) = match payload.fees() {
            Fees::Ours => (None, None, None),
            Fees::Legacy { gas_price } => (Some(gas_price), None, None),
            Fees::Dynamic {
                max_fee,
                max_priority_fee,
            } => (None, max_fee, max_priority_fee),
        };
        Self {
            to: payload.to().map(Eip55),
            value: payload.value().map(Wei),
            data: payload.given_data().cloned().map(Hex),
            gas: payload.gas().map(|gas| Wei(U256::from(gas))),
            gas_price: price.map(wei),
            max_fee_per_gas: cap.map(wei),
            max_priority_fee_per_gas: tip.map(wei),
            access_list: payload
                .given_access()
                .map(|list| list.iter().map(Access::from).collect()),
        }
    }
}

impl From<&request::Access> for Access {
    fn from(entry: &request::Access) -> Self {
        Self {
            address: Eip55(entry.address),
            storage_keys: entry.keys.iter().copied().map(Hash).collect(),
        }
    }
}
