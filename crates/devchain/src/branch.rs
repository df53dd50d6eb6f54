//! A branch: a chain of blocks with the state after each. Copying one is cheap and shares all blocks, so
//! a reorg makes a new branch and the old one stays as it was.

use std::sync::Arc;

use alloy_primitives::{Address, B256, U256};
use rpds::RedBlackTreeMapSync;
use serde::{Deserialize, Serialize};

use crate::block::Block;
use crate::state::State;

/// How many set balances a branch remembers, to set them again after a reorg. More are set at once only
/// by mistake, and the older ones are below any reorg by then.
const GRANTS_MAX: usize = 10_000;

/// Names a branch. The first one is 0.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct BranchId(pub u64);

/// A block and the state after it.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) block: Arc<Block>,
    pub(crate) state: State,
}

/// Money given or taken by hand, outside any transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Grant {
    height: u64,
    address: Address,
    more: U256,
    less: U256,
}

#[derive(Debug, Clone)]
pub(crate) struct Branch {
    pub(crate) id: BranchId,
    entries: RedBlackTreeMapSync<u64, Entry>,
    head: u64,
    grants: Vec<Grant>,
}

impl Branch {
    pub(crate) fn new(block: Arc<Block>, state: State) -> Branch {
        let head = block.number();
        let mut entries = RedBlackTreeMapSync::new_sync();
        entries.insert_mut(head, Entry { block, state });
        Branch {
            id: BranchId::default(),
            entries,
            head,
            grants: Vec::new(),
        }
    }

    pub(crate) fn head(&self) -> &Entry {
        self.at(self.head).expect("a branch holds its head")
    }

    pub(crate) fn at(&self, number: u64) -> Option<&Entry> {
        self.entries.get(&number)
    }

    /// The number of the oldest block that is still kept.
    pub(crate) fn first(&self) -> u64 {
        let (number, _) = self.entries.first().expect("a branch holds its head");
        *number
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.size()
    }

    pub(crate) fn has(&self, number: u64, hash: B256) -> bool {
        self.at(number)
            .is_some_and(|entry| entry.block.hash == hash)
    }

    /// Its blocks above a height, lowest first.
    pub(crate) fn above(&self, number: u64) -> impl Iterator<Item = &Arc<Block>> {
        let range = self.entries.range(number + 1..);
        range.map(|(_, entry)| &entry.block)
    }

    pub(crate) fn blocks(&self) -> impl Iterator<Item = &Arc<Block>> {
        self.entries.values().map(|entry| &entry.block)
    }

    pub(crate) fn push(&mut self, block: Arc<Block>, state: State) {
        assert_eq!(block.number(), self.head + 1, "blocks follow each other");
        self.head = block.number();
        self.entries.insert_mut(self.head, Entry { block, state });
    }

    /// Forgets the oldest block, unless it is the head.
    pub(crate) fn forget_first(&mut self) -> Option<Arc<Block>> {
        let first = self.first();
        if first == self.head {
            return None;
        }
        let block = Arc::clone(&self.at(first)?.block);
        self.entries.remove_mut(&first);
        Some(block)
    }

    /// A new branch that ends at a height of this one. Money given above it is given at its head again.
    pub(crate) fn cut(&self, id: BranchId, number: u64) -> Branch {
        let mut branch = self.clone();
        branch.id = id;
        for above in number + 1..=self.head {
            branch.entries.remove_mut(&above);
        }
        branch.head = number;
        branch.grants.retain(|grant| grant.height <= number);
        for grant in &self.grants {
            if grant.height > number {
                branch.give(grant.address, grant.more, grant.less);
            }
        }
        branch
    }

    /// Gives and takes money at the head.
    pub(crate) fn give(&mut self, address: Address, more: U256, less: U256) {
        let Entry { block, mut state } = self.head().clone();
        let mut account = state.account(&address);
        account.balance = account.balance.saturating_add(more).saturating_sub(less);
        state.put(address, account);
        self.entries.insert_mut(self.head, Entry { block, state });
        if self.grants.len() >= GRANTS_MAX {
            self.grants.remove(0);
        }
        self.grants.push(Grant {
            height: self.head,
            address,
            more,
            less,
        });
    }
}
