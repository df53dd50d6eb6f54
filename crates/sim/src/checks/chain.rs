//! The chain as it truly is and was: which blocks counted, which were deep, and what was executed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use alloy_primitives::{B256, TxKind, U256};
use fencepost_devchain::{Block, Devchain, Mined};
use fencepost_domain::Address;
use fencepost_domain::finality::Rule;
use fencepost_domain::ids::Lane;

use crate::profile::{FINALIZED_LAG, SAFE_LAG};
use crate::sometimes::Rare;
use crate::world::World;

/// Who gets all payments of clients; each has an amount of its own.
pub(crate) const PAYEE: Address = Address::repeat_byte(9);
/// No reorg is deeper: above this far below the head blocks are compared.
const WINDOW: usize = 40;

/// What was seen of the chain.
pub(crate) struct Mirror {
    depth: u64,
    /// How many blocks on top of a transaction are told before it ends, where that is a number.
    pub(super) listed: Option<u64>,
    signers: BTreeSet<Address>,
    /// The canonical blocks by height, from 1.
    canon: Vec<Arc<Block>>,
    /// Blocks that counted at some time.
    blocks: BTreeMap<B256, Arc<Block>>,
    /// Blocks that were deep enough at some time.
    deep: BTreeSet<B256>,
    /// Blocks that no longer counted at some time.
    replaced: BTreeSet<B256>,
    /// Above this height some endpoint showed another branch than the one that counts.
    forked_above: Option<u64>,
    /// In which blocks a transaction was at some time.
    places: BTreeMap<B256, Vec<B256>>,
    /// How often each payment is on the canonical chain.
    paid: BTreeMap<U256, u32>,
}

/// What a look at the chain has found.
#[derive(Default)]
pub(crate) struct News {
    /// Transactions of our signers that are in blocks now and were not before.
    pub(crate) mined: Vec<B256>,
    /// Payments that are on the chain more than once.
    pub(crate) twice: Vec<U256>,
    /// How many blocks were replaced.
    pub(crate) replaced: u64,
    /// How many of our signers' transactions were in them.
    pub(crate) unmined: u64,
    /// A replaced block was deep.
    pub(crate) below_final: bool,
}

impl Mirror {
    pub(super) fn new(finality: Rule, lanes: &[Lane]) -> Self {
        Self {
            depth: match finality {
                Rule::Confirmations(n) => n,
                Rule::Safe => SAFE_LAG,
                Rule::Finalized => FINALIZED_LAG,
            },
            listed: match finality {
                Rule::Confirmations(n) => Some(n),
                Rule::Safe | Rule::Finalized => None,
            },
            signers: lanes.iter().map(|lane| lane.signer).collect(),
            canon: Vec::new(),
            blocks: BTreeMap::new(),
            deep: BTreeSet::new(),
            replaced: BTreeSet::new(),
            forked_above: None,
            places: BTreeMap::new(),
            paid: BTreeMap::new(),
        }
    }

    /// A block no longer counted at some time, or some endpoint showed another instead of it.
    pub(crate) fn was_replaced(&self, block: &B256) -> bool {
        let number = self.blocks.get(block).map_or(0, |block| block.number());
        let elsewhere = self.forked_above.is_some_and(|above| number > above);
        elsewhere || self.replaced.contains(block)
    }

    /// The height and hash of the block below one that counted at some time.
    pub(super) fn parent(&self, block: &B256) -> Option<(u64, B256)> {
        let header = &self.blocks.get(block)?.header;
        Some((header.number - 1, header.parent_hash))
    }

    /// The blocks that count on top of one, at most so many; none if that one does not count.
    pub(super) fn on_top_of(&self, own: (u64, B256), most: u64) -> Option<Vec<(u64, B256)>> {
        let at = usize::try_from(own.0).expect("it is in memory");
        let counts = self.canon.get(at.checked_sub(1)?);
        counts.filter(|block| block.hash == own.1)?;
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let above = self.canon[at..].iter().take(most);
        Some(above.map(|block| (block.number(), block.hash)).collect())
    }

    /// An endpoint stays on a branch that was left, above this height.
    pub(crate) fn fork(&mut self, above: u64) {
        let lowest = self.forked_above.map_or(above, |lowest| lowest.min(above));
        self.forked_above = Some(lowest);
    }

    /// A transaction in a block that was deep at some time.
    pub(crate) fn deep_in(&self, block: &B256, hash: &B256) -> Option<&Mined> {
        self.deep.get(block)?;
        let mut txs = self.blocks.get(block)?.txs.iter();
        txs.find(|mined| mined.tx.hash == *hash)
    }

    /// A transaction in any block that was deep at some time.
    pub(crate) fn deep_with(&self, hash: &B256) -> impl Iterator<Item = &Mined> {
        let places = self.places.get(hash).into_iter().flatten();
        places.filter_map(|block| self.deep_in(block, hash))
    }

    /// Whether a nonce was used in a block that was deep at some time.
    pub(crate) fn deep_use(&self, signer: Address, nonce: u64) -> bool {
        let is_it = |mined: &Mined| mined.tx.sender == signer && mined.tx.nonce == nonce;
        let mut deep = self.deep.iter().filter_map(|hash| self.blocks.get(hash));
        deep.any(|block| block.txs.iter().any(is_it))
    }

    /// Where a transaction is on the canonical chain.
    pub(crate) fn mined(&self, hash: &B256) -> Option<(&Block, &Mined)> {
        let places = self.places.get(hash)?.iter();
        let mut blocks = places.filter_map(|block| self.blocks.get(block));
        let block = blocks.find(|block| self.counts(block))?;
        let mined = block.txs.iter().find(|mined| mined.tx.hash == *hash)?;
        Some((block, mined))
    }

    /// What the canonical chain holds of our signers, by signer and nonce.
    pub(crate) fn used(&self) -> BTreeMap<(Address, u64), &Mined> {
        let txs = self.canon.iter().flat_map(|block| &block.txs);
        let ours = txs.filter(|mined| self.signers.contains(&mined.tx.sender));
        ours.map(|mined| ((mined.tx.sender, mined.tx.nonce), mined))
            .collect()
    }

    fn counts(&self, block: &Block) -> bool {
        let at = usize::try_from(block.number() - 1).expect("it is in memory");
        self.canon
            .get(at)
            .is_some_and(|counts| counts.hash == block.hash)
    }

    /// Looks at the chain, which has a new head.
    pub(crate) fn look(&mut self, chain: &Devchain) -> News {
        let mut news = News::default();
        let base = self.canon.len().saturating_sub(WINDOW);
        let above = u64::try_from(base).expect("it is in memory");
        let fresh: Vec<Arc<Block>> = chain.blocks_above(above).cloned().collect();
        let old = self.canon.split_off(base);
        let same = old
            .iter()
            .zip(&fresh)
            .take_while(|(old, new)| old.hash == new.hash);
        let same = same.count();
        for block in &old[same..] {
            news.replaced += 1;
            news.below_final |= self.deep.contains(&block.hash);
            self.replaced.insert(block.hash);
            for mined in &block.txs {
                news.unmined += u64::from(self.signers.contains(&mined.tx.sender));
                if let Some(count) = payment(mined).and_then(|wei| self.paid.get_mut(&wei)) {
                    *count -= 1;
                }
            }
        }
        self.canon.extend(fresh[..same].iter().cloned());
        for block in &fresh[same..] {
            self.add(block, &mut news);
        }
        let head = self.canon.len();
        let depth = usize::try_from(self.depth).expect("it is small");
        let deep = self.canon[..head.saturating_sub(depth)].iter().rev();
        for block in deep.take(WINDOW) {
            self.deep.insert(block.hash);
        }
        news
    }

    fn add(&mut self, block: &Arc<Block>, news: &mut News) {
        self.canon.push(Arc::clone(block));
        self.blocks.insert(block.hash, Arc::clone(block));
        for mined in &block.txs {
            self.places
                .entry(mined.tx.hash)
                .or_default()
                .push(block.hash);
            if self.signers.contains(&mined.tx.sender) {
                news.mined.push(mined.tx.hash);
            }
            if let Some(wei) = payment(mined) {
                let count = self.paid.entry(wei).or_default();
                *count += 1;
                if *count > 1 {
                    news.twice.push(wei);
                }
            }
        }
    }
}

fn payment(mined: &Mined) -> Option<U256> {
    (mined.tx.to == TxKind::Call(PAYEE)).then_some(mined.tx.value)
}

impl World {
    /// The chain has a new head: what is in its blocks is stored, or was sent by others that we know.
    pub(crate) async fn look_at_chain(&self) {
        let news = {
            let chain = self.chain.lock();
            self.checker().mirror.look(&chain)
        };
        for hash in &news.mined {
            let known = self.checker().known(hash).is_some();
            if !known && !self.ledger().is_foreign(hash) {
                let facts = format!("{hash} is in a block, and nobody has stored it");
                self.violate("what is mined is known", facts);
            }
        }
        for wei in &news.twice {
            let facts = format!("the payment of {wei} wei is on the chain twice");
            self.violate("I5 a payload is executed once", facts);
        }
        if news.replaced > 0 {
            self.saw(Rare::Reorg);
            if self.checker().remedies_are_open(None) {
                self.saw(Rare::ReorgInRemedy);
            }
        }
        if news.unmined > 0 {
            self.saw(Rare::ReorgOfMined);
        }
        if news.below_final {
            self.saw(Rare::ReorgBelowFinal);
        }
        self.look_at_lanes().await;
    }
}
