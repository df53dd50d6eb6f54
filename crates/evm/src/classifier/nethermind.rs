//! Nethermind: names of C# constants until the middle of 2026, with the code −32010 until its
//! February, then geth's words with −32000.

use fencepost_domain::rejection::Rejection::{
    AlreadyKnown, Invalid, NoFunds, NonceTooHigh, NonceTooLow, NotReady, ReplacementUnderpriced,
    Reserved, Underpriced,
};

use super::{Entry, start, word};

/// What the pool answers with. "Invalid params" has another code, and is no word about a transaction.
const POOL: &[i64] = &[-32_010, -32_000];

pub(super) const TABLE: &[Entry] = &[
    start("alreadyknown", AlreadyKnown),
    start("oldnonce", NonceTooLow),
    start("noncegap", NonceTooHigh),
    start("noncetoofarinfuture", NonceTooHigh),
    word("nonce too far in future", NonceTooHigh),
    start("replacementnotallowed", ReplacementUnderpriced),
    // Also FeeTooLowToCompete, for a pool full of better ones.
    start("feetoolow", Underpriced),
    start("insufficientfunds", NoFunds),
    // To estimates and calls, until the middle of 2026.
    word("insufficient sender balance", NoFunds),
    start("gaslimitexceeded", Invalid),
    // In geth's words this is a block without room, which passes.
    start("gas limit reached", Invalid),
    word("gas below floor data cost", Invalid),
    word("txgaslimitcapexceeded", Invalid),
    start("transaction invalid", Invalid),
    start("transaction too large", Invalid),
    word("failed to recover sender", Invalid),
    start("failedtoresolvesender", Invalid),
    start("senderiscontract", Invalid),
    start("pendingtxsofconflictingtype", Reserved),
    word("pending transaction type conflict", Reserved),
    word("delegation nonce gap", Reserved),
    word("delegation authority has pending transaction", Reserved),
    start("syncing", NotReady).with(POOL),
    start("invalid", Invalid).with(POOL),
];
