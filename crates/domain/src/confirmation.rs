//! The published list of the blocks on top of a transaction's: how its events carry it, how a reader
//! of events rebuilds it, and what a leader has to publish when the chain moves.
//!
//! The rule of a reader is FireFly's: `newFork` replaces the whole list, anything else is appended.

use alloy_primitives::B256;

use crate::event::{Event, Kind};
use crate::ids::{Corrupt, Height};
use crate::mutant::Mutant;
use crate::state::Block;

/// The longest list of a chain whose finality is not a number of blocks. Longer: a list could reach
/// below the blocks that the follower keeps (256), and a fork there would not be seen. Shorter: on
/// Ethereum a list would end before `finalized`, about 100 blocks later, does.
pub const LIST_MAX: u64 = 128;

/// The longest list of a chain whose finality is a number of blocks, which it is shorter than otherwise. Longer: a fork
/// writes more than 32 kB for each transaction below it, and a node that was away reads as many blocks for each.
pub const DEEP_LIST_MAX: u64 = 1_000;

/// Consecutive blocks, each the parent of the next. Two forks do not fit into one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stretch {
    /// The parent of the lowest.
    parent: B256,
    lowest: Height,
    /// Never empty.
    hashes: Vec<B256>,
}

impl Stretch {
    /// These hashes, lowest first, from this height on. None without a hash, or beyond all heights.
    #[must_use]
    pub fn new(parent: B256, lowest: Height, hashes: Vec<B256>) -> Option<Self> {
        let more = u64::try_from(hashes.len()).ok()?.checked_sub(1)?;
        lowest.plus(more).ok()?;
        Some(Self {
            parent,
            lowest,
            hashes,
        })
    }

    /// The highest block.
    #[must_use]
    pub fn newest(&self) -> Block {
        let last = self.hashes.len() - 1;
        Block {
            number: self.number(last),
            hash: self.hashes[last],
        }
    }

    /// The lowest height, and the hash below it.
    #[must_use]
    pub const fn base(&self) -> (Height, B256) {
        (self.lowest, self.parent)
    }

    /// All blocks with the hashes of their parents, lowest first.
    pub fn blocks(&self) -> impl Iterator<Item = (Block, B256)> {
        let parents = std::iter::once(&self.parent).chain(&self.hashes);
        let hashes = self.hashes.iter().zip(parents).enumerate();
        hashes.map(|(place, (hash, parent))| {
            let number = self.number(place);
            let hash = *hash;
            (Block { number, hash }, *parent)
        })
    }

    fn number(&self, place: usize) -> Height {
        let further = u64::try_from(place).unwrap_or(u64::MAX);
        let number = self.lowest.plus(further);
        number.expect("the last one fits, and none is further")
    }

    /// What is on top of a block that is among these, or right below them; none if it is not.
    fn above(&self, block: Block) -> Option<&[B256]> {
        if block.number.plus(1) == Ok(self.lowest) {
            return (block.hash == self.parent).then_some(&self.hashes);
        }
        let place = block.number.get().checked_sub(self.lowest.get())?;
        let place = usize::try_from(place).ok()?;
        (*self.hashes.get(place)? == block.hash).then(|| &self.hashes[place + 1..])
    }

    /// As a store's column holds it: the parent's hash and then all others. The heights are those of
    /// the event's block and below.
    #[must_use]
    pub fn column(&self) -> Vec<u8> {
        let hashes = std::iter::once(&self.parent).chain(&self.hashes);
        hashes.flat_map(|hash| hash.0).collect()
    }

    /// Reads a column back, beside the event's block.
    pub fn from_column(column: &[u8], newest: Option<Block>) -> Result<Self, Corrupt> {
        let corrupt = Corrupt {
            column: "confirmations",
        };
        let newest = newest.ok_or(corrupt)?;
        let (hashes, rest) = column.as_chunks::<{ B256::len_bytes() }>();
        let mut hashes = hashes.iter().map(|hash| B256::new(*hash));
        let parent = hashes.next().filter(|_| rest.is_empty()).ok_or(corrupt)?;
        let hashes: Vec<B256> = hashes.collect();
        let below = u64::try_from(hashes.len())
            .ok()
            .and_then(|n| n.checked_sub(1));
        let lowest = below.and_then(|below| newest.number.get().checked_sub(below));
        let lowest = Height::new(lowest.ok_or(corrupt)?).map_err(|_| corrupt)?;
        let read = Self::new(parent, lowest, hashes).ok_or(corrupt)?;
        if read.newest() == newest {
            Ok(read)
        } else {
            Err(corrupt)
        }
    }
}

/// One block of a published list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listed<T> {
    /// The block.
    pub block: Block,
    /// The block below it; older versions did not say.
    pub parent: Option<B256>,
    /// What its reader knows of the event that published it.
    pub from: T,
}

/// The published list as its events give it, lowest block first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct List<T>(Vec<Listed<T>>);

impl<T> List<T> {
    /// The list of a transaction of which nothing was published.
    #[must_use]
    pub const fn empty() -> Self {
        Self(Vec::new())
    }

    /// Its blocks.
    #[must_use]
    pub fn blocks(&self) -> &[Listed<T>] {
        &self.0
    }

    /// Its blocks, to be kept.
    #[must_use]
    pub fn into_blocks(self) -> Vec<Listed<T>> {
        self.0
    }

    /// Reads the next event of the transaction. All of them in order, or those from the last one on that
    /// [begins a list](Event::begins_list), give the list.
    pub fn read(&mut self, event: &Event, from: T)
    where
        T: Copy,
    {
        if event.begins_list() {
            self.0.clear();
        }
        if event.kind != Kind::Confirmations {
            return;
        }
        match (&event.confirmations, event.block) {
            (Some(stretch), _) => self
                .0
                .extend(stretch.blocks().map(|(block, parent)| Listed {
                    block,
                    parent: Some(parent),
                    from,
                })),
            // A version before the lists: its event is about the block that was replaced.
            (None, Some(_)) if event.new_fork => {}
            // The same, about one block more. Those versions went on with the blocks of a fork where it began.
            (None, Some(block)) => {
                self.0.retain(|listed| listed.block.number < block.number);
                self.0.push(Listed {
                    block,
                    parent: None,
                    from,
                });
            }
            (None, None) => {}
        }
    }
}

/// What has to be published, so that readers of the events have the blocks that count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Publish {
    /// They have them, as far as we know better.
    Nothing,
    /// They lack these.
    Append(Stretch),
    /// They have some that were replaced: this is the list.
    Replace(Stretch),
}

impl Publish {
    /// Compares what readers have with the chain. `own` is the block that the transaction is in, `chain`
    /// the blocks that count as far as they are known, `most` the longest list.
    #[must_use]
    pub fn after<T>(list: &List<T>, own: Block, chain: &Stretch, most: u64) -> Self {
        // Its own block is not there: it was replaced, which is told as that, or is too deep.
        let (Some(above), Ok(lowest)) = (chain.above(own), own.number.plus(1)) else {
            return Self::Nothing;
        };
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let above = &above[..above.len().min(most)];
        let canonical = (lowest.get()..).zip(above);
        let listed = list.0.iter().map(|listed| listed.block);
        let same = canonical
            .zip(listed)
            .take_while(|((number, hash), block)| {
                block.number.get() == *number && block.hash == **hash
            })
            .count();
        let from = |place: usize| {
            let parent = place.checked_sub(1).map_or(own.hash, |below| above[below]);
            let lowest = lowest.plus(u64::try_from(place).ok()?).ok()?;
            Stretch::new(parent, lowest, above[place..].to_vec())
        };
        let fresh = from(same);
        match fresh {
            // An endpoint that is behind does not unsay what is above its head.
            None => Self::Nothing,
            Some(fresh) if same == list.0.len() => Self::Append(fresh),
            Some(fresh) if Mutant::ForkAppended.is_on() => Self::Append(fresh),
            Some(_) => from(0).map_or(Self::Nothing, Self::Replace),
        }
    }
}

#[cfg(test)]
mod tests;
