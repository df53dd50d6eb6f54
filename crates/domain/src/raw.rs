//! Signed bytes that somebody else has made, decoded. Nothing of them is believed: who signed them, for
//! which chain and nonce, is read from the bytes themselves.

use alloy_consensus::transaction::SignerRecoverable;
use alloy_consensus::{Transaction, TxEnvelope};
use alloy_eips::Decodable2718;
use alloy_primitives::{Address, Bytes, keccak256};
use alloy_rlp::Decodable;

use crate::attempt::{Attempt, Kind, SignedFees};
use crate::gas::TX_BYTES_MAX;
use crate::ids::{Lane, Nonce};
use crate::request::{Access, Fees, Fields, Payload};

/// The first byte of a legacy transaction begins a list; below it, the byte is a type.
const LIST: u8 = 0xc0;

/// Why bytes are not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// Longer than any node takes.
    #[error("has {0} bytes, above the limit of {TX_BYTES_MAX}")]
    TooLong(usize),
    /// No transaction, or more than one.
    #[error("is not one signed transaction: {0}")]
    Undecodable(String),
    /// A type that is not followed here.
    #[error("is of type {0}: only legacy, EIP-2930 and EIP-1559 transactions are taken")]
    Type(u8),
    /// Nobody has signed them.
    #[error("has no valid signature")]
    Unsigned,
    /// Another account has signed them.
    #[error("is signed by {0}, not by the signer")]
    Sender(Address),
    /// They are for another chain, or for every one.
    #[error("is for {}, not for this chain", chain(.0))]
    Chain(Option<u64>),
    /// They are for another nonce.
    #[error("has nonce {0}")]
    Nonce(u64),
}

fn chain(id: &Option<u64>) -> String {
    id.map_or_else(|| "no chain".to_owned(), |id| format!("chain {id}"))
}

/// What signed bytes of a lane do, and the bytes as an attempt. Fees are left to us: they are those of these
/// bytes, and a replacement is to pay more.
pub fn read(raw: &Bytes, lane: Lane, nonce: Nonce) -> Result<(Payload, Attempt), Unfit> {
    let envelope = decode(raw)?;
    let sender = envelope.recover_signer().map_err(|_| Unfit::Unsigned)?;
    if sender != lane.signer {
        return Err(Unfit::Sender(sender));
    }
    if envelope.chain_id() != Some(lane.chain.get()) {
        return Err(Unfit::Chain(envelope.chain_id()));
    }
    if envelope.nonce() != nonce.get() {
        return Err(Unfit::Nonce(envelope.nonce()));
    }
    let listed = envelope.access_list().filter(|_| !envelope.is_legacy());
    // What is empty counts as left out: callers mostly do not name it, and a repeated request is compared field by field.
    let access = listed.filter(|list| !list.0.is_empty()).map(|list| {
        let items = list.0.iter().map(|item| Access {
            address: item.address,
            keys: item.storage_keys.clone(),
        });
        items.collect()
    });
    let payload = Payload::from(Fields {
        to: envelope.to(),
        value: Some(envelope.value()),
        data: Some(envelope.input().clone()).filter(|data| !data.is_empty()),
        gas: Some(envelope.gas_limit()),
        fees: Fees::Ours,
        access,
    });
    let attempt = Attempt {
        kind: Kind::Original,
        hash: keccak256(raw),
        raw: raw.clone(),
        fees: Some(SignedFees {
            max_fee: envelope.max_fee_per_gas(),
            max_priority_fee: envelope.max_priority_fee_per_gas(),
        }),
    };
    Ok((payload, attempt))
}

/// Exactly one transaction, as nodes take it, and nothing after it.
fn decode(raw: &[u8]) -> Result<TxEnvelope, Unfit> {
    if raw.len() > TX_BYTES_MAX {
        return Err(Unfit::TooLong(raw.len()));
    }
    let first = raw.first().copied().unwrap_or(LIST);
    if (0x03..LIST).contains(&first) {
        return Err(Unfit::Type(first));
    }
    let mut rest = raw;
    let envelope = if first < LIST {
        TxEnvelope::decode_2718(&mut rest).map_err(|error| error.to_string())
    } else {
        TxEnvelope::decode(&mut rest).map_err(|error| error.to_string())
    };
    let envelope = envelope.map_err(Unfit::Undecodable)?;
    if !rest.is_empty() {
        let why = format!("{} bytes follow it", rest.len());
        return Err(Unfit::Undecodable(why));
    }
    Ok(envelope)
}

#[cfg(test)]
mod tests {
    use alloy_primitives::hex;

    use super::*;
    use crate::ids::ChainId;

    /// The example of EIP-155: nonce 9, 20 gwei, 21,000 gas, one ether to 0x3535…, chain 1.
    const LEGACY: &str = "f86c098504a817c800825208943535353535353535353535353535353535353535880de0b6b3a76400008025a028ef61340bd939bc2195fe537567866003e1a15d3c71ff63e1590620aa636276a067cbe9d8997f761aecb703304b3800ccf555c9f3dc64214b297fb1966a3b6d83";
    const SENDER: &str = "9d8a62f656a8d1615c1294fd71e9cfb3e4855a4f";

    fn lane(chain: u64, signer: &str) -> Lane {
        Lane {
            chain: ChainId::new(chain).unwrap(),
            signer: Address::from_slice(&hex::decode(signer).unwrap()),
        }
    }

    fn bytes(text: &str) -> Bytes {
        hex::decode(text).unwrap().into()
    }

    fn nonce(n: u64) -> Nonce {
        Nonce::new(n).unwrap()
    }

    #[test]
    fn bytes_tell_what_they_execute_and_what_they_pay() {
        let raw = bytes(LEGACY);
        let (payload, attempt) = read(&raw, lane(1, SENDER), nonce(9)).unwrap();
        assert_eq!(payload.to(), Some(Address::repeat_byte(0x35)));
        assert_eq!(payload.value().unwrap().to_string(), "1000000000000000000");
        assert_eq!((payload.gas(), payload.fees()), (Some(21_000), Fees::Ours));
        assert_eq!(payload.given_access(), None);
        assert_eq!(attempt.hash, keccak256(&raw));
        let paid = SignedFees {
            max_fee: 20_000_000_000,
            max_priority_fee: None,
        };
        assert_eq!((attempt.raw, attempt.fees), (raw, Some(paid)));
        let stored = Payload::from_canonical(payload.canonical()).unwrap();
        assert_eq!(stored, payload, "it is read back as it was written");
    }

    #[test]
    fn bytes_of_another_signer_chain_or_nonce_are_refused() {
        let raw = bytes(LEGACY);
        let check = |lane, n, expected| assert_eq!(read(&raw, lane, nonce(n)), Err(expected));
        let other = "3535353535353535353535353535353535353535";
        let sender = lane(1, SENDER).signer;
        check(lane(1, other), 9, Unfit::Sender(sender));
        check(lane(5, SENDER), 9, Unfit::Chain(Some(1)));
        check(lane(1, SENDER), 8, Unfit::Nonce(9));
    }

    #[test]
    fn what_is_no_transaction_is_refused() {
        let check = |raw: Bytes| read(&raw, lane(1, SENDER), nonce(9)).unwrap_err();
        let undecodable = |why| matches!(why, Unfit::Undecodable(_));
        assert!(undecodable(check(Bytes::new())));
        assert!(undecodable(check(bytes("c0"))));
        assert!(undecodable(check(bytes("02"))));
        assert!(undecodable(check(bytes(&format!("{LEGACY}00")))));
        assert!(undecodable(check(bytes(&LEGACY[..LEGACY.len() - 2]))));
        assert_eq!(check(bytes("03c0")), Unfit::Type(3));
        assert_eq!(check(bytes("7fc0")), Unfit::Type(0x7f));
        let long = Bytes::from(vec![0xf8; TX_BYTES_MAX + 1]);
        assert_eq!(check(long), Unfit::TooLong(TX_BYTES_MAX + 1));
    }
}
