//! Two loads in turn, slice by slice, so that a drift of the machine hits both alike.

use anyhow::Result;

use super::Plan;
use crate::figures::Course;
use crate::load::{Load, Slice};
use crate::meters::Gauge;
use crate::report::{GENERATOR, Part};

/// What became of it.
pub(super) struct Duel {
    course: Course,
    /// All that the base took, warming up included, and all that the rival took.
    pub(super) totals: [Slice; 2],
}

impl Duel {
    /// Runs both; the gauge is the rival's.
    pub(super) async fn run(
        plan: &Plan,
        base: &Load,
        rival: &Load,
        gauge: &mut Gauge<'_>,
    ) -> Result<Self> {
        let warm = plan.warm_up() / 2;
        let totals = [base.closed(warm).await?, rival.closed(warm).await?];
        let mut duel = Self {
            course: Course::begin(),
            totals,
        };
        for _ in 0..plan.slices {
            let usual = base.steady(plan.slice()).await?;
            gauge.begin().await?;
            let slice = rival.steady(plan.slice()).await?;
            gauge.end(slice.accepted).await?;
            duel.course.push(slice.steady_rate(), usual.steady_rate());
            duel.totals[0].add(usual);
            duel.totals[1].add(slice);
        }
        Ok(duel)
    }

    /// The rival's rate against the base's.
    pub(super) fn part(&self, name: String, gauge: &Gauge<'_>) -> Part {
        let [base, rival] = &self.totals;
        let part = Part::mean(name, self.course.clone(), "tx/s")
            .costs(&gauge.costs())
            .fact("generatorBusy", rival.business())
            .fact("refused", rival.refused);
        if rival.was_limit() || base.was_limit() {
            return part.fact(GENERATOR, true);
        }
        part
    }
}
