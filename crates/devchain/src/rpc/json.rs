//! Blocks, transactions and receipts in the shapes that Ethereum's clients read.

use std::fmt::LowerHex;

use alloy_consensus::constants::EMPTY_OMMER_ROOT_HASH;
use alloy_eips::eip2930::AccessList;
use alloy_primitives::{Address, B64, B256, Bloom, Bytes, U256};
use serde::{Serialize, Serializer};

use crate::block::{Block, Mined};
use crate::tx::{Kind, Tx};

/// A number as a quantity: hex without leading zeros.
#[derive(Debug, Clone, Copy)]
pub(super) struct Quantity<T>(pub(super) T);

impl<T: LowerHex> Serialize for Quantity<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&format_args!("{:#x}", self.0))
    }
}

#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum TxsJson<'a> {
    Hashes(Vec<B256>),
    Full(Vec<TxJson<'a>>),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct BlockJson<'a> {
    number: Quantity<u64>,
    hash: B256,
    parent_hash: B256,
    nonce: B64,
    sha3_uncles: B256,
    logs_bloom: &'a Bloom,
    transactions_root: B256,
    state_root: B256,
    receipts_root: B256,
    miner: Address,
    difficulty: Quantity<u8>,
    total_difficulty: Quantity<u8>,
    extra_data: &'a Bytes,
    size: Quantity<usize>,
    gas_limit: Quantity<u64>,
    gas_used: Quantity<u64>,
    timestamp: Quantity<u64>,
    mix_hash: B256,
    base_fee_per_gas: Quantity<u64>,
    transactions: TxsJson<'a>,
    uncles: [B256; 0],
}

impl<'a> BlockJson<'a> {
    pub(super) fn new(block: &'a Block, is_full: bool) -> BlockJson<'a> {
        let header = &block.header;
        let transactions = if is_full {
            let txs = (0..block.txs.len()).map(|position| TxJson::mined(block, position));
            TxsJson::Full(txs.collect())
        } else {
            TxsJson::Hashes(block.txs.iter().map(|mined| mined.tx.hash).collect())
        };
        BlockJson {
            number: Quantity(header.number),
            hash: block.hash,
            parent_hash: header.parent_hash,
            nonce: header.nonce,
            sha3_uncles: EMPTY_OMMER_ROOT_HASH,
            logs_bloom: &header.logs_bloom,
            transactions_root: header.transactions_root,
            state_root: header.state_root,
            receipts_root: header.receipts_root,
            miner: header.beneficiary,
            difficulty: Quantity(0),
            total_difficulty: Quantity(0),
            extra_data: &header.extra_data,
            size: Quantity(block.size()),
            gas_limit: Quantity(header.gas_limit),
            gas_used: Quantity(header.gas_used),
            timestamp: Quantity(header.timestamp),
            mix_hash: header.mix_hash,
            base_fee_per_gas: Quantity(block.base_fee()),
            transactions,
            uncles: [],
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TxJson<'a> {
    block_hash: Option<B256>,
    block_number: Option<Quantity<u64>>,
    transaction_index: Option<Quantity<usize>>,
    hash: B256,
    from: Address,
    to: Option<Address>,
    #[serde(rename = "type")]
    kind: Quantity<u8>,
    chain_id: Quantity<u64>,
    nonce: Quantity<u64>,
    gas: Quantity<u64>,
    gas_price: Quantity<u128>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_fee_per_gas: Option<Quantity<u128>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_priority_fee_per_gas: Option<Quantity<u128>>,
    value: U256,
    input: &'a Bytes,
    #[serde(skip_serializing_if = "Option::is_none")]
    access_list: Option<&'a AccessList>,
    v: Quantity<u64>,
    r: U256,
    s: U256,
    #[serde(skip_serializing_if = "Option::is_none")]
    y_parity: Option<Quantity<u64>>,
}

impl<'a> TxJson<'a> {
    pub(super) fn pending(tx: &'a Tx) -> TxJson<'a> {
        let parity = u64::from(tx.signature.v());
        let is_dynamic = tx.kind == Kind::DynamicFee;
        let is_typed = tx.kind != Kind::Legacy;
        TxJson {
            block_hash: None,
            block_number: None,
            transaction_index: None,
            hash: tx.hash,
            from: tx.sender,
            to: tx.to.to().copied(),
            kind: Quantity(tx.kind.number()),
            chain_id: Quantity(tx.chain_id),
            nonce: Quantity(tx.nonce),
            gas: Quantity(tx.gas_limit),
            gas_price: Quantity(tx.fee_cap),
            max_fee_per_gas: is_dynamic.then_some(Quantity(tx.fee_cap)),
            max_priority_fee_per_gas: is_dynamic.then_some(Quantity(tx.tip_cap)),
            value: tx.value,
            input: &tx.input,
            access_list: is_typed.then_some(&tx.access_list),
            v: Quantity(if is_typed {
                parity
            } else {
                tx.chain_id.saturating_mul(2).saturating_add(35 + parity)
            }),
            r: tx.signature.r(),
            s: tx.signature.s(),
            y_parity: is_typed.then_some(Quantity(parity)),
        }
    }

    pub(super) fn mined(block: &'a Block, position: usize) -> TxJson<'a> {
        let Mined { tx, receipt } = &block.txs[position];
        TxJson {
            block_hash: Some(block.hash),
            block_number: Some(Quantity(block.number())),
            transaction_index: Some(Quantity(position)),
            gas_price: Quantity(receipt.price),
            ..TxJson::pending(tx)
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ReceiptJson {
    transaction_hash: B256,
    transaction_index: Quantity<usize>,
    block_hash: B256,
    block_number: Quantity<u64>,
    from: Address,
    to: Option<Address>,
    cumulative_gas_used: Quantity<u64>,
    gas_used: Quantity<u64>,
    effective_gas_price: Quantity<u128>,
    contract_address: Option<Address>,
    logs: [u8; 0],
    logs_bloom: &'static Bloom,
    status: Quantity<u8>,
    #[serde(rename = "type")]
    kind: Quantity<u8>,
}

impl ReceiptJson {
    pub(super) fn new(block: &Block, position: usize) -> ReceiptJson {
        let Mined { tx, receipt } = &block.txs[position];
        ReceiptJson {
            transaction_hash: tx.hash,
            transaction_index: Quantity(position),
            block_hash: block.hash,
            block_number: Quantity(block.number()),
            from: tx.sender,
            to: tx.to.to().copied(),
            cumulative_gas_used: Quantity(receipt.gas_used_cumulative),
            gas_used: Quantity(receipt.gas_used),
            effective_gas_price: Quantity(receipt.price),
            contract_address: receipt.contract,
            logs: [],
            logs_bloom: &Bloom::ZERO,
            status: Quantity(u8::from(receipt.is_success)),
            kind: Quantity(tx.kind.number()),
        }
    }
}
