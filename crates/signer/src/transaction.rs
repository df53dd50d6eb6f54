//! From what is to be signed to what is sent: the type of the transaction and its encoding.

use alloy_consensus::{SignableTransaction, TxEip1559, TxEip2930, TxLegacy, TypedTransaction};
use alloy_eips::Encodable2718;
use alloy_eips::eip2930::{AccessList, AccessListItem};
use alloy_primitives::{B256, Signature, TxKind};
use fencepost_app::ports::Signed;
use fencepost_domain::attempt::Unsigned;
use fencepost_domain::request::Access;

/// A transaction that lacks only its signature, with what must be signed.
pub(crate) struct Draft {
    tx: TypedTransaction,
    message: Vec<u8>,
    hash: B256,
}

impl Draft {
    pub(crate) fn of(unsigned: &Unsigned) -> Self {
        let tx = typed(unsigned);
        let message = tx.encoded_for_signing();
        let hash = alloy_primitives::keccak256(&message);
        Self { tx, message, hash }
    }

    /// The bytes whose hash is signed: some services hash by themselves.
    pub(crate) fn message(&self) -> &[u8] {
        &self.message
    }

    /// The hash that is signed.
    pub(crate) const fn hash(&self) -> B256 {
        self.hash
    }

    pub(crate) fn signed(self, signature: Signature) -> Signed {
        let envelope = self.tx.into_envelope(signature);
        Signed {
            hash: *envelope.tx_hash(),
            raw: envelope.encoded_2718().into(),
        }
    }
}

/// A tip makes it EIP-1559; else an access list, even an empty one, EIP-2930; else it is a legacy
/// transaction, which always names its chain (EIP-155), so that no other chain can replay it.
fn typed(unsigned: &Unsigned) -> TypedTransaction {
    let chain_id = unsigned.chain.get();
    let nonce = unsigned.nonce.get();
    let to = unsigned.to.map_or(TxKind::Create, TxKind::Call);
    let input = unsigned.data.clone();
    let (gas_limit, value) = (unsigned.gas, unsigned.value);
    let max_fee = unsigned.fees.max_fee;
    match (unsigned.fees.max_priority_fee, &unsigned.access) {
        (Some(max_priority_fee_per_gas), access) => TypedTransaction::Eip1559(TxEip1559 {
            chain_id,
            nonce,
            gas_limit,
            max_fee_per_gas: max_fee,
            max_priority_fee_per_gas,
            to,
            value,
            access_list: list(access.as_deref().unwrap_or_default()),
            input,
        }),
        (None, Some(access)) => TypedTransaction::Eip2930(TxEip2930 {
            chain_id,
            nonce,
            gas_price: max_fee,
            gas_limit,
            to,
            value,
            access_list: list(access),
            input,
        }),
        (None, None) => TypedTransaction::Legacy(TxLegacy {
            chain_id: Some(chain_id),
            nonce,
            gas_price: max_fee,
            gas_limit,
            to,
            value,
            input,
        }),
    }
}

fn list(access: &[Access]) -> AccessList {
    let item = |access: &Access| AccessListItem {
        address: access.address,
        storage_keys: access.keys.clone(),
    };
    AccessList(access.iter().map(item).collect())
}
