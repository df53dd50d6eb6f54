//! What a pool was given, for those who check afterwards that nonces came in order and never too many.

use std::collections::{BTreeMap, VecDeque};

use alloy_primitives::{Address, B256};

/// A send that was accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accepted {
    /// The nonce.
    pub nonce: u64,
    /// The hash.
    pub hash: B256,
}

#[derive(Debug, Clone, Default)]
struct Page {
    sends: VecDeque<Accepted>,
    held_max: usize,
}

#[derive(Debug, Clone)]
pub(crate) struct Journal {
    pages: BTreeMap<Address, Page>,
    kept: usize,
}

impl Journal {
    pub(crate) fn new(kept: usize) -> Journal {
        let pages = BTreeMap::new();
        Journal { pages, kept }
    }

    pub(super) fn note(&mut self, sender: Address, accepted: Accepted, held: usize) {
        let page = self.pages.entry(sender).or_default();
        page.held_max = page.held_max.max(held);
        if page.sends.len() >= self.kept {
            page.sends.pop_front();
        }
        if self.kept > 0 {
            page.sends.push_back(accepted);
        }
    }

    pub(crate) fn sends(&self, sender: &Address) -> impl Iterator<Item = Accepted> {
        let page = self.pages.get(sender);
        page.into_iter().flat_map(|page| page.sends.iter().copied())
    }

    pub(crate) fn held_max(&self, sender: &Address) -> usize {
        self.pages.get(sender).map_or(0, |page| page.held_max)
    }
}
