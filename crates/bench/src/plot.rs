//! The figures of a case as an SVG file: a bar for each part's ratio, a whisker for how far it may be off, and a
//! mark where it should be; and another one of how they went, slice by slice.

mod course;

use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::report::{Found, Part, Target};

const ROW: f64 = 26.0;
const TOP: f64 = 56.0;
/// Where bars begin: names stand left of it.
const LEFT: f64 = 390.0;
const LENGTH: f64 = 420.0;
const RIGHT: f64 = 150.0;

/// Writes `<case>.svg`, and `<case>-time.svg` where there is a course of time.
pub(crate) fn draw(found: &Found, directory: &Path) -> Result<()> {
    let case = found.case.word();
    write(directory, &format!("{case}.svg"), &svg(found))?;
    match course::svg(found) {
        Some(drawing) => write(directory, &format!("{case}-time.svg"), &drawing),
        None => Ok(()),
    }
}

fn write(directory: &Path, name: &str, drawing: &str) -> Result<()> {
    let file = directory.join(name);
    fs::create_dir_all(directory)
        .and_then(|()| fs::write(&file, drawing))
        .with_context(|| format!("drawing {}", file.display()))
}

fn svg(found: &Found) -> String {
    let width = LEFT + LENGTH + RIGHT;
    let height = TOP + ROW * crate::figures::many(found.parts.len()) + 20.0;
    let reaches = found.parts.iter().map(|part| {
        let target = part.target.map_or(0.0, Target::value);
        (part.ratio * (1.0 + part.noise.min(1.0))).max(target)
    });
    let most = reaches.fold(0.0, f64::max).max(f64::MIN_POSITIVE);
    let mut svg = page(width, height, found.case.word(), &escaped(found.ratio_is));
    let mut top = TOP;
    for part in &found.parts {
        svg += &row(part, top, most);
        top += ROW;
    }
    svg += "</svg>\n";
    svg
}

/// How a drawing begins: a white page with a title, and a line `about` it, which is SVG already.
fn page(width: f64, height: f64, title: &str, about: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n\
         <text x=\"12\" y=\"22\" font-size=\"15\" font-weight=\"bold\">{title}</text>\n\
         <text x=\"12\" y=\"40\" fill=\"#555\">{about}</text>\n"
    )
}

fn row(part: &Part, top: f64, most: f64) -> String {
    let scale = |ratio: f64| (ratio / most * LENGTH).clamp(0.0, LENGTH);
    let (middle, bar) = (top + ROW / 2.0, scale(part.ratio));
    let is_met = part.target.is_none_or(|target| target.is_met(part.ratio));
    let fill = if is_met { "#4878a8" } else { "#c05040" };
    let (from, to) = (
        LEFT + scale(part.ratio * (1.0 - part.noise)),
        LEFT + scale(part.ratio * (1.0 + part.noise)),
    );
    let mut row = String::new();
    let _ = writeln!(
        row,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
        LEFT - 8.0,
        middle + 4.0,
        escaped(&part.name)
    );
    let _ = writeln!(
        row,
        "<rect x=\"{LEFT}\" y=\"{:.1}\" width=\"{bar:.1}\" height=\"{:.1}\" fill=\"{fill}\"/>\n\
         <path d=\"M{from:.1} {middle:.1}H{to:.1}\" stroke=\"#222\"/>",
        top + 4.0,
        ROW - 8.0
    );
    if let Some(target) = part.target {
        let at = LEFT + scale(target.value());
        let _ = writeln!(
            row,
            "<path d=\"M{at:.1} {top:.1}v{ROW}\" stroke=\"#2a8a2a\" stroke-width=\"2\"><title>{}</title></path>",
            target.text()
        );
    }
    let _ = writeln!(
        row,
        "<text x=\"{:.1}\" y=\"{:.1}\">{:.3} ({:.0} {})</text>",
        to.max(LEFT + bar) + 6.0,
        middle + 4.0,
        part.ratio,
        part.rate,
        escaped(part.unit)
    );
    row
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Case;

    #[test]
    fn a_drawing_has_a_bar_for_each_part_and_a_mark_for_each_target() -> Result<()> {
        let part = |name: &str| Part::new(name, 3.0, 10.0, "tx/s").noise(0.1);
        let found = Found {
            case: Case::Create,
            ratio_is: "a < b",
            parts: vec![
                part("one").target(Target::AtLeast(0.5)),
                part("two & three"),
            ],
            notes: vec![],
            seconds: 0.0,
        };
        let place = tempfile::tempdir()?;
        draw(&found, &place.path().join("new"))?;
        let svg = fs::read_to_string(place.path().join("new/create.svg"))?;
        assert_eq!(svg.matches("height=\"18.0\"").count(), 2, "{svg}");
        assert_eq!(svg.matches("<title>≥ 0.5</title>").count(), 1);
        assert!(svg.contains("a &lt; b") && svg.contains("two &amp; three"));
        assert!(
            svg.contains("#c05040"),
            "a missed target has its own colour"
        );
        Ok(())
    }
}
