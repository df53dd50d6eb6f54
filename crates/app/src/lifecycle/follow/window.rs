//! The newest blocks of the chain as we know it, each linked to the one below by its parent hash.

use std::collections::VecDeque;

use fencepost_domain::B256;
use fencepost_domain::confirmation::Stretch;
use fencepost_domain::ids::Height;
use fencepost_domain::state::Block;

use crate::ports::BlockBody;

/// The newest blocks, without holes.
#[derive(Debug, Default)]
pub(crate) struct Window {
    blocks: VecDeque<Block>,
    /// The parent of the lowest.
    below: B256,
}

/// What joins a block to the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Joint {
    /// The window already has it.
    Has,
    /// It stands on a block of the window.
    Links,
    /// These heights, from the lower to the upper, must be looked at first.
    Needs(Height, Height),
    /// The window does not reach that deep.
    TooDeep,
}

impl Window {
    pub(crate) fn head(&self) -> Option<Block> {
        self.blocks.back().copied()
    }

    pub(crate) fn base(&self) -> Option<Height> {
        self.blocks.front().map(|block| block.number)
    }

    /// The hash at a height, where the window has it.
    pub(crate) fn at(&self, height: Height) -> Option<B256> {
        let base = self.base()?;
        let place = height.get().checked_sub(base.get())?;
        let block = self.blocks.get(usize::try_from(place).ok()?)?;
        Some(block.hash)
    }

    /// All of it, for those who publish what is on top of a transaction.
    pub(crate) fn stretch(&self) -> Option<Stretch> {
        let hashes = self.blocks.iter().map(|block| block.hash).collect();
        Stretch::new(self.below, self.base()?, hashes)
    }

    /// How a branch whose lowest known block is this one joins the window.
    pub(crate) fn joint(&self, lowest: &BlockBody) -> Joint {
        let (Some(head), Some(base)) = (self.head(), self.base()) else {
            return Joint::TooDeep;
        };
        let number = lowest.block.number;
        if self.at(number) == Some(lowest.block.hash) {
            return Joint::Has;
        }
        let Some(below) = number.get().checked_sub(1) else {
            return Joint::TooDeep;
        };
        let below = Height::new(below).unwrap_or(base);
        if self.at(below) == Some(lowest.parent) {
            return Joint::Links;
        }
        if below < base {
            return Joint::TooDeep;
        }
        // The gap above our head in one go; below it, a reorg is deeper the rarer it is.
        let from = if below > head.number {
            head.number
        } else {
            let depth = head.number.get() - below.get() + 1;
            let to = below.get().saturating_sub(depth.min(REORG_STEP_MAX));
            Height::new(to).unwrap_or(base).max(base)
        };
        Joint::Needs(from, below)
    }

    /// Takes a branch in, lowest block first, that links to the window. Returns the first height that
    /// is new.
    pub(crate) fn take(&mut self, branch: &[BlockBody], keep: usize) -> Option<Height> {
        let first = branch.first()?.block.number;
        while self.head().is_some_and(|head| head.number >= first) {
            self.blocks.pop_back();
        }
        if self.blocks.is_empty() {
            self.below = branch.first()?.parent;
        }
        self.blocks.extend(branch.iter().map(|body| body.block));
        while self.blocks.len() > keep.max(1) {
            if let Some(gone) = self.blocks.pop_front() {
                self.below = gone.hash;
            }
        }
        Some(first)
    }

    /// Begins anew.
    pub(crate) fn reset(&mut self, head: &BlockBody) {
        self.blocks.clear();
        self.blocks.push_back(head.block);
        self.below = head.parent;
    }

    /// The heights below the lowest that are still to be known, the highest first.
    pub(crate) fn shallow(&self, keep: usize, most: usize) -> Vec<Height> {
        let Some(base) = self.base() else {
            return vec![];
        };
        let missing = keep.saturating_sub(self.blocks.len()).min(most);
        let missing = u64::try_from(missing).unwrap_or(u64::MAX);
        let from = base.get().saturating_sub(missing);
        let heights = (from..base.get()).rev();
        heights
            .filter_map(|height| Height::new(height).ok())
            .collect()
    }

    /// Takes a block in below the lowest; false if it is not the one that belongs there.
    pub(crate) fn deepen(&mut self, body: &BlockBody) -> bool {
        if body.block.hash != self.below {
            return false;
        }
        self.blocks.push_front(body.block);
        self.below = body.parent;
        true
    }
}

/// How many blocks below a fork are looked at in one request, at most.
const REORG_STEP_MAX: u64 = 32;

#[cfg(test)]
mod tests {
    use super::*;

    fn h(n: u64) -> Height {
        Height::new(n).unwrap()
    }

    fn hash(branch: u8, n: u64) -> B256 {
        let mut hash = B256::repeat_byte(branch);
        hash.0[0] = u8::try_from(n).unwrap();
        hash
    }

    fn body(branch: u8, n: u64, parent: u8) -> BlockBody {
        BlockBody {
            block: Block {
                number: h(n),
                hash: hash(branch, n),
            },
            parent: hash(parent, n - 1),
            txs: vec![],
        }
    }

    fn window(from: u64, to: u64) -> Window {
        let mut window = Window::default();
        let branch: Vec<_> = (from..=to).map(|n| body(1, n, 1)).collect();
        window.take(&branch, 100);
        window
    }

    #[test]
    fn a_block_joins_where_its_parent_is() {
        let window = window(10, 20);
        assert_eq!(window.joint(&body(1, 20, 1)), Joint::Has);
        assert_eq!(window.joint(&body(1, 15, 1)), Joint::Has, "an old head");
        assert_eq!(window.joint(&body(1, 21, 1)), Joint::Links);
        assert_eq!(window.joint(&body(2, 18, 1)), Joint::Links, "a fork");
        // The head itself is asked for again with the gap: it may have been replaced.
        assert_eq!(window.joint(&body(1, 25, 1)), Joint::Needs(h(20), h(24)));
        assert_eq!(window.joint(&body(2, 21, 2)), Joint::Needs(h(19), h(20)));
        assert_eq!(window.joint(&body(2, 19, 2)), Joint::Needs(h(15), h(18)));
        assert_eq!(window.joint(&body(2, 11, 2)), Joint::Needs(h(10), h(10)));
        assert_eq!(window.joint(&body(2, 10, 2)), Joint::TooDeep);
        assert_eq!(Window::default().joint(&body(1, 5, 1)), Joint::TooDeep);
    }

    #[test]
    fn a_new_window_grows_downwards_along_the_parents() {
        let mut window = Window::default();
        window.reset(&body(1, 20, 1));
        assert_eq!(window.shallow(4, 2), [h(19), h(18)]);
        assert!(!window.deepen(&body(2, 19, 1)), "of another branch");
        assert!(window.deepen(&body(1, 19, 1)));
        assert!(window.deepen(&body(1, 18, 1)));
        assert_eq!(window.shallow(4, 2), [h(17)]);
        assert_eq!(
            (window.base(), window.at(h(18))),
            (Some(h(18)), Some(hash(1, 18)))
        );
    }

    #[test]
    fn a_fork_replaces_what_was_above_it_and_the_window_keeps_its_length() {
        let mut window = window(10, 20);
        let fork = [body(2, 18, 1), body(2, 19, 2)];
        assert_eq!(window.take(&fork, 5), Some(h(18)));
        assert_eq!(window.head().unwrap().hash, hash(2, 19));
        assert_eq!(window.at(h(20)), None);
        assert_eq!(window.at(h(17)), Some(hash(1, 17)));
        assert_eq!(window.base(), Some(h(15)));
    }
}
