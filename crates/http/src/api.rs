//! What the routes need.

use std::sync::Arc;

use fencepost_app::node::Node;
use prometheus_client::registry::Registry;
use tokio::sync::Semaphore;

use crate::access::Access;
use crate::chains::{ChainInfo, Chains};
use crate::forward::heard::Heard;
use crate::key_rate::KeyRates;
use crate::limits::Limits;
use crate::pulse::Pulse;
use crate::secret::Secret;

/// How many calls of other nodes have their bodies read at once; each may hold a mebibyte meanwhile.
const BODIES_AT_ONCE: usize = 32;

/// Everything that the API is made of.
pub struct Api {
    /// This node.
    pub node: Arc<Node>,
    /// Where other nodes reach it, as it has told them: what they hand on is sealed for this address.
    pub url: String,
    /// The configured chains.
    pub chains: Vec<ChainInfo>,
    /// Who may ask for what.
    pub access: Access,
    /// What shows that a call comes from another node; without it such calls are refused.
    pub cluster: Option<Secret>,
    /// What `/metrics` shows.
    pub registry: Arc<Registry>,
    /// What one caller may use up.
    pub limits: Limits,
}

/// The same, as the routes share it.
pub(crate) struct Served {
    pub(crate) node: Arc<Node>,
    pub(crate) url: String,
    pub(crate) chains: Chains,
    pub(crate) access: Access,
    pub(crate) rates: KeyRates,
    pub(crate) cluster: Option<Secret>,
    pub(crate) heard: Heard,
    pub(crate) bodies: Semaphore,
    pub(crate) pulse: Pulse,
    pub(crate) registry: Arc<Registry>,
    pub(crate) limits: Limits,
}

impl From<Api> for Served {
    fn from(api: Api) -> Self {
        Self {
            rates: KeyRates::new(api.access.rates(api.limits.rate_per_second)),
            heard: Heard::since(api.node.clock().now()),
            bodies: Semaphore::new(BODIES_AT_ONCE),
            pulse: Pulse::default(),
            node: api.node,
            url: api.url,
            chains: Chains::new(api.chains),
            access: api.access,
            cluster: api.cluster,
            registry: api.registry,
            limits: api.limits,
        }
    }
}
