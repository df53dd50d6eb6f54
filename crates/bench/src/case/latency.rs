//! How long a create takes when requests come by the clock, whether answers come or not. A request's time begins
//! when it should have been sent, so that a node that stalls is not spared the requests that it held up. Requests that
//! were due while a slice began are told apart: the load is not steady until then.

mod signed;

use std::time::Duration;

use anyhow::Result;

use super::create::{DATA_BYTES, addresses_of, shape, verify};
use super::{Case, World};
use crate::figures::{self, Course, Times};
use crate::load::{Load, Slice};
use crate::meters::Gauge;
use crate::process::Takings;
use crate::report::{Found, GENERATOR, Part, Target};
use crate::window::LEAD;

const SIGNERS: usize = 16;
/// Of the highest rate; the first is the one with a target.
const SHARES: [f64; 3] = [0.5, 0.25, 0.75];
/// What p99 may be, in commits of one row.
const COMMITS_MAX: f64 = 12.0;
/// A slice of which others took less of the processors is quiet. Time is counted in hundredths of a second, so this is
/// none at all of a short slice; with more, the slowest of a hundred requests could still be all theirs.
const QUIET_PERCENT: f64 = 1.0;
/// A generator that sends later than this is not on schedule.
const LAG_MS_MAX: f64 = 5.0;

pub(super) const fn steps() -> u64 {
    5
}

pub(super) async fn run(world: &World<'_>) -> Result<Found> {
    let plan = &world.plan;
    world.screen.step("latency", "warming up");
    let mut plain = world.plain(SIGNERS, DATA_BYTES).await?;
    let database = world.database().await?;
    let nodes = world.nodes(&database, SIGNERS).await?;
    let load = Load::start(addresses_of(&nodes), shape(SIGNERS, 1, 0, DATA_BYTES)).await?;
    let mut all = load.closed(plan.warm_up()).await?;
    let (mut parts, mut highest) = (Vec::new(), Vec::new());
    for share in SHARES {
        let percent = share * 100.0;
        let name = format!("p99 at {percent:.0} % of the highest rate");
        world.screen.step("latency", &name);
        let mut gauge = Gauge::new(Some(world.postgres), nodes.iter().collect()).await?;
        let (mut total, mut course) = (Slice::default(), Course::begin());
        let (mut turns, mut quiet) = (Vec::new(), Quiet::default());
        let mut offered = Vec::new();
        for _ in 0..plan.slices {
            let commits = plain.commits(plan.slice()).await?;
            let fastest = load.steady(plan.slice()).await?;
            let rate_max = fastest.steady_rate();
            highest.push(rate_max);
            all.add(fastest);
            offered.push(rate_max * share);
            gauge.begin().await?;
            let mut takings = Takings::begin();
            let slice = load.open(rate_max * share, plan.slice()).await?;
            if takings.percent() < QUIET_PERCENT {
                quiet.add(&commits, &slice.latencies);
            }
            gauge.end(slice.accepted).await?;
            let latencies = slice.latencies.clone();
            course.push(
                Times::new(latencies.clone()).ms(9_900),
                Times::new(commits.clone()).mean_ms(),
            );
            turns.push(Turn { commits, latencies });
            total.add(slice);
        }
        let part = part(name, &turns, &mut total).course(course);
        let part = part.noise(figures::redrawn(&turns, p99_in_commits));
        let part = part.fact("offeredPerSecond", figures::mean(&offered));
        let mut part = quiet.told(part).costs(&gauge.costs());
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
    parts.push(signed::part(world).await?);
    Ok(Found {
        case: Case::Latency,
        ratio_is: "p99 of a create over the time of one commit of one row",
        parts,
        notes: vec![format!(
            "{SIGNERS} signers, one per request; the highest rate is that of a closed loop, {:.0}/s on average; it, commits of \
             one row and creates by the clock are measured in turns; what falls into the first {LEAD:?} of a slice counts for \
             none of them, and for p99WithBeginningMs",
            figures::mean(&highest)
        )],
        seconds: 0.0,
    })
}

/// One slice of commits, and the one of creates beside it.
struct Turn {
    commits: Vec<Duration>,
    latencies: Vec<Duration>,
}

/// What all of them come to.
fn p99_in_commits(turns: &[&Turn]) -> f64 {
    let all = |of: fn(&Turn) -> &[Duration]| {
        let times = turns.iter().flat_map(|turn| of(turn).iter().copied());
        Times::new(times.collect())
    };
    let (commits, creates) = (all(|turn| &turn.commits), all(|turn| &turn.latencies));
    figures::share(creates.ms(9_900), commits.mean_ms())
}

/// What was seen in slices of which nobody else took anything: a processor that is away for some milliseconds is all
/// that a percentile of the others tells of.
#[derive(Default)]
struct Quiet {
    slices: u64,
    commits: Vec<Duration>,
    latencies: Vec<Duration>,
}

impl Quiet {
    fn add(&mut self, commits: &[Duration], latencies: &[Duration]) {
        self.slices += 1;
        self.commits.extend_from_slice(commits);
        self.latencies.extend_from_slice(latencies);
    }

    fn told(self, part: Part) -> Part {
        let part = part.fact("quietSlices", self.slices);
        if self.slices == 0 {
            return part;
        }
        let commit_ms = Times::new(self.commits).mean_ms();
        let p99_ms = Times::new(self.latencies).ms(9_900);
        part.fact("quietP99Ms", p99_ms)
            .fact("quietRatio", figures::share(p99_ms, commit_ms))
    }
}

fn part(name: String, turns: &[Turn], total: &mut Slice) -> Part {
    let commits = turns.iter().flat_map(|turn| turn.commits.iter().copied());
    let commits = Times::new(commits.collect());
    let mut every = std::mem::take(&mut total.early);
    every.extend_from_slice(&total.latencies);
    let times = Times::new(std::mem::take(&mut total.latencies));
    let lags = Times::new(std::mem::take(&mut total.lags));
    let lag = lags.ms(9_900);
    let part = Part::new(name, times.ms(9_900), commits.mean_ms(), "ms")
        .fact("commitP99Ms", commits.ms(9_900))
        .fact("acceptedPerSecond", total.rate())
        .fact("p50Ms", times.median_ms())
        .fact("p99Ms", times.ms(9_900))
        .fact("p999Ms", times.ms(9_990))
        .fact("p99WithBeginningMs", Times::new(every).ms(9_900))
        .fact("lagP99Ms", lag)
        .fact("generatorBusy", total.business())
        .fact("refused", total.refused);
    if total.was_limit() || lag > LAG_MS_MAX {
        return part.fact(GENERATOR, true);
    }
    part
}
