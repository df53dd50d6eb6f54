//! Whether a node will not estimate because the signer cannot pay.

use fencepost_domain::rejection::Rejection;

use crate::classifier;
use crate::dialect::Dialect;

/// No chain in use has blocks with less gas (geth's first default was 4,712,388), and no node a lower
/// cap of its own. Higher, and a call that no block can hold would look like an empty account; lower,
/// and a dear call that the account cannot pay would look like one that no block can hold.
const BLOCK_GAS_LEAST: u64 = 4_000_000;

/// Whether an error to an estimate says so, with the words for sent bytes or with those for estimates.
pub(super) fn are_short(dialect: Dialect, code: i64, message: &str) -> bool {
    let message = message.to_lowercase();
    // A contract's own words may be the same.
    if message.contains("revert") {
        return false;
    }
    let is_said = classifier::rejection(dialect, code, &message) == Rejection::NoFunds;
    is_said || allowance(&message).is_some_and(|gas| gas < BLOCK_GAS_LEAST)
}

/// The gas that nodes were willing to try with, where they say that it is not enough. They begin with
/// what a block holds, since we name no limit, and lower it only to what the account can pay at the
/// fees that we name: "gas required exceeds allowance (0)".
fn allowance(message: &str) -> Option<u64> {
    let (_, after) = message.split_once("gas required exceeds")?;
    let digits = after.trim_start_matches(|c: char| !c.is_ascii_digit());
    let end = digits.find(|c: char| !c.is_ascii_digit());
    digits[..end.unwrap_or(digits.len())].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use Dialect::{Anvil, Besu, Erigon, Geth, Nethermind, Reth, Unknown};

    const ALL: [Dialect; 7] = [Geth, Reth, Erigon, Nethermind, Besu, Anvil, Unknown];

    #[test]
    fn every_clients_way_to_say_that_the_signer_cannot_pay_is_understood() {
        let check = |dialect: Dialect, code, message: &str| {
            assert!(are_short(dialect, code, message), "{dialect:?}: {message}");
        };
        let gas = "insufficient funds for gas * price + value";
        check(Geth, -32000, "insufficient funds for transfer");
        check(
            Geth,
            -32000,
            &format!("{gas}: balance 0, tx cost 1, overshot 1"),
        );
        check(
            Geth,
            -32000,
            &format!("{gas}: balance 1, queued cost 1, tx bumped 1"),
        );
        check(
            Geth,
            -32000,
            &format!("err: {gas}: address 0x01 have 0 want 1 (supplied gas 30000000)"),
        );
        check(Reth, -32003, &format!("{gas}: have 0 want 1"));
        check(Reth, -32000, "lack of funds (0) for max fee (21000)");
        check(Reth, -32003, "out of gas: gas required exceeds: 52000");
        check(Erigon, -32000, "INTERNAL_ERROR: insufficient funds");
        check(
            Erigon,
            -32000,
            &format!("{gas}: address 0x01 have 0 want 1"),
        );
        check(Nethermind, -32000, gas);
        check(
            Nethermind,
            -32000,
            &format!("{gas}, Account balance: 0, cumulative cost: 1"),
        );
        check(Nethermind, -32000, &format!("{gas}, Balance is 0"));
        check(
            Nethermind,
            -32010,
            "InsufficientFunds, Account balance: 0, cumulative cost: 1",
        );
        check(Nethermind, -32000, "insufficient sender balance");
        check(
            Nethermind,
            -32000,
            "insufficient sender balance for transfer",
        );
        check(Besu, -32004, "Upfront cost exceeds account balance");
        let figures =
            "transaction up-front cost 0x2 exceeds transaction sender account balance 0x1";
        check(Besu, -32000, figures);
        check(Anvil, -32003, "Insufficient funds for gas * price + value");
        check(
            Anvil,
            -32003,
            "Out of gas: gas required exceeds allowance: 3315",
        );
        check(Unknown, -32000, "Signer had insufficient balance");
        for dialect in ALL {
            check(
                dialect,
                -32000,
                "insufficient funds for transfer: address 0x01",
            );
            check(dialect, -32000, "gas required exceeds allowance (0)");
            check(dialect, -32000, "gas required exceeds allowance (3999999)");
        }
    }

    #[test]
    fn what_a_block_cannot_hold_or_a_contract_says_is_no_word_about_the_signer() {
        for message in [
            "gas required exceeds allowance (4000000)",
            "gas required exceeds allowance (16777216)",
            "Out of gas: gas required exceeds allowance: 30000000",
            "gas required exceeds allowance (99999999999999999999999)",
            "gas required exceeds allowance or always failing transaction",
            "gas required exceeds",
            "VM Exception while processing transaction: reverted with 'insufficient funds'",
            "intrinsic gas too low: have 0, want 21000",
            "nonce too low",
            "max fee per gas less than block base fee",
            // Said to anyone who cannot pay for a whole block of gas, which nobody asked for.
            "insufficient MaxFeePerGas for sender balance",
            "",
        ] {
            for dialect in ALL {
                assert!(
                    !are_short(dialect, -32000, message),
                    "{dialect:?}: {message}"
                );
            }
        }
    }
}
