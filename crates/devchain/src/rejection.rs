//! Why a node does not take a transaction. The kinds are ours; the words for them are the dialects'.

use alloy_primitives::U256;
use serde::{Deserialize, Serialize};

/// The kinds of refusals that clients have words for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Rejection {
    /// The bytes are no transaction.
    Malformed,
    /// A type that the chain does not have.
    TypeUnsupported,
    /// A legacy transaction without a chain id.
    Unprotected,
    /// Signed for another chain.
    WrongChain,
    /// No sender can be recovered.
    BadSignature,
    /// More bytes than a pool takes.
    Oversized,
    /// The tip is higher than the fee cap.
    TipAboveCap,
    /// The gas limit is higher than a block's.
    GasAboveBlock,
    /// The gas limit is higher than a transaction's may be (EIP-7825).
    GasAboveCap,
    /// The gas limit is lower than the transaction costs before it does anything.
    IntrinsicGas,
    /// It may cost more than the node lets anyone pay.
    FeeAboveNodeCap,
    /// It tips less than the node asks for.
    BelowMinimum,
    /// It pays less than the base fee.
    BelowBaseFee,
    /// The nonce was used.
    NonceTooLow,
    /// The nonce is too far ahead.
    NonceTooHigh,
    /// The sender cannot pay for all that it has in the pool.
    NoFunds,
    /// The pool has these bytes.
    AlreadyKnown,
    /// The pool has another transaction of this nonce that pays as much.
    ReplacementUnderpriced,
    /// The pool is full of transactions that pay as much.
    Underpriced,
    /// The pool is full.
    PoolFull,
    /// The pool has as many of this sender as it takes.
    AccountLimit,
    /// The sender is a contract.
    SenderHasCode,
    /// The node does not know the chain's state yet.
    Syncing,
    /// The provider has been asked too often.
    RateLimited,
}

/// Every kind, for tables.
pub const REJECTIONS: [Rejection; 24] = [
    Rejection::Malformed,
    Rejection::TypeUnsupported,
    Rejection::Unprotected,
    Rejection::WrongChain,
    Rejection::BadSignature,
    Rejection::Oversized,
    Rejection::TipAboveCap,
    Rejection::GasAboveBlock,
    Rejection::GasAboveCap,
    Rejection::IntrinsicGas,
    Rejection::FeeAboveNodeCap,
    Rejection::BelowMinimum,
    Rejection::BelowBaseFee,
    Rejection::NonceTooLow,
    Rejection::NonceTooHigh,
    Rejection::NoFunds,
    Rejection::AlreadyKnown,
    Rejection::ReplacementUnderpriced,
    Rejection::Underpriced,
    Rejection::PoolFull,
    Rejection::AccountLimit,
    Rejection::SenderHasCode,
    Rejection::Syncing,
    Rejection::RateLimited,
];

/// The figures that the words are filled with. Those that do not matter to a kind are zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Facts {
    /// The nonce of the transaction.
    pub nonce: u64,
    /// The nonce that is next.
    pub nonce_next: u64,
    /// The sender's balance, in wei.
    pub balance: U256,
    /// What the transaction may cost, in wei.
    pub cost: U256,
    /// What the sender's other pooled transactions may cost, in wei.
    pub cost_pooled: U256,
    /// The gas limit of the transaction.
    pub gas: u64,
    /// The gas limit or need it was held against.
    pub gas_bound: u64,
    /// The fee of the transaction, in wei.
    pub fee: u128,
    /// The fee it was held against, in wei.
    pub fee_bound: u128,
    /// The bytes of the transaction.
    pub size: usize,
    /// How many transactions of the sender are pooled.
    pub pooled: usize,
    /// The chain's id.
    pub chain_id: u64,
    /// The id that the transaction was signed for.
    pub tx_chain_id: u64,
}

/// A refusal with the figures that led to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejected {
    /// Why.
    pub rejection: Rejection,
    /// The figures.
    pub facts: Box<Facts>,
}

impl Rejection {
    pub(crate) fn with(self, facts: Facts) -> Rejected {
        Rejected {
            rejection: self,
            facts: Box::new(facts),
        }
    }
}

impl From<Rejection> for Rejected {
    fn from(rejection: Rejection) -> Rejected {
        rejection.with(Facts::default())
    }
}
