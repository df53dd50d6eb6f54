//! The whole way: created over HTTP, signed, sent, seen in a block, confirmed, and read from the feed. The backlog
//! is kept full, so that what is measured is the slowest part of the way.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use tokio::time::sleep;

use super::create::{BATCH_SIZE, DATA_BYTES};
use super::{Case, World};
use crate::chain::Chain;
use crate::figures::{Course, mean, per_second, share};
use crate::http::{Connection, get};
use crate::keys::{addresses, keys};
use crate::load::{Load, Shape};
use crate::meters::{Costs, Gauge, rows_written};
use crate::node::{ChainSpec, Node, Spec};
use crate::plain::BATCH;
use crate::report::{Found, Part, Target};

const SIGNERS: usize = 64;
/// How many blocks on top make a transaction final.
const CONFIRMATIONS: u64 = 2;
const BLOCK: Duration = Duration::from_millis(250);
const POLL: Duration = Duration::from_millis(100);
/// As anvil mines, and four looks for each.
const ANVIL_POLL: Duration = Duration::from_millis(250);
/// More than are in pools and blocks at once: 64 lanes with a window of 64 each, and as many behind them.
const BACKLOG: u64 = 10_000;
/// How long one burst of creates lasts.
const BURST: Duration = Duration::from_millis(10);
const REST: Duration = Duration::from_millis(10);
/// Until the first are confirmed, and until the last are.
const PATIENCE: Duration = Duration::from_secs(90);
/// The feed's largest page.
const PAGE: usize = 1_000;
/// A slice holds a few blocks.
const SLICE_MIN: Duration = Duration::from_secs(2);
const SLICES: u32 = 4;
/// Signed transfers of each key that show how fast anvil takes them.
const RAW_EACH: u64 = 40;

pub(super) const fn steps() -> u64 {
    4
}

pub(super) async fn run(world: &World<'_>) -> Result<Found> {
    let plan = &world.plan;
    world.screen.step("lifecycle", "plain inserts");
    let mut plain = world.plain(SIGNERS, DATA_BYTES).await?;
    let mut limits = vec![plain.inserts(BATCH, plan.time).await?];
    let keys = tokio::task::spawn_blocking(|| keys(SIGNERS)).await??;
    let accounts = addresses(&keys);
    world.screen.step("lifecycle", "create to CONFIRMED");
    let (chain, poll) = match &world.rpc {
        Some(url) => (Chain::given(url).await?, ANVIL_POLL),
        None => (Chain::start(&accounts, BLOCK).await?, POLL),
    };
    let way = travel(world, &chain, poll, &accounts).await?;
    drop(chain);
    limits.push(plain.inserts(BATCH, plan.time).await?);
    let name = match &world.rpc {
        Some(_) => "the chain at --rpc",
        None => "devchain",
    };
    let limit = mean(&limits);
    let mut parts = vec![
        way.part(format!("{name}, {SIGNERS} signers"), limit)
            .target(Target::AtLeast(0.03)),
        Part::new(
            "RPC requests for each of those",
            way.costs.rpc_per_transaction(),
            1.0,
            "requests/tx",
        )
        .noise(way.course.clone().against(limit).noise())
        .target(Target::AtMost(0.05)),
    ];
    let mut notes = vec![
        format!(
            "{SIGNERS} signers, batches of {BATCH_SIZE}, real signatures; devchain in its own process, a block every \
             {BLOCK:?}, polled every {POLL:?}, {CONFIRMATIONS} confirmations; at most {BACKLOG} not yet confirmed"
        ),
        "costs are of the whole way, by confirmed transactions".to_owned(),
    ];
    if world.rpc.is_none() {
        match anvil(world, &keys, &accounts).await {
            Ok(part) => parts.push(part),
            Err(error) => notes.push(format!("anvil was not measured: {error:#}")),
        }
    }
    Ok(Found {
        case: Case::Lifecycle,
        ratio_is: "confirmed transactions per second over L; on anvil over the raw sends that it takes",
        parts,
        notes,
        seconds: 0.0,
    })
}

async fn anvil(
    world: &World<'_>,
    keys: &[alloy_signer_local::PrivateKeySigner],
    accounts: &[String],
) -> Result<Part> {
    world.screen.step("lifecycle", "what anvil takes by itself");
    let chain = Chain::anvil(SIGNERS).await?;
    let raw = chain.raw_sends_per_second(keys, RAW_EACH).await?;
    drop(chain);
    world
        .screen
        .step("lifecycle", "create to CONFIRMED on anvil");
    let chain = Chain::anvil(SIGNERS).await?;
    let way = travel(world, &chain, ANVIL_POLL, accounts).await?;
    Ok(way.part(
        format!("anvil, a block each second, {SIGNERS} signers"),
        raw,
    ))
}

/// What the measured stretch brought.
struct Way {
    course: Course,
    costs: Costs,
    chain_cpu_per_1000: Option<f64>,
    drained: Duration,
}

impl Way {
    fn part(&self, name: String, limit: f64) -> Part {
        let part = Part::mean(name, self.course.clone().against(limit), "tx/s")
            .costs(&self.costs)
            .fact("drainSeconds", self.drained.as_secs_f64());
        match self.chain_cpu_per_1000 {
            Some(cpu) => part.fact("chainCpuSecondsPer1000", cpu),
            None => part,
        }
    }
}

async fn travel(
    world: &World<'_>,
    chain: &Chain,
    poll: Duration,
    accounts: &[String],
) -> Result<Way> {
    let spec = Spec {
        name: "bench-lifecycle".to_owned(),
        store: world.database().await?,
        chain: Some(ChainSpec {
            rpc: chain.url.clone(),
            id: chain.id,
            poll,
            confirmations: CONFIRMATIONS,
        }),
        signers: accounts.len(),
    };
    let node = Node::start(&spec).await?;
    let rows_before = rows_written(&spec.store).await?;
    let shape = Shape {
        batch: BATCH_SIZE,
        duplicates: 0,
        data_bytes: DATA_BYTES,
        connections: 4,
        signers: accounts.into(),
        wait: None,
    };
    let load = Load::start(vec![node.address()], shape).await?;
    let mut flow = Flow {
        load,
        feed: Feed::open(node.address()).await?,
        accepted: 0,
    };
    let began = Instant::now();
    // Until it flows: the first ones are confirmed, and what came in one burst has spread.
    while flow.feed.confirmed < BACKLOG / 2 {
        ensure!(
            began.elapsed() < PATIENCE,
            "only {} confirmed after {PATIENCE:?}",
            flow.feed.confirmed
        );
        flow.push().await?;
    }
    let mut gauge = Gauge::new(Some(world.postgres), vec![&node]).await?;
    let slice = (world.plan.time / 2).max(SLICE_MIN);
    let (first, cpu) = (flow.feed.confirmed, chain.cpu_seconds());
    gauge.begin().await?;
    let mut course = Course::begin();
    for _ in 0..SLICES {
        let (before, began) = (flow.feed.confirmed, Instant::now());
        while began.elapsed() < slice {
            flow.push().await?;
        }
        let rate = per_second(flow.feed.confirmed - before, began.elapsed());
        course.push_alone(rate);
    }
    let confirmed = flow.feed.confirmed - first;
    gauge.end(confirmed).await?;
    let spent = chain
        .cpu_seconds()
        .zip(cpu)
        .map(|(after, before)| after - before);
    let drained = flow.drain().await?;
    let (costs, accepted) = (gauge.costs(), flow.accepted);
    drop((flow, gauge));
    node.stop().await?;
    let rows = rows_written(&spec.store).await? - rows_before;
    Ok(Way {
        course,
        costs: costs.with_rows(rows, accepted),
        chain_cpu_per_1000: spent
            .map(|spent| share(spent * 1_000.0, crate::figures::real(confirmed))),
        drained,
    })
}

/// Creates on one side, the feed on the other.
struct Flow {
    load: Load,
    feed: Feed,
    accepted: u64,
}

impl Flow {
    /// Adds to the backlog where there is room, and reads what has ended.
    async fn push(&mut self) -> Result<()> {
        if self.accepted.saturating_sub(self.feed.confirmed) < BACKLOG {
            let slice = self.load.closed(BURST).await?;
            let refusal = slice.refusal.as_deref().unwrap_or_default();
            ensure!(slice.refused == 0, "creates are refused: {refusal}");
            self.accepted += slice.accepted;
        } else {
            sleep(REST).await;
        }
        self.feed.read().await
    }

    /// Waits until everything that was accepted is confirmed.
    async fn drain(&mut self) -> Result<Duration> {
        let began = Instant::now();
        while self.feed.confirmed < self.accepted {
            let (confirmed, accepted) = (self.feed.confirmed, self.accepted);
            ensure!(
                began.elapsed() < PATIENCE,
                "{confirmed} of {accepted} confirmed after {PATIENCE:?}"
            );
            sleep(REST).await;
            self.feed.read().await?;
        }
        Ok(began.elapsed())
    }
}

/// The node's feed, read to its end.
struct Feed {
    connection: Connection,
    after: u64,
    confirmed: u64,
}

#[derive(Deserialize)]
struct Page {
    completions: Vec<Completion>,
    next: u64,
}

#[derive(Deserialize)]
struct Completion {
    state: String,
}

impl Feed {
    async fn open(node: SocketAddr) -> Result<Self> {
        Ok(Self {
            connection: Connection::open(node).await?,
            after: 0,
            confirmed: 0,
        })
    }

    async fn read(&mut self) -> Result<()> {
        loop {
            let after = self.after;
            let request = get(&format!(
                "/api/v1/tx/completions?after={after}&limit={PAGE}"
            ));
            let (status, body) = self.connection.exchange(&request).await?;
            ensure!(status == 200, "the feed answers {status}");
            let page: Page = serde_json::from_slice(body).context("a page of the feed")?;
            let other = page.completions.iter().find(|it| it.state != "CONFIRMED");
            ensure!(
                other.is_none(),
                "one ended as {:?}",
                other.map(|it| &it.state)
            );
            self.after = page.next;
            self.confirmed += u64::try_from(page.completions.len())?;
            if page.completions.len() < PAGE {
                return Ok(());
            }
        }
    }
}
