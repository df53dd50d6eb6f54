//! A keystore v3 file (Web3 Secret Storage): read strictly, bounded before any work, then decrypted.

mod file;
mod kdf;
#[cfg(test)]
mod tests;

use aes::Aes128;
use aes::cipher::{KeyIvInit, StreamCipher};
use alloy_primitives::{Address, Keccak256};
use ctr::Ctr128BE;
use secrecy::zeroize::Zeroizing;
use secrecy::{ExposeSecret, SecretSlice, SecretString};

use crate::local::LocalKey;
use file::Sealed;

/// A keystore has a few hundred bytes; a file beyond this is something else.
const BYTES_MAX: usize = 64 * 1024;

/// The keystore gives no key. Says where the file is wrong, never what it holds: it might be a plain
/// key by mistake.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadKeystore {
    /// Larger than any keystore.
    #[error("a keystore has at most {max} bytes", max = BYTES_MAX)]
    TooLarge,
    /// Not the JSON of a keystore.
    #[error("this is not a keystore: see line {line}, column {column}")]
    NotKeystore {
        /// Where reading stopped.
        line: usize,
        /// Where reading stopped.
        column: usize,
    },
    /// Another version's layout.
    #[error("a keystore of version {0} is not known, only 3")]
    Version(u32),
    /// A field that cannot be.
    #[error("the keystore's {field} is not {wanted}")]
    Field {
        /// Which one.
        field: &'static str,
        /// What it should have been.
        wanted: &'static str,
    },
    /// The file asks for more memory or time than any honest one.
    #[error("the keystore's {0} would take gigabytes or minutes")]
    TooCostly(&'static str),
    /// The file's checksum is of another password, or of other contents.
    #[error("the password is wrong, or the keystore is damaged")]
    WrongPassword,
    /// What was decrypted is no private key.
    #[error("the keystore holds no private key")]
    NotKey,
    /// The file names another account than its key's.
    #[error("the keystore says it is of {said}, but its key is of {found}")]
    OtherAddress {
        /// What the file says.
        said: Address,
        /// What the key says.
        found: Address,
    },
}

/// Takes up to seconds and hundreds of MiB: not for an async thread.
pub(crate) fn open(
    json: &SecretSlice<u8>,
    password: &SecretString,
) -> Result<LocalKey, BadKeystore> {
    let sealed = Sealed::read(json.expose_secret())?;
    let derived = sealed
        .kdf
        .derive(without_newline(password.expose_secret()), &sealed.salt)?;
    let (cipher_key, mac_key) = derived.split_at(16);
    let mut mac = Keccak256::new();
    mac.update(mac_key);
    mac.update(sealed.ciphertext);
    if mac.finalize() != sealed.mac {
        return Err(BadKeystore::WrongPassword);
    }
    let mut bytes = Zeroizing::new(sealed.ciphertext);
    let cipher_key: &[u8; 16] = cipher_key.try_into().expect("split at 16");
    Ctr128BE::<Aes128>::new(cipher_key.into(), &sealed.iv.into())
        .apply_keystream(bytes.as_mut_slice());
    let key = LocalKey::new(&bytes).map_err(|_| BadKeystore::NotKey)?;
    let found = key.address();
    match sealed.address {
        Some(said) if said != found => Err(BadKeystore::OtherAddress { said, found }),
        Some(_) | None => Ok(key),
    }
}

/// Editors end a file with a newline. One is taken off, no more: a password may end with spaces.
fn without_newline(password: &str) -> &[u8] {
    let line = password.strip_suffix('\n').unwrap_or(password);
    let line = match password.len() == line.len() {
        true => line,
        false => line.strip_suffix('\r').unwrap_or(line),
    };
    line.as_bytes()
}
