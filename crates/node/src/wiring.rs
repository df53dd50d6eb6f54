//! What a node is made of: every port and every loop, in one list.

use std::sync::Arc;

use fencepost_app::directory::Directory;
use fencepost_app::drive::Running;
use fencepost_app::meters::Meters;
use fencepost_app::node::{Node, Parts};
use fencepost_app::ports::{Chain, Clock, Holder, Noop, Policy, Signer, Store, Watched};
use fencepost_app::recovery::rules::Rules;
use fencepost_app::settings::ChainSettings;
use fencepost_app::store_memory::StoreMemory;
use fencepost_evm::{ChainConfig, Chains, WsEndpoint};
use fencepost_http::{Api, ChainInfo, Forwarder, HttpPolicy, Limits, PolicyMeters};
use fencepost_signer::Keyring;
use prometheus_client::registry::Registry;

use crate::clock::{TimeOfDay, Uptime};
use crate::config::serving::{Serving, StuckPolicy};
use crate::config::{self, Config};
use crate::descriptors;
use crate::failure::Failure;
use crate::keyring::Lanes;
use crate::opened::{self, Opened, unopened};
use crate::timed::Timed;

/// A node whose loops run, and the API in front of it, which nobody serves yet.
pub(crate) struct Wired {
    pub(crate) node: Arc<Node>,
    pub(crate) running: Running,
    pub(crate) api: Api,
}

/// Puts a node together and starts its loops. `url` is where other nodes reach it. From the moment
/// it joins, an older process of the same node id is a ghost.
pub(crate) async fn wire(
    mut config: Config,
    serving: Serving,
    keyring: Option<Keyring>,
    lanes: &Lanes,
    url: String,
) -> Result<Wired, Failure> {
    config.settings.seals = serving.seals;
    let connections = descriptors::connections(descriptors::raise(), &config);
    let mut registry = Registry::default();
    let meters = Meters::register(&mut registry);
    let rpc = fencepost_evm::Meters::register(&mut registry);
    let http = fencepost_http::Meters::register(&mut registry);
    let chain = keyring.is_some().then(|| reach(&config.chains, &rpc));
    let chain = chain.transpose()?;
    let infos: Vec<ChainInfo> = config.chains.iter().map(info).collect();
    let answers = PolicyMeters::register(&mut registry);
    let policy = policy(serving.policy, &infos, answers);
    let clock: Arc<dyn Clock> = Arc::new(TimeOfDay::of_machine());
    let chain = chain.map(|chain| chain as Arc<dyn Chain>);
    let store_memory = opened::memory(&config.node)?;
    let opened = meet_store(&config, &clock, &store_memory, lanes, chain.as_deref());
    let opened = Box::pin(opened).await?;
    let timed = Arc::new(Timed(meters.clone()));
    let store: Arc<dyn Store> = Arc::new(Watched::new(opened.store(), timed));
    let peers = Arc::new(Forwarder::new(serving.cluster.clone(), Arc::clone(&store)));
    let comparing = opened.compare_with_peers(&store_memory, &*peers, &url);
    Box::pin(comparing).await?;
    let signer = keyring.map(|keyring| Arc::new(keyring) as Arc<dyn Signer>);
    #[cfg(debug_assertions)]
    let (store, chain, signer) = crate::trap::set(store, chain, signer)?;
    let holder = Holder {
        incarnation: store.join(&config.node.id, &url).await.map_err(unopened)?,
        node: config.node.id,
    };
    let directory = Directory::open(&*store, lanes).await.map_err(unopened)?;
    let crew = Node::assemble(Parts {
        settings: config.settings,
        store,
        chain,
        signer,
        policy,
        peers,
        clock,
        ticks: Arc::new(Uptime::start()),
        holder,
        url: url.clone(),
        chains: config.chains.iter().map(chain_settings).collect(),
        store_memory,
        directory,
        meters,
    });
    let node = Arc::clone(&crew.node);
    let api = Api {
        node: Arc::clone(&node),
        url,
        chains: infos,
        access: serving.access,
        cluster: serving.cluster,
        registry: Arc::new(registry),
        meters: http,
        limits: Limits {
            idle_timeout: config.node.idle_timeout,
            audited_refusals_per_minute: serving.audited_refusals,
            keyless_per_second: config.api.keyless_per_second,
            memory_bytes: config.api.memory_bytes,
            connections,
            ..Limits::default()
        },
    };
    Ok(Wired {
        node,
        running: Running::start(crew),
        api,
    })
}

/// Opens the store, and refuses one that this node does not know where signers were in use before.
async fn meet_store(
    config: &Config,
    clock: &Arc<dyn Clock>,
    memory: &Arc<StoreMemory>,
    lanes: &Lanes,
    chain: Option<&dyn Chain>,
) -> Result<Opened, Failure> {
    let opening = Opened::open(&config.store, config.settings.lease, clock, memory);
    let opened = opening.await.map_err(unopened)?;
    let is_empty = opened.meet(memory, &opened::state(&config.node)).await?;
    let asked = config.settings.chain_query.and(chain);
    if let Some(chain) = asked.filter(|_| is_empty) {
        opened::refuse_used_signers(chain, lanes).await?;
    }
    Ok(opened)
}

fn info(chain: &config::chain::Chain) -> ChainInfo {
    ChainInfo {
        name: chain.name.clone(),
        id: chain.id,
        ceilings: chain.ceilings,
    }
}

fn chain_settings(chain: &config::chain::Chain) -> ChainSettings {
    ChainSettings {
        id: chain.id,
        name: chain.name.clone(),
        finality: chain.finality,
        poll_interval: chain.poll_interval,
        ceilings: chain.ceilings,
        bump_percent: chain.bump_percent,
    }
}

/// Who decides about stuck transactions.
fn policy(wanted: StuckPolicy, chains: &[ChainInfo], meters: PolicyMeters) -> Arc<dyn Policy> {
    match wanted {
        StuckPolicy::Noop => Arc::new(Noop),
        StuckPolicy::Rules(rules) => Arc::new(Rules(rules)),
        StuckPolicy::Http {
            url,
            timeout,
            secret,
        } => Arc::new(HttpPolicy::new(url, timeout, secret, chains, meters)),
    }
}

/// The chains, as their endpoints are reached.
fn reach(
    chains: &[config::chain::Chain],
    meters: &fencepost_evm::Meters,
) -> Result<Arc<Chains>, Failure> {
    let mut configs = Vec::new();
    for chain in chains {
        let urls: Vec<&str> = chain.rpc.iter().map(|endpoint| endpoint.url()).collect();
        let made = ChainConfig::http(chain.id, chain.name.clone(), &urls);
        let doing = || format!("chain {} cannot be reached", chain.name);
        let mut made = made.map_err(|error| Failure::new(doing(), error))?;
        made.poll_interval = chain.poll_interval;
        let heads = chain.ws.as_ref().map(|ws| WsEndpoint::new(ws.url()));
        made.heads = heads
            .transpose()
            .map_err(|error| Failure::new(doing(), error))?;
        configs.push(made);
    }
    Ok(Arc::new(Chains::new(configs, meters)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_is_the_one_that_is_wanted() {
        let meters = PolicyMeters::register(&mut Registry::default());
        let named = |wanted| policy(wanted, &[], meters.clone()).name().to_owned();
        assert_eq!(named(StuckPolicy::Noop), "noop");
        assert_eq!(named(StuckPolicy::Rules(vec![])), "rules");
        let http = StuckPolicy::Http {
            url: "http://localhost:1".to_owned(),
            timeout: std::time::Duration::from_secs(1),
            secret: None,
        };
        assert_eq!(named(http), "http");
    }
}
