//! Sending to an endpoint's pool, and taking out of it.

use std::sync::Arc;

use alloy_primitives::{B256, Bytes, keccak256};

use super::{Devchain, NotThere, SHARED};
use crate::dialect::TX_BYTES_MAX;
use crate::endpoint::EndpointId;
use crate::rejection::{Facts, Rejected, Rejection};
use crate::state::Account;
use crate::tx::Tx;

/// Why a send came to nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SendError {
    /// There is no such endpoint.
    NotThere(NotThere),
    /// The pool does not take it.
    Rejected(Rejected),
}

impl From<NotThere> for SendError {
    fn from(missing: NotThere) -> Self {
        SendError::NotThere(missing)
    }
}

impl Devchain {
    /// Sends the bytes of a transaction to an endpoint. On an error nothing has changed.
    pub fn send(&mut self, endpoint: EndpointId, raw: Bytes) -> Result<B256, SendError> {
        let pool = self.at(endpoint)?.pool;
        let tx = self.read(pool, raw).map_err(SendError::Rejected)?;
        let account = self.account_for(endpoint, &tx)?;
        let (hash, rules) = (tx.hash, self.rules());
        let admitted = self.pools[pool].admit(tx, &account, rules);
        admitted.map_err(SendError::Rejected)?;
        Ok(hash)
    }

    /// Reads bytes. Recovering a signature costs more than all the rest, so it is not done again for what
    /// another endpoint has already seen.
    fn read(&self, pool: usize, raw: Bytes) -> Result<Arc<Tx>, Rejected> {
        if raw.len() > TX_BYTES_MAX {
            let size = raw.len();
            let facts = Facts {
                size,
                ..Facts::default()
            };
            return Err(Rejection::Oversized.with(facts));
        }
        let hash = keccak256(&raw);
        if self.pools[pool].get(&hash).is_some() {
            return Err(Rejection::AlreadyKnown.into());
        }
        let pooled = self.pools.iter().find_map(|pool| pool.get(&hash));
        if let Some(tx) = pooled.or_else(|| self.index.tx(&hash)) {
            return Ok(Arc::clone(tx));
        }
        Ok(Arc::new(Tx::decode(raw, self.config.chain_id)?))
    }

    /// The shared pool lives on the canonical head whoever sends; an own pool on what its endpoint sees.
    fn account_for(&self, endpoint: EndpointId, tx: &Tx) -> Result<Account, NotThere> {
        let is_shared = self.at(endpoint)?.pool == SHARED;
        if is_shared {
            return Ok(self.state().account(&tx.sender));
        }
        Ok(self.seen(endpoint, 0)?.state().account(&tx.sender))
    }

    /// Brings an endpoint's own pool and the shared one together, as the network would. What one of them
    /// refuses it does not get.
    pub fn gossip(&mut self, endpoint: EndpointId) -> Result<(), NotThere> {
        let own = self.at(endpoint)?.pool;
        let rules = self.rules();
        for (from, to) in [(own, SHARED), (SHARED, own)] {
            for tx in self.in_order_of_arrival(from) {
                let account = if to == SHARED {
                    self.state().account(&tx.sender)
                } else {
                    self.account_for(endpoint, &tx)?
                };
                let admitted = self.pools[to].admit(tx, &account, rules);
                if let Err(Rejected { rejection, .. }) = admitted {
                    tracing::debug!(?rejection, "a pool refused what another holds");
                }
            }
        }
        Ok(())
    }

    fn in_order_of_arrival(&self, pool: usize) -> Vec<Arc<Tx>> {
        let queues = self.pools[pool].iter();
        let mut all: Vec<_> = queues.flat_map(|(_, queue)| queue).collect();
        all.sort_by_key(|pooled| pooled.arrival);
        all.into_iter()
            .map(|pooled| Arc::clone(&pooled.tx))
            .collect()
    }

    /// Takes a transaction out of an endpoint's pool. Says whether it was there.
    pub fn drop_tx(&mut self, endpoint: EndpointId, hash: B256) -> Result<bool, NotThere> {
        let pool = self.at(endpoint)?.pool;
        Ok(self.pools[pool].remove(&hash).is_some())
    }

    /// Empties an endpoint's pool. Says how many transactions were in it.
    pub fn drop_all(&mut self, endpoint: EndpointId) -> Result<usize, NotThere> {
        let pool = self.at(endpoint)?.pool;
        Ok(self.pools[pool].clear())
    }
}
