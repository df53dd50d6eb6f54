//! A node with its API, on a store in memory. Unless a test says otherwise there is one chain, `main`,
//! with two signers, and nobody needs a key.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, Method, Request};
use fencepost_app::directory::{Directory, InFlightLimit, InFlightUntil, NewSeat, Start};
use fencepost_app::drive::Running;
use fencepost_app::meters::Meters;
use fencepost_app::node::{Node, Parts};
use fencepost_app::ports::{
    Chain, Clock, Holder, PageQuery, Peers, Record, Store, Terms, Ticks, Watched, Watcher,
};
use fencepost_app::settings::{ChainSettings, Settings};
use fencepost_domain::Address;
use fencepost_domain::finality::Rule;
use fencepost_domain::ids::{ChainId, Lane, NodeId};
use fencepost_domain::request::Ceilings;
use fencepost_http::{Access, Api, ChainInfo, ClusterSecret, Limits, router};
use fencepost_sqlite::SqliteStore;
use http_body_util::BodyExt;
use jiff::Timestamp;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::alone::{Alone, Hands};

/// The first signer, with letters in it.
pub(crate) const ALICE: &str = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed";
/// The second.
pub(crate) const BOB: &str = "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359";
/// Someone to send to.
pub(crate) const TO: &str = "0x4242424242424242424242424242424242424242";

/// What nodes share, and how the next one is made.
pub(crate) struct World {
    pub(crate) hands: Arc<Hands>,
    pub(crate) store: Arc<SqliteStore>,
    pub(crate) settings: Settings,
    pub(crate) chains: Vec<(&'static str, u64)>,
    pub(crate) max_in_flight: Option<usize>,
    /// Signers whose keys nobody here has.
    pub(crate) watch_only: Vec<&'static str>,
    pub(crate) watcher: Option<Arc<dyn Watcher>>,
    pub(crate) peers: Arc<dyn Peers>,
    pub(crate) chain: Option<Arc<dyn Chain>>,
    pub(crate) access: Access,
    pub(crate) cluster: Option<ClusterSecret>,
    pub(crate) limits: Limits,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::on(|terms, clock| SqliteStore::in_memory(terms, clock).unwrap())
    }

    /// On a store of the test's own.
    pub(crate) fn on(open: impl FnOnce(Terms, Arc<dyn Clock>) -> SqliteStore) -> Self {
        let settings = Settings {
            chain_query: None,
            workers: 2,
            ..Settings::default()
        };
        let hands = Arc::new(Hands::new());
        let store = open(settings.lease, Arc::clone(&hands) as Arc<dyn Clock>);
        Self {
            hands,
            store: Arc::new(store),
            settings,
            chains: vec![("main", 1)],
            max_in_flight: None,
            watch_only: vec![],
            watcher: None,
            peers: Arc::new(Alone),
            chain: None,
            access: Access::open(),
            cluster: None,
            limits: Limits::default(),
        }
    }

    pub(crate) async fn server(&self) -> Server {
        self.server_at("n1", "http://127.0.0.1:1").await
    }

    /// A node of this name that others find at this address.
    pub(crate) async fn server_at(&self, name: &str, url: &str) -> Server {
        let mut store = Arc::clone(&self.store) as Arc<dyn Store>;
        if let Some(watcher) = &self.watcher {
            store = Arc::new(Watched::new(store, Arc::clone(watcher)));
        }
        let id = NodeId::new(name).unwrap();
        let incarnation = self.store.join(&id, url).await.unwrap();
        let mut lanes = Vec::new();
        for (_, chain) in &self.chains {
            lanes.extend([ALICE, BOB].map(|signer| NewSeat {
                lane: lane_on(*chain, signer),
                max_in_flight: self.max_in_flight.map(|max| InFlightLimit {
                    max,
                    until: InFlightUntil::Final,
                }),
                signs: !self.watch_only.contains(&signer),
                start: Start::default(),
            }));
        }
        let mut registry = Registry::default();
        let crew = Node::assemble(Parts {
            settings: self.settings.clone(),
            directory: Directory::open(&*self.store, &lanes).await.unwrap(),
            store,
            chain: self.chain.clone(),
            signer: None,
            policy: Arc::new(fencepost_app::ports::Noop),
            peers: Arc::clone(&self.peers),
            clock: Arc::clone(&self.hands) as Arc<dyn Clock>,
            ticks: Arc::clone(&self.hands) as Arc<dyn Ticks>,
            holder: Holder {
                node: id,
                incarnation,
            },
            url: url.to_owned(),
            chains: self
                .infos()
                .iter()
                .map(|info| ChainSettings {
                    id: info.id,
                    name: info.name.clone(),
                    finality: Rule::Confirmations(3),
                    poll_interval: Duration::from_secs(1),
                    ceilings: info.ceilings,
                    bump_percent: 12,
                })
                .collect(),
            store_memory: Arc::new(fencepost_app::store_memory::StoreMemory::unkept()),
            meters: Meters::register(&mut registry),
        });
        let node = Arc::clone(&crew.node);
        let api = || Api {
            node: Arc::clone(&node),
            url: url.to_owned(),
            chains: self.infos(),
            access: self.access.clone(),
            cluster: self.cluster.clone(),
            registry: Arc::new(registry),
            meters: fencepost_http::Meters::default(),
            limits: self.limits.clone(),
        };
        Server {
            router: router(api()),
            url: url.to_owned(),
            node,
            store: Arc::clone(&self.store),
            _running: Running::start(crew),
        }
    }

    /// A node's API, to be served by the test itself.
    pub(crate) fn api(&self, server: &Server) -> Api {
        Api {
            node: Arc::clone(&server.node),
            url: server.url.clone(),
            chains: self.infos(),
            access: self.access.clone(),
            cluster: self.cluster.clone(),
            registry: Arc::new(Registry::default()),
            meters: fencepost_http::Meters::default(),
            limits: self.limits.clone(),
        }
    }

    fn infos(&self) -> Vec<ChainInfo> {
        let info = |(name, id): &(&str, u64)| ChainInfo {
            name: (*name).to_owned(),
            id: ChainId::new(*id).unwrap(),
            ceilings: Ceilings {
                max_fee: 1_000,
                max_priority_fee: 100,
            },
        };
        self.chains.iter().map(info).collect()
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.hands.now()
    }

    /// A time that many seconds from now, as clients write it.
    pub(crate) fn in_seconds(&self, seconds: i64) -> String {
        let now = self.hands.now().as_second();
        Timestamp::from_second(now + seconds).unwrap().to_string()
    }
}

/// A node whose API can be called.
pub(crate) struct Server {
    pub(crate) router: Router,
    pub(crate) url: String,
    pub(crate) node: Arc<Node>,
    pub(crate) store: Arc<SqliteStore>,
    _running: Running,
}

impl Server {
    /// Calls a route, as clients do: what is posted is JSON where nothing else is said.
    pub(crate) async fn send(&self, mut request: Request<Body>) -> Reply {
        if request.method() == Method::POST {
            let json = HeaderValue::from_static("application/json");
            request.headers_mut().entry("content-type").or_insert(json);
        }
        self.send_bare(request).await
    }

    /// The same without adding anything. Whatever is answered has what every answer must have.
    pub(crate) async fn send_bare(&self, request: Request<Body>) -> Reply {
        let what = format!("{} {}", request.method(), request.uri());
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let reply = Reply {
            what,
            status: parts.status.as_u16(),
            headers: parts.headers,
            body: body.collect().await.unwrap().to_bytes(),
        };
        reply.check();
        reply
    }

    pub(crate) async fn call(&self, method: Method, path: &str, body: impl Into<Body>) -> Reply {
        let request = Request::builder().method(method).uri(path);
        self.send(request.body(body.into()).unwrap()).await
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.call(Method::GET, path, Body::empty()).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Reply {
        self.call(Method::POST, path, body.to_string()).await
    }

    /// Has a transaction sent and returns it.
    pub(crate) async fn create(&self, body: &Value) -> Value {
        let reply = self.post("/api/v1/tx", body).await;
        assert_eq!(reply.status, 202, "{}", reply.text());
        reply.json()
    }

    /// Everything that is stored, oldest first.
    pub(crate) async fn rows(&self) -> Vec<Record> {
        let all = PageQuery {
            limit: 1_000,
            ..PageQuery::default()
        };
        let mut rows = self.store.page(&all).await.unwrap();
        rows.reverse();
        rows
    }

    /// Waits, in virtual time, until so many rows are stored.
    pub(crate) async fn until_stored(&self, rows: usize) {
        let stored = async {
            while self.rows().await.len() < rows {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        let waited = tokio::time::timeout(Duration::from_secs(60), stored).await;
        waited.expect("what was under way is stored");
    }
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Reply {
    what: String,
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Reply {
    fn check(&self) {
        let (what, text) = (&self.what, self.text());
        let id = self.header("x-request-id").unwrap_or_default();
        assert!(!id.is_empty() && id.len() <= 128, "{what}: no id");
        if self.status < 400 {
            return;
        }
        assert_eq!(
            self.header("content-type"),
            Some("application/problem+json"),
            "{what}: {text}"
        );
        if self.what.starts_with("HEAD") {
            return;
        }
        let problem = self.json();
        let code = problem["code"].as_str().unwrap();
        assert_eq!(problem["status"], self.status, "{what}: {text}");
        assert_eq!(
            problem["type"],
            format!("/docs/problems#{code}"),
            "{what}: {text}"
        );
        assert!(
            !problem["title"].as_str().unwrap().is_empty(),
            "{what}: {text}"
        );
        assert!(
            !problem["detail"].as_str().unwrap().is_empty(),
            "{what}: {text}"
        );
        let retries = [
            "not_leader",
            "rate_limited",
            "overloaded",
            "store_unavailable",
            "timed_out",
            "stopping",
            "chain_unavailable",
        ];
        if retries.contains(&code) {
            let wait: u64 = self.header("retry-after").unwrap().parse().unwrap();
            assert!(wait >= 1, "{what}: {text}");
            assert_eq!(problem["retryAfterSeconds"], wait, "{what}: {text}");
        }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// What it is a problem of.
    pub(crate) fn code(&self) -> String {
        assert!(
            self.status >= 400,
            "{}: {} {}",
            self.what,
            self.status,
            self.text()
        );
        self.json()["code"].as_str().unwrap().to_owned()
    }

    /// The fields that are wrong.
    pub(crate) fn fields(&self) -> Vec<String> {
        assert_eq!(self.code(), "invalid_request", "{}", self.text());
        let errors = self.json()["errors"].as_array().unwrap().clone();
        let field = |error: &Value| error["field"].as_str().unwrap().to_owned();
        errors.iter().map(field).collect()
    }
}

pub(crate) fn lane_on(chain: u64, signer: &str) -> Lane {
    Lane {
        chain: ChainId::new(chain).unwrap(),
        signer: signer.parse::<Address>().unwrap(),
    }
}

/// A valid request of Alice.
pub(crate) fn payment(wei: u64) -> Value {
    json!({ "signer": ALICE, "payload": { "to": TO, "value": wei.to_string() } })
}

/// The same, by a name.
pub(crate) fn named(name: &str, wei: u64) -> Value {
    let mut body = payment(wei);
    body["requestId"] = json!(name);
    body
}
