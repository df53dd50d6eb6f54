//! What Erigon says: an import result, and a reason after it.

use crate::rejection::{Facts, Rejection};

pub(super) fn words(rejection: Rejection, facts: &Facts) -> (i64, String) {
    let text = match rejection {
        Rejection::Malformed => "rlp: value size exceeds available input length",
        Rejection::TypeUnsupported => "INTERNAL_ERROR: transaction type not supported",
        Rejection::Unprotected => "only replay-protected (EIP-155) transactions allowed over RPC",
        Rejection::WrongChain => {
            let Facts {
                chain_id,
                tx_chain_id,
                ..
            } = facts;
            let text = format!("invalid chain id, expected: {chain_id} got: {tx_chain_id}");
            return (-32000, text);
        }
        Rejection::BadSignature => "INVALID: invalid sender",
        Rejection::Oversized => "INVALID: oversized data",
        Rejection::TipAboveCap => "INVALID: max priority fee per gas higher than max fee per gas",
        Rejection::GasAboveBlock | Rejection::GasAboveCap => {
            "INTERNAL_ERROR: gas limit is too high"
        }
        Rejection::IntrinsicGas => "INTERNAL_ERROR: IntrinsicGas",
        Rejection::FeeAboveNodeCap => "tx fee (2.00 ether) exceeds the configured cap (1.00 ether)",
        Rejection::BelowMinimum => "FEE_TOO_LOW: fee too low",
        Rejection::BelowBaseFee => "FEE_TOO_LOW: fee too low",
        Rejection::NonceTooLow => "INTERNAL_ERROR: nonce too low",
        Rejection::NonceTooHigh => {
            "INTERNAL_ERROR: nonce gap too large: transaction nonce is too far ahead of sender's on-chain nonce"
        }
        Rejection::NoFunds => "INTERNAL_ERROR: insufficient funds",
        Rejection::AlreadyKnown => "ALREADY_EXISTS: already known",
        Rejection::ReplacementUnderpriced => "FEE_TOO_LOW: replacement transaction underpriced",
        Rejection::Underpriced => "FEE_TOO_LOW: underpriced",
        Rejection::PoolFull => "INTERNAL_ERROR: pending sub-pool is full",
        Rejection::AccountLimit => "INTERNAL_ERROR: spammer",
        Rejection::SenderHasCode => "INTERNAL_ERROR: sender not an eoa",
        Rejection::Syncing => "error getting sender state during tx validation",
        Rejection::RateLimited => return (-32005, "rate limit exceeded".to_owned()),
    };
    (-32000, text.to_owned())
}
