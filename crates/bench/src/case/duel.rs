//! Two loads in turn, slice by slice, so that a drift of the machine hits both alike.

use anyhow::Result;

use super::Plan;
use crate::figures::{mean, noise, share};
use crate::load::{Load, Slice};
use crate::meters::Gauge;
use crate::report::{GENERATOR, Part};

/// What became of it.
pub(super) struct Duel {
    base: Vec<f64>,
    rival: Vec<f64>,
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
            base: vec![],
            rival: vec![],
            totals,
        };
        for _ in 0..plan.slices {
            let slice = base.closed(plan.slice()).await?;
            duel.base.push(slice.rate());
            duel.totals[0].add(slice);
            gauge.begin().await?;
            let slice = rival.closed(plan.slice()).await?;
            gauge.end(slice.accepted).await?;
            duel.rival.push(slice.rate());
            duel.totals[1].add(slice);
        }
        Ok(duel)
    }

    /// The rival's rate against the base's.
    pub(super) fn part(&self, name: String, gauge: &Gauge<'_>) -> Part {
        let pairs = self.rival.iter().zip(&self.base);
        let ratios: Vec<f64> = pairs.map(|(rival, base)| share(*rival, *base)).collect();
        let [base, rival] = &self.totals;
        let part = Part::new(name, mean(&self.rival), mean(&self.base), "tx/s")
            .noise(noise(&ratios))
            .costs(&gauge.costs())
            .fact("generatorBusy", rival.business())
            .fact("refused", rival.refused);
        if rival.was_limit() || base.was_limit() {
            return part.fact(GENERATOR, true);
        }
        part
    }
}
