//! What the configuration says about keys, with every secret already read, and wrapped.

use std::time::Duration;

use fencepost_domain::Address;
use secrecy::{SecretSlice, SecretString};

/// One entry of the configuration's list of signers.
#[derive(Debug)]
pub struct KeySpec {
    /// Where the key is.
    pub source: KeySource,
    /// The account that it must be for. A key here may leave it out; one elsewhere, or none, cannot.
    pub address: Option<Address>,
}

/// Where a key is. Each secret's own type keeps it out of `Debug` and wipes it, so that a new variant
/// cannot forget to.
#[derive(Debug)]
pub enum KeySource {
    /// A private key: 64 hex digits, with or without `0x`, surrounding white space ignored.
    Private(SecretString),
    /// A keystore v3 file. Its checksum does not cover the cipher's start value: damage there gives
    /// another key, which only the address in the file or in the spec can tell.
    Keystore {
        /// The file's bytes. Encrypted, but not for the log either.
        json: SecretSlice<u8>,
        /// The password file's text: one newline at its end is not part of the password.
        password: SecretString,
    },
    /// The first keys of a BIP-39 phrase, at m/44'/60'/0'/0/i.
    Mnemonic {
        /// The English words.
        phrase: SecretString,
        /// How many keys.
        count: u32,
    },
    /// A service that signs for us.
    Remote {
        /// Its base URL: a secret, since it may hold a user and password.
        url: SecretString,
    },
    /// No key: the account is only watched, and its nonces lent.
    Watch,
}

/// How much is done at once, and how long a service elsewhere may take.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Keys opened at a time. Each may take 256 MiB and a second of one core: more would start no
    /// sooner and might not fit.
    pub openings: usize,
    /// Calls of one remote key in flight. More would queue at the service instead of here; fewer
    /// would wait for its round trip.
    pub remote_calls: usize,
    /// How long one signature elsewhere may take, with all its waits. Longer, and a lane stands still
    /// behind a service that is gone; shorter, and one that pauses counts as gone.
    pub remote_deadline: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            openings: 2,
            remote_calls: 32,
            remote_deadline: Duration::from_secs(5),
        }
    }
}
