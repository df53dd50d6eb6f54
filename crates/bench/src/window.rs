//! The time in which a rate is taken: it begins when everything is at work and ends before the last answers are waited
//! for. What reaches over its edges counts by the part of its time that lies inside, so that no rate is rounded to whole
//! statements.

use std::time::{Duration, Instant};

/// Something runs for so long before it is measured: until then not every connection has a request under way, and what
/// had nothing to do before is not going yet.
pub(crate) const LEAD: Duration = Duration::from_millis(100);

#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    pub(crate) from: Instant,
    pub(crate) until: Instant,
}

impl Window {
    /// From so long after now on, for so long.
    pub(crate) fn after(lead: Duration, time: Duration) -> Self {
        let from = Instant::now() + lead;
        Self {
            from,
            until: from + time,
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        Instant::now() >= self.until
    }

    pub(crate) fn time(&self) -> Duration {
        self.until - self.from
    }

    /// How much of what took from then to then lies inside.
    pub(crate) fn part(&self, began: Instant, ended: Instant) -> f64 {
        let (first, last) = (began.max(self.from), ended.min(self.until));
        let inside = last.saturating_duration_since(first);
        let whole = ended.saturating_duration_since(began);
        if whole.is_zero() {
            return if self.from <= ended && ended < self.until {
                1.0
            } else {
                0.0
            };
        }
        inside.as_secs_f64() / whole.as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_reaches_over_an_edge_counts_by_what_lies_inside() {
        let zero = Instant::now();
        let at = |ms: u64| zero + Duration::from_millis(ms);
        let window = Window {
            from: at(100),
            until: at(200),
        };
        for (began, ended, part) in [
            (0, 90, 0.0),
            (0, 100, 0.0),
            (80, 120, 0.5),
            (120, 180, 1.0),
            (190, 230, 0.25),
            (50, 250, 0.5),
            (200, 210, 0.0),
            (150, 150, 1.0),
            (200, 200, 0.0),
        ] {
            let counted = window.part(at(began), at(ended));
            assert!(
                (counted - part).abs() < 1e-9,
                "{began} to {ended}: {counted}"
            );
        }
    }
}
