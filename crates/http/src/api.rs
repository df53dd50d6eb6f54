//! What the routes need.

use std::sync::Arc;

use fencepost_app::node::Node;
use prometheus_client::registry::Registry;
use tokio::sync::Semaphore;

use crate::access::Access;
use crate::chains::{ChainInfo, Chains};
use crate::forward::heard::Heard;
use crate::keyless::Keyless;
use crate::limits::Limits;
use crate::memory::Budget;
use crate::meters::Meters;
use crate::pulse::Pulse;
use crate::refusal::Refusals;
use crate::rendered::Rendered;
use crate::secret::ClusterSecret;

/// How many calls of other nodes have their bodies read at once; each may hold a mebibyte meanwhile.
const BODIES_AT_ONCE: usize = 32;

/// How many pages of transactions are put together at once; others wait. Each takes some four times its size meanwhile: rows,
/// records, what is shown of them, and text. More takes memory, and the store answers only a few at once anyway.
const PAGES_AT_ONCE: usize = 4;

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
    pub cluster: Option<ClusterSecret>,
    /// What `/metrics` shows.
    pub registry: Arc<Registry>,
    /// What the server itself counts.
    pub meters: Meters,
    /// What one caller may use up.
    pub limits: Limits,
}

/// The same, as the routes share it.
pub(crate) struct Served {
    pub(crate) node: Arc<Node>,
    pub(crate) url: String,
    pub(crate) chains: Chains,
    pub(crate) access: Access,
    pub(crate) keyless: Keyless,
    pub(crate) memory: Arc<Budget>,
    /// Pages of transactions that are put together at once.
    pub(crate) pages: Semaphore,
    pub(crate) cluster: Option<ClusterSecret>,
    pub(crate) heard: Heard,
    pub(crate) bodies: Semaphore,
    pub(crate) pulse: Pulse,
    pub(crate) refusals: Refusals,
    pub(crate) rendered: Rendered,
    pub(crate) meters: Meters,
    pub(crate) limits: Limits,
}

impl From<Api> for Served {
    fn from(api: Api) -> Self {
        Self {
            keyless: Keyless::new(api.limits.keyless_per_second, api.meters.clone()),
            memory: Budget::new(api.limits.memory_bytes, api.meters.clone()),
            pages: Semaphore::new(PAGES_AT_ONCE),
            heard: Heard::since(api.node.clock().now()),
            bodies: Semaphore::new(BODIES_AT_ONCE),
            pulse: Pulse::default(),
            refusals: Refusals::new(api.limits.audited_refusals_per_minute),
            node: api.node,
            url: api.url,
            chains: Chains::new(api.chains),
            access: api.access,
            cluster: api.cluster,
            rendered: Rendered::new(api.registry),
            meters: api.meters,
            limits: api.limits,
        }
    }
}
