//! A range of keys of a BIP-39 phrase, derived once.

use alloy_signer_local::MnemonicBuilder;
use secrecy::zeroize::Zeroizing;
use secrecy::{ExposeSecret, SecretString};

use crate::local::LocalKey;

/// Deriving takes a fifth of a millisecond each: more keys would keep a node from starting for minutes.
pub(crate) const COUNT_MAX: u32 = 100_000;

/// The mnemonic gives no keys. The library's own errors repeat the words, so they go no further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadMnemonic {
    /// The words are not a phrase.
    #[error("a mnemonic is 12, 15, 18, 21 or 24 English BIP-39 words, the last fitting the others")]
    NotPhrase,
    /// No key, or too many.
    #[error("a mnemonic gives 1 to {max} keys, not {0}", max = COUNT_MAX)]
    Count(u32),
    /// One of 2^127 phrases has a hole in its range.
    #[error("this mnemonic has no key at index {0}")]
    NoKey(u32),
}

pub(crate) fn derive(phrase: &SecretString, count: u32) -> Result<Vec<LocalKey>, BadMnemonic> {
    if count == 0 || count > COUNT_MAX {
        return Err(BadMnemonic::Count(count));
    }
    let mut builder = MnemonicBuilder::english().phrase(single_spaced(phrase));
    builder = builder.index(0).expect("index 0 makes the usual path");
    let parent = builder
        .build_parent_key()
        .map_err(|_| BadMnemonic::NotPhrase)?;
    (0..count)
        .map(|index| {
            let child = parent.child(index).map_err(|_| BadMnemonic::NoKey(index))?;
            let bytes = Zeroizing::new(child.signer().to_bytes().0);
            LocalKey::new(&bytes).map_err(|_| BadMnemonic::NoKey(index))
        })
        .collect()
}

/// Files and shells add newlines and spaces; the library takes exactly one space between words. The
/// builder wipes what it is given, and room made in advance leaves no halves of it behind.
fn single_spaced(phrase: &SecretString) -> String {
    let phrase = phrase.expose_secret();
    let mut spaced = String::with_capacity(phrase.len());
    for word in phrase.split_whitespace() {
        if !spaced.is_empty() {
            spaced.push(' ');
        }
        spaced.push_str(word);
    }
    spaced
}

#[cfg(test)]
mod tests {
    use alloy_primitives::{Address, address};

    use super::*;

    const PHRASE: &str = "test test test test test test test test test test test junk";

    fn accounts(phrase: &str, count: u32) -> Result<Vec<Address>, BadMnemonic> {
        let keys = derive(&phrase.into(), count)?;
        Ok(keys.iter().map(LocalKey::address).collect())
    }

    #[test]
    fn the_well_known_phrase_gives_the_well_known_accounts() {
        let known = vec![
            address!("f39Fd6e51aad88F6F4ce6aB8827279cffFb92266"),
            address!("70997970C51812dc3A010C7d01b50e0d17dc79C8"),
            address!("3C44CdDdB6a900fa2b585dd299e03d12FA4293BC"),
            address!("90F79bf6EB2c4f870365E785982E1f101E93b906"),
            address!("15d34AAf54267DB7D7c367839AAf71A00a2C6A65"),
        ];
        assert_eq!(accounts(PHRASE, 5), Ok(known.clone()));
        let spread = format!("\n {}\r\n", PHRASE.replace(' ', "  \t"));
        assert_eq!(accounts(&spread, 5), Ok(known));
    }

    #[test]
    fn what_is_not_a_phrase_is_refused() {
        let wrong_last = PHRASE.replace("junk", "test");
        let foreign = PHRASE.replace("junk", "jünk");
        let long = format!("{PHRASE} {PHRASE} {PHRASE}");
        for phrase in ["", " ", "test", &PHRASE[5..], &wrong_last, &foreign, &long] {
            assert_eq!(
                accounts(phrase, 1),
                Err(BadMnemonic::NotPhrase),
                "{phrase:?}"
            );
        }
    }

    #[test]
    fn a_range_has_at_least_one_key_and_a_bound() {
        for count in [0, COUNT_MAX + 1, u32::MAX] {
            assert_eq!(accounts(PHRASE, count), Err(BadMnemonic::Count(count)));
        }
    }
}
