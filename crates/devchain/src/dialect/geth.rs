//! What geth says. Other clients borrow many of its words.

use crate::dialect::TX_BYTES_MAX;
use crate::rejection::{Facts, Rejection};

pub(super) fn words(rejection: Rejection, facts: &Facts) -> (i64, String) {
    let is_provider = rejection == Rejection::RateLimited;
    let code = if is_provider { -32005 } else { -32000 };
    (code, text(rejection, facts))
}

pub(super) fn text(rejection: Rejection, facts: &Facts) -> String {
    match rejection {
        Rejection::Malformed => "rlp: value size exceeds available input length".to_owned(),
        Rejection::TypeUnsupported => "transaction type not supported".to_owned(),
        Rejection::Unprotected => {
            "only replay-protected (EIP-155) transactions allowed over RPC".to_owned()
        }
        Rejection::WrongChain => format!(
            "invalid sender: invalid chain id for signer: have {} want {}",
            facts.tx_chain_id, facts.chain_id
        ),
        Rejection::BadSignature => "invalid sender: invalid transaction v, r, s values".to_owned(),
        Rejection::Oversized => format!(
            "oversized data: transaction size {}, limit {TX_BYTES_MAX}",
            facts.size
        ),
        Rejection::TipAboveCap => "max priority fee per gas higher than max fee per gas".to_owned(),
        Rejection::GasAboveBlock => "exceeds block gas limit".to_owned(),
        Rejection::GasAboveCap => format!(
            "transaction gas limit too high (cap: {}, tx: {})",
            facts.gas_bound, facts.gas
        ),
        Rejection::IntrinsicGas => format!(
            "intrinsic gas too low: gas {}, minimum needed {}",
            facts.gas, facts.gas_bound
        ),
        Rejection::FeeAboveNodeCap => {
            "tx fee (2.00 ether) exceeds the configured cap (1.00 ether)".to_owned()
        }
        Rejection::BelowMinimum => format!(
            "transaction gas price below minimum: gas tip cap {}, minimum needed {}",
            facts.fee, facts.fee_bound
        ),
        Rejection::BelowBaseFee => "max fee per gas less than block base fee".to_owned(),
        Rejection::NonceTooLow => format!(
            "nonce too low: next nonce {}, tx nonce {}",
            facts.nonce_next, facts.nonce
        ),
        Rejection::NonceTooHigh => format!(
            "nonce too high: tx nonce {}, gapped nonce {}",
            facts.nonce, facts.nonce_next
        ),
        Rejection::NoFunds => funds(facts),
        Rejection::AlreadyKnown => "already known".to_owned(),
        Rejection::ReplacementUnderpriced => "replacement transaction underpriced".to_owned(),
        Rejection::Underpriced => "transaction underpriced".to_owned(),
        Rejection::PoolFull => "txpool is full".to_owned(),
        Rejection::AccountLimit => {
            format!("account limit exceeded: pooled {} txs", facts.pooled)
        }
        Rejection::SenderHasCode => "sender not an eoa".to_owned(),
        Rejection::Syncing => "future transaction tries to replace pending".to_owned(),
        Rejection::RateLimited => "daily request count exceeded, request rate limited".to_owned(),
    }
}

fn funds(facts: &Facts) -> String {
    let words = "insufficient funds for gas * price + value";
    let Facts { balance, cost, .. } = facts;
    if facts.cost_pooled.is_zero() {
        let over = cost.saturating_sub(*balance);
        return format!("{words}: balance {balance}, tx cost {cost}, overshot {over}");
    }
    let queued = facts.cost_pooled;
    let over = queued.saturating_add(*cost).saturating_sub(*balance);
    format!("{words}: balance {balance}, queued cost {queued}, tx cost {cost}, overshot {over}")
}
