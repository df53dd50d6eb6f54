//! A node with its API, on a store in memory. Everything runs in the thread that calls, and time
//! passes only where all wait for it.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use fencepost_app::directory::{Directory, InFlightLimit, InFlightUntil, NewSeat, Start};
use fencepost_app::drive::Running;
use fencepost_app::meters::Meters;
use fencepost_app::node::{Node, Parts};
use fencepost_app::ports::{
    Act, Acts, Clock, Feed, Holder, LaneView, Noop, PageQuery, READ_LIMIT_MAX, Record, Store,
    Terms, Ticks,
};
use fencepost_app::settings::{ChainSettings, Settings};
use fencepost_domain::finality::Rule;
use fencepost_domain::ids::{ChainId, FeedSeq, Lane, NodeId};
use fencepost_domain::request::Ceilings;
use fencepost_http::{Access, Api, ChainInfo, ClusterSecret, Limits, Secret, router};
use fencepost_sqlite::SqliteStore;
use http_body_util::BodyExt;
use jiff::Timestamp;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};
use tower::ServiceExt;

use crate::alone::{Alone, Hands};
use crate::counting::{Counting, Says};
use crate::reply::Reply;

/// The signer that sends.
pub const ALICE: &str = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed";
/// The signer whose key nobody here has.
pub const BOB: &str = "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359";
/// Someone to send to.
pub const TO: &str = "0x4242424242424242424242424242424242424242";
const URL: &str = "http://127.0.0.1:1";
/// A world is given up at this age, long before anything lent in it (for a day) is due.
const AGE_MAX: Duration = Duration::from_secs(3_600);

/// All that is stored and that a refused call may not touch. Leases and tokens are not part of it: a
/// node renews those by itself.
#[derive(Debug, PartialEq)]
pub struct Stored {
    records: Vec<Record>,
    lanes: Vec<LaneView>,
    acts: Vec<Act>,
    feed: (FeedSeq, u64),
}

impl Stored {
    /// Whether a transaction or reservation of this id is there.
    pub fn has(&self, id: &str) -> bool {
        self.records.iter().any(|row| row.tx.to_string() == id)
    }
}

/// A node that has been used a little.
pub struct World {
    /// Dropped before the runtime that its tasks are on.
    node: Served,
    runtime: Runtime,
    /// A transaction of Alice, called `known`.
    pub tx: String,
    /// A nonce lent to Bob, called `lent`, and the token that goes with it.
    pub lent: (String, String),
    /// What was stored when the world was made.
    pub before: Stored,
}

struct Served {
    router: Router,
    store: Arc<SqliteStore>,
    hands: Arc<Hands>,
    _running: Running,
}

impl World {
    /// Alice may have so many in flight; none is no limit.
    pub fn new(in_flight_max: Option<usize>) -> Self {
        let mut builder = Builder::new_current_thread();
        let runtime = builder.enable_time().start_paused(true).build();
        let runtime = runtime.expect("a runtime of one thread needs nothing");
        let node = runtime.block_on(Served::start(in_flight_max));
        let (tx, lent, before) = runtime.block_on(async {
            let payload = json!({ "to": TO, "value": "1", "gas": "21000" });
            let body = json!({ "signer": ALICE, "requestId": "known", "payload": payload });
            let tx = node.made("/api/v1/tx", &body).await["txId"].to_string();
            let body = json!({ "signer": BOB, "requestId": "lent", "ttlSeconds": 86_400 });
            let lent = node.made("/api/v1/nonces/reserve", &body).await;
            let lent = [&lent["reservationId"], &lent["lockToken"]].map(Value::to_string);
            (tx, lent, node.stored().await)
        });
        let plain = |quoted: String| quoted.trim_matches('"').to_owned();
        let [id, lock] = lent.map(plain);
        Self {
            node,
            runtime,
            tx: plain(tx),
            lent: (id, lock),
            before,
        }
    }

    /// Calls the API.
    pub fn send(&self, request: Request<Body>) -> Reply {
        self.runtime.block_on(self.node.send(request))
    }

    /// Calls it with a body that is known to be good.
    pub fn made(&self, path: &str, body: &Value) -> Value {
        self.runtime.block_on(self.node.made(path, body))
    }

    /// What is stored now.
    pub fn stored(&self) -> Stored {
        self.runtime.block_on(self.node.stored())
    }

    /// Lets time pass.
    pub fn wait(&self, time: Duration) {
        self.runtime
            .block_on(async { tokio::time::sleep(time).await });
    }

    /// A time that many seconds from now, as clients write it.
    pub fn in_seconds(&self, seconds: i64) -> String {
        let now = self.node.hands.now().as_second();
        let then = Timestamp::from_second(now + seconds);
        then.expect("a few seconds from now is a time").to_string()
    }

    /// Whether it should be made anew before the next input.
    pub fn is_old(&self) -> bool {
        self.node.hands.ticks() > AGE_MAX
    }
}

impl Served {
    async fn start(in_flight_max: Option<usize>) -> Self {
        let settings = Settings {
            chain_query: None,
            workers: 1,
            ..Settings::default()
        };
        let hands = Arc::new(Hands::new());
        let store = Arc::new(opened(settings.lease, &hands));
        let node = NodeId::new("n1").expect("a good name");
        let joined = store.join(&node, URL).await;
        let seats = [(ALICE, true), (BOB, false)].map(|(signer, signs)| NewSeat {
            lane: lane(signer),
            max_in_flight: in_flight_max.filter(|_| signs).map(|max| InFlightLimit {
                max,
                until: InFlightUntil::Final,
            }),
            signs,
            start: Start::default(),
        });
        let directory = Directory::open(&*store, &seats).await;
        let mut registry = Registry::default();
        let info = info();
        let crew = Node::assemble(Parts {
            settings,
            directory: directory.expect("two signers on one chain"),
            store: Arc::clone(&store) as Arc<dyn Store>,
            chain: Some(Counting::that(Says::Counts(0, 0))),
            signer: None,
            policy: Arc::new(Noop),
            peers: Arc::new(Alone),
            clock: Arc::clone(&hands) as Arc<dyn Clock>,
            ticks: Arc::clone(&hands) as Arc<dyn Ticks>,
            holder: Holder {
                node,
                incarnation: joined.expect("a store in memory answers"),
            },
            url: URL.to_owned(),
            chains: vec![ChainSettings {
                id: info.id,
                name: info.name.clone(),
                finality: Rule::Confirmations(3),
                poll_interval: Duration::from_secs(1),
                ceilings: info.ceilings,
                bump_percent: 12,
            }],
            store_memory: Arc::new(fencepost_app::store_memory::StoreMemory::unkept()),
            meters: Meters::register(&mut registry),
        });
        let api = Api {
            node: Arc::clone(&crew.node),
            url: URL.to_owned(),
            chains: vec![info],
            access: Access::open(),
            cluster: Some(ClusterSecret::new(
                Secret::new("nobody guesses this one".to_owned()),
                None,
            )),
            registry: Arc::new(registry),
            meters: fencepost_http::Meters::default(),
            limits: Limits::default(),
        };
        Self {
            router: router(api),
            store,
            hands,
            _running: Running::start(crew),
        }
    }

    async fn send(&self, request: Request<Body>) -> Reply {
        let what = format!("{} {}", request.method(), request.uri());
        let response = self.router.clone().oneshot(request).await;
        let (parts, body) = response.expect("a router always answers").into_parts();
        let body = body.collect().await.expect("answers are in memory");
        Reply::checked(what, &parts, &body.to_bytes())
    }

    async fn made(&self, path: &str, body: &Value) -> Value {
        let request = Request::post(path).header("content-type", "application/json");
        let request = request.body(Body::from(body.to_string()));
        let reply = self.send(request.expect("a good request")).await;
        assert!(reply.status < 300, "{path} {body}: {}", reply.body);
        reply.body
    }

    async fn stored(&self) -> Stored {
        let all = PageQuery {
            limit: READ_LIMIT_MAX,
            ..PageQuery::default()
        };
        let readable = "a store in memory is read";
        let records = self.store.page(&all).await.expect(readable);
        let mut lanes = self
            .store
            .lanes(None, READ_LIMIT_MAX)
            .await
            .expect(readable);
        let mut acts = Vec::new();
        for lane in &mut lanes {
            (lane.leader, lane.token) = (None, fencepost_domain::ids::Token::default());
            let of_lane = self.store.acts(Acts::Lane(lane.id), None, READ_LIMIT_MAX);
            acts.extend(of_lane.await.expect(readable));
        }
        for record in &records {
            let of_tx = self.store.acts(Acts::Tx(record.tx), None, READ_LIMIT_MAX);
            acts.extend(of_tx.await.expect(readable));
        }
        let feed = self.store.completions(FeedSeq::MAX, 1).await;
        let Feed { head, epoch, .. } = feed.expect(readable);
        Stored {
            records,
            lanes,
            acts,
            feed: (head, epoch),
        }
    }
}

fn opened(terms: Terms, hands: &Arc<Hands>) -> SqliteStore {
    let clock = Arc::clone(hands) as Arc<dyn Clock>;
    SqliteStore::in_memory(terms, clock).expect("memory can be opened")
}

fn info() -> ChainInfo {
    ChainInfo {
        name: "main".to_owned(),
        id: ChainId::new(1).expect("one is a chain"),
        ceilings: Ceilings {
            max_fee: 1_000_000_000_000,
            max_priority_fee: 100_000_000_000,
        },
    }
}

fn lane(signer: &str) -> Lane {
    Lane {
        chain: ChainId::new(1).expect("one is a chain"),
        signer: signer.parse().expect("an address"),
    }
}
