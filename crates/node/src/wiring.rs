//! What a node is made of: every port and every loop, in one list.

use std::sync::Arc;

use fencepost_app::directory::Directory;
use fencepost_app::drive::Running;
use fencepost_app::meters::Meters;
use fencepost_app::node::{Node, Parts};
use fencepost_app::ports::{
    Chain, Clock, Holder, Noop, Policy, Signer, Store, StoreError, Terms, Watched,
};
use fencepost_app::recovery::rules::Rules;
use fencepost_app::settings::ChainSettings;
use fencepost_evm::{ChainConfig, Chains};
use fencepost_http::{Api, ChainInfo, Forwarder, HttpPolicy, Limits};
use fencepost_postgres::PostgresStore;
use fencepost_signer::Keyring;
use fencepost_sqlite::SqliteStore;
use prometheus_client::registry::Registry;
use secrecy::ExposeSecret;

use crate::clock::{TimeOfDay, Uptime};
use crate::config::serving::{Serving, StuckPolicy};
use crate::config::store::{self, Place};
use crate::config::{self, Config};
use crate::failure::Failure;
use crate::keyring::Lanes;
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
    config: Config,
    serving: Serving,
    keyring: Option<Keyring>,
    lanes: &Lanes,
    url: String,
) -> Result<Wired, Failure> {
    let unopened = |error: StoreError| Failure::new("the store cannot be opened", error);
    let mut registry = Registry::default();
    let meters = Meters::register(&mut registry);
    let rpc = fencepost_evm::Meters::register(&mut registry);
    let chain = keyring.is_some().then(|| reach(&config.chains, &rpc));
    let chain = chain.transpose()?;
    let infos: Vec<ChainInfo> = config.chains.iter().map(info).collect();
    let policy = policy(serving.policy, &infos);
    let clock: Arc<dyn Clock> = Arc::new(TimeOfDay);
    let store = open(&config.store, config.settings.lease, &clock)
        .await
        .map_err(unopened)?;
    let store: Arc<dyn Store> = Arc::new(Watched::new(store, Arc::new(Timed(meters.clone()))));
    let chain = chain.map(|chain| chain as Arc<dyn Chain>);
    let signer = keyring.map(|keyring| Arc::new(keyring) as Arc<dyn Signer>);
    #[cfg(debug_assertions)]
    let (store, chain, signer) = crate::trap::set(store, chain, signer)?;
    let holder = Holder {
        incarnation: store.join(&config.node.id, &url).await.map_err(unopened)?,
        node: config.node.id,
    };
    let directory = Directory::open(&*store, lanes).await.map_err(unopened)?;
    let peers = Arc::new(Forwarder::new(serving.cluster.clone(), Arc::clone(&store)));
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
        chains: config
            .chains
            .iter()
            .map(|chain| ChainSettings {
                id: chain.id,
                name: chain.name.clone(),
                finality: chain.finality,
                poll_interval: chain.poll_interval,
                ceilings: chain.ceilings,
                bump_percent: chain.bump_percent,
            })
            .collect(),
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
        limits: Limits::default(),
    };
    Ok(Wired {
        node,
        running: Running::start(crew),
        api,
    })
}

fn info(chain: &config::chain::Chain) -> ChainInfo {
    ChainInfo {
        name: chain.name.clone(),
        id: chain.id,
        ceilings: chain.ceilings,
    }
}

/// Who decides about stuck transactions.
fn policy(wanted: StuckPolicy, chains: &[ChainInfo]) -> Arc<dyn Policy> {
    match wanted {
        StuckPolicy::Noop => Arc::new(Noop),
        StuckPolicy::Rules(rules) => Arc::new(Rules(rules)),
        StuckPolicy::Http {
            url,
            timeout,
            secret,
        } => Arc::new(HttpPolicy::new(url, timeout, secret, chains)),
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
        configs.push(made);
    }
    Ok(Arc::new(Chains::new(configs, meters)))
}

/// Opens the store and brings its schema up to date; nodes that start together wait for each other.
pub(crate) async fn open(
    store: &store::Store,
    terms: Terms,
    clock: &Arc<dyn Clock>,
) -> Result<Arc<dyn Store>, StoreError> {
    match &store.place {
        Place::Sqlite(file) => Ok(Arc::new(SqliteStore::open(file, terms, Arc::clone(clock))?)),
        Place::Postgres(url) => {
            let settings = fencepost_postgres::Settings {
                url: url.expose_secret().to_owned(),
                terms,
                write_connections: store.write_connections,
                read_connections: store.read_connections,
                statement_timeout: store.statement_timeout,
                application_name: store.application_name.clone(),
            };
            Ok(Arc::new(PostgresStore::open(settings).await?))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_is_the_one_that_is_wanted() {
        let named = |wanted| policy(wanted, &[]).name().to_owned();
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
