//! Besu: sentences with codes. Codes alone are not believed: providers use −32005 for their rates,
//! and other clients give the same numbers other meanings.

use fencepost_domain::rejection::Rejection::{
    AlreadyKnown, Invalid, NoFunds, NonceTooHigh, NotReady, Underpriced,
};

use super::{Entry, start, word};

pub(super) const TABLE: &[Entry] = &[
    start("known transaction", AlreadyKnown),
    word(
        "nonce is too distant from current sender nonce",
        NonceTooHigh,
    ),
    word(
        "an invalid transaction with a lower nonce exists",
        NonceTooHigh,
    ),
    word("gas price below configured minimum gas price", Underpriced),
    word("gas price below current base fee", Underpriced),
    word("upfront cost exceeds account balance", NoFunds),
    // The same with its figures: "transaction up-front cost 0x… exceeds …".
    word("exceeds transaction sender account balance", NoFunds),
    word("gas limit exceeds block gas limit", Invalid),
    word("transaction gas limit cap exceeded", Invalid),
    word("intrinsic gas exceeds gas limit", Invalid),
    word("transaction fee cap exceeded", Invalid),
    word("max priority fee per gas exceeds max fee per gas", Invalid),
    start("invalid signature", Invalid),
    start("wrong chainid", Invalid),
    word(
        "sender account not authorized to send transactions",
        Invalid,
    ),
    word("initial sync is still in progress", NotReady),
    word("transaction pool not enabled", NotReady),
];
