//! What reth and anvil say where it is not what geth says.

use super::geth;
use crate::rejection::{Facts, Rejection};

pub(super) fn reth(rejection: Rejection, facts: &Facts) -> (i64, String) {
    let same = |code| (code, geth::text(rejection, facts));
    let own = |code, text: &str| (code, text.to_owned());
    match rejection {
        Rejection::Malformed => own(-32602, "failed to decode signed transaction"),
        Rejection::TypeUnsupported
        | Rejection::Unprotected
        | Rejection::Oversized
        | Rejection::TipAboveCap
        | Rejection::GasAboveBlock
        | Rejection::BelowBaseFee
        | Rejection::NonceTooLow
        | Rejection::AlreadyKnown
        | Rejection::ReplacementUnderpriced
        | Rejection::Underpriced => same(-32000),
        Rejection::WrongChain => own(-32000, "invalid chain ID"),
        Rejection::BadSignature => own(-32000, "invalid transaction signature"),
        Rejection::GasAboveCap => own(-32000, "exceeds max transaction gas limit"),
        Rejection::IntrinsicGas => own(-32000, "intrinsic gas too low"),
        Rejection::FeeAboveNodeCap => own(
            -32000,
            "tx fee (2000000000000000000 wei) exceeds the configured cap (1000000000000000000 wei)",
        ),
        Rejection::BelowMinimum => (
            -32003,
            format!(
                "transaction priority fee below minimum required priority fee {}",
                facts.fee_bound
            ),
        ),
        Rejection::NonceTooHigh => own(-32000, "nonce too high"),
        Rejection::NoFunds => (
            -32003,
            format!(
                "insufficient funds for gas * price + value: have {} want {}",
                facts.balance,
                facts.cost.saturating_add(facts.cost_pooled)
            ),
        ),
        Rejection::PoolFull | Rejection::AccountLimit => own(-32003, "txpool is full"),
        Rejection::SenderHasCode => own(-32000, "sender is not an EOA"),
        Rejection::Syncing => own(-32000, "node is syncing"),
        Rejection::RateLimited => own(-32005, "rate limit exceeded"),
    }
}

pub(super) fn anvil(rejection: Rejection, facts: &Facts) -> (i64, String) {
    let text = match rejection {
        Rejection::Malformed => return (-32602, "Failed to decode transaction".to_owned()),
        Rejection::TypeUnsupported => "Unknown transaction type not supported",
        Rejection::Unprotected => "Incompatible EIP-155 transaction, signed for another chain",
        Rejection::WrongChain => "invalid chain id for signer",
        Rejection::BadSignature => "Failed to recover the signer",
        Rejection::GasAboveBlock | Rejection::GasAboveCap => {
            let Facts { gas, gas_bound, .. } = facts;
            let text = format!(
                "Transaction gas limit is greater than the block gas limit, gas_limit: {gas}, cap: {gas_bound}"
            );
            return (-32003, text);
        }
        Rejection::IntrinsicGas => return (-32000, "intrinsic gas too low".to_owned()),
        Rejection::BelowMinimum | Rejection::BelowBaseFee => {
            "max fee per gas less than block base fee"
        }
        Rejection::NonceTooLow => "nonce too low",
        Rejection::NonceTooHigh => "Nonce too high",
        Rejection::NoFunds => "Insufficient funds for gas * price + value",
        Rejection::AlreadyKnown => "transaction already imported",
        Rejection::ReplacementUnderpriced => "replacement transaction underpriced",
        Rejection::TipAboveCap
        | Rejection::Oversized
        | Rejection::FeeAboveNodeCap
        | Rejection::Underpriced
        | Rejection::PoolFull
        | Rejection::AccountLimit
        | Rejection::SenderHasCode
        | Rejection::Syncing
        | Rejection::RateLimited => return (-32003, geth::text(rejection, facts)),
    };
    (-32003, text.to_owned())
}
