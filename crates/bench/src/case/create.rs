//! Creates over HTTP: how close nodes come to plain inserts, one per request and in batches, by number of
//! signers, with repeated requests and with larger payloads.

use std::net::SocketAddr;

use anyhow::{Result, ensure};
use fencepost_testkit::postgres::connect;

use super::duel::Duel;
use super::{Case, Plan, World, addresses};
use crate::figures::{Course, mean, share};
use crate::load::{Load, Shape, Slice};
use crate::meters::{Gauge, rows_written};
use crate::node::Node;
use crate::plain::BATCH;
use crate::report::{Found, GENERATOR, Part, Target};
use crate::window::LEAD;

/// Enough that the node always has the next batch waiting.
pub(super) const CONNECTIONS: usize = 128;
pub(super) const BATCH_CONNECTIONS: usize = 16;
/// What one call of a batch carries.
pub(super) const BATCH_SIZE: usize = 100;
/// Of a usual call.
pub(super) const DATA_BYTES: usize = 200;
const LARGE_DATA_BYTES: usize = 2_048;

/// One thing to measure.
#[derive(Debug, Clone, Copy)]
struct Variant {
    signers: usize,
    batch: usize,
    duplicates: u64,
    data_bytes: usize,
    target: Option<Target>,
    /// Held against plain inserts of as many rows as a call has, too.
    beside_its_size: bool,
}

const USUAL: Variant = Variant {
    signers: 16,
    batch: 1,
    duplicates: 0,
    data_bytes: DATA_BYTES,
    target: None,
    beside_its_size: false,
};
const BATCHES: Variant = Variant {
    batch: BATCH_SIZE,
    ..USUAL
};

/// A quick run takes the first ones, which have every number of signers, every size and repeated requests.
const VARIANTS: [Variant; 12] = [
    Variant {
        target: Some(Target::AtLeast(0.2)),
        ..USUAL
    },
    Variant {
        target: Some(Target::AtLeast(0.6)),
        beside_its_size: true,
        ..BATCHES
    },
    Variant {
        signers: 1,
        ..USUAL
    },
    Variant {
        signers: 1,
        ..BATCHES
    },
    Variant {
        signers: 1_000,
        ..USUAL
    },
    Variant {
        signers: 100_000,
        ..USUAL
    },
    Variant {
        duplicates: 10,
        ..BATCHES
    },
    Variant {
        data_bytes: LARGE_DATA_BYTES,
        ..BATCHES
    },
    Variant {
        signers: 1_000,
        ..BATCHES
    },
    Variant {
        signers: 100_000,
        ..BATCHES
    },
    Variant {
        duplicates: 10,
        ..USUAL
    },
    Variant {
        data_bytes: LARGE_DATA_BYTES,
        ..USUAL
    },
];

/// How many requests a call carries where one signer is held against many.
const HOT: [usize; 2] = [1, BATCH_SIZE];

impl Variant {
    fn name(&self) -> String {
        let how = match self.batch {
            1 => "one per request".to_owned(),
            batch => format!("batches of {batch}"),
        };
        let plural = if self.signers == 1 { "" } else { "s" };
        let mut name = format!("{how}, {} signer{plural}", self.signers);
        if self.duplicates > 0 {
            name += &format!(", {} % repeated", self.duplicates);
        }
        if self.data_bytes != DATA_BYTES {
            name += &format!(", {} B of data", self.data_bytes);
        }
        name
    }

    fn shape(&self) -> Shape {
        shape(self.signers, self.batch, self.duplicates, self.data_bytes)
    }
}

/// A closed loop over the addresses of nodes without a chain.
pub(super) fn shape(signers: usize, batch: usize, duplicates: u64, data_bytes: usize) -> Shape {
    let connections = if batch == 1 {
        CONNECTIONS
    } else {
        BATCH_CONNECTIONS
    };
    Shape {
        batch,
        duplicates,
        data_bytes,
        connections,
        signers: addresses(signers),
        wait: None,
    }
}

/// How many variants there are.
pub(super) const ALL: usize = VARIANTS.len();

pub(super) fn steps(plan: &Plan) -> u64 {
    u64::try_from(ALL.min(plan.creates) + HOT.len()).unwrap_or(0)
}

pub(super) async fn run(world: &World<'_>) -> Result<Found> {
    let mut parts = Vec::new();
    for mut variant in VARIANTS.into_iter().take(world.plan.creates) {
        variant.signers = variant.signers.min(world.plan.signers_max);
        world.screen.step("create", &variant.name());
        parts.push(measure(world, variant).await?);
    }
    for batch in HOT {
        parts.push(hot(world, batch).await?);
    }
    Ok(Found {
        case: Case::Create,
        ratio_is: "creates per second over L, plain inserts in batches of 256 on as many lanes (1,000 at most)",
        parts,
        notes: vec![
            "nodes without a chain: nonces are given and stored, nothing is signed or sent (see lifecycle)"
                .to_owned(),
            format!(
                "closed loop: {CONNECTIONS} connections, {BATCH_CONNECTIONS} for batches; slices alternate with L's, \
                 and both are counted from {LEAD:?} after their beginning"
            ),
            "limitAtThisBatch is of plain statements with as many rows as one call; the ratio is held against L, whose \
             statements are about as large as ours (batchSize)"
                .to_owned(),
        ],
        seconds: 0.0,
    })
}

/// One signer's rate against that of sixteen, on the same nodes in turn.
async fn hot(world: &World<'_>, batch: usize) -> Result<Part> {
    let [many, one] = [USUAL.signers, 1].map(|signers| Variant {
        signers,
        batch,
        ..USUAL
    });
    let name = format!("{} against {}", one.name(), many.signers);
    world.screen.step("create", &name);
    let database = world.database().await?;
    let nodes = world.nodes(&database, many.signers).await?;
    let places: Vec<SocketAddr> = nodes.iter().map(Node::address).collect();
    let base = Load::start(places.clone(), many.shape()).await?;
    let rival = Load::start(places, one.shape()).await?;
    let mut gauge = Gauge::new(Some(world.postgres), nodes.iter().collect()).await?;
    let duel = Duel::run(&world.plan, &base, &rival, &mut gauge).await?;
    let part = duel.part(name, &gauge).target(Target::AtLeast(0.8));
    drop((base, rival, gauge));
    for node in nodes {
        node.stop().await?;
    }
    let [mut all, hot] = duel.totals;
    all.add(hot);
    verify(&database, &all).await?;
    Ok(part)
}

async fn measure(world: &World<'_>, variant: Variant) -> Result<Part> {
    let plan = &world.plan;
    let lanes = variant.signers.min(1_000);
    let mut plain = world.plain(lanes, variant.data_bytes).await?;
    // In tables of their own: L's would grow twice as fast as those of other variants.
    let mut as_large = if variant.beside_its_size {
        Some(world.plain(lanes, variant.data_bytes).await?)
    } else {
        None
    };
    let database = world.database().await?;
    let nodes = world.nodes(&database, variant.signers).await?;
    let rows_before = rows_written(&database).await?;
    let load = Load::start(nodes.iter().map(Node::address).collect(), variant.shape()).await?;
    plain.inserts(BATCH, plan.warm_up() / 2).await?;
    let mut all = load.closed(plan.warm_up()).await?;
    let mut gauge = Gauge::new(Some(world.postgres), nodes.iter().collect()).await?;
    let (mut course, mut total) = (Course::begin(), Slice::default());
    let mut at_this_batch = Vec::new();
    for _ in 0..plan.slices {
        if let Some(plain) = &mut as_large {
            at_this_batch.push(plain.inserts(variant.batch, plan.slice()).await?);
        }
        let limit = plain.inserts(BATCH, plan.slice()).await?;
        gauge.begin().await?;
        let slice = load.steady(plan.slice()).await?;
        gauge.end(slice.accepted).await?;
        course.push(slice.steady_rate(), limit);
        total.add(slice);
    }
    let costs = gauge.costs();
    drop((load, gauge));
    for node in nodes {
        node.stop().await?;
    }
    let (busy, is_limit, refused) = (total.business(), total.was_limit(), total.refused);
    all.add(total);
    verify(&database, &all).await?;
    let rows = rows_written(&database).await? - rows_before;
    let mut part = Part::mean(variant.name(), course, "tx/s")
        .costs(&costs.with_rows(rows, all.accepted))
        .fact("generatorBusy", busy)
        .fact("refused", refused);
    part.target = variant.target;
    if as_large.is_some() {
        let limit = mean(&at_this_batch);
        let ratio = share(part.rate, limit);
        part = part
            .fact("limitAtThisBatch", limit)
            .fact("ratioAtThisBatch", ratio);
    }
    if is_limit {
        part = part.fact(GENERATOR, true);
    }
    Ok(part)
}

/// Everything that was acknowledged is stored, once, and next to nothing was refused: a rate of anything else
/// would be no rate.
pub(super) async fn verify(database: &str, all: &Slice) -> Result<()> {
    ensure!(
        all.refused * 100 <= all.accepted,
        "{} requests were refused and {} accepted: {}",
        all.refused,
        all.accepted,
        all.refusal.as_deref().unwrap_or_default()
    );
    let client = connect(database).await?;
    let row = client
        .query_one("SELECT count(*) FROM managed_tx", &[])
        .await?;
    let stored = row.get::<_, i64>(0).unsigned_abs();
    ensure!(
        stored == all.fresh || all.refused > 0,
        "{} new requests were acknowledged, and {stored} are stored",
        all.fresh
    );
    Ok(())
}

/// Where nodes are asked.
pub(super) fn addresses_of(nodes: &[Node]) -> Vec<SocketAddr> {
    nodes.iter().map(Node::address).collect()
}
