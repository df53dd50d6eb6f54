//! What Nethermind says since mid-2026; before, its messages were the names of its own C# values.

use crate::rejection::{Facts, Rejection};

pub(super) fn words(rejection: Rejection, facts: &Facts) -> (i64, String) {
    let text = match rejection {
        Rejection::Malformed => "Invalid RLP.".to_owned(),
        Rejection::TypeUnsupported => {
            "transaction invalid, InvalidTxType: Transaction type is not supported.".to_owned()
        }
        Rejection::Unprotected | Rejection::WrongChain => format!(
            "transaction invalid, InvalidTxChainId: Expected {}, got {}.",
            facts.chain_id, facts.tx_chain_id
        ),
        Rejection::BadSignature => "failed to recover sender".to_owned(),
        Rejection::Oversized => "transaction too large".to_owned(),
        Rejection::TipAboveCap => "transaction invalid, InvalidMaxPriorityFeePerGas: Cannot be \
                                   higher than maxFeePerGas."
            .to_owned(),
        Rejection::GasAboveBlock => format!(
            "gas limit reached, Gas limit: {}, gas limit of rejected tx: {}",
            facts.gas_bound, facts.gas
        ),
        Rejection::GasAboveCap => format!(
            "transaction invalid, TxGasLimitCapExceeded: Gas limit {} exceeded cap of {}.",
            facts.gas, facts.gas_bound
        ),
        Rejection::IntrinsicGas => "transaction invalid, intrinsic gas too low".to_owned(),
        Rejection::BelowMinimum
        | Rejection::BelowBaseFee
        | Rejection::Underpriced
        | Rejection::PoolFull
        | Rejection::FeeAboveNodeCap => "transaction underpriced".to_owned(),
        Rejection::NonceTooLow => "nonce too low".to_owned(),
        Rejection::NonceTooHigh => "nonce too high".to_owned(),
        Rejection::NoFunds => format!(
            "insufficient funds for gas * price + value, Account balance: {}, cumulative cost: {}",
            facts.balance,
            facts.cost.saturating_add(facts.cost_pooled)
        ),
        Rejection::AlreadyKnown => "already known".to_owned(),
        Rejection::ReplacementUnderpriced => "replacement transaction underpriced".to_owned(),
        Rejection::AccountLimit => "nonce too far in future".to_owned(),
        Rejection::SenderHasCode => "sender not an eoa".to_owned(),
        Rejection::Syncing => "node is syncing".to_owned(),
        Rejection::RateLimited => return (-32005, "Too many requests".to_owned()),
    };
    (-32000, text)
}
