//! What every node checks of a transaction's gas and size before it looks at any state.
//! A request that fails here would be refused after it had been given a nonce.

use crate::request::Access;

/// EIP-7825: no transaction may ask for more.
pub const GAS_MAX: u64 = 1 << 24;
/// The pools of all clients refuse a larger transaction.
pub const TX_BYTES_MAX: usize = 128 * 1024;
/// EIP-3860: longer init code is invalid.
pub const INIT_CODE_BYTES_MAX: usize = 49_152;
/// Signature, nonce, chain id and list headers that the signed form adds to our own encoding.
pub const ENVELOPE_BYTES: usize = 160;

const TX_GAS: u64 = 21_000;
const CREATE_GAS: u64 = 32_000;
const TOKEN_GAS: u64 = 4;
const FLOOR_TOKEN_GAS: u64 = 10;
const TOKENS_PER_NONZERO_BYTE: u64 = 4;
const INIT_CODE_WORD_GAS: u64 = 2;
const ACCESS_ADDRESS_GAS: u64 = 2_400;
const ACCESS_KEY_GAS: u64 = 1_900;

/// The least gas with which a node takes this transaction: the intrinsic cost or the calldata
/// floor (EIP-7623), whichever is more.
#[must_use]
pub fn least(creates: bool, data: &[u8], access: &[Access]) -> u64 {
    let nonzero = count(data.iter().filter(|byte| **byte != 0).count());
    let zero = count(data.len()) - nonzero;
    let tokens = zero + TOKENS_PER_NONZERO_BYTE * nonzero;
    let keys = count(access.iter().map(|entry| entry.keys.len()).sum());
    let listed = ACCESS_ADDRESS_GAS * count(access.len()) + ACCESS_KEY_GAS * keys;
    let created = if creates {
        CREATE_GAS + INIT_CODE_WORD_GAS * count(data.len()).div_ceil(32)
    } else {
        0
    };
    let intrinsic = TX_GAS + created + TOKEN_GAS * tokens + listed;
    intrinsic.max(TX_GAS + FLOOR_TOKEN_GAS * tokens)
}

fn count(n: usize) -> u64 {
    u64::try_from(n).expect("usize is at most 64 bits on every target we build for")
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::{Address, B256};

    #[test]
    fn the_least_gas_is_what_the_protocol_says() {
        let check = |creates, data: &[u8], access: &[Access], gas| {
            assert_eq!(least(creates, data, access), gas);
        };
        let entry = Access {
            address: Address::ZERO,
            keys: vec![B256::ZERO; 2],
        };
        check(false, &[], &[], 21_000);
        // Four tokens: 16 gas intrinsic, but 40 gas at the floor.
        check(false, &[1], &[], 21_040);
        check(false, &[0], &[], 21_010);
        let entries = [entry];
        check(false, &[], &entries, 21_000 + 2_400 + 3_800);
        check(true, &[1; 33], &[], 21_000 + 32_000 + 4 + 16 * 33);
        // The floor counts neither the access list nor the creation.
        check(false, &[1; 1_000], &entries, 21_000 + 40 * 1_000);
        check(true, &[1; 2_000], &[], 21_000 + 40 * 2_000);
        check(true, &[0; 64], &[], 21_000 + 32_000 + 4 + 4 * 64);
    }
}
