//! A private key as people write it: hex digits.

use alloy_primitives::hex;
use secrecy::zeroize::Zeroizing;
use secrecy::{ExposeSecret, SecretString};

use crate::local::{LocalKey, OffCurve};

/// The text is not a private key. Says nothing about the text but its shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadPrivate {
    /// Not the right number of hex digits.
    #[error("a private key is 64 hex digits, with or without 0x")]
    NotHex,
    /// Digits, but no key.
    #[error("a private key is not zero, and below the order of the curve")]
    OffCurve,
}

impl From<OffCurve> for BadPrivate {
    fn from(_: OffCurve) -> Self {
        Self::OffCurve
    }
}

pub(crate) fn read(text: &SecretString) -> Result<LocalKey, BadPrivate> {
    let text = text.expose_secret().trim();
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let mut bytes = Zeroizing::new([0; 32]);
    // The decoder takes a prefix of its own: `0x0x…` must not pass.
    if digits.starts_with("0x") {
        return Err(BadPrivate::NotHex);
    }
    hex::decode_to_slice(digits, bytes.as_mut_slice()).map_err(|_| BadPrivate::NotHex)?;
    Ok(LocalKey::new(&bytes)?)
}

#[cfg(test)]
mod tests {
    use alloy_primitives::address;

    use super::*;

    const KEY: &str = "4646464646464646464646464646464646464646464646464646464646464646";
    const ORDER: &str = "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141";
    const GREATEST: &str = "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364140";

    fn opened(text: &str) -> Result<alloy_primitives::Address, BadPrivate> {
        read(&text.into()).map(|key| key.address())
    }

    #[test]
    fn a_key_may_have_a_prefix_and_white_space_around_it() {
        let account = address!("9d8A62f656a8d1615C1294fd71e9CFb3E4855A4F");
        for text in [
            KEY.to_owned(),
            format!("0x{KEY}"),
            format!("  {KEY}\n"),
            format!("0x{KEY}\r\n"),
        ] {
            assert_eq!(opened(&text), Ok(account), "{text:?}");
        }
        assert!(opened(GREATEST).is_ok());
        assert_eq!(opened(&GREATEST.to_uppercase()), opened(GREATEST));
    }

    #[test]
    fn what_is_not_a_key_is_refused() {
        let (short, long) = (&KEY[1..], format!("{KEY}4"));
        let inner = format!("{} {}", &KEY[..32], &KEY[32..]);
        let (twice, letter) = (format!("0x0x{KEY}"), format!("{}g", &KEY[1..]));
        let wide = "４".repeat(64);
        for text in ["", "0x", "\n", short, &long, &inner, &twice, &letter, &wide] {
            assert_eq!(opened(text), Err(BadPrivate::NotHex), "{text:?}");
        }
        for text in [&"0".repeat(64), ORDER, &"f".repeat(64)] {
            assert_eq!(opened(text), Err(BadPrivate::OffCurve), "{text:?}");
        }
    }
}
