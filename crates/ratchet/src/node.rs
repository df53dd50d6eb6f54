//! A node as it is in a process of its own, but for its outside: everything runs in the thread that calls, in tokio's
//! time.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use fencepost_app::directory::{Directory, NewSeat, Start};
use fencepost_app::drive::Running;
use fencepost_app::meters::Meters;
use fencepost_app::node::{Node, Parts};
use fencepost_app::ports::{Chain, Clock, Holder, Noop, Signer, Store, Ticks};
use fencepost_app::settings::{ChainSettings, Settings};
use fencepost_domain::finality::Rule;
use fencepost_domain::ids::{ChainId, Lane, NodeId};
use fencepost_domain::request::Ceilings;
use prometheus_client::registry::Registry;

use crate::alone::{Alone, Hands};

const GWEI: u128 = 1_000_000_000;
/// Where other nodes would reach it.
pub(crate) const URL: &str = "http://127.0.0.1:1";
/// The chain's configured name.
pub(crate) const CHAIN: &str = "main";
/// The highest fees that are signed.
pub(crate) const CEILINGS: Ceilings = Ceilings {
    max_fee: 500 * GWEI,
    max_priority_fee: 50 * GWEI,
};

/// The outside of a node.
pub(crate) struct Outside {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) hands: Arc<Hands>,
    pub(crate) lanes: Vec<Lane>,
    pub(crate) chain: Option<Arc<dyn Chain>>,
    pub(crate) signer: Option<Arc<dyn Signer>>,
    pub(crate) settings: Settings,
}

/// A node that works until this is dropped.
pub(crate) struct Working {
    pub(crate) node: Arc<Node>,
    pub(crate) registry: Registry,
    pub(crate) running: Running,
}

/// The chain of all measurements.
pub(crate) fn chain_id() -> Result<ChainId> {
    Ok(ChainId::new(1)?)
}

impl Outside {
    pub(crate) async fn start(self) -> Result<Working> {
        let id = NodeId::new("ratchet")?;
        let incarnation = self.store.join(&id, URL).await?;
        let seats = self.lanes.iter().map(|lane| NewSeat {
            lane: *lane,
            max_in_flight: None,
            signs: true,
            start: Start::default(),
        });
        let seats: Vec<NewSeat> = seats.collect();
        let mut registry = Registry::default();
        let crew = Node::assemble(Parts {
            settings: self.settings,
            directory: Directory::open(&*self.store, &seats).await?,
            store: self.store,
            chain: self.chain,
            signer: self.signer,
            policy: Arc::new(Noop),
            peers: Arc::new(Alone),
            clock: Arc::clone(&self.hands) as Arc<dyn Clock>,
            ticks: self.hands as Arc<dyn Ticks>,
            holder: Holder {
                node: id,
                incarnation,
            },
            url: URL.to_owned(),
            chains: vec![ChainSettings {
                id: chain_id()?,
                name: CHAIN.to_owned(),
                finality: Rule::Confirmations(3),
                poll_interval: Duration::from_secs(1),
                ceilings: CEILINGS,
                bump_percent: 12,
            }],
            store_memory: Arc::new(fencepost_app::store_memory::StoreMemory::unkept()),
            meters: Meters::register(&mut registry),
        });
        Ok(Working {
            node: Arc::clone(&crew.node),
            registry,
            running: Running::start(crew),
        })
    }
}
