//! Doing what the schedule says, each fault in a task of its own: they overlap.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use fencepost_devchain::{Fate, Order, Plan};
use fencepost_testkit::postgres::{Stop, connect};
use fencepost_testkit::proxy::Proxy;
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use super::lie;
use super::{Kind, Planned};
use crate::dice::Dice;
use crate::load::business::{Business, Known};
use crate::load::sampler::by_name;
use crate::note::{Note, now};
use crate::world::{NAMES, World, dev};

/// A fault that takes longer is a fault of ours. The longest are starts while the database is away.
const LIMIT: Duration = Duration::from_secs(150);

#[derive(Clone)]
pub(crate) struct Inflictor {
    pub(crate) world: Arc<World>,
    pub(crate) known: Arc<Known>,
    /// The server is stopped and started by one fault at a time.
    pub(crate) server: Arc<Mutex<()>>,
}

/// Whose leases a node holds.
const LED: &str = "SELECT chain_id, encode(signer, 'hex') FROM signer_lease \
    WHERE owner_node = $1 AND expires_at > clock_timestamp()";

impl Inflictor {
    /// Does all of it, and returns when the last fault is over.
    pub(crate) async fn run(self, planned: Vec<Planned>) {
        let began = Instant::now();
        let mut tasks = JoinSet::new();
        for fault in planned {
            sleep_until(began + fault.at).await;
            let inflictor = self.clone();
            tasks.spawn(async move { inflictor.inflict(fault).await });
            while tasks.try_join_next().is_some() {}
        }
        tasks.join_all().await;
    }

    async fn inflict(&self, mut fault: Planned) {
        let at = now();
        let kind = fault.kind;
        let target = target(&mut fault);
        let done = tokio::time::timeout(LIMIT, self.done(fault, &target)).await;
        let done = match done {
            Ok(Ok(())) => true,
            Ok(Err(error)) => {
                eprintln!("fault {} {target}: {error:#}", kind.word());
                false
            }
            Err(_) => {
                eprintln!("fault {} {target}: it does not end", kind.word());
                false
            }
        };
        self.world.journal.note(&Note::Fault {
            at,
            until: now(),
            kind: kind.word().to_owned(),
            target: target.word(),
            done,
        });
    }

    async fn done(&self, mut fault: Planned, target: &Target) -> Result<()> {
        let Planned { node, lasting, .. } = fault;
        let store = &self.world.nodes[node].ways.store;
        match fault.kind {
            Kind::Kill => self.kill(node, lasting, &mut fault.dice).await,
            Kind::Freeze => {
                let held = self.world.nodes[node].hold().await;
                held.signal("STOP")?;
                sleep(lasting).await;
                held.signal("CONT")
            }
            Kind::Restart => {
                let mut held = self.world.nodes[node].hold().await;
                let stopped = held.stop().await;
                held.start().await?;
                stopped
            }
            Kind::Backends => self.backends(&mut fault.dice).await,
            Kind::Postgres => {
                let _alone = self.server.lock().await;
                self.world.cluster.stop(Stop::Immediate).await?;
                sleep(lasting).await;
                self.world.cluster.start_again().await
            }
            Kind::StoreCut => cut(store, lasting).await,
            Kind::StoreHold => held_up(store, lasting).await,
            Kind::StoreSwallow => swallowed(store, lasting).await,
            Kind::StoreForsake => {
                store.forsake();
                Ok(())
            }
            Kind::RpcCut => cut(self.way(node, target), lasting).await,
            Kind::RpcHold => held_up(self.way(node, target), lasting).await,
            Kind::RpcSwallow => swallowed(self.way(node, target), lasting).await,
            Kind::AnvilReorg => self.world.anvil.reorg(fault.depth, &mut fault.dice).await,
            Kind::AnvilRestart => self.world.anvil.restart(lasting).await,
            Kind::DevReorg => self.world.dev.reorg(&reorg(fault.depth, &mut fault.dice)),
            Kind::AnvilStall => self.world.anvil.stall(lasting).await,
            Kind::DevForget => self.world.dev.forget_pool(),
            Kind::DevSurge => self.world.dev.surge(lasting).await,
            Kind::DevLie => match target {
                Target::Lie(lie) => {
                    let faults = lie.faults.clone();
                    self.world.dev.lie(lie.endpoint, faults, lasting).await
                }
                Target::Node(_) | Target::Way(..) | Target::Other => Ok(()),
            },
        }
    }

    fn way(&self, node: usize, target: &Target) -> &Arc<Proxy> {
        match target {
            Target::Way(_, endpoint @ 1..) => self.world.dev.way(node, endpoint - 1),
            Target::Way(..) | Target::Node(_) | Target::Lie(_) | Target::Other => {
                self.world.anvil.way(node)
            }
        }
    }

    /// While the node is away, its lanes are asked for at once: that is how long a failover takes.
    async fn kill(&self, node: usize, away: Duration, dice: &mut Dice) -> Result<()> {
        let mut held = self.world.nodes[node].hold().await;
        let lanes = self.led_by(node).await.unwrap_or_default();
        held.kill().await?;
        let at = now();
        let note = Note::Killed {
            at,
            node,
            lanes: lanes.clone(),
        };
        self.world.journal.note(&note);
        let mut probes = JoinSet::new();
        for lane in lanes {
            let probe = Business {
                world: Arc::clone(&self.world),
                known: Arc::clone(&self.known),
                name: format!("probe-{at}-{lane}"),
                dice: dice.fork(),
                rate: 1,
                count: 0,
            };
            probes.spawn(probe.probe(lane, (node + 1) % NAMES.len()));
        }
        sleep(away).await;
        held.start().await?;
        drop(held);
        probes.join_all().await;
        Ok(())
    }

    async fn led_by(&self, node: usize) -> Result<Vec<usize>> {
        let client = connect(&self.world.database.url()).await?;
        let names = by_name(&self.world);
        let rows = client.query(LED, &[&NAMES[node]]).await?;
        let lane = |row: &tokio_postgres::Row| names.get(&(row.get(0), row.get(1))).copied();
        Ok(rows.iter().filter_map(lane).collect())
    }

    /// Ends some sessions of nodes.
    async fn backends(&self, dice: &mut Dice) -> Result<()> {
        let client = connect(&self.world.database.url()).await?;
        let count = i64::try_from(1 + dice.below(12))?;
        let sql = "SELECT pg_terminate_backend(pid) FROM (SELECT pid FROM pg_stat_activity \
            WHERE application_name LIKE 'fencepost%' ORDER BY random() LIMIT $1) AS few";
        client.query(sql, &[&count]).await.context("backends")?;
        Ok(())
    }
}

/// What a fault is done to, as far as the schedule's dice decide it.
enum Target {
    Node(usize),
    /// A node's way: to anvil, or to an endpoint of the dev chain.
    Way(usize, usize),
    Lie(lie::Lie),
    Other,
}

impl Target {
    fn word(&self) -> String {
        match self {
            Self::Node(node) => NAMES[*node].to_owned(),
            Self::Way(node, 0) => format!("{} to anvil", NAMES[*node]),
            Self::Way(node, endpoint) => format!("{} to dev {endpoint}", NAMES[*node]),
            Self::Lie(lie) => format!("endpoint {} {}", lie.endpoint + 1, lie.name),
            Self::Other => String::new(),
        }
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.word())
    }
}

fn target(fault: &mut Planned) -> Target {
    match fault.kind {
        Kind::Kill
        | Kind::Freeze
        | Kind::Restart
        | Kind::StoreCut
        | Kind::StoreHold
        | Kind::StoreSwallow
        | Kind::StoreForsake => Target::Node(fault.node),
        Kind::RpcCut | Kind::RpcHold | Kind::RpcSwallow => {
            Target::Way(fault.node, fault.dice.index(dev::ENDPOINTS + 1))
        }
        Kind::DevLie => Target::Lie(lie::choose(&mut fault.dice)),
        Kind::Backends
        | Kind::Postgres
        | Kind::AnvilReorg
        | Kind::AnvilRestart
        | Kind::AnvilStall
        | Kind::DevReorg
        | Kind::DevForget
        | Kind::DevSurge => Target::Other,
    }
}

fn reorg(depth: u64, dice: &mut Dice) -> Plan {
    let txs = match dice.below(4) {
        0 => Fate::Keep,
        1 => Fate::Later(1 + dice.below(2)),
        2 => Fate::Pool,
        _last => Fate::Drop,
    };
    let order = if dice.chance(50) {
        Order::Same
    } else {
        Order::Reversed
    };
    Plan {
        depth,
        extra: dice.below(2),
        txs,
        order,
        ..Plan::default()
    }
}

/// All connections end, and none can be made for this long.
async fn cut(way: &Proxy, lasting: Duration) -> Result<()> {
    way.refuse();
    way.cut();
    sleep(lasting).await;
    way.accept();
    Ok(())
}

/// What is said now arrives when this is over, even if nobody waits for it any more.
async fn held_up(way: &Proxy, lasting: Duration) -> Result<()> {
    way.hold_requests();
    sleep(lasting).await;
    way.release_requests();
    Ok(())
}

/// What is answered from now on is lost, and then the connections are.
async fn swallowed(way: &Proxy, lasting: Duration) -> Result<()> {
    way.swallow_replies();
    sleep(lasting).await;
    way.cut();
    Ok(())
}
