//! Blocks, and how one is made. The transactions and receipts roots are the real ordered tries; the state
//! root is only a chain of hashes over the accounts that each block touched, for a real one costs more
//! than everything else together.

use std::collections::BTreeSet;
use std::sync::Arc;

use alloy_consensus::proofs::{calculate_receipt_root, ordered_trie_root_with_encoder};
use alloy_consensus::{Eip658Value, Header, ReceiptEnvelope, ReceiptWithBloom};
use alloy_primitives::{Address, B256, Bloom, Keccak256, U256};

use crate::branch::BranchId;
use crate::execution::{Receipt, Unfit, execute};
use crate::state::State;
use crate::tx::{Kind, Tx};

/// A transaction in a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mined {
    /// Which.
    pub tx: Arc<Tx>,
    /// How it went.
    pub receipt: Receipt,
}

/// A block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// The hash of its header.
    pub hash: B256,
    /// Its header.
    pub header: Header,
    /// Its transactions, in order.
    pub txs: Vec<Mined>,
}

impl Block {
    /// Its height.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.header.number
    }

    /// Its base fee, in wei.
    #[must_use]
    pub fn base_fee(&self) -> u64 {
        self.header.base_fee_per_gas.unwrap_or_default()
    }

    /// About how many bytes it has on the wire.
    #[must_use]
    pub fn size(&self) -> usize {
        let txs: usize = self.txs.iter().map(|mined| mined.tx.raw.len()).sum();
        self.header.size() + txs
    }
}

/// What a block is made with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    pub(crate) base_fee: u64,
    pub(crate) gas_limit: u64,
    pub(crate) coinbase: Address,
    pub(crate) timestamp: u64,
    /// Blocks of different branches differ in their hashes even when they hold the same.
    pub(crate) branch: BranchId,
}

/// A block that is being made.
pub(crate) struct Draft {
    header: Header,
    state: State,
    txs: Vec<Mined>,
    touched: BTreeSet<Address>,
    tips: U256,
}

impl Draft {
    pub(crate) fn genesis(terms: Terms, state: State) -> Draft {
        let touched = state.iter().map(|(address, _)| *address).collect();
        Draft {
            header: header(terms),
            state,
            txs: Vec::new(),
            touched,
            tips: U256::ZERO,
        }
    }

    /// The next block on top of another. Time never goes back, but it may stand still: blocks can be
    /// closer together than a second.
    pub(crate) fn after(parent: &Block, state: State, terms: Terms) -> Draft {
        let header = Header {
            parent_hash: parent.hash,
            number: parent.number() + 1,
            timestamp: terms.timestamp.max(parent.header.timestamp),
            state_root: parent.header.state_root,
            ..header(terms)
        };
        Draft {
            header,
            state,
            txs: Vec::new(),
            touched: BTreeSet::new(),
            tips: U256::ZERO,
        }
    }

    pub(crate) fn base_fee(&self) -> u64 {
        self.header.base_fee_per_gas.unwrap_or_default()
    }

    pub(crate) fn gas_left(&self) -> u64 {
        self.header.gas_limit - self.header.gas_used
    }

    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    pub(crate) fn add(&mut self, tx: &Arc<Tx>) -> Result<(), Unfit> {
        let base_fee = self.base_fee();
        let gas_left = self.gas_left();
        let mut receipt = execute(&mut self.state, tx, base_fee, gas_left)?;
        self.header.gas_used += receipt.gas_used;
        receipt.gas_used_cumulative = self.header.gas_used;
        let tip = receipt.price - u128::from(base_fee);
        self.tips += U256::from(receipt.gas_used) * U256::from(tip);
        self.touched.insert(tx.sender);
        self.touched
            .extend(receipt.contract.or(tx.to.to().copied()));
        let tx = Arc::clone(tx);
        self.txs.push(Mined { tx, receipt });
        Ok(())
    }

    pub(crate) fn seal(mut self) -> (Block, State) {
        if !self.tips.is_zero() {
            let coinbase = self.header.beneficiary;
            self.state.credit(coinbase, self.tips);
            self.touched.insert(coinbase);
        }
        self.header.state_root = state_root(self.header.state_root, &self.touched, &self.state);
        if !self.txs.is_empty() {
            self.header.transactions_root =
                ordered_trie_root_with_encoder(&self.txs, |mined, out| {
                    out.extend_from_slice(&mined.tx.raw);
                });
            let receipts: Vec<_> = self.txs.iter().map(envelope).collect();
            self.header.receipts_root = calculate_receipt_root(&receipts);
        }
        let block = Block {
            hash: self.header.hash_slow(),
            header: self.header,
            txs: self.txs,
        };
        (block, self.state)
    }
}

fn header(terms: Terms) -> Header {
    Header {
        beneficiary: terms.coinbase,
        gas_limit: terms.gas_limit,
        timestamp: terms.timestamp,
        base_fee_per_gas: Some(terms.base_fee),
        extra_data: format!("devchain/{}", terms.branch.0).into_bytes().into(),
        ..Header::default()
    }
}

fn state_root(parent: B256, touched: &BTreeSet<Address>, state: &State) -> B256 {
    let mut hasher = Keccak256::new();
    hasher.update(parent);
    for address in touched {
        let account = state.account(address);
        hasher.update(address);
        hasher.update(account.nonce.to_be_bytes());
        hasher.update(account.balance.to_be_bytes::<32>());
        hasher.update(account.code.unwrap_or_default());
    }
    hasher.finalize()
}

fn envelope(mined: &Mined) -> ReceiptEnvelope {
    let receipt = alloy_consensus::Receipt {
        status: Eip658Value::Eip658(mined.receipt.is_success),
        cumulative_gas_used: mined.receipt.gas_used_cumulative,
        logs: Vec::new(),
    };
    let receipt = ReceiptWithBloom::new(receipt, Bloom::ZERO);
    match mined.tx.kind {
        Kind::Legacy => ReceiptEnvelope::Legacy(receipt),
        Kind::AccessList => ReceiptEnvelope::Eip2930(receipt),
        Kind::DynamicFee => ReceiptEnvelope::Eip1559(receipt),
    }
}
