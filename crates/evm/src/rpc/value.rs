//! JSON-RPC results to values. Numbers are 0x-hex; what is not exactly what was asked for is none.

use fencepost_domain::{B256, U256, amount};
use serde::Deserialize;
use serde_json::value::RawValue;

/// Hex of data that comes with an error; nobody reads more.
pub(crate) const DATA_CHARS_MAX: usize = 64 * 1024;

/// Whether it is null.
pub(crate) fn is_null(raw: &RawValue) -> bool {
    raw.get().trim() == "null"
}

/// The digits of a quantity; decimal text has none.
fn digits(text: &str) -> Option<&str> {
    let digits = text.strip_prefix("0x")?;
    // A sign or an underscore is no digit; leading zeros some nodes do write.
    let is_hex = !digits.is_empty() && digits.chars().all(|c| c.is_ascii_hexdigit());
    is_hex.then_some(digits)
}

/// A quantity as text to a number.
pub(crate) fn wide(text: &str) -> Option<u128> {
    u128::from_str_radix(digits(text)?, 16).ok()
}

/// A quantity as text that must fit 64 bits.
pub(crate) fn narrow(text: &str) -> Option<u64> {
    wide(text).and_then(|n| u64::try_from(n).ok())
}

/// A result that is a quantity of up to 128 bits.
pub(crate) fn u128(raw: &RawValue) -> Option<u128> {
    wide(thing(raw)?)
}

/// A result that is a quantity of up to 256 bits.
pub(crate) fn u256(raw: &RawValue) -> Option<U256> {
    U256::from_str_radix(digits(thing(raw)?)?, 16).ok()
}

/// A result that is a quantity of up to 64 bits.
pub(crate) fn u64(raw: &RawValue) -> Option<u64> {
    narrow(thing(raw)?)
}

/// A result that is a hash.
pub(crate) fn hash(raw: &RawValue) -> Option<B256> {
    amount::word(thing(raw)?).ok()
}

/// A result that is a thing, read without copying where it can be.
pub(crate) fn thing<'a, T: Deserialize<'a>>(raw: &'a RawValue) -> Option<T> {
    serde_json::from_str(raw.get()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantity_is_hex_within_its_width_and_nothing_else() {
        let check = |json: &str, narrow, wide| {
            let raw = RawValue::from_string(json.to_owned()).unwrap();
            assert_eq!((u64(&raw), u128(&raw)), (narrow, wide), "{json}");
            if let Some(wide) = wide {
                assert_eq!(u256(&raw), Some(U256::from(wide)), "{json}");
            }
        };
        check(r#""0x0""#, Some(0), Some(0));
        check(r#""0x00ff""#, Some(255), Some(255));
        check(r#""0xFF""#, Some(255), Some(255));
        let above = u128::from(u64::MAX) + 1;
        check(r#""0x10000000000000000""#, None, Some(above));
        let beyond = format!("\"0x1{}\"", "0".repeat(32));
        check(&beyond, None, None);
        let raw = |hex: String| RawValue::from_string(format!("\"0x{hex}\"")).unwrap();
        assert_eq!(u256(&raw("f".repeat(64))), Some(U256::MAX));
        assert_eq!(u256(&raw(format!("1{}", "0".repeat(64)))), None);
        for bad in [
            "null",
            "1",
            "\"1\"",
            "\"0x\"",
            "\"0x-1\"",
            "\"0x+1\"",
            "\"0x1_0\"",
            "[]",
            "{}",
            "true",
        ] {
            check(bad, None, None);
            assert_eq!(u256(&RawValue::from_string(bad.to_owned()).unwrap()), None);
        }
    }
}
