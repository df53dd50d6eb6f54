//! Text to numbers, addresses and bytes, as clients write them. What does not parse says why.

use alloy_primitives::{Address, B256, Bytes, U256, hex};

/// Why a text is not what its field needs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// Neither decimal digits nor 0x-hex.
    #[error("is neither a decimal number nor 0x-hex")]
    NotANumber,
    /// A number beyond what its field holds.
    #[error("is beyond {0} bits")]
    TooLarge(u32),
    /// Not 0x followed by 40 hex digits.
    #[error("is not an address: 0x and 40 hex digits")]
    NotAnAddress,
    /// Mixed case that is not the EIP-55 checksum: most likely a typing mistake.
    #[error("has a wrong EIP-55 checksum; the right spelling is {0}")]
    Checksum(String),
    /// Not 0x followed by an even number of hex digits.
    #[error("is not 0x-hex with an even number of digits")]
    NotHex,
    /// Not 0x followed by 64 hex digits.
    #[error("is not 32 bytes of 0x-hex")]
    NotAWord,
}

/// A decimal or 0x-hex number of up to 256 bits.
pub fn number(text: &str) -> Result<U256, Unreadable> {
    // from_str_radix skips underscores and takes a sign; neither is a number here.
    let is_number = |digits: &str, is_digit: fn(&u8) -> bool| {
        !digits.is_empty() && digits.as_bytes().iter().all(is_digit)
    };
    let read = match text.strip_prefix("0x") {
        Some(digits) if is_number(digits, u8::is_ascii_hexdigit) => {
            U256::from_str_radix(digits, 16)
        }
        None if is_number(text, u8::is_ascii_digit) => match text.parse::<u64>() {
            // As nearly all are, and much quicker.
            Ok(small) => Ok(U256::from(small)),
            Err(_) => U256::from_str_radix(text, 10),
        },
        Some(_) | None => return Err(Unreadable::NotANumber),
    };
    read.map_err(|_| Unreadable::TooLarge(256))
}

/// A number that must fit 128 bits, as fees per gas do.
pub fn wei_per_gas(text: &str) -> Result<u128, Unreadable> {
    u128::try_from(number(text)?).map_err(|_| Unreadable::TooLarge(128))
}

/// A number that must fit 64 bits, as gas does.
pub fn gas(text: &str) -> Result<u64, Unreadable> {
    u64::try_from(number(text)?).map_err(|_| Unreadable::TooLarge(64))
}

/// An address; where letters of both cases appear they must be the EIP-55 checksum.
pub fn address(text: &str) -> Result<Address, Unreadable> {
    let digits = text.strip_prefix("0x").ok_or(Unreadable::NotAnAddress)?;
    let letters = digits.as_bytes();
    if letters.len() != 40 || !letters.iter().all(u8::is_ascii_hexdigit) {
        return Err(Unreadable::NotAnAddress);
    }
    let bytes: [u8; 20] = hex::decode_to_array(digits).map_err(|_| Unreadable::NotAnAddress)?;
    let parsed = Address::from(bytes);
    let is_mixed =
        letters.iter().any(u8::is_ascii_uppercase) && letters.iter().any(u8::is_ascii_lowercase);
    // A checksum costs a hash: only who gives one gets it checked.
    if is_mixed {
        let right = parsed.to_checksum(None);
        if right != text {
            return Err(Unreadable::Checksum(right));
        }
    }
    Ok(parsed)
}

/// Bytes as 0x-hex.
pub fn bytes(text: &str) -> Result<Bytes, Unreadable> {
    let digits = text.strip_prefix("0x").ok_or(Unreadable::NotHex)?;
    let bytes = hex::decode(digits).map_err(|_| Unreadable::NotHex)?;
    // A second prefix would have been stripped.
    if bytes.len() * 2 != digits.len() {
        return Err(Unreadable::NotHex);
    }
    Ok(Bytes::from(bytes))
}

/// A 32-byte word as 0x-hex: a hash or a storage key.
pub fn word(text: &str) -> Result<B256, Unreadable> {
    let raw = bytes(text).map_err(|_| Unreadable::NotAWord)?;
    B256::try_from(raw.as_ref()).map_err(|_| Unreadable::NotAWord)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_decimal_or_hex_and_nothing_else() {
        assert_eq!(number("16").unwrap(), number("0x10").unwrap());
        assert_eq!(number(&U256::MAX.to_string()).unwrap(), U256::MAX);
        for large in [u64::MAX - 1, u64::MAX] {
            let beyond = U256::from(large) + U256::from(2);
            assert_eq!(number(&large.to_string()), Ok(U256::from(large)));
            assert_eq!(number(&beyond.to_string()), Ok(beyond));
            assert_eq!(number(&format!("000{beyond}")), Ok(beyond));
        }
        let beyond = format!("{}0", U256::MAX);
        assert_eq!(number(&beyond), Err(Unreadable::TooLarge(256)));
        for bad in [
            "", "0x", "-1", "+1", "1_000", "1.5", "1e18", " 1", "0X10", "0xg", "１",
        ] {
            assert_eq!(number(bad), Err(Unreadable::NotANumber), "{bad:?}");
        }
        assert_eq!(gas("18446744073709551616"), Err(Unreadable::TooLarge(64)));
    }

    #[test]
    fn a_mixed_case_address_must_carry_its_checksum() {
        let right = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed";
        assert_eq!(
            address(right).unwrap(),
            address(&right.to_lowercase()).unwrap()
        );
        let upper = format!("0x{}", right[2..].to_uppercase());
        assert_eq!(address(&upper).unwrap(), address(right).unwrap());
        let wrong = right.replace("aAeb", "AAeb");
        assert_eq!(address(&wrong), Err(Unreadable::Checksum(right.to_owned())));
        for bad in [
            "",
            "0x",
            "5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
            "0x5aae",
            "0xzz",
        ] {
            assert_eq!(address(bad), Err(Unreadable::NotAnAddress), "{bad:?}");
        }
    }

    #[test]
    fn bytes_are_whole_and_prefixed() {
        assert_eq!(bytes("0x").unwrap().len(), 0);
        assert_eq!(bytes("0x00ff").unwrap().as_ref(), [0, 255]);
        for bad in [
            "", "00", "0x0", "0xzz", "0x0x00", "0x0X00", "0x0x", "0x００",
        ] {
            assert_eq!(bytes(bad), Err(Unreadable::NotHex), "{bad:?}");
        }
        assert_eq!(word("0x00"), Err(Unreadable::NotAWord));
    }
}
