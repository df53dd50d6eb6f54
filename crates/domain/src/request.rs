//! What a client asks for. A [`Payload`] exists only when a node would not refuse it unseen:
//! addresses, amounts, sizes, gas and fees are checked before anything is stored.

mod parse;

use std::fmt;
use std::sync::{Arc, OnceLock};

use alloy_primitives::{Address, B256, Bytes, U256};
use alloy_rlp::{RlpDecodable, RlpEncodable};
use jiff::Timestamp;

use crate::amount::Unreadable;
use crate::canonical::Words;
use crate::ids::{Lane, RequestId, TxId};

/// One entry of an EIP-2930 access list. Stored as its fields follow each other here: see `canonical`.
#[derive(Debug, Clone, PartialEq, Eq, RlpEncodable, RlpDecodable)]
pub struct Access {
    /// The account that is touched.
    pub address: Address,
    /// Its storage keys.
    pub keys: Vec<B256>,
}

/// What the sender says about fees; the two ways exclude each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fees {
    /// Nothing: we choose at signing.
    Ours,
    /// One price, as before EIP-1559.
    Legacy {
        /// Wei per gas.
        gas_price: u128,
    },
    /// EIP-1559; what is missing we choose at signing.
    Dynamic {
        /// The cap, in wei per gas.
        max_fee: Option<u128>,
        /// The tip, in wei per gas.
        max_priority_fee: Option<u128>,
    },
}

/// The fields as a client wrote them, before anyone has read them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Draft<T = String> {
    /// The receiver; absent for a contract creation.
    pub to: Option<T>,
    /// Wei to send.
    pub value: Option<T>,
    /// Call data or init code.
    pub data: Option<T>,
    /// The gas limit.
    pub gas: Option<T>,
    /// Wei per gas, legacy.
    pub gas_price: Option<T>,
    /// The EIP-1559 cap.
    pub max_fee_per_gas: Option<T>,
    /// The EIP-1559 tip.
    pub max_priority_fee_per_gas: Option<T>,
    /// Address and storage keys of each entry.
    pub access_list: Option<Vec<(T, Vec<T>)>>,
}

/// Our own ceilings on fees, from the chain's configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ceilings {
    /// The greatest cap or legacy price we sign, in wei per gas.
    pub max_fee: u128,
    /// The greatest tip we sign, in wei per gas.
    pub max_priority_fee: u128,
}

/// One thing that is wrong with one field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} {why}")]
pub struct Invalid {
    /// The field's name as clients write it.
    pub field: &'static str,
    /// What is wrong.
    pub why: Fault,
}

/// Why a field is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// It does not parse.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    /// A transaction without a receiver must create a contract.
    #[error("is missing, and without data there is no contract to create")]
    NoReceiver,
    /// gasPrice beside an EIP-1559 field.
    #[error("cannot stand beside maxFeePerGas or maxPriorityFeePerGas")]
    TwoFeeStyles,
    /// The tip would exceed what the cap allows.
    #[error("is above maxFeePerGas")]
    TipAboveCap,
    /// Above the configured ceiling.
    #[error("is above the ceiling of {0} wei per gas")]
    AboveCeiling(u128),
    /// Below what every node requires.
    #[error("is below the {0} that every node requires")]
    GasBelow(u64),
    /// Above what any block takes.
    #[error("is above the limit of {0}")]
    GasAbove(u64),
    /// More bytes than any node takes.
    #[error("makes {bytes} bytes, above the limit of {max}")]
    TooManyBytes {
        /// How many there are.
        bytes: usize,
        /// How many there may be.
        max: usize,
    },
}

/// What is to be executed. Only [`Payload::parse`] makes one of client input. Copies share it: a request has many on
/// its way.
#[derive(Clone)]
pub struct Payload(pub(crate) Arc<Shared>);

/// What copies share.
pub(crate) struct Shared {
    pub(crate) fields: Fields,
    /// How they are spelled, once somebody has asked.
    pub(crate) words: OnceLock<Words>,
}

/// What a client gave.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fields {
    pub(crate) to: Option<Address>,
    pub(crate) value: Option<U256>,
    pub(crate) data: Option<Bytes>,
    pub(crate) gas: Option<u64>,
    pub(crate) fees: Fees,
    pub(crate) access: Option<Vec<Access>>,
}

impl PartialEq for Payload {
    fn eq(&self, other: &Self) -> bool {
        self.0.fields == other.0.fields
    }
}

impl Eq for Payload {}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Payload").field(&self.0.fields).finish()
    }
}

impl From<Fields> for Payload {
    fn from(fields: Fields) -> Self {
        Self(Arc::new(Shared {
            fields,
            words: OnceLock::new(),
        }))
    }
}

impl Payload {
    /// Nothing, sent to this account: what uses a nonce up and does no more.
    #[must_use]
    pub fn nothing(to: Address) -> Self {
        Self::from(Fields {
            to: Some(to),
            value: None,
            data: None,
            gas: None,
            fees: Fees::Ours,
            access: None,
        })
    }

    /// Whether a block would execute the same of both: receiver, value and data. Gas, fees and access lists are only
    /// how it is paid for.
    #[must_use]
    pub fn executes_same(&self, other: &Self) -> bool {
        let value = |payload: &Self| payload.value().unwrap_or(U256::ZERO);
        self.to() == other.to() && value(self) == value(other) && self.data() == other.data()
    }

    /// The receiver; `None` creates a contract.
    #[must_use]
    pub fn to(&self) -> Option<Address> {
        self.0.fields.to
    }

    /// The wei to send, if the client said.
    #[must_use]
    pub fn value(&self) -> Option<U256> {
        self.0.fields.value
    }

    /// Call data or init code, if the client gave any.
    #[must_use]
    pub fn given_data(&self) -> Option<&Bytes> {
        self.0.fields.data.as_ref()
    }

    /// Call data or init code; empty when none was given.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        self.0
            .fields
            .data
            .as_ref()
            .map_or(&[], |data| data.as_ref())
    }

    /// The gas limit, if the client said.
    #[must_use]
    pub fn gas(&self) -> Option<u64> {
        self.0.fields.gas
    }

    /// What the client said about fees.
    #[must_use]
    pub fn fees(&self) -> Fees {
        self.0.fields.fees
    }

    /// The access list, if the client gave one.
    #[must_use]
    pub fn given_access(&self) -> Option<&[Access]> {
        self.0.fields.access.as_deref()
    }

    /// The access list; empty when none was given.
    #[must_use]
    pub fn access(&self) -> &[Access] {
        self.0.fields.access.as_deref().unwrap_or_default()
    }
}

/// JSON text that belongs to the client; kept, returned, never compared. Copies share the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meta(Arc<str>);

/// A client's meta text cannot be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadMeta {
    /// It is larger than we keep.
    #[error("meta is {bytes} bytes, above the limit of {max}", max = Meta::BYTES_MAX)]
    TooLarge {
        /// How many bytes it had.
        bytes: usize,
    },
    /// It holds the one character that no text column holds, and that no JSON text has bare.
    #[error("meta holds a NUL character")]
    Nul,
}

impl Meta {
    /// It rides along in every read of the transaction: larger texts belong elsewhere.
    pub const BYTES_MAX: usize = 16 * 1024;

    /// Takes a text within the bound and without a NUL; that it is JSON is the HTTP layer's to know.
    pub fn new(text: impl Into<Arc<str>>) -> Result<Self, BadMeta> {
        let text = text.into();
        if text.len() > Self::BYTES_MAX {
            return Err(BadMeta::TooLarge { bytes: text.len() });
        }
        if text.contains('\0') {
            return Err(BadMeta::Nul);
        }
        Ok(Self(text))
    }

    /// The text as it was given.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A valid request, with the id that the accepting node gave it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Minted once; every forward and retry of this request carries it.
    pub tx: TxId,
    /// Who sends, and where.
    pub lane: Lane,
    /// The client's own name for it.
    pub request_id: Option<RequestId>,
    /// What is to be executed.
    pub payload: Payload,
    /// Not to be given a nonce after this time.
    pub not_after: Option<Timestamp>,
    /// The client's own words.
    pub meta: Option<Meta>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meta_is_bounded() {
        assert!(Meta::new("x".repeat(Meta::BYTES_MAX)).is_ok());
        assert!(Meta::new("x".repeat(Meta::BYTES_MAX + 1)).is_err());
    }

    #[test]
    fn meta_without_json_escapes_for_nul_is_refused() {
        assert_eq!(Meta::new("{\"a\":\"\0\"}"), Err(BadMeta::Nul));
        assert!(Meta::new(r#"{"a":"\u0000"}"#).is_ok());
    }
}
