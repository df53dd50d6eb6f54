//! A signed transaction, read from its bytes once. What does not decode, is of another type or has no
//! recoverable sender never becomes a [`Tx`].

use alloy_consensus::{SignableTransaction, Signed, Transaction, TxEnvelope};
use alloy_eips::eip2718::Decodable2718;
use alloy_eips::eip2930::AccessList;
use alloy_primitives::{Address, B256, Bytes, Signature, TxKind, U256, keccak256};
use secp256k1::ecdsa::{RecoverableSignature, RecoveryId};
use secp256k1::{Message, SECP256K1};

use crate::rejection::{Facts, Rejected, Rejection};

/// The order of the curve, halved: a higher `s` is malleable, and refused since EIP-2.
const S_MAX: U256 = alloy_consensus::crypto::SECP256K1N_HALF;

/// The types of transactions that the chain takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// With one gas price, protected by EIP-155.
    Legacy,
    /// With an access list (EIP-2930).
    AccessList,
    /// With a fee cap and a tip (EIP-1559).
    DynamicFee,
}

impl Kind {
    /// The number of the type.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Kind::Legacy => 0,
            Kind::AccessList => 1,
            Kind::DynamicFee => 2,
        }
    }
}

/// A transaction with the sender that its signature proves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tx {
    /// Its hash.
    pub hash: B256,
    /// Who signed it.
    pub sender: Address,
    /// Its type.
    pub kind: Kind,
    /// The chain it was signed for.
    pub chain_id: u64,
    /// Its nonce.
    pub nonce: u64,
    /// Its gas limit.
    pub gas_limit: u64,
    /// The most it pays for a unit of gas, in wei; the gas price of the older types.
    pub fee_cap: u128,
    /// The most it tips for a unit of gas, in wei; the gas price of the older types.
    pub tip_cap: u128,
    /// Whom it calls.
    pub to: TxKind,
    /// How much it carries, in wei.
    pub value: U256,
    /// Its data.
    pub input: Bytes,
    /// Its access list.
    pub access_list: AccessList,
    /// Its signature.
    pub signature: Signature,
    /// Its bytes as they were sent.
    pub raw: Bytes,
}

impl Tx {
    /// Reads the bytes of a transaction and recovers its sender.
    pub fn decode(raw: Bytes, chain_id: u64) -> Result<Tx, Rejected> {
        match raw.first() {
            None => return Err(Rejection::Malformed.into()),
            Some(1 | 2 | 0xc0..=0xff) => {}
            Some(_) => return Err(Rejection::TypeUnsupported.into()),
        }
        let envelope = TxEnvelope::decode_2718_exact(&raw).map_err(|_| Rejection::Malformed)?;
        match envelope {
            TxEnvelope::Legacy(signed) => Self::checked(Kind::Legacy, &signed, raw, chain_id),
            TxEnvelope::Eip2930(signed) => Self::checked(Kind::AccessList, &signed, raw, chain_id),
            TxEnvelope::Eip1559(signed) => Self::checked(Kind::DynamicFee, &signed, raw, chain_id),
            TxEnvelope::Eip4844(_) | TxEnvelope::Eip7702(_) => {
                Err(Rejection::TypeUnsupported.into())
            }
        }
    }

    fn checked<T>(kind: Kind, signed: &Signed<T>, raw: Bytes, chain_id: u64) -> Result<Tx, Rejected>
    where
        T: Transaction + SignableTransaction<Signature>,
    {
        let tx = signed.tx();
        let facts = Facts {
            nonce: tx.nonce(),
            chain_id,
            tx_chain_id: tx.chain_id().unwrap_or_default(),
            ..Facts::default()
        };
        match tx.chain_id() {
            None => return Err(Rejection::Unprotected.with(facts)),
            Some(id) if id != chain_id => return Err(Rejection::WrongChain.with(facts)),
            Some(_) => {}
        }
        let sender = recover(signed.signature(), tx.signature_hash())
            .ok_or_else(|| Rejection::BadSignature.with(facts))?;
        Ok(Tx {
            hash: keccak256(&raw),
            sender,
            kind,
            chain_id,
            nonce: tx.nonce(),
            gas_limit: tx.gas_limit(),
            fee_cap: tx.max_fee_per_gas(),
            tip_cap: tx
                .max_priority_fee_per_gas()
                .unwrap_or_else(|| tx.max_fee_per_gas()),
            to: tx.kind(),
            value: tx.value(),
            input: tx.input().clone(),
            access_list: tx.access_list().cloned().unwrap_or_default(),
            signature: *signed.signature(),
            raw,
        })
    }

    /// The most it can cost its sender, in wei.
    #[must_use]
    pub fn cost(&self) -> U256 {
        U256::from(self.gas_limit)
            .saturating_mul(U256::from(self.fee_cap))
            .saturating_add(self.value)
    }

    /// What a unit of its gas costs at a base fee, in wei.
    #[must_use]
    pub fn price_at(&self, base_fee: u64) -> u128 {
        self.fee_cap
            .min(u128::from(base_fee).saturating_add(self.tip_cap))
    }

    /// What it tips at a base fee, in wei, or none if it cannot pay the base fee.
    #[must_use]
    pub fn tip_at(&self, base_fee: u64) -> Option<u128> {
        let room = self.fee_cap.checked_sub(u128::from(base_fee))?;
        Some(room.min(self.tip_cap))
    }
}

fn recover(signature: &Signature, hash: B256) -> Option<Address> {
    if signature.s() > S_MAX {
        return None;
    }
    let mut compact = [0; 64];
    compact[..32].copy_from_slice(&signature.r().to_be_bytes::<32>());
    compact[32..].copy_from_slice(&signature.s().to_be_bytes::<32>());
    let id = if signature.v() {
        RecoveryId::One
    } else {
        RecoveryId::Zero
    };
    let signature = RecoverableSignature::from_compact(&compact, id).ok()?;
    let key = SECP256K1
        .recover_ecdsa(Message::from_digest(hash.0), &signature)
        .ok()?;
    Some(Address::from_raw_public_key(
        &key.serialize_uncompressed()[1..],
    ))
}
