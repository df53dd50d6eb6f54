//! What checkers ask for. Nothing here is told to clients, and nothing here has faults.

use std::sync::Arc;

use alloy_primitives::{Address, B256, Bytes};

use super::{Devchain, NotThere, SHARED};
use crate::block::Block;
use crate::branch::BranchId;
use crate::endpoint::EndpointId;
use crate::pool::Accepted;
use crate::tx::Tx;

/// A transaction that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PooledTx {
    /// Who sent it.
    pub sender: Address,
    /// Its nonce.
    pub nonce: u64,
    /// Its hash.
    pub hash: B256,
}

impl Devchain {
    /// What the kept canonical blocks hold of an account, in their order.
    #[must_use]
    pub fn mined_of(&self, address: Address) -> Vec<Accepted> {
        let blocks = self.branch().blocks();
        let mined = blocks.flat_map(|block| &block.txs);
        mined
            .filter(|mined| mined.tx.sender == address)
            .map(|mined| Accepted {
                nonce: mined.tx.nonce,
                hash: mined.tx.hash,
            })
            .collect()
    }

    /// The kept canonical blocks above this height, lowest first.
    pub fn blocks_above(&self, number: u64) -> impl Iterator<Item = &Arc<Block>> {
        self.branch().above(number)
    }

    /// Everything in an endpoint's pool, by account and nonce.
    pub fn pooled(&self, endpoint: EndpointId) -> Result<Vec<PooledTx>, NotThere> {
        let queues = self.pools[self.at(endpoint)?.pool].iter();
        let pooled = queues.flat_map(|(_, queue)| queue).map(|pooled| PooledTx {
            sender: pooled.tx.sender,
            nonce: pooled.tx.nonce,
            hash: pooled.tx.hash,
        });
        Ok(pooled.collect())
    }

    /// How many transactions of an account wait in the shared pool.
    #[must_use]
    pub fn pooled_of(&self, address: Address) -> usize {
        self.pools[SHARED].len_of(&address)
    }

    /// The most that ever waited there at once.
    #[must_use]
    pub fn pooled_max_of(&self, address: Address) -> usize {
        self.pools[SHARED].journal.held_max(&address)
    }

    /// The accepted sends of an account to the shared pool, in order of arrival; only the newest are
    /// kept.
    #[must_use]
    pub fn sends_of(&self, address: Address) -> Vec<Accepted> {
        self.pools[SHARED].journal.sends(&address).collect()
    }

    /// The bytes of a transaction that is in any kept block or pool.
    #[must_use]
    pub fn raw_of(&self, hash: &B256) -> Option<Bytes> {
        let pooled = self.pools.iter().find_map(|pool| pool.get(hash));
        let tx = pooled.or_else(|| self.index.tx(hash))?;
        Some(tx.raw.clone())
    }

    /// A transaction that is in any kept block or pool, or was in a pool lately.
    pub(super) fn known(&self, hash: &B256) -> Option<&Arc<Tx>> {
        let pooled = self.pools.iter().find_map(|pool| pool.get(hash));
        let kept = pooled.or_else(|| self.index.tx(hash));
        kept.or_else(|| self.pools.iter().find_map(|pool| pool.gone(hash)))
    }

    /// The branch that counts.
    #[must_use]
    pub fn canonical(&self) -> BranchId {
        self.canonical
    }

    /// Every branch that is kept, with the number and hash of its head.
    #[must_use]
    pub fn branches(&self) -> Vec<(BranchId, u64, B256)> {
        let heads = self.branches.values().map(|branch| {
            let head = &branch.head().block;
            (branch.id, head.number(), head.hash)
        });
        heads.collect()
    }
}
