//! The figures of a case against time: for each part a panel with what its slices reached, and what they are held
//! against.

use std::fmt::Write;

use super::{escaped, page};
use crate::figures::{Moment, many};
use crate::report::{Found, Part, number};

const PANEL: f64 = 96.0;
/// Of a panel, what curves have.
const HEIGHT: f64 = 58.0;
const TOP: f64 = 56.0;
const LEFT: f64 = 70.0;
const LENGTH: f64 = 640.0;
const RIGHT: f64 = 110.0;

const RATE: &str = "#4878a8";
const LIMIT: &str = "#999";

/// Nothing where no part has slices.
pub(super) fn svg(found: &Found) -> Option<String> {
    let parts: Vec<&Part> = found
        .parts
        .iter()
        .filter(|part| part.moments.len() > 1)
        .collect();
    if parts.is_empty() {
        return None;
    }
    let (width, height) = (LEFT + LENGTH + RIGHT, TOP + PANEL * many(parts.len()));
    let title = format!("{} against time", found.case.word());
    let about = format!(
        "<tspan fill=\"{RATE}\">what each slice reached</tspan> and \
         <tspan fill=\"{LIMIT}\">what it is held against</tspan>, by seconds"
    );
    let mut svg = page(width, height, &title, &about);
    let mut top = TOP;
    for part in parts {
        svg += &panel(part, top);
        top += PANEL;
    }
    svg += "</svg>\n";
    Some(svg)
}

fn panel(part: &Part, top: f64) -> String {
    let moments = &part.moments;
    let (rates, limits) = (|it: &Moment| it.rate, |it: &Moment| it.limit);
    let last = moments.last().map_or(0.0, |moment| moment.second);
    let reached = moments.iter().map(|it| it.rate.max(it.limit));
    let most = reached.fold(f64::MIN_POSITIVE, f64::max);
    let (base, end) = (top + 16.0 + HEIGHT, LEFT + LENGTH);
    let mut panel = String::new();
    let _ = writeln!(
        panel,
        "<text x=\"{LEFT}\" y=\"{:.1}\">{}, {}</text>\n\
         <path d=\"M{LEFT} {:.1}V{base:.1}H{end:.1}\" fill=\"none\" stroke=\"#222\"/>\n\
         <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\n\
         <text x=\"{:.1}\" y=\"{base:.1}\" text-anchor=\"end\">0</text>\n\
         <text x=\"{end}\" y=\"{:.1}\" text-anchor=\"end\">{last:.0} s</text>",
        top + 10.0,
        escaped(&part.name),
        escaped(part.unit),
        base - HEIGHT,
        LEFT - 6.0,
        base - HEIGHT + 8.0,
        number(most),
        LEFT - 6.0,
        base + 14.0,
    );
    let curve = |figure: &dyn Fn(&Moment) -> f64, colour: &str| {
        let place = |moment: &Moment| {
            let x = LEFT + moment.second / last.max(f64::MIN_POSITIVE) * LENGTH;
            let y = base - figure(moment) / most * HEIGHT;
            format!("{x:.1},{y:.1}")
        };
        let places: Vec<String> = moments.iter().map(place).collect();
        let (places, y) = (places.join(" "), moments.last().map_or(0.0, figure));
        format!(
            "<polyline points=\"{places}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"/>\n\
             <text x=\"{:.1}\" y=\"{:.1}\" fill=\"{colour}\">{}</text>\n",
            end + 6.0,
            base - y / most * HEIGHT + 4.0,
            number(y)
        )
    };
    panel += &curve(&limits, LIMIT);
    panel += &curve(&rates, RATE);
    panel
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Case;
    use crate::figures::Course;

    fn found(parts: Vec<Part>) -> Found {
        Found {
            case: Case::Create,
            ratio_is: "a over b",
            parts,
            notes: vec![],
            seconds: 0.0,
        }
    }

    #[test]
    fn each_part_with_slices_has_two_curves_through_all_of_them() -> anyhow::Result<()> {
        let mut course = Course::begin();
        for rate in [10.0, 30.0, 20.0] {
            course.push(rate, 40.0);
        }
        let parts = vec![
            Part::mean("one & two", course, "tx/s"),
            Part::new("memory", 1.0, 2.0, "MiB"),
        ];
        let svg = svg(&found(parts)).ok_or_else(|| anyhow::anyhow!("nothing drawn"))?;
        assert!(svg.contains("one &amp; two, tx/s"));
        assert!(!svg.contains("memory"), "a figure without slices");
        let curves: Vec<&str> = svg
            .lines()
            .filter_map(|line| line.strip_prefix("<polyline points=\""))
            .filter_map(|line| line.split('"').next())
            .collect();
        let heights: Vec<Vec<&str>> = curves
            .iter()
            .map(|curve| curve.split([' ', ',']).skip(1).step_by(2).collect())
            .collect();
        assert_eq!(
            heights,
            [["72.0", "72.0", "72.0"], ["115.5", "86.5", "101.0"]],
            "the limit at the top, the rates below it"
        );
        Ok(())
    }

    #[test]
    fn a_case_without_slices_has_no_drawing_of_them() {
        assert_eq!(svg(&found(vec![Part::new("one", 1.0, 2.0, "ms")])), None);
    }
}
