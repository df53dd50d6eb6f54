//! A node with its API on a store in memory, served on a connection of its own. There is one chain, `main`, with
//! two signers.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::{Address, U256, address};
use fencepost_app::directory::{Directory, NewSeat, Start};
use fencepost_app::drive::Running;
use fencepost_app::meters::Meters;
use fencepost_app::node::{Node, Parts};
use fencepost_app::ports::{Clock, Holder, Noop, Store};
use fencepost_app::settings::{ChainSettings, Settings};
use fencepost_client::{Client, NewTransaction, Payload};
use fencepost_domain::finality::Rule;
use fencepost_domain::ids::{ChainId, Lane, NodeId};
use fencepost_domain::request::Ceilings;
use fencepost_http::{Access, Api, ChainInfo, Limits, serve};
use fencepost_sqlite::SqliteStore;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::alone::{Alone, Hands};

pub(crate) const ALICE: Address = address!("5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed");
pub(crate) const BOB: Address = address!("fB6916095ca1df60bB79Ce92cE3Ea74c37c5d359");
pub(crate) const TO: Address = address!("4242424242424242424242424242424242424242");

const CEILINGS: Ceilings = Ceilings {
    max_fee: 1_000,
    max_priority_fee: 100,
};

/// A node that can be asked.
pub(crate) struct World {
    pub(crate) url: String,
    pub(crate) node: Arc<Node>,
    pub(crate) store: Arc<SqliteStore>,
    _running: Running,
    serving: JoinHandle<std::io::Result<()>>,
}

impl Drop for World {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl World {
    /// A node that needs no key.
    pub(crate) async fn new() -> Self {
        Self::with(Access::open()).await
    }

    pub(crate) async fn with(access: Access) -> Self {
        let settings = Settings {
            chain_query: None,
            workers: 2,
            ..Settings::default()
        };
        let hands = Arc::new(Hands::new());
        let clock = Arc::clone(&hands) as Arc<dyn Clock>;
        let store = SqliteStore::in_memory(settings.lease, Arc::clone(&clock)).unwrap();
        let store = Arc::new(store);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let id = NodeId::new("n1").unwrap();
        let incarnation = store.join(&id, &url).await.unwrap();
        let lanes = [ALICE, BOB].map(|signer| NewSeat {
            lane: lane(signer),
            max_in_flight: None,
            signs: true,
            start: Start::default(),
        });
        let mut registry = Registry::default();
        let crew = Node::assemble(Parts {
            settings,
            directory: Directory::open(&*store, &lanes).await.unwrap(),
            store: Arc::clone(&store) as Arc<dyn Store>,
            chain: None,
            signer: None,
            policy: Arc::new(Noop),
            peers: Arc::new(Alone),
            clock,
            ticks: hands,
            holder: Holder {
                node: id,
                incarnation,
            },
            url: url.clone(),
            chains: vec![chain()],
            store_memory: Arc::new(fencepost_app::store_memory::StoreMemory::unkept()),
            meters: Meters::register(&mut registry),
        });
        let node = Arc::clone(&crew.node);
        let api = Api {
            node: Arc::clone(&node),
            url: url.clone(),
            chains: vec![info()],
            access,
            cluster: None,
            registry: Arc::new(registry),
            meters: fencepost_http::Meters::default(),
            limits: Limits::default(),
        };
        Self {
            url,
            node,
            store,
            _running: Running::start(crew),
            serving: tokio::spawn(serve(api, listener, pending())),
        }
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(&self.url).unwrap()
    }

    pub(crate) fn client_with(&self, key: &str) -> Client {
        let builder = Client::builder().node(&self.url).api_key(key);
        builder.build().unwrap()
    }
}

pub(crate) fn lane(signer: Address) -> Lane {
    Lane {
        chain: ChainId::new(1).unwrap(),
        signer,
    }
}

fn info() -> ChainInfo {
    ChainInfo {
        name: "main".to_owned(),
        id: ChainId::new(1).unwrap(),
        ceilings: CEILINGS,
    }
}

fn chain() -> ChainSettings {
    ChainSettings {
        id: ChainId::new(1).unwrap(),
        name: "main".to_owned(),
        finality: Rule::Confirmations(3),
        poll_interval: Duration::from_secs(1),
        ceilings: CEILINGS,
        bump_percent: 12,
    }
}

/// A valid request of Alice.
pub(crate) fn payment(wei: u64) -> NewTransaction {
    NewTransaction::new(ALICE, Payload::transfer(TO, U256::from(wei)))
}
