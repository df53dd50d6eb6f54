//! What waits to be mined: per account by nonce, bounded per account and in all. Whether a transaction may
//! enter stands in `admission`, which one is mined next in `pick`, which ones left unmined in `gone`.

mod admission;
mod gone;
mod journal;
mod pick;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use alloy_primitives::map::B256Map;
use alloy_primitives::{Address, B256, U256};

use crate::config::PoolLimits;
use crate::tx::Tx;

pub(crate) use admission::Rules;
use gone::Gone;
pub use journal::Accepted;
pub(crate) use journal::Journal;
pub(crate) use pick::Picker;

#[derive(Debug, Clone)]
pub(crate) struct Pooled {
    pub(crate) tx: Arc<Tx>,
    pub(crate) arrival: u64,
}

/// The transactions of one account.
#[derive(Debug, Clone, Default)]
struct Queue {
    txs: BTreeMap<u64, Pooled>,
    /// What all of them may cost together.
    cost: U256,
}

/// Cheapest first, and of the equally cheap the newest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Price {
    fee_cap: u128,
    tip_cap: u128,
    arrival: Reverse<u64>,
    hash: B256,
}

impl Price {
    fn of(pooled: &Pooled) -> Price {
        Price {
            fee_cap: pooled.tx.fee_cap,
            tip_cap: pooled.tx.tip_cap,
            arrival: Reverse(pooled.arrival),
            hash: pooled.tx.hash,
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Pool {
    limits: PoolLimits,
    queues: BTreeMap<Address, Queue>,
    by_hash: B256Map<(Address, u64)>,
    by_price: BTreeSet<Price>,
    arrivals: u64,
    pub(crate) journal: Journal,
    gone: Gone,
}

impl Pool {
    pub(crate) fn new(limits: PoolLimits) -> Pool {
        Pool {
            limits,
            queues: BTreeMap::new(),
            by_hash: B256Map::default(),
            by_price: BTreeSet::new(),
            arrivals: 0,
            journal: Journal::new(limits.sends_kept),
            gone: Gone::default(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.by_hash.len()
    }

    pub(crate) fn get(&self, hash: &B256) -> Option<&Arc<Tx>> {
        let (address, nonce) = self.by_hash.get(hash)?;
        Some(&self.queues.get(address)?.txs.get(nonce)?.tx)
    }

    /// A transaction that was in the pool and left it otherwise than into a block; only the newest of
    /// them are remembered.
    pub(crate) fn gone(&self, hash: &B256) -> Option<&Arc<Tx>> {
        self.gone.get(hash)
    }

    pub(crate) fn len_of(&self, address: &Address) -> usize {
        self.queues.get(address).map_or(0, |queue| queue.txs.len())
    }

    /// Every account's transactions by nonce, accounts by address.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Address, impl Iterator<Item = &Pooled>)> {
        let queues = self.queues.iter();
        queues.map(|(address, queue)| (address, queue.txs.values()))
    }

    /// The nonce after the unbroken run that starts at one.
    pub(crate) fn next_nonce(&self, address: &Address, from: u64) -> u64 {
        let Some(queue) = self.queues.get(address) else {
            return from;
        };
        let run = queue.txs.range(from..).map(|(nonce, _)| *nonce);
        run.zip(from..)
            .take_while(|(has, wanted)| has == wanted)
            .last()
            .map_or(from, |(last, _)| last.saturating_add(1))
    }

    /// Takes a transaction back that a reorg threw out, without asking for its price again. If its place
    /// is taken or the pool is full, it is gone.
    pub(crate) fn restore(&mut self, tx: Arc<Tx>, nonce_next: u64) {
        let queue = self.queues.get(&tx.sender);
        let is_taken = queue.is_some_and(|queue| queue.txs.contains_key(&tx.nonce));
        if tx.nonce >= nonce_next && !is_taken && self.len() < self.limits.total_max {
            self.insert(tx);
        }
    }

    pub(crate) fn remove(&mut self, hash: &B256) -> Option<Arc<Tx>> {
        let (address, nonce) = *self.by_hash.get(hash)?;
        self.let_go(address, nonce)
    }

    pub(crate) fn clear(&mut self) -> usize {
        let dropped = self.len();
        let queues = self.queues.values();
        let txs = queues.flat_map(|queue| queue.txs.values().map(|pooled| &pooled.tx));
        txs.for_each(|tx| self.gone.note(tx));
        self.queues.clear();
        self.by_hash.clear();
        self.by_price.clear();
        dropped
    }

    /// Removes what an account can never use again.
    pub(crate) fn forget_below(&mut self, address: Address, nonce: u64) {
        while let Some(lowest) = self.lowest(&address).filter(|lowest| *lowest < nonce) {
            self.let_go(address, lowest);
        }
    }

    /// Removes what was mined, and what its account can never use again.
    pub(crate) fn forget_mined(&mut self, mined: &Tx) {
        if self.by_hash.contains_key(&mined.hash) {
            self.take(mined.sender, mined.nonce);
        }
        self.forget_below(mined.sender, mined.nonce.saturating_add(1));
    }

    /// Removes what no account can ever use again, given each one's next nonce.
    pub(crate) fn sweep(&mut self, nonce_next: impl Fn(&Address) -> u64) {
        let addresses: Vec<Address> = self.queues.keys().copied().collect();
        for address in addresses {
            self.forget_below(address, nonce_next(&address));
        }
    }

    fn lowest(&self, address: &Address) -> Option<u64> {
        let queue = self.queues.get(address)?;
        queue.txs.first_key_value().map(|(nonce, _)| *nonce)
    }

    fn insert(&mut self, tx: Arc<Tx>) {
        self.let_go(tx.sender, tx.nonce);
        self.arrivals += 1;
        let pooled = Pooled {
            tx,
            arrival: self.arrivals,
        };
        let Tx {
            hash,
            sender,
            nonce,
            ..
        } = *pooled.tx;
        self.by_hash.insert(hash, (sender, nonce));
        self.by_price.insert(Price::of(&pooled));
        let queue = self.queues.entry(sender).or_default();
        queue.cost = queue.cost.saturating_add(pooled.tx.cost());
        queue.txs.insert(nonce, pooled);
    }

    /// Takes one out that is in no block for that.
    fn let_go(&mut self, address: Address, nonce: u64) -> Option<Arc<Tx>> {
        let tx = self.take(address, nonce)?;
        self.gone.note(&tx);
        Some(tx)
    }

    fn take(&mut self, address: Address, nonce: u64) -> Option<Arc<Tx>> {
        let queue = self.queues.get_mut(&address)?;
        let pooled = queue.txs.remove(&nonce)?;
        queue.cost = queue.cost.saturating_sub(pooled.tx.cost());
        if queue.txs.is_empty() {
            self.queues.remove(&address);
        }
        self.by_hash.remove(&pooled.tx.hash);
        self.by_price.remove(&Price::of(&pooled));
        Some(pooled.tx)
    }
}
