//! The seal of a stored row: whether what is about to be signed is what was accepted. A row has the hash of its payload, and with
//! a secret also an HMAC-SHA256 over its id, lane, kind and payload, which nobody can make who can only write to the store.

use std::fmt;

use alloy_primitives::B256;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::ids::{Lane, TxId};
use crate::request::Payload;
use crate::state::Kind;

/// Keeps a seal from being taken for an HMAC of another purpose. A new number is another way to make seals.
const TAG: &[u8] = b"fencepost row 1";

/// What a row executes, and for whom.
#[derive(Debug, Clone, Copy)]
pub struct Content<'a> {
    /// The row's id.
    pub tx: TxId,
    /// Who signs, and on which chain.
    pub lane: Lane,
    /// What the row is for.
    pub kind: Kind,
    /// What it executes; a reservation and a placeholder have none.
    pub payload: Option<&'a Payload>,
}

/// What a row says about its own content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Proof {
    /// The hash of the payload that was accepted; none where the row has no payload.
    pub hash: Option<B256>,
    /// The seal; none where the row was stored without a secret.
    pub seal: Option<B256>,
}

/// Why a row is not signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Tampered {
    /// The payload is there, and is no payload.
    #[error("the stored payload cannot be read")]
    Unreadable,
    /// The payload is another one than the hash is of.
    #[error("the stored payload does not match payload_hash")]
    Hash,
    /// There is a secret, and the row has no seal.
    #[error("the stored row has no seal, and store.row_secret_env is set")]
    Unsealed,
    /// No secret of ours gives this seal.
    #[error("the stored row does not match its seal")]
    Seal,
}

/// One secret, ready for use.
#[derive(Clone)]
pub struct Secret(Hmac<Sha256>);

impl Secret {
    /// Of these bytes.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Self {
        Self(Hmac::new_from_slice(bytes).expect("a key of any length"))
    }

    fn mac(&self, content: &Content<'_>) -> Hmac<Sha256> {
        let mut mac = self.0.clone();
        // Every part but the last has a fixed length, or ends with a byte that it does not hold.
        mac.update(TAG);
        mac.update(content.tx.0.as_bytes());
        mac.update(&content.lane.chain.get().to_be_bytes());
        mac.update(content.lane.signer.as_slice());
        mac.update(content.kind.word().as_bytes());
        mac.update(&[0]);
        mac.update(content.payload.map_or(&[], Payload::canonical));
        mac
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

/// The secrets that rows are sealed with. Without any, only the hash of the payload is compared.
#[derive(Debug, Clone, Default)]
pub struct Secrets {
    /// What new rows are sealed with.
    pub current: Option<Secret>,
    /// Another secret whose seals are accepted, while one takes the place of the other.
    pub also: Option<Secret>,
    /// Rows without a seal are accepted, while rows from before the secret are unfinished.
    pub accept_unsealed: bool,
}

impl Secrets {
    /// The seal of a new row; none without a secret.
    #[must_use]
    pub fn seal(&self, content: &Content<'_>) -> Option<B256> {
        let current = self.current.as_ref()?;
        let bytes: [u8; 32] = current.mac(content).finalize().into_bytes().into();
        Some(B256::from(bytes))
    }

    /// Whether a row is what was accepted. To be asked before its content is signed.
    pub fn check(&self, content: &Content<'_>, proof: Proof) -> Result<(), Tampered> {
        let has_payload = match content.kind {
            Kind::Managed => true,
            Kind::Reserved | Kind::Placeholder => false,
        };
        if has_payload && content.payload.is_none() {
            return Err(Tampered::Unreadable);
        }
        if content.payload.map(Payload::hash) != proof.hash {
            return Err(Tampered::Hash);
        }
        let Some(current) = &self.current else {
            return Ok(());
        };
        let Some(seal) = proof.seal else {
            let accepted = self.accept_unsealed;
            return accepted.then_some(()).ok_or(Tampered::Unsealed);
        };
        let mut secrets = [Some(current), self.also.as_ref()].into_iter().flatten();
        let fits = |secret: &Secret| secret.mac(content).verify_slice(seal.as_slice()).is_ok();
        secrets.any(fits).then_some(()).ok_or(Tampered::Seal)
    }
}

#[cfg(test)]
mod tests {
    use alloy_primitives::Address;
    use uuid::Uuid;

    use super::*;
    use crate::ids::ChainId;

    fn secrets(current: &[u8]) -> Secrets {
        Secrets {
            current: Some(Secret::new(current)),
            ..Secrets::default()
        }
    }

    fn payload(to: u8) -> Payload {
        Payload::nothing(Address::repeat_byte(to))
    }

    fn content(payload: &Payload) -> Content<'_> {
        Content {
            tx: TxId(Uuid::from_u128(7)),
            lane: Lane {
                chain: ChainId::new(1).unwrap(),
                signer: Address::repeat_byte(1),
            },
            kind: Kind::Managed,
            payload: Some(payload),
        }
    }

    fn proof(secrets: &Secrets, content: &Content<'_>) -> Proof {
        Proof {
            hash: content.payload.map(Payload::hash),
            seal: secrets.seal(content),
        }
    }

    #[test]
    fn a_seal_is_of_one_transaction_lane_kind_and_payload() {
        let (ours, paid, other) = (secrets(b"a secret of ours"), payload(1), payload(2));
        let row = content(&paid);
        let sealed = proof(&ours, &row);
        assert_eq!(ours.check(&row, sealed), Ok(()));
        let mut moved = row;
        moved.lane.signer = Address::repeat_byte(2);
        let mut chained = row;
        chained.lane.chain = ChainId::new(2).unwrap();
        let copied = Content {
            tx: TxId(Uuid::from_u128(8)),
            ..row
        };
        for changed in [moved, chained, copied] {
            assert_eq!(ours.check(&changed, sealed), Err(Tampered::Seal));
        }
        // Whoever can compute a hash still cannot make the seal.
        let swapped = content(&other);
        let hash = Some(other.hash());
        assert_eq!(
            ours.check(&swapped, Proof { hash, ..sealed }),
            Err(Tampered::Seal)
        );
        let filler = Content {
            kind: Kind::Placeholder,
            payload: None,
            ..row
        };
        assert_eq!(
            ours.check(
                &filler,
                Proof {
                    hash: None,
                    ..sealed
                }
            ),
            Err(Tampered::Seal)
        );
        assert_eq!(ours.check(&filler, proof(&ours, &filler)), Ok(()));
    }

    #[test]
    fn without_a_secret_the_hash_is_compared() {
        let (none, paid, other) = (Secrets::default(), payload(1), payload(2));
        let row = content(&paid);
        let stored = proof(&none, &row);
        assert_eq!(stored.seal, None);
        assert_eq!(none.check(&row, stored), Ok(()));
        assert_eq!(none.check(&content(&other), stored), Err(Tampered::Hash));
        let unreadable = Content {
            payload: None,
            ..row
        };
        assert_eq!(none.check(&unreadable, stored), Err(Tampered::Unreadable));
        // A node without the secret takes what the others have sealed.
        assert_eq!(none.check(&row, proof(&secrets(b"s"), &row)), Ok(()));
    }

    #[test]
    fn a_secret_is_switched_on_and_rotated_in_steps() {
        let (old, new, paid) = (
            secrets(b"the old secret"),
            secrets(b"the new secret"),
            payload(1),
        );
        let row = content(&paid);
        let unsealed = proof(&Secrets::default(), &row);
        assert_eq!(old.check(&row, unsealed), Err(Tampered::Unsealed));
        let soft = Secrets {
            accept_unsealed: true,
            ..old.clone()
        };
        assert_eq!(soft.check(&row, unsealed), Ok(()));
        let wrong = proof(&new, &row);
        assert_eq!(soft.check(&row, wrong), Err(Tampered::Seal));
        let both = Secrets {
            also: new.current.clone(),
            ..old.clone()
        };
        assert_eq!(both.check(&row, wrong), Ok(()));
        assert_eq!(both.seal(&row), old.seal(&row));
    }

    #[test]
    fn a_secret_is_not_printed() {
        assert!(!format!("{:?}", secrets(b"open sesame")).contains("sesame"));
    }
}
