//! Every text of the clients' sources, as the client says it and as an unknown client would.

use fencepost_domain::rejection::Rejection::{
    AlreadyKnown, Invalid, NoFunds, NonceTooHigh, NonceTooLow, NotReady, PoolFull,
    ReplacementUnderpriced, Reserved, Underpriced,
};

use super::*;

fn check(dialect: Dialect, code: i64, table: &[(&str, Rejection)]) {
    for (text, why) in table {
        assert_eq!(rejection(dialect, code, text), *why, "{dialect:?}: {text}");
        // Providers wrap messages and add to them.
        let longer = format!("{text} (request 0x17)");
        assert_eq!(rejection(dialect, code, &longer), *why, "{longer}");
    }
}

const GETH: &[(&str, Rejection)] = &[
    ("nonce too low: next nonce 7, tx nonce 3", NonceTooLow),
    ("nonce too high: tx nonce 9, gapped nonce 7", NonceTooHigh),
    ("already known", AlreadyKnown),
    (
        "replacement transaction underpriced",
        ReplacementUnderpriced,
    ),
    (
        "replacement transaction underpriced: new tx gas fee cap 1 < 2 queued + 100% replacement penalty",
        ReplacementUnderpriced,
    ),
    ("transaction underpriced", Underpriced),
    (
        "transaction gas price below minimum: gas tip cap 1, minimum needed 2",
        Underpriced,
    ),
    (
        "max fee per gas less than block base fee: address 0x1, maxFeePerGas: 1, baseFee: 2",
        Underpriced,
    ),
    ("txpool is full", PoolFull),
    ("account limit exceeded: pooled 16 txs", PoolFull),
    (
        "insufficient funds for gas * price + value: balance 1, tx cost 2, overshot 1",
        NoFunds,
    ),
    (
        "insufficient funds for gas * price + value: balance 1, queued cost 2, tx bumped 3",
        NoFunds,
    ),
    ("exceeds block gas limit", Invalid),
    (
        "transaction gas limit too high (cap: 16777216, tx: 20000000)",
        Invalid,
    ),
    (
        "intrinsic gas too low: gas 1, minimum needed 21000",
        Invalid,
    ),
    (
        "insufficient gas for floor data gas cost: gas 1, minimum needed 2",
        Invalid,
    ),
    (
        "tx fee (2.00 ether) exceeds the configured cap (1.00 ether)",
        Invalid,
    ),
    (
        "max priority fee per gas higher than max fee per gas",
        Invalid,
    ),
    (
        "oversized data: transaction size 140000, limit 131072",
        Invalid,
    ),
    (
        "invalid sender: invalid transaction v, r, s values",
        Invalid,
    ),
    (
        "only replay-protected (EIP-155) transactions allowed over RPC",
        Invalid,
    ),
    ("address already reserved", Reserved),
    (
        "in-flight transaction limit reached for delegated accounts",
        Reserved,
    ),
    ("gapped-nonce tx from delegated accounts", Reserved),
    ("authority already reserved", Reserved),
    ("future transaction tries to replace pending", NonceTooHigh),
    ("sender not an eoa: address 0x1, len(code): 23", Invalid),
];

#[test]
fn geth_is_understood_whoever_speaks_its_words() {
    for dialect in EVERY {
        check(dialect, -32_000, GETH);
    }
}

#[test]
fn reth_is_understood() {
    check(
        Dialect::Reth,
        -32_000,
        &[
            ("nonce too low: next nonce 7, tx nonce 3", NonceTooLow),
            ("nonce too high", NonceTooHigh),
            ("already known", AlreadyKnown),
            (
                "replacement transaction underpriced",
                ReplacementUnderpriced,
            ),
            ("transaction underpriced", Underpriced),
            ("max fee per gas less than block base fee", Underpriced),
            ("exceeds block gas limit", Invalid),
            ("exceeds max transaction gas limit", Invalid),
            ("intrinsic gas too low", Invalid),
            ("tx fee (9 wei) exceeds the configured cap (8 wei)", Invalid),
            (
                "max priority fee per gas higher than max fee per gas",
                Invalid,
            ),
            ("oversized data: transaction size 9, limit 8", Invalid),
            ("invalid sender", Invalid),
            ("invalid chain ID", Invalid),
            ("invalid transaction signature", Invalid),
            ("address already reserved", Reserved),
            ("sender is not an EOA", Invalid),
            (
                "in-flight transaction limit reached for delegated accounts",
                Reserved,
            ),
            ("gapped-nonce tx from delegated accounts", Reserved),
            ("authority already reserved", Reserved),
        ],
    );
    check(
        Dialect::Reth,
        -32_003,
        &[
            (
                "transaction priority fee below minimum required priority fee 7",
                Underpriced,
            ),
            ("txpool is full", PoolFull),
            (
                "insufficient funds for gas * price + value: have 1 want 2",
                NoFunds,
            ),
        ],
    );
}

#[test]
fn erigon_is_understood() {
    check(
        Dialect::Erigon,
        -32_000,
        &[
            ("INTERNAL_ERROR: nonce too low", NonceTooLow),
            (
                "INTERNAL_ERROR: nonce gap too large: transaction nonce is too far ahead of sender's on-chain nonce",
                NonceTooHigh,
            ),
            ("ALREADY_EXISTS: already known", AlreadyKnown),
            ("INTERNAL_ERROR: existing txn with same hash", AlreadyKnown),
            (
                "FEE_TOO_LOW: replacement transaction underpriced",
                ReplacementUnderpriced,
            ),
            (
                "INTERNAL_ERROR: could not replace existing tx",
                ReplacementUnderpriced,
            ),
            ("FEE_TOO_LOW: underpriced", Underpriced),
            ("FEE_TOO_LOW: fee too low", Underpriced),
            ("INTERNAL_ERROR: pending sub-pool is full", PoolFull),
            ("INTERNAL_ERROR: baseFee sub-pool is full", PoolFull),
            ("INTERNAL_ERROR: queued sub-pool is full", PoolFull),
            ("INTERNAL_ERROR: blobs limit in txpool is full", PoolFull),
            ("INTERNAL_ERROR: spammer", PoolFull),
            ("INTERNAL_ERROR: insufficient funds", NoFunds),
            ("INTERNAL_ERROR: gas limit is too high", Invalid),
            ("INTERNAL_ERROR: IntrinsicGas", Invalid),
            (
                "tx fee (2.00 ether) exceeds the configured cap (1.00 ether)",
                Invalid,
            ),
            (
                "INVALID: max priority fee per gas higher than max fee per gas",
                Invalid,
            ),
            ("INVALID: oversized data", Invalid),
            ("INVALID: RLPTooLong", Invalid),
            ("invalid chain id, expected: 1 got: 2", Invalid),
            ("INVALID: invalid sender", Invalid),
            ("can't replace blob-txn with a non-blob-txn", Reserved),
            (
                "EIP-7702 transaction with authority already reserved",
                Reserved,
            ),
            ("error getting sender state during tx validation", NotReady),
        ],
    );
}

#[test]
fn nethermind_is_understood_in_its_new_words() {
    let today = [
        ("nonce too low", NonceTooLow),
        ("nonce too high", NonceTooHigh),
        ("nonce too far in future", NonceTooHigh),
        ("already known", AlreadyKnown),
        (
            "replacement transaction underpriced",
            ReplacementUnderpriced,
        ),
        ("transaction underpriced", Underpriced),
        (
            "transaction underpriced, FeePerGas needs to be higher",
            Underpriced,
        ),
        (
            "insufficient funds for gas * price + value, Account balance: 1, cumulative cost: 2",
            NoFunds,
        ),
        (
            "insufficient funds for gas * price + value, Balance is 0",
            NoFunds,
        ),
        (
            "gas limit reached, Gas limit: 1, gas limit of rejected tx: 2",
            Invalid,
        ),
        (
            "transaction invalid, TxGasLimitCapExceeded: Gas limit 2 exceeded cap of 1.",
            Invalid,
        ),
        ("transaction invalid, intrinsic gas too low", Invalid),
        ("gas below floor data cost", Invalid),
        (
            "transaction invalid, InvalidMaxPriorityFeePerGas: Cannot be higher than maxFeePerGas.",
            Invalid,
        ),
        ("transaction too large", Invalid),
        ("failed to recover sender", Invalid),
        (
            "transaction invalid, InvalidTxChainId: Expected 1, got 2.",
            Invalid,
        ),
        ("pending transaction type conflict", Reserved),
        ("delegation nonce gap", Reserved),
        ("delegation authority has pending transaction", Reserved),
        ("node is syncing", NotReady),
        ("sender not an eoa", Invalid),
    ];
    check(Dialect::Nethermind, -32_000, &today);
}

#[test]
fn nethermind_is_understood_in_its_old_names() {
    let names = [
        ("AlreadyKnown", AlreadyKnown),
        (
            "OldNonce, Current nonce: 7, nonce of rejected tx: 3",
            NonceTooLow,
        ),
        ("nonce too low", NonceTooLow),
        ("NonceGap, Future nonce. Expected nonce: 7", NonceTooHigh),
        ("nonce too high", NonceTooHigh),
        ("NonceTooFarInFuture", NonceTooHigh),
        (
            "FeeTooLow, FeePerGas needs to be higher than 7",
            Underpriced,
        ),
        ("FeeTooLowToCompete", Underpriced),
        (
            "InsufficientFunds, Account balance: 1, cumulative cost: 2",
            NoFunds,
        ),
        ("ReplacementNotAllowed", ReplacementUnderpriced),
        ("GasLimitExceeded, Gas limit: 1", Invalid),
        ("Invalid, transaction Hash is null", Invalid),
        ("FailedToResolveSender", Invalid),
        ("SenderIsContract", Invalid),
        ("PendingTxsOfConflictingType", Reserved),
        ("Syncing", NotReady),
    ];
    for code in [-32_010, -32_000] {
        check(Dialect::Nethermind, code, &names);
    }
    let params = rejection(Dialect::Nethermind, -32_602, "Invalid params");
    assert_eq!(params, Unrecognised);
}

#[test]
fn besu_is_understood() {
    let table = [
        (-32_001, "Nonce too low", NonceTooLow),
        (
            -32_000,
            "Transaction nonce is too distant from current sender nonce",
            NonceTooHigh,
        ),
        (-32_006, "Nonce too high", NonceTooHigh),
        (
            -32_000,
            "An invalid transaction with a lower nonce exists",
            NonceTooHigh,
        ),
        (-32_000, "Known transaction", AlreadyKnown),
        (
            -32_000,
            "Replacement transaction underpriced",
            ReplacementUnderpriced,
        ),
        (
            -32_009,
            "Gas price below configured minimum gas price",
            Underpriced,
        ),
        (-32_009, "Gas price below current base fee", Underpriced),
        (-32_603, "Internal error", Unrecognised),
        (-32_004, "Upfront cost exceeds account balance", NoFunds),
        (
            -32_005,
            "Transaction gas limit exceeds block gas limit",
            Invalid,
        ),
        (-32_005, "Transaction gas limit cap exceeded", Invalid),
        (-32_003, "Intrinsic gas exceeds gas limit", Invalid),
        (-32_000, "Transaction fee cap exceeded", Invalid),
        (
            -32_000,
            "Max priority fee per gas exceeds max fee per gas",
            Invalid,
        ),
        (-32_002, "Invalid signature", Invalid),
        (-32_000, "Wrong chainId", Invalid),
        (-32_008, "Initial sync is still in progress", NotReady),
        (
            -32_002,
            "Transaction pool not enabled. (Either txpool explicitly disabled, or node not yet in sync).",
            NotReady,
        ),
        (
            -32_007,
            "Sender account not authorized to send transactions",
            Invalid,
        ),
    ];
    for (code, text, why) in table {
        check(Dialect::Besu, code, &[(text, why)]);
    }
}

#[test]
fn anvil_is_understood() {
    check(
        Dialect::Anvil,
        -32_003,
        &[
            ("transaction already imported", AlreadyKnown),
            ("nonce too low", NonceTooLow),
            (
                "replacement transaction underpriced",
                ReplacementUnderpriced,
            ),
            ("Insufficient funds for gas * price + value", NoFunds),
            ("max fee per gas less than block base fee", Underpriced),
            ("intrinsic gas too low", Invalid),
        ],
    );
}

#[test]
fn other_chains_are_understood() {
    let table = [
        ("nonce too low: address 0x1, tx: 1 state: 2", NonceTooLow),
        ("nonce too high: address 0x1, tx: 3 state: 2", NonceTooHigh),
        (
            "max fee per gas less than block base fee: address 0x1",
            Underpriced,
        ),
        ("queue full", PoolFull),
        ("sequencer pending tx pool full, please try again", PoolFull),
        (
            "nonce too low. allowed nonce range: 2 - 9, actual: 1",
            NonceTooLow,
        ),
        (
            "known transaction. transaction with hash 0x1 is already in the system",
            AlreadyKnown,
        ),
        ("Not enough gas for transaction validation", Invalid),
        (
            "not enough keccak counters to continue the execution",
            Invalid,
        ),
        ("out of counters at node level (Steps)", Invalid),
        ("gasprice is less than gas price minimum floor", Underpriced),
        (
            "gas price too low: 1 wei, use at least tx.gasPrice = 2 wei",
            Underpriced,
        ),
        (
            "nonce too low: address 0x1 current nonce (2) > tx nonce (1)",
            NonceTooLow,
        ),
        ("'nonce too low: address 0x1'", NonceTooLow),
        ("tx already exists in cache", AlreadyKnown),
        ("Gas limit too low", Invalid),
        ("Signer had insufficient balance", NoFunds),
        ("transaction already finalized", NonceTooLow),
    ];
    check(Dialect::Unknown, -32_000, &table);
    let sentences = [
        (
            "Transaction with the same hash was already imported.",
            AlreadyKnown,
        ),
        (
            "Transaction nonce is too low. Try incrementing the nonce.",
            NonceTooLow,
        ),
        (
            "Transaction gas price is too low. There is another transaction with same nonce in the queue. Try increasing the gas price or incrementing the nonce.",
            ReplacementUnderpriced,
        ),
        (
            "Transaction gas price is too low. It does not satisfy your node's minimal gas price",
            Underpriced,
        ),
        (
            "Insufficient funds. The account you tried to send transaction from does not have enough funds.",
            NoFunds,
        ),
    ];
    check(Dialect::Unknown, -32_010, &sentences);
}
