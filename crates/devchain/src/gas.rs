//! What gas a call needs. Intrinsic and floor costs are Ethereum's; the work of contracts is made up,
//! but always the same for the same call.

use alloy_eips::eip2930::AccessList;

const BASE: u64 = 21_000;
const CREATE: u64 = 32_000;
const INIT_WORD: u64 = 2;
const ZERO_BYTE: u64 = 4;
const OTHER_BYTE: u64 = 16;
const LISTED_ADDRESS: u64 = 2_400;
const LISTED_KEY: u64 = 1_900;
/// EIP-7623: a token is a zero byte; another byte is four.
const FLOOR_TOKEN: u64 = 10;
/// What "running" a contract costs here.
const CALL: u64 = 5_000;
/// The stored code is a hash of 32 bytes, at 200 a byte.
const DEPOSIT: u64 = 32 * 200;

/// A call, as far as gas is concerned.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call<'a> {
    pub(crate) is_create: bool,
    pub(crate) input: &'a [u8],
    pub(crate) access_list: &'a AccessList,
}

impl Call<'_> {
    /// A transaction with less cannot be in a block at all.
    pub(crate) fn intrinsic(self) -> u64 {
        let (zeros, others) = self.bytes();
        let keys: usize = self
            .access_list
            .iter()
            .map(|item| item.storage_keys.len())
            .sum();
        let words = self.input.len().div_ceil(32);
        let create = if self.is_create {
            CREATE + INIT_WORD * count(words)
        } else {
            0
        };
        BASE + create
            + ZERO_BYTE * zeros
            + OTHER_BYTE * others
            + LISTED_ADDRESS * count(self.access_list.len())
            + LISTED_KEY * count(keys)
    }

    /// The least that its data costs whatever is run.
    pub(crate) fn floor(self) -> u64 {
        let (zeros, others) = self.bytes();
        BASE + FLOOR_TOKEN * (zeros + 4 * others)
    }

    /// What it needs to get through.
    pub(crate) fn needed(self) -> u64 {
        let work = match (self.is_create, self.input.is_empty()) {
            (true, _) => DEPOSIT,
            (false, true) => 0,
            (false, false) => CALL,
        };
        (self.intrinsic() + work).max(self.floor())
    }

    fn bytes(self) -> (u64, u64) {
        let zeros = self.input.iter().filter(|byte| **byte == 0).count();
        (count(zeros), count(self.input.len() - zeros))
    }
}

fn count(n: usize) -> u64 {
    u64::try_from(n).expect("a length fits 64 bits")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gas_is_what_ethereum_asks_for() {
        let none = AccessList::default();
        let call = |is_create, input| Call {
            is_create,
            input,
            access_list: &none,
        };
        assert_eq!(call(false, &[]).needed(), 21_000);
        assert_eq!(call(false, &[0, 1]).intrinsic(), 21_020);
        assert_eq!(call(false, &[0, 1]).floor(), 21_050);
        assert_eq!(
            call(true, &[1; 33]).intrinsic(),
            21_000 + 32_000 + 4 + 33 * 16
        );
        let long = [7; 2_000];
        assert_eq!(
            call(false, &long).needed(),
            21_000 + 40 * 2_000,
            "the floor decides"
        );
    }
}
