//! Which transaction is mined next: the highest tip first, then the earliest, each account by nonce.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use alloy_primitives::Address;

use super::Pool;
use crate::state::State;
use crate::tx::Tx;

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    tip: u128,
    arrival: Reverse<u64>,
    sender: Address,
    nonce: u64,
}

/// Walks a pool in the order of mining.
pub(crate) struct Picker<'a> {
    pool: &'a Pool,
    base_fee: u64,
    heap: BinaryHeap<Candidate>,
}

impl<'a> Picker<'a> {
    pub(crate) fn new(pool: &'a Pool, state: &State, base_fee: u64) -> Picker<'a> {
        let mut picker = Picker {
            pool,
            base_fee,
            heap: BinaryHeap::new(),
        };
        for address in pool.queues.keys() {
            picker.offer(*address, state.nonce(address));
        }
        picker
    }

    /// The best one. Its account's next is offered only by [`Picker::follow`], once this one is in.
    pub(crate) fn next(&mut self) -> Option<&'a Arc<Tx>> {
        let best = self.heap.pop()?;
        let pooled = self.pool.queues.get(&best.sender)?.txs.get(&best.nonce)?;
        Some(&pooled.tx)
    }

    pub(crate) fn follow(&mut self, mined: &Tx) {
        if let Some(nonce) = mined.nonce.checked_add(1) {
            self.offer(mined.sender, nonce);
        }
    }

    fn offer(&mut self, sender: Address, nonce: u64) {
        let queue = self.pool.queues.get(&sender);
        let Some(pooled) = queue.and_then(|queue| queue.txs.get(&nonce)) else {
            return;
        };
        // What cannot pay the base fee waits, and all that comes after it.
        if let Some(tip) = pooled.tx.tip_at(self.base_fee) {
            self.heap.push(Candidate {
                tip,
                arrival: Reverse(pooled.arrival),
                sender,
                nonce,
            });
        }
    }
}
