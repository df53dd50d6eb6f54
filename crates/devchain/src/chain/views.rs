//! What an endpoint sees: a branch, up to a head that may lag behind.

use std::sync::Arc;

use alloy_primitives::B256;

use super::{Devchain, NotThere};
use crate::block::Block;
use crate::branch::{Branch, Entry};
use crate::dialect::Dialect;
use crate::endpoint::{Endpoint, EndpointId};
use crate::index::Index;
use crate::state::State;

/// Which block is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum At {
    Number(u64),
    Hash(B256),
    Latest,
    Safe,
    Finalized,
    Earliest,
}

/// What was meant is not here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unknown {
    /// There is no such block.
    Block,
    /// Its state is gone, in the words of the endpoint's dialect.
    State(i64, String),
}

/// The chain as seen by an endpoint now.
pub(crate) struct Seen<'a> {
    branch: &'a Branch,
    index: &'a Index,
    head: u64,
    /// The lowest block whose state is still here.
    states_first: u64,
    dialect: Dialect,
    safe_lag: u64,
    finalized_lag: u64,
}

impl<'a> Seen<'a> {
    /// The same without the states of blocks that are more than so many below the head.
    pub(crate) fn pruned(self, states: Option<u64>) -> Self {
        let states_first = states.map_or(0, |states| self.head.saturating_sub(states));
        Self {
            states_first,
            ..self
        }
    }

    pub(crate) fn head(&self) -> &'a Arc<Block> {
        &self.entry(self.head).block
    }

    pub(crate) fn state(&self) -> &'a State {
        &self.entry(self.head).state
    }

    fn entry(&self, number: u64) -> &'a Entry {
        let found = self.branch.at(number);
        found.expect("a view's head lies between the first kept block and the branch's head")
    }

    pub(crate) fn number(&self, at: At) -> Option<u64> {
        let first = self.branch.first();
        match at {
            At::Number(number) => Some(number),
            At::Hash(hash) => {
                let number = self.index.block(&hash)?.number();
                self.branch.has(number, hash).then_some(number)
            }
            At::Latest => Some(self.head),
            At::Safe => Some(self.head.saturating_sub(self.safe_lag).max(first)),
            At::Finalized => Some(self.head.saturating_sub(self.finalized_lag).max(first)),
            At::Earliest => Some(first),
        }
    }

    /// The block, on this branch and not above this head.
    pub(crate) fn block(&self, at: At) -> Option<&'a Arc<Block>> {
        let number = self.number(at)?;
        if number > self.head {
            return None;
        }
        Some(&self.branch.at(number)?.block)
    }

    /// A block by its hash, wherever it is: nodes keep those of abandoned branches for a while.
    pub(crate) fn block_anywhere(&self, hash: &B256) -> Option<&'a Arc<Block>> {
        let block = self.index.block(hash)?;
        (block.number() <= self.head).then_some(block)
    }

    pub(crate) fn state_at(&self, at: At) -> Result<&'a State, Unknown> {
        let number = self.number(at).ok_or(Unknown::Block)?;
        if number > self.head {
            return Err(Unknown::Block);
        }
        let entry = self.branch.at(number).ok_or(Unknown::Block)?;
        if number < self.states_first {
            let (code, message) = self.dialect.pruned(&entry.block);
            return Err(Unknown::State(code, message));
        }
        Ok(&entry.state)
    }

    /// Where a transaction was mined.
    pub(crate) fn mined(&self, tx: &B256) -> Option<(&'a Arc<Block>, usize)> {
        let is_here = |number, hash| number <= self.head && self.branch.has(number, hash);
        self.index.find(tx, is_here)
    }
}

impl Devchain {
    /// What an endpoint sees, some blocks further behind than it usually is.
    pub(crate) fn seen(&self, endpoint: EndpointId, lag_more: u64) -> Result<Seen<'_>, NotThere> {
        let Endpoint { view, dialect, .. } = *self.at(endpoint)?;
        let branch = view.branch.and_then(|id| self.branches.get(&id));
        let branch = branch.unwrap_or_else(|| self.branch());
        let lag = view.lag.saturating_add(lag_more);
        let head = branch.head().block.number().saturating_sub(lag);
        Ok(Seen {
            branch,
            index: &self.index,
            head: head.max(branch.first()),
            states_first: 0,
            dialect,
            safe_lag: self.config.safe_lag,
            finalized_lag: self.config.finalized_lag,
        })
    }
}
