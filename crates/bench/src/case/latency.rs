//! How long a create takes when requests come by the clock, whether answers come or not. A request's time begins
//! when it should have been sent, so that a node that stalls is not spared the requests that it held up.

use anyhow::Result;

use super::create::{DATA_BYTES, addresses_of, shape, verify};
use super::{Case, World};
use crate::figures::{Course, Times};
use crate::load::{Load, Slice};
use crate::meters::Gauge;
use crate::report::{Found, GENERATOR, Part, Target};

const SIGNERS: usize = 16;
/// Of the highest rate; the first is the one with a target.
const SHARES: [f64; 3] = [0.5, 0.25, 0.75];
/// What p99 may be, in commits of one row.
const COMMITS_MAX: f64 = 12.0;
/// A generator that sends later than this is not on schedule.
const LAG_MS_MAX: f64 = 5.0;

pub(super) const fn steps() -> u64 {
    4
}

pub(super) async fn run(world: &World<'_>) -> Result<Found> {
    let plan = &world.plan;
    world
        .screen
        .step("latency", "the highest rate, and one commit");
    let mut plain = world.plain(SIGNERS, DATA_BYTES).await?;
    let database = world.database().await?;
    let nodes = world.nodes(&database, SIGNERS).await?;
    let load = Load::start(addresses_of(&nodes), shape(SIGNERS, 1, 0, DATA_BYTES)).await?;
    let mut all = load.closed(plan.warm_up()).await?;
    let fastest = load.steady(plan.time).await?;
    let rate_max = fastest.steady_rate();
    all.add(fastest);
    let mut commits = Vec::new();
    for _ in 0..plan.slices {
        commits.extend(plain.commits(plan.slice()).await?);
    }
    let commits = Times::new(commits);
    let commit_ms = 1_000.0 / commits.rate().max(f64::MIN_POSITIVE);
    let commit_p99_ms = commits.ms(9_900);
    let mut parts = Vec::new();
    for share in SHARES {
        let percent = share * 100.0;
        let name = format!("p99 at {percent:.0} % of the highest rate");
        world.screen.step("latency", &name);
        let mut gauge = Gauge::new(Some(world.postgres), nodes.iter().collect()).await?;
        let (mut total, mut course) = (Slice::default(), Course::begin());
        gauge.begin().await?;
        for _ in 0..plan.slices {
            let slice = load.open(rate_max * share, plan.slice()).await?;
            course.push(Times::new(slice.latencies.clone()).ms(9_900), commit_ms);
            total.add(slice);
        }
        gauge.end(total.accepted).await?;
        let part =
            part(name, rate_max * share, commit_ms, &mut total).fact("commitP99Ms", commit_p99_ms);
        let mut part = part.course(course).costs(&gauge.costs());
        if share == SHARES[0] {
            part = part.target(Target::AtMost(COMMITS_MAX));
        }
        parts.push(part);
        all.add(total);
    }
    drop(load);
    for node in nodes {
        node.stop().await?;
    }
    verify(&database, &all).await?;
    Ok(Found {
        case: Case::Latency,
        ratio_is: "p99 of a create over the time of one commit of one row",
        parts,
        notes: vec![format!(
            "{SIGNERS} signers, one per request; the highest rate was {rate_max:.0}/s in a closed loop, one commit {commit_ms:.2} ms (p99 {commit_p99_ms:.2} ms)"
        )],
        seconds: 0.0,
    })
}

fn part(name: String, offered: f64, commit_ms: f64, total: &mut Slice) -> Part {
    let times = Times::new(std::mem::take(&mut total.latencies));
    let lags = Times::new(std::mem::take(&mut total.lags));
    let lag = lags.ms(9_900);
    let part = Part::new(name, times.ms(9_900), commit_ms, "ms")
        .fact("offeredPerSecond", offered)
        .fact("acceptedPerSecond", total.rate())
        .fact("p50Ms", times.median_ms())
        .fact("p99Ms", times.ms(9_900))
        .fact("p999Ms", times.ms(9_990))
        .fact("lagP99Ms", lag)
        .fact("generatorBusy", total.business())
        .fact("refused", total.refused);
    if total.was_limit() || lag > LAG_MS_MAX {
        return part.fact(GENERATOR, true);
    }
    part
}
