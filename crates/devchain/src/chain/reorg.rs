//! Replacing the newest blocks by others, and going back to blocks that were replaced.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use alloy_primitives::{Address, B256};
use serde::Deserialize;

use super::{Devchain, NotThere, SHARED};
use crate::block::Block;
use crate::branch::{Branch, BranchId};
use crate::execution::Unfit;
use crate::tx::Tx;

/// How many blocks a reorg may make. More is a mistake.
const BLOCKS_MAX: u64 = 10_000;

/// What becomes of a transaction in a replaced block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Fate {
    /// It is in the new block of the same height.
    #[default]
    Keep,
    /// It is in a new block so many heights later, or in the last one.
    Later(u64),
    /// It goes back to the pool.
    Pool,
    /// It is gone.
    Drop,
}

/// The order of transactions in the new blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Order {
    /// As it was.
    #[default]
    Same,
    /// The senders the other way round; each one's nonces still rise.
    Reversed,
}

/// What a reorg does.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Plan {
    /// How many blocks are replaced.
    pub depth: u64,
    /// How many more blocks than that are made.
    #[serde(default)]
    pub extra: u64,
    /// What becomes of the replaced blocks' transactions.
    #[serde(default)]
    pub txs: Fate,
    /// What becomes of some of them, by hash.
    #[serde(default)]
    pub only: BTreeMap<B256, Fate>,
    /// Which stands in for one of them, by hash: another transaction of its account and nonce that is in a
    /// block or pool, or was in a pool lately. What becomes of the stand-in is what became of the other.
    #[serde(default)]
    pub instead: BTreeMap<B256, B256>,
    /// The order in the new blocks.
    #[serde(default)]
    pub order: Order,
}

/// What a reorg did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reorg {
    /// The branch that was left; [`Devchain::switch_to`] goes back to it.
    pub left: BranchId,
    /// The branch that counts now.
    pub entered: BranchId,
    /// The new head.
    pub head: Arc<Block>,
}

/// Why there is no reorg. Nothing has changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReorgError {
    /// It replaces nothing.
    #[error("a reorg replaces at least one block")]
    Nothing,
    /// There are not that many blocks above the oldest that is kept.
    #[error("only {0} blocks can be replaced")]
    TooDeep(u64),
    /// It would make too many blocks.
    #[error("a reorg makes {BLOCKS_MAX} blocks at most")]
    TooLong,
    /// What another was to stand in for is in none of the replaced blocks.
    #[error("no replaced block holds {0}")]
    NotReplaced(B256),
    /// The bytes of a stand-in are not known.
    #[error("no block holds {0}, and no pool held it lately")]
    Unknown(B256),
    /// It has another account or nonce, so that both could be mined.
    #[error("{0} has another account or nonce than what it was to stand in for")]
    NotRival(B256),
    /// There is no such branch.
    #[error(transparent)]
    NotThere(#[from] NotThere),
}

/// Who stands in for whom.
type StandIns = BTreeMap<B256, Arc<Tx>>;

/// The transactions of the new blocks, and those that go back to the pool.
struct Sorted {
    blocks: Vec<Vec<Arc<Tx>>>,
    pool: Vec<Arc<Tx>>,
}

impl Devchain {
    /// Replaces the newest blocks. The state is that of the new blocks alone; what no longer fits into one
    /// is tried in the next, and at last goes back to the pool.
    pub fn reorg(&mut self, plan: &Plan) -> Result<Reorg, ReorgError> {
        let old = self.branch();
        let head = old.head().block.number();
        let deepest = head - old.first();
        if plan.depth == 0 {
            return Err(ReorgError::Nothing);
        }
        if plan.depth > deepest {
            return Err(ReorgError::TooDeep(deepest));
        }
        let length = plan.depth.saturating_add(plan.extra);
        if length > BLOCKS_MAX {
            return Err(ReorgError::TooLong);
        }
        let fork = head - plan.depth;
        let left = self.canonical;
        let entered = BranchId(self.branch_next);
        let replaced: Vec<Arc<Block>> = old.above(fork).cloned().collect();
        let stand_ins = self.stand_ins(plan, &replaced)?;
        let branch = old.cut(entered, fork);
        self.branch_next += 1;
        self.branches.insert(entered, branch);

        let length = usize::try_from(length).expect("it is bounded");
        let mut sorted = sort(plan, &replaced, &stand_ins, length);
        self.build(entered, &replaced, &mut sorted);
        self.enter(entered, sorted.pool);
        self.prune_branches();
        Ok(Reorg {
            left,
            entered,
            head: Arc::clone(self.head()),
        })
    }

    fn stand_ins(&self, plan: &Plan, replaced: &[Arc<Block>]) -> Result<StandIns, ReorgError> {
        let find = |hash: &B256| {
            let mut txs = replaced.iter().flat_map(|block| &block.txs);
            txs.find(|mined| mined.tx.hash == *hash)
        };
        let one = |(out, stand_in): (&B256, &B256)| {
            let mined = find(out).ok_or(ReorgError::NotReplaced(*out))?;
            let known = self.known(stand_in);
            let tx = known.ok_or(ReorgError::Unknown(*stand_in))?;
            if (tx.sender, tx.nonce) != (mined.tx.sender, mined.tx.nonce) {
                return Err(ReorgError::NotRival(*stand_in));
            }
            Ok((*out, Arc::clone(tx)))
        };
        plan.instead.iter().map(one).collect()
    }

    fn build(&mut self, id: BranchId, replaced: &[Arc<Block>], sorted: &mut Sorted) {
        let mut waiting: Vec<Arc<Tx>> = Vec::new();
        for (position, txs) in sorted.blocks.drain(..).enumerate() {
            let branch = self.branches.get(&id).expect("it was just made");
            let before = branch.head().block.header.timestamp;
            let same = replaced.get(position).map(|block| block.header.timestamp);
            let mut draft = self.draft(branch, same.unwrap_or(before.saturating_add(1)));
            let mut unfit = Vec::new();
            for tx in waiting.drain(..).chain(txs) {
                match draft.add(&tx) {
                    Ok(()) => {}
                    Err(Unfit::Nonce | Unfit::Gas | Unfit::BaseFee | Unfit::Funds) => {
                        unfit.push(tx);
                    }
                }
            }
            waiting = unfit;
            let (block, state) = draft.seal();
            self.push(id, &Arc::new(block), state);
        }
        sorted.pool.append(&mut waiting);
    }

    /// Makes a kept branch the canonical one. What only the branch that is left has mined goes back to the
    /// pool.
    pub fn switch_to(&mut self, id: BranchId) -> Result<Reorg, ReorgError> {
        let new = self.branches.get(&id).ok_or(NotThere::Branch(id))?;
        let left = self.canonical;
        let fork = common(self.branch(), new);
        let unmined = self.branch().above(fork).flat_map(|block| &block.txs);
        let unmined = unmined.map(|mined| Arc::clone(&mined.tx)).collect();
        self.enter(id, unmined);
        Ok(Reorg {
            left,
            entered: id,
            head: Arc::clone(self.head()),
        })
    }

    /// From here on this branch counts, and the pools are what they would be on it.
    fn enter(&mut self, id: BranchId, unmined: Vec<Arc<Tx>>) {
        self.canonical = id;
        let state = self.state().clone();
        let pool = &mut self.pools[SHARED];
        pool.sweep(|address| state.nonce(address));
        for tx in unmined {
            let next = state.nonce(&tx.sender);
            pool.restore(tx, next);
        }
        self.sweep_own_pools();
    }
}

/// The height of the newest block that two branches share.
fn common(one: &Branch, other: &Branch) -> u64 {
    let lower = one.head().block.number().min(other.head().block.number());
    let first = one.first().max(other.first());
    let is_shared = |number: &u64| {
        let entry = one.at(*number);
        entry.is_some_and(|entry| other.has(*number, entry.block.hash))
    };
    (first..=lower).rev().find(is_shared).unwrap_or(first)
}

fn sort(plan: &Plan, replaced: &[Arc<Block>], stand_ins: &StandIns, length: usize) -> Sorted {
    let mut sorted = Sorted {
        blocks: vec![Vec::new(); length],
        pool: Vec::new(),
    };
    for (position, block) in replaced.iter().enumerate() {
        for mined in &block.txs {
            let hash = &mined.tx.hash;
            let tx = Arc::clone(stand_ins.get(hash).unwrap_or(&mined.tx));
            match plan.only.get(hash).copied().unwrap_or(plan.txs) {
                Fate::Keep => sorted.blocks[position].push(tx),
                Fate::Later(heights) => {
                    let heights = usize::try_from(heights).unwrap_or(usize::MAX);
                    let later = position.saturating_add(heights).min(length - 1);
                    sorted.blocks[later].push(tx);
                }
                Fate::Pool => sorted.pool.push(tx),
                Fate::Drop => {}
            }
        }
    }
    match plan.order {
        Order::Same => {}
        Order::Reversed => sorted
            .blocks
            .iter_mut()
            .for_each(|txs| reverse_senders(txs)),
    }
    sorted
}

fn reverse_senders(txs: &mut [Arc<Tx>]) {
    let mut seen = BTreeSet::new();
    let mut senders: Vec<Address> = txs.iter().map(|tx| tx.sender).collect();
    senders.retain(|sender| seen.insert(*sender));
    let places: BTreeMap<Address, usize> = senders.into_iter().rev().zip(0..).collect();
    txs.sort_by_key(|tx| (places.get(&tx.sender).copied(), tx.nonce));
}
