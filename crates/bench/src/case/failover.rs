//! How long a lane stands still when its leader goes: until another node accepts for it, and until another node
//! gives its next nonce.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use tokio::time::sleep;

use super::{Case, Plan, World, addresses};
use crate::figures::{Times, noise};
use crate::http::{Connection, ask, get, post};
use crate::node::{Node, Spec};
use crate::report::{Found, Part, Target};

/// By default: `lease.duration`, `lease.clock_skew_allowance`, and a second to notice.
const ALLOCATE_MS: f64 = 12_000.0;
const ACCEPT_MS: f64 = 100.0;
const GRACEFUL_MS: f64 = 500.0;
/// Nothing takes that long unless it is broken.
const PATIENCE: Duration = Duration::from_secs(45);
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// How the leader goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Killed,
    Asked,
}

/// Times of one kind.
#[derive(Default)]
struct Seen {
    accept: Vec<Duration>,
    allocate: Vec<Duration>,
}

pub(super) fn steps(plan: &Plan) -> u64 {
    u64::from(plan.kills) + u64::from(plan.stops)
}

/// Two nodes, of which the second leads after each round.
struct Pair {
    specs: [Spec; 2],
    nodes: Vec<Node>,
    signer: String,
    asked: u64,
}

pub(super) async fn run(world: &World<'_>) -> Result<Found> {
    let store = world.database().await?;
    let spec = |name: &str| Spec {
        name: name.to_owned(),
        store: store.clone(),
        chain: None,
        signers: 1,
    };
    let mut pair = Pair::start([spec("bench-a"), spec("bench-b")]).await?;
    let (mut killed, mut asked) = (Seen::default(), Seen::default());
    for round in 1..=world.plan.kills {
        world.screen.step(
            "failover",
            &format!("kill -9, {round} of {}", world.plan.kills),
        );
        pair.round(End::Killed, &mut killed).await?;
    }
    for round in 1..=world.plan.stops {
        world.screen.step(
            "failover",
            &format!("graceful stop, {round} of {}", world.plan.stops),
        );
        pair.round(End::Asked, &mut asked).await?;
    }
    for node in pair.nodes {
        node.stop().await?;
    }
    let parts = vec![
        part("kill -9 to the next nonce", killed.allocate, ALLOCATE_MS),
        part("kill -9 to the next accept", killed.accept, ACCEPT_MS),
        part(
            "graceful stop to the next accept",
            asked.accept,
            GRACEFUL_MS,
        ),
        part(
            "graceful stop to the next nonce",
            asked.allocate,
            GRACEFUL_MS,
        ),
    ];
    Ok(Found {
        case: Case::Failover,
        ratio_is: "the longest time over what it may be",
        parts,
        notes: vec!["lease.duration 10 s, clock_skew_allowance 1 s, as by default; rate and limit are milliseconds".to_owned()],
        seconds: 0.0,
    })
}

fn part(name: &str, times: Vec<Duration>, limit: f64) -> Part {
    let ms: Vec<f64> = times
        .iter()
        .map(|time| time.as_secs_f64() * 1_000.0)
        .collect();
    let (count, noise, times) = (times.len(), noise(&ms), Times::new(times));
    Part::new(name, times.worst_ms(), limit, "ms")
        .noise(noise)
        .target(Target::AtMost(1.0))
        .fact("count", count)
        .fact("medianMs", times.median_ms())
        .fact("worstMs", times.worst_ms())
}

impl Pair {
    async fn start(specs: [Spec; 2]) -> Result<Self> {
        let mut nodes = Vec::new();
        for spec in &specs {
            nodes.push(Node::start(spec).await?);
        }
        let signer = addresses(1).first().cloned().context("a signer")?;
        let mut pair = Self {
            specs,
            nodes,
            signer,
            asked: 0,
        };
        let leader = pair.nodes[0].address();
        let began = Instant::now();
        let tx = pair.accept(leader, began).await?;
        allocated(leader, &tx, began).await?;
        Ok(pair)
    }

    /// The leader goes, the other one is asked at once, and then the leader comes back as the other one.
    async fn round(&mut self, end: End, seen: &mut Seen) -> Result<()> {
        let other = self.nodes[1].address();
        // So that the other one is not asked for its first time, which is slower.
        ask(other, &get("/api/v1/signers")).await?;
        let began = Instant::now();
        match end {
            End::Killed => self.nodes[0].kill()?,
            End::Asked => self.nodes[0].ask_to_stop()?,
        }
        let tx = self.accept(other, began).await?;
        seen.accept.push(began.elapsed());
        allocated(other, &tx, began).await?;
        seen.allocate.push(began.elapsed());
        let gone = self.nodes.remove(0);
        if end == End::Asked {
            gone.stop().await?;
        } else {
            drop(gone);
        }
        self.specs.swap(0, 1);
        self.nodes.push(Node::start(&self.specs[1]).await?);
        Ok(())
    }

    /// Asks until it is accepted, with one request id: the same request, however often it is sent.
    async fn accept(&mut self, node: SocketAddr, began: Instant) -> Result<String> {
        self.asked += 1;
        let body = format!(
            "{{\"signer\":\"{}\",\"requestId\":\"failover-{}\",\"payload\":{{\"to\":\"{}\",\"gas\":\"21000\"}}}}",
            self.signer,
            self.asked,
            crate::plain::RECEIVER
        );
        let request = post("/api/v1/tx", &body);
        loop {
            let mut connection = Connection::open(node).await?;
            let (status, body) = connection.exchange(&request).await?;
            let told: Value = serde_json::from_slice(body)?;
            if let (200 | 202, Some(tx)) = (status, told["txId"].as_str()) {
                return Ok(tx.to_owned());
            }
            ensure!(status >= 500, "a create is answered {status}: {told}");
            ensure!(
                began.elapsed() < PATIENCE,
                "not accepted after {PATIENCE:?}: {told}"
            );
            sleep(LOOK_EVERY).await;
        }
    }
}

/// Waits until a transaction has its nonce.
async fn allocated(node: SocketAddr, tx: &str, began: Instant) -> Result<()> {
    let request = get(&format!("/api/v1/tx/{tx}"));
    let mut connection = Connection::open(node).await?;
    while began.elapsed() < PATIENCE {
        let (_, body) = connection.exchange(&request).await?;
        let told: Value = serde_json::from_slice(body)?;
        if told["nonce"].is_u64() {
            return Ok(());
        }
        sleep(LOOK_EVERY).await;
    }
    bail!("no nonce after {PATIENCE:?}")
}
