//! What a node is made of: every port and every loop, in one list.

use std::sync::Arc;

use fencepost_app::directory::Directory;
use fencepost_app::drive::Running;
use fencepost_app::meters::Meters;
use fencepost_app::node::{Node, Parts};
use fencepost_app::ports::{Clock, Holder, Store, StoreError, Terms, Watched};
use fencepost_http::{Api, ChainInfo, Forwarder, Limits};
use fencepost_postgres::PostgresStore;
use fencepost_sqlite::SqliteStore;
use prometheus_client::registry::Registry;
use secrecy::ExposeSecret;

use crate::clock::{TimeOfDay, Uptime};
use crate::config::Config;
use crate::config::serving::Serving;
use crate::config::store::{self, Place};
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
    url: String,
) -> Result<Wired, StoreError> {
    let mut registry = Registry::default();
    let meters = Meters::register(&mut registry);
    let clock: Arc<dyn Clock> = Arc::new(TimeOfDay);
    let store = open(&config.store, config.settings.lease, &clock).await?;
    let store: Arc<dyn Store> = Arc::new(Watched::new(store, Arc::new(Timed(meters.clone()))));
    let holder = Holder {
        incarnation: store.join(&config.node.id, &url).await?,
        node: config.node.id,
    };
    let directory = Directory::open(&*store, &serving.lanes).await?;
    let peers = Arc::new(Forwarder::new(serving.cluster.clone(), Arc::clone(&store)));
    let crew = Node::assemble(Parts {
        settings: config.settings,
        store,
        chain: None,
        peers,
        clock,
        ticks: Arc::new(Uptime::start()),
        holder,
        url: url.clone(),
        chains: config
            .chains
            .iter()
            .map(|chain| (chain.id, chain.name.clone()))
            .collect(),
        directory,
        meters,
    });
    let node = Arc::clone(&crew.node);
    let chains = config.chains.into_iter().map(|chain| ChainInfo {
        name: chain.name,
        id: chain.id,
        ceilings: chain.ceilings,
    });
    let api = Api {
        node: Arc::clone(&node),
        url,
        chains: chains.collect(),
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
