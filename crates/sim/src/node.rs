//! A node of the simulation: the real one, whose every port goes through a gate that death closes.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use fencepost_app::directory::{Directory, NewSeat, Start};
use fencepost_app::drive::Running;
use fencepost_app::lifecycle::accept::{Origin, Verdict};
use fencepost_app::meters::Meters;
use fencepost_app::node::{Node, Parts};
use fencepost_app::ports::{Clock, Holder, NewTx, Peers, Signer, Store, Ticks};
use fencepost_domain::ids::{ChainId, Lane, NodeId};
use fencepost_evm::{ChainConfig, Chains, Transport};
use prometheus_client::registry::Registry;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::chooser;
use crate::clock::Hands;
use crate::gate::Gate;
use crate::keys::Keys;
use crate::peers::Wires;
use crate::profile::CHAIN;
use crate::rng::Rng;
use crate::sometimes::Rare;
use crate::store::Line;
use crate::wire::Wire;
use crate::world::World;

/// How long a question to an endpoint may take.
const RPC_DEADLINE: Duration = Duration::from_millis(500);
/// How long a stopping node has.
const STOP_WITHIN: Duration = Duration::from_secs(3);

/// One start of a node.
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) url: String,
    pub(crate) gate: Arc<Gate>,
    pub(crate) node: Arc<Node>,
    pub(crate) hands: Arc<Hands>,
    pub(crate) line: Arc<Line>,
    pub(crate) wires: Vec<Arc<Wire>>,
    running: Mutex<Option<Running>>,
}

impl World {
    /// A node of this name starts. Whoever had the name before is its ghost.
    pub(crate) async fn start(self: &Arc<Self>, name: &str) -> Arc<Member> {
        let id = NodeId::new(name).expect("names are short");
        let url = format!("http://{name}");
        let incarnation = self
            .store
            .join(&id, &url)
            .await
            .expect("it is asked directly");
        let gate = Arc::new(Gate::new());
        let line = Arc::new(Line::new(self, &gate, name, incarnation.get()));
        let seats = self.lanes.iter().map(|lane| NewSeat {
            lane: *lane,
            max_in_flight: self.profile.max_in_flight,
            signs: true,
            start: Start::default(),
        });
        let seats: Vec<NewSeat> = seats.collect();
        let directory = Directory::open(&*self.store, &seats).await;
        let hands = Arc::new(Hands::new(self.began));
        let wires = (0..self.profile.endpoints)
            .map(|n| Arc::new(Wire::new(self, &gate, name, incarnation.get(), n)));
        let wires: Vec<Arc<Wire>> = wires.collect();
        let crew = Node::assemble(Parts {
            settings: self.profile.settings.clone(),
            store: Arc::clone(&line) as Arc<dyn Store>,
            chain: Some(Arc::new(chains(self, &wires))),
            signer: Some(
                Arc::new(Keys::new(self, &gate, name, incarnation.get())) as Arc<dyn Signer>
            ),
            policy: chooser::policy(self, &gate, name, incarnation.get()),
            peers: Arc::new(Wires::new(self, &gate, name, incarnation.get())) as Arc<dyn Peers>,
            clock: Arc::clone(&hands) as Arc<dyn Clock>,
            ticks: Arc::clone(&hands) as Arc<dyn Ticks>,
            holder: Holder {
                node: id,
                incarnation,
            },
            url: url.clone(),
            chains: vec![self.profile.chain.clone()],
            directory: directory.expect("it is asked directly"),
            store_memory: Arc::new(fencepost_app::store_memory::StoreMemory::unkept()),
            meters: Meters::register(&mut Registry::default()),
        });
        let member = Arc::new(Member {
            name: name.to_owned(),
            url: url.clone(),
            gate,
            node: Arc::clone(&crew.node),
            hands,
            line,
            wires,
            running: Mutex::new(Some(Running::start(crew))),
        });
        self.note(name, format_args!("starts, incarnation {incarnation}"));
        self.members().insert(url, Arc::clone(&member));
        self.haunt(&member);
        member
    }

    /// A node that learns of a later start of its id ends.
    fn haunt(self: &Arc<Self>, member: &Arc<Member>) {
        let (world, member) = (Arc::clone(self), Arc::clone(member));
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = member.gate.died() => {}
                later = member.node.ghosted() => {
                    world.note(&member.name, format_args!("is a ghost of {later}"));
                    world.saw(Rare::Ghost);
                    world.kill(&member);
                }
            }
        });
    }

    /// It dies, wherever it is.
    pub(crate) fn kill(&self, member: &Arc<Member>) {
        if member.gate.is_dead() {
            return;
        }
        self.note(&member.name, "is killed");
        if member.line.under_way() > 0 {
            self.saw(Rare::CrashInStatement);
        }
        member.gate.kill();
        self.leave(member);
        member.take_running();
    }

    /// It is asked to stop.
    pub(crate) async fn stop(&self, member: &Arc<Member>) {
        self.note(&member.name, "is asked to stop");
        if let Some(running) = member.take_running() {
            running.stop(STOP_WITHIN).await;
        }
        self.note(&member.name, "has stopped");
        member.gate.kill();
        self.leave(member);
    }

    fn leave(&self, member: &Arc<Member>) {
        let mut members = self.members();
        let is_it = |found: &Arc<Member>| Arc::ptr_eq(found, member);
        if members.get(&member.url).is_some_and(is_it) {
            members.remove(&member.url);
        }
    }

    /// All that are there, standing still or not.
    pub(crate) fn all(&self) -> Vec<Arc<Member>> {
        self.members().values().cloned().collect()
    }

    /// Any of the nodes that run; none may.
    pub(crate) fn someone(&self, luck: &mut Rng) -> Option<Arc<Member>> {
        let all = self.all();
        (!all.is_empty()).then(|| Arc::clone(luck.pick(&all)))
    }
}

fn chains(world: &World, wires: &[Arc<Wire>]) -> Chains {
    let id = ChainId::new(CHAIN).expect("it is small");
    let wires = wires
        .iter()
        .map(|wire| Arc::clone(wire) as Arc<dyn Transport>);
    let mut config = ChainConfig::new(id, "main", wires.collect());
    config.deadline = RPC_DEADLINE;
    config.poll_interval = world.profile.chain.poll_interval;
    let meters = fencepost_evm::Meters::register(&mut Registry::default());
    Chains::new(vec![config], &meters)
}

impl Member {
    fn take_running(&self) -> Option<Running> {
        let mut running = self
            .running
            .lock()
            .expect("nothing panics while it is held");
        running.take()
    }

    /// Puts requests of one lane, as a client does over one connection; none is a connection that broke or
    /// a client that has given up. The node goes on with it all the same, while it lives.
    pub(crate) async fn ask(
        self: &Arc<Self>,
        lane: Lane,
        txs: Vec<NewTx>,
        patience: Duration,
    ) -> Vec<Option<Verdict>> {
        let count = txs.len();
        let handler = self.handle(lane, txs, Origin::Client);
        match timeout(patience, handler).await {
            Ok(Ok(verdicts)) => verdicts,
            Ok(Err(_)) | Err(_) => vec![None; count],
        }
    }

    /// Someone at this node takes requests in and sees them through.
    pub(crate) fn handle(
        self: &Arc<Self>,
        lane: Lane,
        txs: Vec<NewTx>,
        origin: Origin,
    ) -> JoinHandle<Vec<Option<Verdict>>> {
        let member = Arc::clone(self);
        tokio::spawn(async move {
            let count = txs.len();
            let work = async {
                member.gate.pass().await;
                let node = &member.node;
                let seat = node.directory().seat(lane).expect("it has all lanes");
                let mut share = Vec::new();
                let mut told = Vec::new();
                for tx in txs {
                    let (reply, answer) = oneshot::channel();
                    share.push((node.submit(seat, tx, origin), reply));
                    told.push(answer);
                }
                node.settle_share(share).await;
                let mut verdicts = Vec::new();
                for answer in told {
                    verdicts.push(answer.await.ok());
                }
                member.gate.pass().await;
                verdicts
            };
            tokio::select! {
                biased;
                () = member.gate.died() => vec![None; count],
                verdicts = work => verdicts,
            }
        })
    }
}
