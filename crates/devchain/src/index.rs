//! Where blocks and transactions are, on all branches at once. Nothing here is ever walked: the maps
//! answer by hash only, so their order cannot leak into a trace.

use std::sync::Arc;

use alloy_primitives::B256;
use alloy_primitives::map::B256Map;

use crate::block::Block;
use crate::tx::Tx;

/// A block that holds a transaction, and its place in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    number: u64,
    block: B256,
    position: usize,
}

#[derive(Debug, Default)]
pub(crate) struct Index {
    blocks: B256Map<Arc<Block>>,
    places: B256Map<Vec<Place>>,
    txs: usize,
}

impl Index {
    /// How many transactions all the blocks hold.
    pub(crate) fn txs(&self) -> usize {
        self.txs
    }

    pub(crate) fn block(&self, hash: &B256) -> Option<&Arc<Block>> {
        self.blocks.get(hash)
    }

    /// The block that holds a transaction among those that pass, and the position in it.
    pub(crate) fn find(
        &self,
        tx: &B256,
        passes: impl Fn(u64, B256) -> bool,
    ) -> Option<(&Arc<Block>, usize)> {
        let places = self.places.get(tx)?;
        let place = places.iter().find(|at| passes(at.number, at.block))?;
        Some((self.blocks.get(&place.block)?, place.position))
    }

    pub(crate) fn tx(&self, hash: &B256) -> Option<&Arc<Tx>> {
        let (block, position) = self.find(hash, |_, _| true)?;
        Some(&block.txs.get(position)?.tx)
    }

    pub(crate) fn add(&mut self, block: &Arc<Block>) {
        for (position, mined) in block.txs.iter().enumerate() {
            let place = Place {
                number: block.number(),
                block: block.hash,
                position,
            };
            self.places.entry(mined.tx.hash).or_default().push(place);
        }
        self.txs += block.txs.len();
        self.blocks.insert(block.hash, Arc::clone(block));
    }

    pub(crate) fn remove(&mut self, block: &Block) {
        if self.blocks.remove(&block.hash).is_none() {
            return;
        }
        self.txs -= block.txs.len();
        for mined in &block.txs {
            if let Some(places) = self.places.get_mut(&mined.tx.hash) {
                places.retain(|place| place.block != block.hash);
                if places.is_empty() {
                    self.places.remove(&mined.tx.hash);
                }
            }
        }
    }
}
