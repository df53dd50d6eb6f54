//! The chain: branches of blocks, pools, and the endpoints that look at them. It has no clock, no threads
//! and no luck: the same calls in the same order give the same hashes.

mod history;
mod inspect;
mod mining;
mod reorg;
mod send;
mod views;

use std::collections::BTreeMap;
use std::sync::Arc;

use alloy_primitives::{Address, U256};

use crate::block::{Block, Draft, Terms};
use crate::branch::{Branch, BranchId};
use crate::config::{Config, PoolChoice};
use crate::endpoint::{Endpoint, EndpointId, Stats, View};
use crate::fault::{Fault, FaultId};
use crate::index::Index;
use crate::pool::{Pool, Rules};
use crate::state::State;

pub use inspect::PooledTx;
pub use mining::Unminable;
pub use reorg::{Fate, Order, Plan, Reorg, ReorgError};
pub use send::SendError;
pub(crate) use views::{At, Seen, Unknown};

/// The pool that blocks are mined from.
const SHARED: usize = 0;
/// How many faults an endpoint holds. A script that forgets to clear is told, not slowed down.
const FAULTS_MAX: usize = 1_000;

/// A chain in memory.
#[derive(Debug)]
pub struct Devchain {
    pub(crate) config: Config,
    branches: BTreeMap<BranchId, Branch>,
    canonical: BranchId,
    branch_next: u64,
    index: Index,
    pools: Vec<Pool>,
    endpoints: Vec<Endpoint>,
    base_fee_set: Option<u64>,
    fault_next: u64,
    now: u64,
}

/// There is no such thing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotThere {
    /// No endpoint has this number.
    #[error("there is no endpoint {0:?}")]
    Endpoint(EndpointId),
    /// No branch is kept under this number.
    #[error("there is no branch {}", .0.0)]
    Branch(BranchId),
    /// The endpoint has as many faults as it holds.
    #[error("an endpoint holds {FAULTS_MAX} faults; clear some")]
    FaultRoom,
}

impl Devchain {
    /// A chain with its genesis block. Without a configured endpoint it has one, called `main`.
    #[must_use]
    pub fn new(mut config: Config) -> Devchain {
        if config.endpoints.is_empty() {
            config.endpoints = Config::default().endpoints;
        }
        let terms = Terms {
            base_fee: config.base_fee.initial(),
            gas_limit: config.gas_limit,
            coinbase: config.coinbase,
            timestamp: config.genesis_time,
            branch: BranchId::default(),
        };
        let (block, state) = Draft::genesis(terms, State::new(&config.accounts)).seal();
        let block = Arc::new(block);
        let mut index = Index::default();
        index.add(&block);
        let mut pools = vec![Pool::new(config.pool)];
        let mut endpoints = Vec::new();
        for endpoint in &config.endpoints {
            let pool = match endpoint.pool {
                PoolChoice::Shared => SHARED,
                PoolChoice::Own => {
                    pools.push(Pool::new(config.pool));
                    pools.len() - 1
                }
            };
            endpoints.push(Endpoint::new(&endpoint.name, endpoint.dialect, pool));
        }
        Devchain {
            branches: BTreeMap::from([(BranchId::default(), Branch::new(block, state))]),
            canonical: BranchId::default(),
            branch_next: 1,
            index,
            pools,
            endpoints,
            base_fee_set: None,
            fault_next: 1,
            now: 0,
            config,
        }
    }

    /// The newest block of the canonical branch.
    #[must_use]
    pub fn head(&self) -> &Arc<Block> {
        &self.branch().head().block
    }

    /// The state after it.
    #[must_use]
    pub fn state(&self) -> &State {
        &self.branch().head().state
    }

    /// What it was started with.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The endpoint with this name.
    #[must_use]
    pub fn endpoint(&self, name: &str) -> Option<EndpointId> {
        let position = self.endpoints.iter().position(|at| at.name == name)?;
        Some(EndpointId(position))
    }

    /// The names of the endpoints, in order.
    pub fn endpoints(&self) -> impl Iterator<Item = (EndpointId, &str)> {
        let named = self.endpoints.iter().enumerate();
        named.map(|(position, at)| (EndpointId(position), at.name.as_str()))
    }

    /// What an endpoint was asked so far.
    pub fn stats(&self, endpoint: EndpointId) -> Result<&Stats, NotThere> {
        Ok(&self.at(endpoint)?.stats)
    }

    /// Lets an endpoint look at the chain in another way.
    pub fn set_view(&mut self, endpoint: EndpointId, view: View) -> Result<(), NotThere> {
        if let Some(branch) = view.branch
            && !self.branches.contains_key(&branch)
        {
            return Err(NotThere::Branch(branch));
        }
        self.at_mut(endpoint)?.view = view;
        self.sweep_own_pools();
        Ok(())
    }

    /// Lets an endpoint speak like another client.
    pub fn set_dialect(
        &mut self,
        endpoint: EndpointId,
        dialect: crate::Dialect,
    ) -> Result<(), NotThere> {
        self.at_mut(endpoint)?.dialect = dialect;
        Ok(())
    }

    /// Adds a fault to an endpoint. Of several that match a call, all work, the oldest first.
    pub fn add_fault(&mut self, endpoint: EndpointId, fault: Fault) -> Result<FaultId, NotThere> {
        let id = FaultId(self.fault_next);
        let at = self.at_mut(endpoint)?;
        if at.faults.len() >= FAULTS_MAX {
            return Err(NotThere::FaultRoom);
        }
        at.faults.push((id, fault));
        self.fault_next += 1;
        Ok(id)
    }

    /// Ends one fault of an endpoint, or all of them. Says how many were ended.
    pub fn clear_faults(
        &mut self,
        endpoint: EndpointId,
        id: Option<FaultId>,
    ) -> Result<usize, NotThere> {
        let faults = &mut self.at_mut(endpoint)?.faults;
        let before = faults.len();
        faults.retain(|(has, _)| id.is_some_and(|id| id != *has));
        Ok(before - faults.len())
    }

    /// Says what time it is, in seconds, for those who mine by JSON-RPC without naming one. A chain that
    /// was never told lets a second pass with each such block.
    pub fn set_time(&mut self, now: u64) {
        self.now = now;
    }

    pub(crate) fn time_next(&self) -> u64 {
        let second_later = self.head().header.timestamp.saturating_add(1);
        if self.now == 0 {
            second_later
        } else {
            self.now
        }
    }

    /// Fixes the base fee of the coming blocks, or lets the configured rule find it again.
    pub fn set_base_fee(&mut self, wei: Option<u64>) {
        self.base_fee_set = wei;
    }

    /// Sets a balance, on every branch by the same difference. Reorgs do not undo it.
    pub fn set_balance(&mut self, address: Address, wei: U256) {
        let has = self.state().balance(&address);
        let more = wei.saturating_sub(has);
        let less = has.saturating_sub(wei);
        for branch in self.branches.values_mut() {
            branch.give(address, more, less);
        }
    }

    pub(crate) fn at(&self, endpoint: EndpointId) -> Result<&Endpoint, NotThere> {
        let found = self.endpoints.get(endpoint.0);
        found.ok_or(NotThere::Endpoint(endpoint))
    }

    pub(crate) fn at_mut(&mut self, endpoint: EndpointId) -> Result<&mut Endpoint, NotThere> {
        let found = self.endpoints.get_mut(endpoint.0);
        found.ok_or(NotThere::Endpoint(endpoint))
    }

    pub(crate) fn pool_of(&self, endpoint: EndpointId) -> Result<&Pool, NotThere> {
        Ok(&self.pools[self.at(endpoint)?.pool])
    }

    fn branch(&self) -> &Branch {
        let found = self.branches.get(&self.canonical);
        found.expect("the canonical branch is kept")
    }

    fn rules(&self) -> Rules {
        Rules {
            block_gas_max: self.config.gas_limit,
            tx_gas_max: self.config.tx_gas_max,
            tip_min: self.config.pool.tip_min,
        }
    }
}
