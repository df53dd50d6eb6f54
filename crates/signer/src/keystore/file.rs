//! The file's layout: every field that decides is checked here, before any work.

use alloy_primitives::{Address, B256, hex};
use serde::Deserialize;

use super::kdf::Kdf;
use super::{BYTES_MAX, BadKeystore};

/// A keystore whose every field has the right shape.
pub(super) struct Sealed {
    pub(super) kdf: Kdf,
    pub(super) salt: Vec<u8>,
    pub(super) iv: [u8; 16],
    pub(super) ciphertext: [u8; 32],
    pub(super) mac: B256,
    /// Some programs leave it out, or empty, for privacy.
    pub(super) address: Option<Address>,
}

/// Fields that are not named here (`id`, `name`, …) decide nothing.
#[derive(Deserialize)]
struct File {
    version: u32,
    // Early geth wrote it with a capital.
    #[serde(alias = "Crypto")]
    crypto: Crypto,
    address: Option<String>,
}

#[derive(Deserialize)]
struct Crypto {
    cipher: String,
    cipherparams: CipherParams,
    ciphertext: String,
    kdf: String,
    kdfparams: KdfParams,
    mac: String,
}

#[derive(Deserialize)]
struct CipherParams {
    iv: String,
}

/// Those of both functions: which must be there depends on `kdf`.
#[derive(Deserialize)]
pub(super) struct KdfParams {
    pub(super) dklen: u64,
    pub(super) salt: String,
    pub(super) n: Option<u64>,
    pub(super) r: Option<u64>,
    pub(super) p: Option<u64>,
    pub(super) c: Option<u64>,
    pub(super) prf: Option<String>,
}

impl Sealed {
    pub(super) fn read(json: &[u8]) -> Result<Self, BadKeystore> {
        if json.len() > BYTES_MAX {
            return Err(BadKeystore::TooLarge);
        }
        // The parser's words would quote the file.
        let file: File = serde_json::from_slice(json).map_err(|e| BadKeystore::NotKeystore {
            line: e.line(),
            column: e.column(),
        })?;
        if file.version != 3 {
            return Err(BadKeystore::Version(file.version));
        }
        let crypto = &file.crypto;
        if crypto.cipher != "aes-128-ctr" {
            return Err(bad("cipher", "aes-128-ctr"));
        }
        let salt = hex::decode(&crypto.kdfparams.salt).map_err(|_| bad("salt", "hex"))?;
        Ok(Self {
            kdf: Kdf::read(&crypto.kdf, &crypto.kdfparams)?,
            salt,
            iv: array(&crypto.cipherparams.iv).ok_or(bad("iv", "16 bytes of hex"))?,
            ciphertext: array(&crypto.ciphertext).ok_or(bad("ciphertext", "32 bytes of hex"))?,
            mac: B256::new(array(&crypto.mac).ok_or(bad("mac", "32 bytes of hex"))?),
            address: match file.address.as_deref() {
                None | Some("") => None,
                Some(text) => Some(array(text).ok_or(bad("address", "20 bytes of hex"))?.into()),
            },
        })
    }
}

pub(super) const fn bad(field: &'static str, wanted: &'static str) -> BadKeystore {
    BadKeystore::Field { field, wanted }
}

fn array<const N: usize>(text: &str) -> Option<[u8; N]> {
    hex::decode_to_array(text).ok()
}
