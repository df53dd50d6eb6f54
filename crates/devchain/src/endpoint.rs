//! An endpoint: one way to look at the chain, with its own words, faults and counts.

use std::collections::BTreeMap;

use crate::branch::BranchId;
use crate::dialect::Dialect;
use crate::fault::{Fault, FaultId};

/// Names an endpoint by its place in the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndpointId(pub usize);

/// How an endpoint looks at the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct View {
    /// The branch it takes for canonical; none is the one that is.
    pub branch: Option<BranchId>,
    /// How many blocks it is behind.
    pub lag: u64,
}

/// What an endpoint was asked. Calls that steer the chain (`dev_…`) are not counted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stats {
    /// HTTP requests; a batch is one.
    pub requests: u64,
    /// Calls by method; those of unknown methods are together under `unknown`.
    pub calls: BTreeMap<&'static str, u64>,
}

#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) name: String,
    pub(crate) dialect: Dialect,
    pub(crate) view: View,
    pub(crate) pool: usize,
    pub(crate) faults: Vec<(FaultId, Fault)>,
    pub(crate) stats: Stats,
}

impl Endpoint {
    pub(crate) fn new(name: &str, dialect: Dialect, pool: usize) -> Endpoint {
        Endpoint {
            name: name.to_owned(),
            dialect,
            view: View::default(),
            pool,
            faults: Vec::new(),
            stats: Stats::default(),
        }
    }
}
