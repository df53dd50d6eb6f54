//! A private key in this process: boxed, so that moving it leaves no copies behind, and wiped on drop.

use std::fmt;

use alloy_primitives::{Address, B256, Signature};
use secp256k1::{Message, SECP256K1, SecretKey};
use secrecy::zeroize::Zeroize;
use secrecy::{ExposeSecret, SecretBox};

/// A key that signs for one account.
pub(crate) struct LocalKey {
    address: Address,
    secret: SecretBox<Scalar>,
}

/// The number is zero, or not below the order of the curve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OffCurve;

impl LocalKey {
    /// The caller wipes its bytes.
    pub(crate) fn new(bytes: &[u8; 32]) -> Result<Self, OffCurve> {
        let mut key = SecretKey::from_byte_array(*bytes).map_err(|_| OffCurve)?;
        let public = key.public_key(SECP256K1).serialize_uncompressed();
        let secret = SecretBox::new(Box::new(Scalar(key)));
        key.non_secure_erase();
        Ok(Self {
            address: Address::from_raw_public_key(&public[1..]),
            secret,
        })
    }

    pub(crate) const fn address(&self) -> Address {
        self.address
    }

    /// Deterministic (RFC 6979) and with a low `s`. The recovery in debug builds guards the mapping
    /// of the library's answer; there is no service here that could answer for another key.
    pub(crate) fn sign(&self, hash: B256) -> Signature {
        let message = Message::from_digest(hash.0);
        let key = &self.secret.expose_secret().0;
        let signature = Signature::from(SECP256K1.sign_ecdsa_recoverable(message, key));
        debug_assert_eq!(
            signature.recover_address_from_prehash(&hash).ok(),
            Some(self.address)
        );
        signature
    }
}

impl fmt::Debug for LocalKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalKey")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

/// The library's key, with the wiping that it leaves to us.
struct Scalar(SecretKey);

impl Zeroize for Scalar {
    fn zeroize(&mut self) {
        self.0.non_secure_erase();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_overwritten_when_it_is_wiped() {
        let mut scalar = Scalar(SecretKey::from_byte_array([7; 32]).unwrap());
        scalar.zeroize();
        assert_eq!(scalar.0.secret_bytes(), [1; 32]);
    }

    #[test]
    fn a_key_shows_its_account_only() {
        let key = LocalKey::new(&[0x5a; 32]).unwrap();
        let shown = format!("{key:?}");
        assert!(shown.contains(&format!("{:?}", key.address())), "{shown}");
        assert!(!shown.to_lowercase().contains("5a5a5a5a"), "{shown}");
    }
}
