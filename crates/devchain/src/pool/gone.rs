//! What left a pool unmined: replaced, dropped, pushed out, or beaten by another of its nonce. Some node of
//! a real network may still hold it, so a block may still hold it, too.

use std::collections::VecDeque;
use std::sync::Arc;

use alloy_primitives::B256;

use crate::tx::Tx;

/// How many are remembered. More would keep the bytes of whole pools in memory; fewer would forget an
/// attempt before the test that is about it can have it mined.
const KEPT_MAX: usize = 1_024;

#[derive(Debug, Clone, Default)]
pub(super) struct Gone {
    txs: VecDeque<Arc<Tx>>,
}

impl Gone {
    pub(super) fn note(&mut self, tx: &Arc<Tx>) {
        if self.txs.len() >= KEPT_MAX {
            self.txs.pop_front();
        }
        self.txs.push_back(Arc::clone(tx));
    }

    pub(super) fn get(&self, hash: &B256) -> Option<&Arc<Tx>> {
        self.txs.iter().rev().find(|tx| tx.hash == *hash)
    }
}
