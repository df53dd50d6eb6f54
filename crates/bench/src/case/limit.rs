//! What the database does on our tables without us: the measure of everything else.

use std::time::Duration;

use anyhow::Result;

use super::{Case, World};
use crate::figures::{Course, Times};
use crate::plain::{BATCH, Plain};
use crate::report::{Found, Part};

const LANES: usize = 16;
const DATA_BYTES: usize = 200;

/// What is held against L.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Inserts(usize),
    Updates,
    Commits,
}

const KINDS: [Kind; 5] = [
    Kind::Inserts(1),
    Kind::Inserts(64),
    Kind::Inserts(1_024),
    Kind::Updates,
    Kind::Commits,
];

impl Kind {
    fn name(self) -> String {
        match self {
            Self::Inserts(batch) => format!("inserts, batches of {batch}"),
            Self::Updates => format!("updates, batches of {BATCH}"),
            Self::Commits => "commits of one row, one connection".to_owned(),
        }
    }

    /// Rows per second.
    async fn rate(self, plain: &mut Plain, time: Duration) -> Result<f64> {
        match self {
            Self::Inserts(batch) => plain.inserts(batch, time).await,
            Self::Updates => plain.updates(BATCH, time).await,
            Self::Commits => Ok(Times::new(plain.commits(time).await?).rate()),
        }
    }
}

pub(super) const fn steps() -> u64 {
    1
}

pub(super) async fn run(world: &World<'_>) -> Result<Found> {
    let plan = &world.plan;
    let mut plain = world.plain(LANES, DATA_BYTES).await?;
    world
        .screen
        .step("limit", "plain inserts, updates and commits, in turns");
    plain.inserts(BATCH, plan.warm_up()).await?;
    let mut limit = Course::begin();
    let mut courses = KINDS.map(|kind| (kind, Course::begin()));
    for _ in 0..plan.slices {
        let rows = plain.inserts(BATCH, plan.slice()).await?;
        limit.push(rows, rows);
        for (kind, course) in &mut courses {
            course.push(kind.rate(&mut plain, plan.slice()).await?, rows);
        }
    }
    let part = |(kind, course): (Kind, Course)| Part::mean(kind.name(), course, "rows/s");
    let mut parts = vec![Part::mean(Kind::Inserts(BATCH).name(), limit, "rows/s")];
    parts.extend(courses.map(part));
    Ok(Found {
        case: Case::Limit,
        ratio_is: "rows per second over L, plain inserts in batches of 256",
        parts,
        notes: vec![format!(
            "managed_tx, tx_event and due_work over {LANES} lanes, {DATA_BYTES} bytes of data each, two connections"
        )],
        seconds: 0.0,
    })
}
