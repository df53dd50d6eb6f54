//! What Besu says: codes of its own, and nothing at all where it drops what does not fit its pool.

use crate::rejection::Rejection;

pub(super) fn words(rejection: Rejection) -> Option<(i64, String)> {
    let (code, text) = match rejection {
        Rejection::Malformed => (-32602, "Invalid transaction params (missing or incorrect)"),
        Rejection::TypeUnsupported => (-32000, "Invalid transaction type"),
        Rejection::Unprotected => (
            -32000,
            "Transaction chainId is required; replay-protected signature required",
        ),
        Rejection::WrongChain => (-32000, "Wrong chainId"),
        Rejection::BadSignature => (-32002, "Invalid signature"),
        Rejection::Oversized => (-32000, "Transaction size exceeds the limit"),
        Rejection::TipAboveCap => (-32000, "Max priority fee per gas exceeds max fee per gas"),
        Rejection::GasAboveBlock => (-32005, "Transaction gas limit exceeds block gas limit"),
        Rejection::GasAboveCap => (-32005, "Transaction gas limit cap exceeded"),
        Rejection::IntrinsicGas => (-32003, "Intrinsic gas exceeds gas limit"),
        Rejection::FeeAboveNodeCap => (-32000, "Transaction fee cap exceeded"),
        Rejection::BelowMinimum => (-32009, "Gas price below configured minimum gas price"),
        Rejection::BelowBaseFee => (-32009, "Gas price below current base fee"),
        Rejection::NonceTooLow => (-32001, "Nonce too low"),
        Rejection::NonceTooHigh => (
            -32000,
            "Transaction nonce is too distant from current sender nonce",
        ),
        Rejection::NoFunds => (-32004, "Upfront cost exceeds account balance"),
        Rejection::AlreadyKnown => (-32000, "Known transaction"),
        Rejection::ReplacementUnderpriced => (-32000, "Replacement transaction underpriced"),
        // Dropped is no error to Besu: the sender is told the hash of what is gone.
        Rejection::Underpriced | Rejection::PoolFull | Rejection::AccountLimit => return None,
        Rejection::SenderHasCode => (-32007, "Sender account not authorized to send transactions"),
        Rejection::Syncing => (-32008, "Initial sync is still in progress"),
        Rejection::RateLimited => (-32005, "Request rate limit exceeded"),
    };
    Some((code, text.to_owned()))
}
