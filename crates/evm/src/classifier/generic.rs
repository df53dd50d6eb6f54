//! Texts that mean the same wherever they are said: geth's, which most clients speak by now, and
//! those of chains that nobody else uses.

use fencepost_domain::rejection::Rejection::{
    AlreadyKnown, Invalid, NoFunds, NonceTooHigh, NonceTooLow, NotReady, PoolFull,
    ReplacementUnderpriced, Reserved, Underpriced,
};

use super::{Entry, start, word};

pub(super) const TABLE: &[Entry] = &[
    word("already known", AlreadyKnown),
    // Old geth and Besu, and zkSync with a sentence behind it.
    word("known transaction", AlreadyKnown),
    word("already imported", AlreadyKnown),
    // Sei.
    word("tx already exists in cache", AlreadyKnown),
    // Harmony: it is in a block, so the nonce is used.
    word("transaction already finalized", NonceTooLow),
    word("nonce too low", NonceTooLow),
    word("nonce is too low", NonceTooLow),
    word("nonce too high", NonceTooHigh),
    word("future transaction tries to replace pending", NonceTooHigh),
    word(
        "replacement transaction underpriced",
        ReplacementUnderpriced,
    ),
    // OpenEthereum, whose sentence begins like the one for a low price.
    word(
        "there is another transaction with same nonce",
        ReplacementUnderpriced,
    ),
    word("transaction underpriced", Underpriced),
    word("transaction gas price below minimum", Underpriced),
    word("transaction priority fee below minimum", Underpriced),
    word("max fee per gas less than block base fee", Underpriced),
    // Celo.
    word("gasprice is less than gas price minimum", Underpriced),
    // Metis; OpenEthereum.
    word("gas price too low", Underpriced),
    word("gas price is too low", Underpriced),
    word("txpool is full", PoolFull),
    word("account limit exceeded: pooled", PoolFull),
    // Arbitrum. A gateway's own queue is another.
    start("queue full", PoolFull),
    word("sequencer pending tx pool full", PoolFull),
    word("insufficient funds", NoFunds),
    // revm, whose words reth and others hand on.
    word("lack of funds", NoFunds),
    // Monad.
    word("signer had insufficient balance", NoFunds),
    word("exceeds block gas limit", Invalid),
    word("exceeds max transaction gas limit", Invalid),
    word("transaction gas limit too high", Invalid),
    word("intrinsic gas too low", Invalid),
    word("insufficient gas for floor data gas cost", Invalid),
    // zkSync; Monad.
    word("not enough gas for transaction validation", Invalid),
    word("gas limit too low", Invalid),
    // zkEVM: the circuit has no room for it.
    word("counters to continue the execution", Invalid),
    word("out of counters at node level", Invalid),
    word("exceeds the configured cap", Invalid),
    word(
        "max priority fee per gas higher than max fee per gas",
        Invalid,
    ),
    word("oversized data", Invalid),
    word("invalid sender", Invalid),
    word("invalid transaction signature", Invalid),
    word("invalid chain id", Invalid),
    word("only replay-protected (eip-155) transactions", Invalid),
    word("sender not an eoa", Invalid),
    word("sender is not an eoa", Invalid),
    word("address already reserved", Reserved),
    word(
        "in-flight transaction limit reached for delegated",
        Reserved,
    ),
    word("gapped-nonce tx from delegated accounts", Reserved),
    word("authority already reserved", Reserved),
    word("node is syncing", NotReady),
];
