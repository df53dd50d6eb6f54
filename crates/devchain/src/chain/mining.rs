//! Making blocks out of a pool. When is the caller's affair: nothing is mined by itself.

use std::sync::Arc;

use alloy_eips::calc_next_block_base_fee;
use alloy_eips::eip1559::BaseFeeParams;

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

impl Devchain {
    /// Mines a block on the canonical branch, from the shared pool.
    pub fn mine(&mut self, timestamp: u64) -> Arc<Block> {
        self.mine_on(self.canonical, SHARED, timestamp)
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
        let (block, state, unpayable) = fill(draft, &self.pools[pool]);
        for hash in unpayable {
            self.pools[pool].remove(&hash);
        }
        let block = Arc::new(block);
        self.push(id, &block, state);
        for mined in &block.txs {
            let next = mined.tx.nonce + 1;
            self.pools[pool].forget_below(mined.tx.sender, next);
            if id == self.canonical {
                self.pools[SHARED].forget_below(mined.tx.sender, next);
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
fn fill(mut draft: Draft, pool: &Pool) -> (Block, State, Vec<alloy_primitives::B256>) {
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
