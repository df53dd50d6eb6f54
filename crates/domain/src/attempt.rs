//! Signed bytes for a transaction's nonce. Once stored they count as maybe sent, for ever.

use alloy_primitives::{Address, B256, Bytes, U256};

use crate::ids::{ChainId, Nonce};
use crate::request::Access;

words! {
    /// Why these bytes were signed; it decides what their confirmation means.
    Kind("attempt.kind") {
        /// The payload with the fees chosen first.
        Original = "ORIGINAL",
        /// The payload again, with higher fees.
        Replacement = "REPLACEMENT",
        /// Nothing but using the nonce up, because the payload is no longer wanted.
        Cancel = "CANCEL",
        /// Nothing but using the nonce up, because later nonces wait for it.
        Placeholder = "PLACEHOLDER",
        /// Something else than the payload: a stuck policy wants that executed with this nonce instead.
        Substitute = "SUBSTITUTE",
        /// Signed and sent by the holder of a reservation; we only know its hash.
        External = "EXTERNAL",
    }
}

words! {
    /// What came of sending. Only a known definite reason from every endpoint is a refusal.
    Outcome("attempt.outcome") {
        /// A node has taken the bytes, or had them already.
        Accepted = "ACCEPTED",
        /// They may or may not have arrived.
        Ambiguous = "AMBIGUOUS",
        /// Every endpoint said no, for a reason we know.
        Refused = "REFUSED",
    }
}

/// The fees that were signed, in wei per gas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignedFees {
    /// The EIP-1559 cap, or the legacy price.
    pub max_fee: u128,
    /// The EIP-1559 tip; none for a legacy price.
    pub max_priority_fee: Option<u128>,
}

/// What is to be signed: whole, with nothing left to choose. Without a tip it is a legacy transaction,
/// or an EIP-2930 one if it has an access list; with one it is an EIP-1559 transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsigned {
    /// Where it is good.
    pub chain: ChainId,
    /// Its nonce.
    pub nonce: Nonce,
    /// The receiver; none creates a contract.
    pub to: Option<Address>,
    /// Wei to send.
    pub value: U256,
    /// Call data or init code.
    pub data: Bytes,
    /// The gas limit.
    pub gas: u64,
    /// The fees.
    pub fees: SignedFees,
    /// The access list, if there is one.
    pub access: Option<Vec<Access>>,
}

/// One set of signed bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// Why they were signed.
    pub kind: Kind,
    /// The transaction hash that the chain will show.
    pub hash: B256,
    /// The bytes. Empty for [`Kind::External`]: its holder has them.
    pub raw: Bytes,
    /// The fees in them. None for [`Kind::External`].
    pub fees: Option<SignedFees>,
}
