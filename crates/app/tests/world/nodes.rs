//! Nodes on one store. Time is tokio's, and stands still while anyone has something to do.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use fencepost_app::directory::{Directory, InFlightLimit, InFlightUntil, NewSeat, Start};
use fencepost_app::drive::Running;
use fencepost_app::lifecycle::accept::{Origin, Verdict};
use fencepost_app::meters::Meters;
use fencepost_app::node::{Node, Parts};
use fencepost_app::ports::{
    Body, Chain, Clock, Holder, NewTx, Peers, Record, Signer, Store, Ticks, Unforwarded,
};
use fencepost_app::settings::{ChainSettings, Settings};
use fencepost_domain::Address;
use fencepost_domain::finality::Rule;
use fencepost_domain::ids::{ChainId, Lane, NodeId, RequestId, TxId};
use fencepost_domain::request::{Ceilings, Draft, Payload};
use fencepost_sqlite::SqliteStore;
use jiff::Timestamp;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use uuid::Uuid;

/// Tokio's time, as the time of day and as it passes.
struct Hands(Instant);

impl Ticks for Hands {
    fn ticks(&self) -> Duration {
        self.0.elapsed()
    }
}

impl Clock for Hands {
    fn now(&self) -> Timestamp {
        let start = Timestamp::from_second(1_800_000_000).unwrap();
        start.saturating_add(self.0.elapsed()).unwrap()
    }
}

/// The time of day of a node whose clock is behind the store's.
struct Behind(Arc<Hands>, Duration);

impl Clock for Behind {
    fn now(&self) -> Timestamp {
        self.0.now().saturating_sub(self.1).unwrap()
    }
}

/// The way between the nodes of one process.
#[derive(Default)]
pub(crate) struct Wires(Mutex<HashMap<String, Arc<Node>>>);

#[async_trait]
impl Peers for Wires {
    async fn forward(
        &self,
        url: &str,
        lane: Lane,
        tx: &NewTx,
        within: Duration,
    ) -> Result<Verdict, Unforwarded> {
        let node = self.0.lock().unwrap().get(url).cloned();
        let Some(node) = node else {
            return Err(Unforwarded::NotSent("no such node".into()));
        };
        let seat = node.directory().seat(lane).unwrap();
        let pending = node.submit(seat, tx.clone(), Origin::Node);
        let answer = tokio::time::timeout(within, node.settle(pending)).await;
        answer.map_err(|silence| Unforwarded::Unanswered(silence.into()))
    }

    async fn nudge(&self, url: &str, lane: Lane, _: Duration) -> Result<(), Unforwarded> {
        let node = self.0.lock().unwrap().get(url).cloned();
        let Some(node) = node else {
            return Err(Unforwarded::NotSent("no such node".into()));
        };
        if let Some(seat) = node.directory().seat(lane) {
            node.look_at(seat);
        }
        Ok(())
    }
}

/// What they share.
pub(crate) struct World {
    hands: Arc<Hands>,
    pub(crate) store: Arc<SqliteStore>,
    /// What the nodes see of it, where that is not all.
    pub(crate) seen: Option<Arc<dyn Store>>,
    wires: Arc<Wires>,
    pub(crate) settings: Settings,
    pub(crate) chain: Option<Arc<dyn Chain>>,
    pub(crate) signer: Option<Arc<dyn Signer>>,
    pub(crate) main: ChainSettings,
    pub(crate) policy: Arc<dyn fencepost_app::ports::Policy>,
    pub(crate) lanes: Vec<Lane>,
    pub(crate) max_in_flight: Option<usize>,
    pub(crate) in_flight_until: InFlightUntil,
    pub(crate) start: Start,
    /// How far the clocks of nodes that start from now on are behind the store's.
    pub(crate) behind: Duration,
}

/// One of them.
pub(crate) struct Member {
    pub(crate) node: Arc<Node>,
    running: Option<Running>,
    registry: Registry,
    wires: Arc<Wires>,
    url: String,
}

pub(crate) const LANES: u8 = 4;

pub(crate) fn lane(n: u8) -> Lane {
    Lane {
        chain: ChainId::new(1).unwrap(),
        signer: Address::repeat_byte(n),
    }
}

fn main() -> ChainSettings {
    ChainSettings {
        id: ChainId::new(1).unwrap(),
        name: "main".to_owned(),
        finality: Rule::Confirmations(3),
        poll_interval: Duration::from_millis(500),
        ceilings: Ceilings {
            max_fee: 1_000,
            max_priority_fee: 100,
        },
        bump_percent: 12,
    }
}

impl World {
    pub(crate) fn new() -> Self {
        let settings = Settings {
            chain_query: None,
            workers: 2,
            ..Settings::default()
        };
        let hands = Arc::new(Hands(Instant::now()));
        let clock = Arc::clone(&hands) as Arc<dyn Clock>;
        let store = SqliteStore::in_memory(settings.lease, clock).unwrap();
        Self {
            hands,
            store: Arc::new(store),
            seen: None,
            wires: Arc::default(),
            settings,
            chain: None,
            signer: None,
            main: main(),
            policy: Arc::new(fencepost_app::ports::Noop),
            lanes: (1..=LANES).map(lane).collect(),
            max_in_flight: None,
            in_flight_until: InFlightUntil::Mined,
            start: Start::default(),
            behind: Duration::ZERO,
        }
    }

    /// A node of this name joins and begins to work.
    pub(crate) async fn node(&self, name: &str) -> Member {
        let id = NodeId::new(name).unwrap();
        let url = format!("http://{name}");
        let sound = Arc::clone(&self.store) as Arc<dyn Store>;
        let store = self.seen.clone().unwrap_or(sound);
        let incarnation = store.join(&id, &url).await.unwrap();
        let lanes = self.lanes.iter().map(|lane| NewSeat {
            lane: *lane,
            max_in_flight: self.max_in_flight.map(|max| InFlightLimit {
                max,
                until: self.in_flight_until,
            }),
            signs: true,
            start: self.start,
        });
        let lanes: Vec<_> = lanes.collect();
        let directory = Directory::open(&*store, &lanes).await.unwrap();
        let mut registry = Registry::default();
        let crew = Node::assemble(Parts {
            settings: self.settings.clone(),
            store,
            chain: self.chain.clone(),
            signer: self.signer.clone(),
            policy: Arc::clone(&self.policy),
            peers: Arc::clone(&self.wires) as Arc<dyn Peers>,
            clock: Arc::new(Behind(Arc::clone(&self.hands), self.behind)),
            ticks: Arc::clone(&self.hands) as Arc<dyn Ticks>,
            holder: Holder {
                node: id,
                incarnation,
            },
            url: url.clone(),
            chains: vec![self.main.clone()],
            directory,
            store_memory: Arc::new(fencepost_app::store_memory::StoreMemory::unkept()),
            meters: Meters::register(&mut registry),
        });
        let node = Arc::clone(&crew.node);
        let mut wires = self.wires.0.lock().unwrap();
        wires.insert(url.clone(), Arc::clone(&node));
        drop(wires);
        Member {
            node,
            running: Some(Running::start(crew)),
            registry,
            wires: Arc::clone(&self.wires),
            url,
        }
    }

    pub(crate) async fn record(&self, tx: TxId) -> Record {
        let found = self.store.find_many(&[tx]).await.unwrap();
        found.into_iter().next().unwrap()
    }

    /// All rows of a lane, by id.
    pub(crate) async fn rows(&self, of: Lane) -> Vec<Record> {
        let query = fencepost_app::ports::PageQuery {
            lane: Some(of),
            limit: 1_000,
            ..fencepost_app::ports::PageQuery::default()
        };
        let mut rows = self.store.page(&query).await.unwrap();
        rows.reverse();
        rows
    }

    /// Asks until the answer is yes, and fails after a minute of virtual time.
    pub(crate) async fn until(&self, what: &str, mut ask: impl AsyncFnMut() -> bool) {
        let began = Instant::now();
        while !ask().await {
            assert!(began.elapsed() < Duration::from_mins(1), "in vain: {what}");
            pass(Duration::from_millis(10)).await;
        }
    }

    /// Waits until every row of the lane has its nonce.
    pub(crate) async fn until_allocated(&self, of: Lane) {
        self.until("all have their nonces", async || {
            let rows = self.rows(of).await;
            rows.iter().all(|row| row.state.nonce().is_some())
        })
        .await;
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.hands.now()
    }
}

impl Member {
    /// It dies: nothing of it goes on, and nobody reaches it.
    pub(crate) fn kill(mut self) {
        self.running.take();
        self.wires.0.lock().unwrap().remove(&self.url);
    }

    /// It is asked to stop.
    pub(crate) async fn stop(mut self) {
        if let Some(running) = self.running.take() {
            running.stop(Duration::from_secs(10)).await;
        }
        self.wires.0.lock().unwrap().remove(&self.url);
    }

    /// Puts a request and does not wait for it.
    pub(crate) fn put(&self, of: Lane, tx: NewTx) -> JoinHandle<Verdict> {
        let node = Arc::clone(&self.node);
        let seat = node.directory().seat(of).unwrap();
        let pending = node.submit(seat, tx, Origin::Client);
        tokio::spawn(async move { node.settle(pending).await })
    }

    pub(crate) async fn ask(&self, of: Lane, tx: NewTx) -> Verdict {
        self.put(of, tx).await.unwrap()
    }

    /// The value of a meter, by its whole line up to the space.
    pub(crate) fn meter(&self, line: &str) -> u64 {
        let mut text = String::new();
        encode(&mut text, &self.registry).unwrap();
        let value = text.lines().find_map(|each| each.strip_prefix(line));
        value.map_or(0, |value| value.trim().parse().unwrap())
    }
}

/// Lets virtual time pass: the nodes do all that they do in it.
pub(crate) async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}

/// A request of its own.
pub(crate) fn unnamed() -> NewTx {
    NewTx {
        tx: TxId(Uuid::now_v7()),
        seal: None,
        request_id: None,
        body: Body::Managed(payload(1)),
        not_after: None,
        meta: None,
        created_by: None,
    }
}

pub(crate) fn named(name: &str) -> NewTx {
    NewTx {
        request_id: Some(RequestId::new(name).unwrap()),
        ..unnamed()
    }
}

pub(crate) fn payload(wei: u64) -> Payload {
    let draft = Draft {
        to: Some(Address::repeat_byte(9).to_string()),
        value: Some(wei.to_string()),
        ..Draft::default()
    };
    let ceilings = Ceilings {
        max_fee: 1,
        max_priority_fee: 1,
    };
    Payload::parse(&draft, ceilings).unwrap()
}

/// The row of an accepted request.
pub(crate) fn accepted(verdict: Verdict) -> Record {
    let Verdict::New(record) = verdict else {
        panic!("not new: {verdict:?}");
    };
    *record
}

pub(crate) fn nonce_of(verdict: Verdict) -> Option<u64> {
    accepted(verdict)
        .state
        .nonce()
        .map(fencepost_domain::ids::Nonce::get)
}
