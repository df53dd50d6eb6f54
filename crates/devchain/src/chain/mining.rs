//! Making blocks out of a pool. When is the caller's affair: nothing is mined by itself.

use std::sync::Arc;

use alloy_eips::calc_next_block_base_fee;
use alloy_eips::eip1559::BaseFeeParams;
use alloy_primitives::B256;

use super::{Devchain, NotThere, SHARED};
use crate::block::{Block, Draft, Terms};
use crate::branch::{Branch, BranchId};
use crate::config::BaseFee;
use crate::endpoint::EndpointId;
use crate::execution::Unfit;
use crate::pool::{Picker, Pool};
use crate::state::State;

/// Less than this fits no transaction.
const GAS_LEAST: u64 = 21_000;

/// Why a block cannot hold what it was asked to. Nothing has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unminable {
    /// The bytes are not known.
    #[error("no block holds {0}, and no pool held it lately")]
    Unknown(B256),
    /// It does not fit this block.
    #[error("{0} does not fit the block: {1}")]
    Unfit(B256, Unfit),
}

impl Devchain {
    /// Mines a block on the canonical branch, from the shared pool.
    pub fn mine(&mut self, timestamp: u64) -> Arc<Block> {
        self.mine_on(self.canonical, SHARED, timestamp)
    }

    /// Mines a block on the canonical branch that begins with these transactions, in this order, and goes
    /// on with the shared pool. They need not be pooled: what was replaced, dropped or thrown out by a reorg
    /// can be mined instead of another of its nonce, as by a node that never heard of the other.
    pub fn mine_with(&mut self, wanted: &[B256], timestamp: u64) -> Result<Arc<Block>, Unminable> {
        let mut draft = self.draft(self.branch(), timestamp);
        for hash in wanted {
            let tx = self.known(hash).ok_or(Unminable::Unknown(*hash))?;
            let added = draft.add(tx);
            added.map_err(|why| Unminable::Unfit(*hash, why))?;
        }
        Ok(self.finish(self.canonical, SHARED, draft))
    }

    /// Mines a block on the branch that an endpoint looks at, from that endpoint's pool.
    pub fn mine_as(
        &mut self,
        endpoint: EndpointId,
        timestamp: u64,
    ) -> Result<Arc<Block>, NotThere> {
        let at = self.at(endpoint)?;
        let branch = at.view.branch.filter(|id| self.branches.contains_key(id));
        Ok(self.mine_on(branch.unwrap_or(self.canonical), at.pool, timestamp))
    }

    fn mine_on(&mut self, id: BranchId, pool: usize, timestamp: u64) -> Arc<Block> {
        let branch = self
            .branches
            .get(&id)
            .expect("only kept branches are mined");
        let draft = self.draft(branch, timestamp);
        self.finish(id, pool, draft)
    }

    /// Fills the rest of a block from a pool, and puts it on top of a branch.
    fn finish(&mut self, id: BranchId, pool: usize, draft: Draft) -> Arc<Block> {
        let (block, state, unpayable) = fill(draft, &self.pools[pool]);
        for hash in unpayable {
            self.pools[pool].remove(&hash);
        }
        let block = Arc::new(block);
        self.push(id, &block, state);
        for mined in &block.txs {
            self.pools[pool].forget_mined(&mined.tx);
            if id == self.canonical {
                self.pools[SHARED].forget_mined(&mined.tx);
            }
        }
        self.sweep_own_pools();
        self.prune();
        block
    }

    /// What the next block would be on the branch and pool of an endpoint. Nothing changes.
    pub(crate) fn pending(&self, endpoint: EndpointId) -> Result<Block, NotThere> {
        let at = self.at(endpoint)?;
        let branch = at.view.branch.and_then(|id| self.branches.get(&id));
        let branch = branch.unwrap_or_else(|| self.branch());
        let draft = self.draft(branch, branch.head().block.header.timestamp);
        let (block, _, _) = fill(draft, &self.pools[at.pool]);
        Ok(block)
    }

    pub(super) fn draft(&self, branch: &Branch, timestamp: u64) -> Draft {
        let head = branch.head();
        let terms = Terms {
            base_fee: self.base_fee_after(&head.block),
            gas_limit: self.config.gas_limit,
            coinbase: self.config.coinbase,
            timestamp,
            branch: branch.id,
        };
        Draft::after(&head.block, head.state.clone(), terms)
    }

    /// The base fee of the block after one, in wei.
    pub(crate) fn base_fee_after(&self, parent: &Block) -> u64 {
        if let Some(wei) = self.base_fee_set {
            return wei;
        }
        match self.config.base_fee {
            BaseFee::Fixed(wei) => wei,
            BaseFee::Eip1559(_) => calc_next_block_base_fee(
                parent.header.gas_used,
                parent.header.gas_limit,
                parent.base_fee(),
                BaseFeeParams::ethereum(),
            ),
        }
    }

    pub(super) fn push(&mut self, id: BranchId, block: &Arc<Block>, state: State) {
        self.index.add(block);
        let branch = self.branches.get_mut(&id);
        let branch = branch.expect("blocks are pushed to kept branches");
        branch.push(Arc::clone(block), state);
    }

    /// Own pools are not mined from, so what others mined has to be taken out of them.
    pub(super) fn sweep_own_pools(&mut self) {
        for position in 0..self.endpoints.len() {
            let pool = self.endpoints[position].pool;
            if pool == SHARED {
                continue;
            }
            let seen = self.seen(EndpointId(position), 0);
            let state = seen.expect("the endpoint is there").state().clone();
            self.pools[pool].sweep(|address| state.nonce(address));
        }
    }
}

/// Fills a block from a pool. Also says what its sender can no longer pay, which pools drop.
fn fill(mut draft: Draft, pool: &Pool) -> (Block, State, Vec<B256>) {
    let mut unpayable = Vec::new();
    let mut picker = Picker::new(pool, draft.state(), draft.base_fee());
    while draft.gas_left() >= GAS_LEAST
        && let Some(tx) = picker.next()
    {
        match draft.add(tx) {
            Ok(()) => picker.follow(tx),
            Err(Unfit::Funds) => unpayable.push(tx.hash),
            // It waits for a block with more room or a lower base fee, and what follows it waits too.
            Err(Unfit::Gas | Unfit::BaseFee | Unfit::Nonce) => {}
        }
    }
    let (block, state) = draft.seal();
    (block, state, unpayable)
}
