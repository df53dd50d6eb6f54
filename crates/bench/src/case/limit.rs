//! What the database does on our tables without us: the measure of everything else.

use anyhow::Result;

use super::{Case, World};
use crate::figures::{Course, Times};
use crate::plain::BATCH;
use crate::report::{Found, Part};

const BATCHES: [usize; 4] = [BATCH, 1, 64, 1_024];
const LANES: usize = 16;
const DATA_BYTES: usize = 200;

pub(super) const fn steps() -> u64 {
    3
}

pub(super) async fn run(world: &World<'_>) -> Result<Found> {
    let plan = &world.plan;
    let mut plain = world.plain(LANES, DATA_BYTES).await?;
    let mut parts = Vec::new();
    world.screen.step("limit", "plain inserts");
    plain.inserts(BATCH, plan.warm_up()).await?;
    for batch in BATCHES {
        let mut course = Course::begin();
        for _ in 0..plan.slices {
            course.push_alone(plain.inserts(batch, plan.slice()).await?);
        }
        parts.push((format!("inserts, batches of {batch}"), course));
    }
    world.screen.step("limit", "plain updates");
    let mut course = Course::begin();
    for _ in 0..plan.slices {
        course.push_alone(plain.updates(BATCH, plan.slice()).await?);
    }
    parts.push((format!("updates, batches of {BATCH}"), course));
    world.screen.step("limit", "commits of one row");
    let mut course = Course::begin();
    for _ in 0..plan.slices {
        let commits = Times::new(plain.commits(plan.slice()).await?);
        course.push_alone(commits.rate());
    }
    parts.push(("commits of one row, one connection".to_owned(), course));
    let limit = parts.first().map_or(0.0, |(_, course)| course.rate());
    let part = |(name, course): (String, Course)| Part::mean(name, course.against(limit), "rows/s");
    Ok(Found {
        case: Case::Limit,
        ratio_is: "rows per second over L, plain inserts in batches of 256",
        parts: parts.into_iter().map(part).collect(),
        notes: vec![format!(
            "managed_tx, tx_event and due_work over {LANES} lanes, {DATA_BYTES} bytes of data each, two connections"
        )],
        seconds: 0.0,
    })
}
