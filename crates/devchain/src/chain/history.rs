//! Forgetting. Blocks older than the limits go from all branches, and abandoned branches when there are
//! too many; a chain that runs for weeks would not fit into memory otherwise.

use std::sync::Arc;

use super::Devchain;
use crate::block::Block;
use crate::branch::{Branch, BranchId};

/// So many blocks stay whatever they hold, for reorgs and for followers that are a little behind.
const BLOCKS_MIN: usize = 256;

impl Devchain {
    pub(super) fn prune(&mut self) {
        let limits = self.config.history;
        loop {
            let kept = self.branch().len();
            let is_over = kept > limits.blocks_max || self.index.txs() > limits.txs_max;
            if kept <= BLOCKS_MIN || !is_over {
                return;
            }
            self.forget_block(self.branch().first());
        }
    }

    /// Forgets a height on every branch, and branches that end there.
    fn forget_block(&mut self, number: u64) {
        let ended: Vec<BranchId> = self
            .branches
            .values()
            .filter(|branch| branch.head().block.number() <= number)
            .map(|branch| branch.id)
            .collect();
        for id in ended {
            self.forget_branch(id);
        }
        for branch in self.branches.values_mut() {
            while branch.first() <= number
                && let Some(block) = branch.forget_first()
            {
                self.index.remove(&block);
            }
        }
    }

    /// Makes room for one more branch.
    pub(super) fn prune_branches(&mut self) {
        while self.branches.len() > self.config.history.branches_max.max(1) {
            let is_old = |id: &&BranchId| **id != self.canonical;
            let Some(oldest) = self.branches.keys().find(is_old).copied() else {
                return;
            };
            self.forget_branch(oldest);
        }
    }

    fn forget_branch(&mut self, id: BranchId) {
        let Some(branch) = self.branches.remove(&id) else {
            return;
        };
        for endpoint in &mut self.endpoints {
            if endpoint.view.branch == Some(id) {
                endpoint.view.branch = None;
            }
        }
        let alone: Vec<Arc<Block>> = exclusive(&branch, self.branches.values().collect());
        for block in alone {
            self.index.remove(&block);
        }
    }
}

/// The blocks of a branch that no other has: the top of it, down to where another joins.
fn exclusive(branch: &Branch, others: Vec<&Branch>) -> Vec<Arc<Block>> {
    let mut number = branch.head().block.number();
    let mut alone = Vec::new();
    while let Some(entry) = branch.at(number) {
        let hash = entry.block.hash;
        if others.iter().any(|other| other.has(number, hash)) {
            break;
        }
        alone.push(Arc::clone(&entry.block));
        match number.checked_sub(1) {
            Some(below) => number = below,
            None => break,
        }
    }
    alone
}
