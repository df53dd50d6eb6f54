//! What workers want to know of a chain, and what was seen for them: the hashes of their attempts,
//! and the blocks that hold some. Workers write what they wait for, the follower reads it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use fencepost_domain::B256;
use fencepost_domain::ids::{Height, LaneId, Nonce, TxId};
use fencepost_domain::state::Block;

/// Whose attempt a hash is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Whose {
    pub(crate) lane: LaneId,
    pub(crate) nonce: Nonce,
    pub(crate) tx: TxId,
}

/// A transaction of ours in a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hit {
    pub(crate) block: Block,
    pub(crate) whose: Whose,
    /// The worker was told that the block is final.
    pub(crate) told: bool,
}

#[derive(Debug, Default)]
struct Notes {
    watched: HashMap<B256, Whose>,
    /// In order of ids, so that what is told of a block is always told in one order.
    hits: BTreeMap<Height, BTreeMap<TxId, Hit>>,
    /// At which height a transaction has its hit.
    heights: HashMap<TxId, Height>,
    /// Up to which block a transaction's worker was last told what is on top.
    covered: HashMap<TxId, Block>,
    /// Lanes that missed something of what was seen for them.
    missed: HashSet<LaneId>,
    /// Blocks below are not looked at any more.
    settled: Option<Height>,
}

impl Notes {
    fn take(&mut self, tx: TxId) {
        // Whoever puts it onto the board again has not heard of it.
        self.covered.remove(&tx);
        let Some(height) = self.heights.remove(&tx) else {
            return;
        };
        if let Some(hits) = self.hits.get_mut(&height) {
            hits.remove(&tx);
            if hits.is_empty() {
                self.hits.remove(&height);
            }
        }
    }
}

/// One chain's board.
#[derive(Debug, Default)]
pub(crate) struct Board(Mutex<Notes>);

impl Board {
    /// Reorgs below this height are not looked for; none before the chain was seen.
    pub(crate) fn settled(&self) -> Option<Height> {
        self.notes().settled
    }

    /// The follower looks for reorgs from this height on.
    pub(crate) fn settle(&self, below: Height) {
        self.notes().settled = Some(below);
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This hash is an attempt of ours. To be said before it is sent.
    pub(crate) fn watch(&self, hash: B256, whose: Whose) {
        self.notes().watched.insert(hash, whose);
    }

    pub(crate) fn unwatch(&self, hashes: impl IntoIterator<Item = B256>) {
        let mut notes = self.notes();
        for hash in hashes {
            notes.watched.remove(&hash);
        }
    }

    /// A transaction is in this block, and in no other.
    pub(crate) fn put(&self, hit: Hit) {
        let mut notes = self.notes();
        notes.take(hit.whose.tx);
        let height = hit.block.number;
        notes.heights.insert(hit.whose.tx, height);
        let hits = notes.hits.entry(height).or_default();
        hits.insert(hit.whose.tx, hit);
    }

    /// The same, where the board may know: then it stays as it is.
    pub(crate) fn see(&self, hit: Hit) {
        let known = {
            let notes = self.notes();
            let hits = notes.hits.get(&hit.block.number);
            let known = hits.and_then(|hits| hits.get(&hit.whose.tx));
            known.is_some_and(|known| known.block == hit.block)
        };
        if !known {
            self.put(hit);
        }
    }

    /// A transaction is in no block.
    pub(crate) fn take(&self, hit: &Hit) {
        self.notes().take(hit.whose.tx);
    }

    /// The lane is not ours any more.
    pub(crate) fn forget(&self, lane: LaneId) {
        let mut notes = self.notes();
        notes.watched.retain(|_, whose| whose.lane != lane);
        let hits = notes.hits.values().flat_map(BTreeMap::values);
        let gone = hits.filter(|hit| hit.whose.lane == lane);
        let gone: Vec<TxId> = gone.map(|hit| hit.whose.tx).collect();
        for tx in gone {
            notes.take(tx);
        }
        notes.missed.remove(&lane);
    }

    /// Which of these hashes are ours.
    pub(crate) fn find(&self, hashes: &[B256]) -> Vec<(B256, Whose)> {
        let notes = self.notes();
        if notes.watched.is_empty() {
            return vec![];
        }
        hashes
            .iter()
            .filter_map(|hash| Some((*hash, *notes.watched.get(hash)?)))
            .collect()
    }

    /// Keeps those that somebody still waits for: whose transaction has not ended, and was not seen in that block on
    /// another way.
    pub(crate) fn keep_unseen(&self, owed: &mut Vec<(Block, B256, Whose)>) {
        let notes = self.notes();
        owed.retain(|(block, hash, whose)| {
            let hits = notes.hits.get(&block.number);
            let seen = hits.and_then(|hits| hits.get(&whose.tx));
            notes.watched.get(hash) == Some(whose) && seen.is_none_or(|hit| hit.block != *block)
        });
    }

    /// All hits from this height on.
    pub(crate) fn hits_from(&self, height: Height) -> Vec<Hit> {
        let notes = self.notes();
        let hits = notes.hits.range(height..);
        hits.flat_map(|(_, hits)| hits.values()).copied().collect()
    }

    /// Heights with hits whose finality was not told, as far as `deep` says they are: lowest first, but those below `from`
    /// after all others.
    pub(crate) fn undecided(
        &self,
        from: Height,
        deep: impl Fn(Height) -> bool,
        most: usize,
    ) -> Vec<Height> {
        let notes = self.notes();
        let above = notes
            .hits
            .range(from..)
            .take_while(|(height, _)| deep(**height));
        let below = notes
            .hits
            .range(..from)
            .take_while(|(height, _)| deep(**height));
        above
            .chain(below)
            .filter(|(_, hits)| hits.values().any(|hit| !hit.told))
            .map(|(height, _)| *height)
            .take(most)
            .collect()
    }

    /// The hits at a height whose finality was not told.
    pub(crate) fn untold_at(&self, height: Height) -> Vec<Hit> {
        let notes = self.notes();
        let hits = notes.hits.get(&height).into_iter();
        let hits = hits.flat_map(BTreeMap::values).filter(|hit| !hit.told);
        let mut hits: Vec<Hit> = hits.copied().collect();
        // In order of nonces, so that the feed tells a lane's ends in their order.
        hits.sort_unstable_by_key(|hit| (hit.whose.lane, hit.whose.nonce));
        hits
    }

    /// The worker was told that the block of this hit is final.
    pub(crate) fn tell(&self, told: &Hit) {
        let mut notes = self.notes();
        let hits = notes.hits.get_mut(&told.block.number);
        let hit = hits.and_then(|hits| hits.get_mut(&told.whose.tx));
        if let Some(hit) = hit.filter(|hit| hit.block == told.block) {
            hit.told = true;
        }
    }

    /// A worker is told what is on top of this hit, up to this block; false if it has heard of that.
    pub(crate) fn cover(&self, hit: &Hit, top: Block) -> bool {
        let mut notes = self.notes();
        let here = notes.heights.get(&hit.whose.tx) == Some(&hit.block.number);
        here && notes.covered.insert(hit.whose.tx, top) != Some(top)
    }

    /// Final ones below this height need not be remembered: no reorg is looked for that deep.
    pub(crate) fn prune(&self, below: Height) {
        let mut notes = self.notes();
        let old = notes
            .hits
            .range(..below)
            .flat_map(|(_, hits)| hits.values());
        let old: Vec<TxId> = old.filter(|hit| hit.told).map(|hit| hit.whose.tx).collect();
        for tx in old {
            notes.take(tx);
        }
    }

    /// The worker of this lane could not be told something.
    pub(crate) fn miss(&self, lane: LaneId) {
        self.notes().missed.insert(lane);
    }

    /// Every lane with something on the board has missed what happened.
    pub(crate) fn miss_all(&self) {
        let mut notes = self.notes();
        let lanes: HashSet<LaneId> = notes.watched.values().map(|whose| whose.lane).collect();
        notes.missed.extend(lanes);
    }

    pub(crate) fn missed(&self) -> Vec<LaneId> {
        let mut lanes: Vec<LaneId> = self.notes().missed.drain().collect();
        lanes.sort_unstable();
        lanes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(number: u64, hash: u8) -> Block {
        Block {
            number: Height::new(number).unwrap(),
            hash: B256::repeat_byte(hash),
        }
    }

    fn whose(nonce: u64) -> Whose {
        Whose {
            lane: LaneId(1),
            nonce: Nonce::new(nonce).unwrap(),
            tx: TxId(uuid::Uuid::from_u128(nonce.into())),
        }
    }

    #[test]
    fn a_receipt_is_owed_while_it_was_not_seen_and_somebody_waits() {
        let board = Board::default();
        let hash = |nonce: u8| B256::repeat_byte(nonce);
        for nonce in 1..=4 {
            board.watch(hash(nonce), whose(nonce.into()));
        }
        let hit = |nonce, block| Hit {
            block,
            whose: whose(nonce),
            told: false,
        };
        let at = block(7, 0xaa);
        // The first waits, the second was seen there, the third in a block that is gone, the fourth has ended.
        board.put(hit(2, at));
        board.put(hit(3, block(7, 0xbb)));
        board.unwatch([hash(4)]);
        let mut owed: Vec<_> = (1..=4_u8)
            .map(|nonce| (at, hash(nonce), whose(nonce.into())))
            .collect();
        board.keep_unseen(&mut owed);
        let left: Vec<B256> = owed.iter().map(|(_, hash, _)| *hash).collect();
        assert_eq!(left, [hash(1), hash(3)]);
    }
}
