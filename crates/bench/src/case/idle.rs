//! What lanes cost that nobody uses: memory and CPU of a node that has many of them, and what is left for
//! those that are used.

use std::time::Duration;

use anyhow::Result;
use tokio::time::sleep;

use super::create::{BATCH_SIZE, DATA_BYTES, shape};
use super::duel::Duel;
use super::{Case, World};
use crate::figures::{MEMORY_NOISE, share};
use crate::load::Load;
use crate::meters::Gauge;
use crate::node::{Node, Spec};
use crate::process::cpu_seconds_unsure;
use crate::report::{Found, Part, Target};

const FEW: usize = 16;
/// What a node may have in memory.
const MEMORY_MIB_MAX: f64 = 512.0;
/// Two rounds of renewals at least.
const LOOK_MIN: Duration = Duration::from_secs(7);
/// How long all lanes are used once, at most.
const TOUCH_MAX: Duration = Duration::from_secs(30);

pub(super) const fn steps() -> u64 {
    4
}

pub(super) async fn run(world: &World<'_>) -> Result<Found> {
    let many = world.plan.signers_max;
    world.screen.step(
        "idle",
        &format!("starting nodes with {FEW} and {many} lanes"),
    );
    let few = start(world, FEW).await?;
    let crowd = start(world, many).await?;
    world.screen.step("idle", "nobody asks for anything");
    let calm = look(world, &few, &format!("{FEW} lanes, never used")).await?;
    let fresh = look(world, &crowd, &format!("{many} lanes, never used")).await?;
    world
        .screen
        .step("idle", "every lane is used, and then none");
    let touch = Load::start(
        vec![crowd.address()],
        shape(many, BATCH_SIZE, 0, DATA_BYTES),
    )
    .await?;
    let mut touched = 0;
    let began = std::time::Instant::now();
    while touched < many * 2 && began.elapsed() < TOUCH_MAX {
        let slice = touch.closed(Duration::from_millis(500)).await?;
        touched += usize::try_from(slice.accepted)?;
    }
    drop(touch);
    let used = look(world, &crowd, &format!("{many} lanes, used before")).await?;
    world.screen.step("idle", "creates beside them");
    let shape = shape(FEW, 1, 0, DATA_BYTES);
    let base = Load::start(vec![few.address()], shape.clone()).await?;
    let rival = Load::start(vec![crowd.address()], shape).await?;
    let mut gauge = Gauge::new(Some(world.postgres), vec![&crowd]).await?;
    let duel = Duel::run(&world.plan, &base, &rival, &mut gauge).await?;
    let name = format!("creates on {FEW} signers beside {many} idle lanes");
    let creates = duel.part(name, &gauge).target(Target::AtLeast(0.8));
    let memory = gauge.costs().memory_mib();
    let memory = Part::new(
        "memory of the node with all of them",
        memory,
        MEMORY_MIB_MAX,
        "MiB",
    )
    .noise(MEMORY_NOISE)
    .target(Target::AtMost(1.0));
    drop((gauge, base, rival));
    crowd.stop().await?;
    few.stop().await?;
    Ok(Found {
        case: Case::Idle,
        ratio_is: "creates per second beside idle lanes over those without; CPU of an idle node over one core",
        parts: vec![creates, memory, calm, fresh, used],
        notes: vec![format!(
            "{touched} creates touched the lanes before the last look; signers are addresses without keys"
        )],
        seconds: 0.0,
    })
}

async fn start(world: &World<'_>, signers: usize) -> Result<Node> {
    let spec = Spec {
        name: format!("bench-{signers}"),
        store: world.database().await?,
        chain: None,
        signers,
    };
    Node::start(&spec).await
}

/// What a node does while nobody asks it for anything.
async fn look(world: &World<'_>, node: &Node, name: &str) -> Result<Part> {
    let time = (world.plan.time * 2).max(LOOK_MIN);
    let mut gauge = Gauge::new(Some(world.postgres), vec![node]).await?;
    gauge.begin().await?;
    sleep(time).await;
    gauge.end(0).await?;
    let (costs, seconds) = (gauge.costs(), time.as_secs_f64());
    let percent = share(costs.node_cpu(), seconds) * 100.0;
    // So little that ticks are seen.
    let unsure = share(cpu_seconds_unsure(), costs.node_cpu());
    let part = Part::new(name, percent, 100.0, "% of a core")
        .noise(unsure.max(0.05))
        .fact("nodeCpuPercent", percent)
        .fact("statementsPerSecond", share(costs.operations(), seconds))
        .fact("walBytesPerSecond", share(costs.wal_bytes(), seconds))
        .fact("startSeconds", node.started_in.as_secs_f64())
        .fact("nodeMemoryMiB", costs.memory_mib());
    Ok(match costs.postgres_cpu() {
        Some(cpu) => part.fact("postgresCpuPercent", share(cpu, seconds) * 100.0),
        None => part,
    })
}
