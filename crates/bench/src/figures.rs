//! Numbers out of measurements: rates, shares, percentiles, and how far a figure can be trusted.

use std::time::{Duration, Instant};

use serde::Serialize;

use crate::process::Takings;

/// Below this share two runs on one machine are not told apart, whatever the slices say.
const NOISE_MIN: f64 = 0.05;

/// A count as a real number.
pub(crate) fn real(count: u64) -> f64 {
    let high = u32::try_from(count >> 32).unwrap_or(u32::MAX);
    let low = u32::try_from(count & u64::from(u32::MAX)).unwrap_or(u32::MAX);
    f64::from(high) * 4_294_967_296.0 + f64::from(low)
}

/// A length as a real number.
pub(crate) fn many(count: usize) -> f64 {
    real(u64::try_from(count).unwrap_or(u64::MAX))
}

/// How many a second.
pub(crate) fn per_second(count: u64, time: Duration) -> f64 {
    share(real(count), time.as_secs_f64())
}

/// A quotient that is zero where there is nothing to divide by.
pub(crate) fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

pub(crate) fn mean(figures: &[f64]) -> f64 {
    share(figures.iter().sum(), many(figures.len()))
}

/// How far the mean of these may be off, as a share of it: three standard errors.
pub(crate) fn noise(figures: &[f64]) -> f64 {
    let mean = mean(figures);
    let count = many(figures.len());
    if figures.len() < 2 {
        return 1.0;
    }
    let squares: f64 = figures.iter().map(|figure| (figure - mean).powi(2)).sum();
    let error = (squares / (count - 1.0) / count).sqrt();
    share(3.0 * error, mean).max(NOISE_MIN)
}

/// How far a process's memory may be off: it is looked at once, and what its allocator has given back by then differs.
pub(crate) const MEMORY_NOISE: f64 = 0.15;

/// So often slices are drawn anew. More takes time, fewer is a figure of luck itself.
const DRAWS: usize = 100;

/// How far a figure of all slices together may be off, as a share of it: three standard deviations of what it is when as
/// many slices are drawn of these, some more than once and some never. For what is no mean of its slices: one slow slice
/// can be all that a percentile tells of.
pub(crate) fn redrawn<T>(slices: &[T], figure: impl Fn(&[&T]) -> f64) -> f64 {
    let all: Vec<&T> = slices.iter().collect();
    let whole = figure(&all);
    if all.len() < 2 {
        return 1.0;
    }
    // The same draws each time: what differs between two runs is the runs.
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        usize::try_from(seed >> 33).unwrap_or(0) % all.len()
    };
    let drawn = (0..DRAWS).map(|_| {
        let drawn: Vec<&T> = (0..all.len()).map(|_| all[next()]).collect();
        (figure(&drawn) - whole).powi(2)
    });
    let deviation = share(drawn.sum(), many(DRAWS)).sqrt();
    share(3.0 * deviation, whole).max(NOISE_MIN)
}

/// What one slice of a measurement reached, and what it is held against.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Moment {
    /// When the slice ended, in seconds since the measurement began.
    pub(crate) second: f64,
    pub(crate) rate: f64,
    pub(crate) limit: f64,
    /// What other machines took of the processors meanwhile, of a hundred parts.
    pub(crate) stolen_percent: f64,
}

/// How a figure went, slice by slice.
#[derive(Debug, Clone)]
pub(crate) struct Course {
    began: Instant,
    takings: Takings,
    moments: Vec<Moment>,
}

impl Course {
    pub(crate) fn begin() -> Self {
        Self {
            began: Instant::now(),
            takings: Takings::begin(),
            moments: vec![],
        }
    }

    /// A slice has just ended.
    pub(crate) fn push(&mut self, rate: f64, limit: f64) {
        self.moments.push(Moment {
            second: self.began.elapsed().as_secs_f64(),
            rate,
            limit,
            stolen_percent: self.takings.percent(),
        });
    }

    /// A slice of what is held against something that is measured apart from it: see `against`.
    pub(crate) fn push_alone(&mut self, rate: f64) {
        self.push(rate, 0.0);
    }

    /// The same slices, held against what was measured apart from them.
    pub(crate) fn against(mut self, limit: f64) -> Self {
        for moment in &mut self.moments {
            moment.limit = limit;
        }
        self
    }

    pub(crate) fn rate(&self) -> f64 {
        mean(&self.all(|moment| moment.rate))
    }

    pub(crate) fn limit(&self) -> f64 {
        mean(&self.all(|moment| moment.limit))
    }

    /// What other machines took of the processors, of a hundred parts, from its beginning to its end.
    pub(crate) fn stolen_percent(&self) -> f64 {
        mean(&self.all(|moment| moment.stolen_percent))
    }

    /// How far the share of the limit may be off.
    pub(crate) fn noise(&self) -> f64 {
        noise(&self.all(|moment| share(moment.rate, moment.limit)))
    }

    pub(crate) fn into_moments(self) -> Vec<Moment> {
        self.moments
    }

    fn all(&self, figure: impl Fn(&Moment) -> f64) -> Vec<f64> {
        self.moments.iter().map(figure).collect()
    }
}

/// Times, to be asked for their percentiles.
#[derive(Debug, Default)]
pub(crate) struct Times(Vec<Duration>);

impl Times {
    pub(crate) fn new(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        Self(times)
    }

    /// The time that so many of ten thousand do not exceed, in milliseconds.
    pub(crate) fn ms(&self, of_ten_thousand: usize) -> f64 {
        let rank = (self.0.len() * of_ten_thousand).div_ceil(10_000);
        let at = self.0.get(rank.saturating_sub(1));
        at.map_or(0.0, |time| time.as_secs_f64() * 1_000.0)
    }

    /// How many a second, one after the other.
    pub(crate) fn rate(&self) -> f64 {
        share(
            many(self.0.len()),
            self.0.iter().sum::<Duration>().as_secs_f64(),
        )
    }

    pub(crate) fn mean_ms(&self) -> f64 {
        share(1_000.0, self.rate())
    }

    pub(crate) fn median_ms(&self) -> f64 {
        self.ms(5_000)
    }

    pub(crate) fn worst_ms(&self) -> f64 {
        self.ms(10_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_the_smallest_time_that_enough_do_not_exceed() {
        let times = Times::new((1..=1_000).rev().map(Duration::from_millis).collect());
        let told = [5_000, 9_900, 9_990, 10_000].map(|part| times.ms(part));
        assert_eq!(told, [500.0, 990.0, 999.0, 1_000.0]);
        assert_eq!(Times::default().ms(9_900), 0.0);
        let halves = Times::new(vec![Duration::from_millis(500); 3]);
        assert_eq!((halves.rate(), Times::default().rate()), (2.0, 0.0));
        assert_eq!((halves.mean_ms(), Times::default().mean_ms()), (500.0, 0.0));
    }

    #[test]
    fn a_figure_that_never_changes_still_has_the_least_noise() {
        assert_eq!(noise(&[7.0; 4]), NOISE_MIN);
        assert_eq!(noise(&[7.0]), 1.0, "one slice proves nothing");
        assert!(noise(&[5.0, 10.0, 15.0]) > 0.5);
    }

    #[test]
    fn one_slow_slice_of_many_is_noise_of_the_slowest() {
        let slowest = |slices: &[&f64]| slices.iter().copied().copied().fold(0.0, f64::max);
        assert_eq!(redrawn(&[7.0; 6], slowest), NOISE_MIN);
        assert_eq!(redrawn(&[7.0], slowest), 1.0, "one slice proves nothing");
        // Of six drawn slices it is missing in a third of all draws.
        let unsure = redrawn(&[1.0, 1.0, 1.0, 10.0, 1.0, 1.0], slowest);
        assert!((1.0..2.5).contains(&unsure), "{unsure}");
    }

    #[test]
    fn a_drift_that_hits_both_alike_is_no_noise() {
        let mut course = Course::begin();
        for size in [1.0, 2.0, 3.0] {
            course.push(10.0 * size, 40.0 * size);
        }
        assert_eq!((course.rate(), course.limit()), (20.0, 80.0));
        assert_eq!(course.noise(), NOISE_MIN);
        let apart = course.against(80.0);
        assert!(apart.noise() > 0.5, "the drift of one alone is noise");
        let seconds: Vec<f64> = apart.into_moments().iter().map(|it| it.second).collect();
        assert!(seconds.is_sorted(), "{seconds:?}");
    }

    #[test]
    fn a_large_count_stays_itself() {
        assert_eq!(real((1 << 40) + 3), 1_099_511_627_779.0);
        assert_eq!(per_second(10, Duration::from_millis(500)), 20.0);
        assert_eq!(share(1.0, 0.0), 0.0);
    }
}
