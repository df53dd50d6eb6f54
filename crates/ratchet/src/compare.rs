//! Holding what was measured against the file. Everything here is a cost: more of it is worse.

use std::collections::BTreeSet;

use crate::figures::Parts;

/// How much a figure may grow, or shrink without a word. Lower, and a new version of the compiler or of PostgreSQL
/// would fail a change that is not to blame; higher, and costs creep in.
const SLACK: f64 = 0.10;

/// What a figure may grow by in any case: one statement more or less in a whole run is chance, one more in each batch of
/// 256 transactions is not.
const CHANCE: f64 = 0.002;

/// What became of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// As it was, or nearly.
    Kept,
    /// It costs less: the file can be tightened.
    Better,
    /// It costs more than it may.
    Worse,
    /// The file does not know it: it would be held against nothing.
    New,
    /// The file knows it and nobody measures it: whatever it held back is free to grow.
    Gone,
}

impl Verdict {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Kept => "",
            Self::Better => "better",
            Self::Worse => "WORSE",
            Self::New => "NOT IN THE FILE",
            Self::Gone => "NOT MEASURED",
        }
    }

    pub(crate) const fn fails(self) -> bool {
        match self {
            Self::Kept | Self::Better => false,
            Self::Worse | Self::New | Self::Gone => true,
        }
    }

    fn of(was: Option<f64>, is: Option<f64>) -> Self {
        match (was, is) {
            (None, _) => Self::New,
            (Some(_), None) => Self::Gone,
            (Some(was), Some(is)) if is > was + may_differ(was) => Self::Worse,
            (Some(was), Some(is)) if is < was - may_differ(was) => Self::Better,
            (Some(_), Some(_)) => Self::Kept,
        }
    }
}

fn may_differ(was: f64) -> f64 {
    (was * SLACK).max(CHANCE)
}

/// One figure, then and now.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) was: Option<f64>,
    pub(crate) is: Option<f64>,
    pub(crate) verdict: Verdict,
}

/// Each figure of the parts that were measured. What the file has of other parts is not looked at.
pub(crate) fn compare(file: &Parts, measured: &Parts) -> Vec<Line> {
    let mut lines = Vec::new();
    for (part, figures) in &measured.0 {
        let limits = file.0.get(part);
        let known = limits.into_iter().flat_map(|limits| limits.keys());
        let names: BTreeSet<&String> = figures.keys().chain(known).collect();
        for name in names {
            let was = limits.and_then(|limits| limits.get(name)).copied();
            let is = figures.get(name).copied();
            lines.push(Line {
                name: format!("{part}.{name}"),
                was,
                is,
                verdict: Verdict::of(was, is),
            });
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(was: Option<f64>, is: Option<f64>, verdict: Verdict) {
        let parts = |value: Option<f64>| {
            let figures = value.map(|value| ("rows".to_owned(), value));
            let figures = figures.into_iter().collect();
            Parts([("store".to_owned(), figures)].into())
        };
        let lines = compare(&parts(was), &parts(is));
        let expected = Line {
            name: "store.rows".to_owned(),
            was,
            is,
            verdict,
        };
        assert_eq!(lines, [expected]);
    }

    #[test]
    fn a_figure_may_grow_by_a_tenth_and_no_more() {
        for (was, is, verdict) in [
            (100.0, 100.0, Verdict::Kept),
            (100.0, 109.9, Verdict::Kept),
            (100.0, 110.1, Verdict::Worse),
            (100.0, 90.1, Verdict::Kept),
            (100.0, 89.9, Verdict::Better),
            // One more statement for each batch.
            (1.0 / 256.0, 2.0 / 256.0, Verdict::Worse),
            // One more in a whole run, of which there are two.
            (2.0 / 2_000.0, 3.0 / 2_000.0, Verdict::Kept),
            // What costs nothing may not begin to.
            (0.0, 0.01, Verdict::Worse),
            (0.0, 0.0, Verdict::Kept),
            (1.0, 0.0, Verdict::Better),
        ] {
            check(Some(was), Some(is), verdict);
        }
    }

    #[test]
    fn a_figure_that_is_on_one_side_only_fails() {
        check(None, Some(1.0), Verdict::New);
        check(Some(1.0), None, Verdict::Gone);
        assert!(Verdict::New.fails() && Verdict::Gone.fails() && Verdict::Worse.fails());
        assert!(!Verdict::Kept.fails() && !Verdict::Better.fails());
    }

    #[test]
    fn parts_that_were_not_measured_are_left_alone() {
        let file = Parts([("life".to_owned(), [("rows".to_owned(), 1.0)].into())].into());
        assert_eq!(compare(&file, &Parts::default()), []);
    }
}
