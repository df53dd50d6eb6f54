//! What is to be executed. A field that is not given is not sent: absent and zero are two requests.

use alloy_primitives::{Address, B256, Bytes, U256};
use serde::{Deserialize, Serialize};

/// What is to be executed. `gas_price` excludes the two EIP-1559 fees; fees that are not given are chosen by
/// the node when it signs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Payload {
    /// The receiver; without one a contract is created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Address>,
    /// Wei to send.
    #[serde(with = "crate::amount", skip_serializing_if = "Option::is_none")]
    pub value: Option<U256>,
    /// Call data or init code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Bytes>,
    /// The gas limit; estimated when missing.
    #[serde(with = "crate::amount", skip_serializing_if = "Option::is_none")]
    pub gas: Option<u64>,
    /// Wei per gas, as before EIP-1559.
    #[serde(with = "crate::amount", skip_serializing_if = "Option::is_none")]
    pub gas_price: Option<u128>,
    /// The EIP-1559 cap, in wei per gas.
    #[serde(with = "crate::amount", skip_serializing_if = "Option::is_none")]
    pub max_fee_per_gas: Option<u128>,
    /// The EIP-1559 tip, in wei per gas.
    #[serde(with = "crate::amount", skip_serializing_if = "Option::is_none")]
    pub max_priority_fee_per_gas: Option<u128>,
    /// What will be touched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access_list: Option<Vec<Access>>,
}

/// One entry of an access list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Access {
    /// The account that is touched.
    pub address: Address,
    /// Its storage keys.
    #[serde(default)]
    pub storage_keys: Vec<B256>,
}

impl Payload {
    /// Sends wei.
    #[must_use]
    pub fn transfer(to: Address, wei: U256) -> Self {
        Self {
            to: Some(to),
            value: Some(wei),
            ..Self::default()
        }
    }

    /// Calls a contract.
    #[must_use]
    pub fn call(to: Address, data: impl Into<Bytes>) -> Self {
        Self {
            to: Some(to),
            data: Some(data.into()),
            ..Self::default()
        }
    }

    /// Creates a contract.
    #[must_use]
    pub fn deploy(init_code: impl Into<Bytes>) -> Self {
        Self {
            data: Some(init_code.into()),
            ..Self::default()
        }
    }
}

/// Fees, in wei per gas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Given", into = "Given")]
pub enum Fees {
    /// One price, as before EIP-1559.
    Legacy {
        /// The price.
        gas_price: u128,
    },
    /// As in EIP-1559.
    Dynamic {
        /// The cap.
        max_fee_per_gas: u128,
        /// The tip.
        max_priority_fee_per_gas: u128,
    },
}

/// Fees as their fields.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Given {
    #[serde(
        with = "crate::amount",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    gas_price: Option<u128>,
    #[serde(
        with = "crate::amount",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    max_fee_per_gas: Option<u128>,
    #[serde(
        with = "crate::amount",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    max_priority_fee_per_gas: Option<u128>,
}

impl From<Fees> for Given {
    fn from(fees: Fees) -> Self {
        match fees {
            Fees::Legacy { gas_price } => Self {
                gas_price: Some(gas_price),
                max_fee_per_gas: None,
                max_priority_fee_per_gas: None,
            },
            Fees::Dynamic {
                max_fee_per_gas,
                max_priority_fee_per_gas,
            } => Self {
                gas_price: None,
                max_fee_per_gas: Some(max_fee_per_gas),
                max_priority_fee_per_gas: Some(max_priority_fee_per_gas),
            },
        }
    }
}

impl From<Given> for Fees {
    fn from(given: Given) -> Self {
        match given.gas_price {
            Some(gas_price) => Self::Legacy { gas_price },
            None => Self::Dynamic {
                max_fee_per_gas: given.max_fee_per_gas.unwrap_or_default(),
                max_priority_fee_per_gas: given.max_priority_fee_per_gas.unwrap_or_default(),
            },
        }
    }
}
