//! What a run has to say: a JSON object for each case, or tables for people.

use std::fmt::Write;

use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};
use serde_json::{Map, Value, json};

use crate::Case;
use crate::figures::{Course, Moment};
use crate::meters::Costs;

/// What a ratio should be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Target {
    AtLeast(f64),
    AtMost(f64),
}

/// One figure, and what it is held against.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) name: String,
    /// What was reached, in `unit`.
    pub(crate) rate: f64,
    /// What it is held against, in `unit`.
    pub(crate) limit: f64,
    pub(crate) unit: &'static str,
    pub(crate) ratio: f64,
    /// How far the ratio may be off, as a share of it.
    pub(crate) noise: f64,
    pub(crate) target: Option<Target>,
    /// How it went, slice by slice.
    pub(crate) moments: Vec<Moment>,
    /// Whatever else was seen.
    pub(crate) facts: Map<String, Value>,
}

/// All that a case has found. The first part stands for the case.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub(crate) case: Case,
    /// What `ratio` divides.
    pub(crate) ratio_is: &'static str,
    pub(crate) parts: Vec<Part>,
    /// What a reader must know to believe the figures.
    pub(crate) notes: Vec<String>,
    pub(crate) seconds: f64,
}

impl Target {
    pub(crate) fn is_met(self, ratio: f64) -> bool {
        match self {
            Self::AtLeast(least) => ratio >= least,
            Self::AtMost(most) => ratio <= most,
        }
    }

    pub(crate) const fn value(self) -> f64 {
        match self {
            Self::AtLeast(value) | Self::AtMost(value) => value,
        }
    }

    pub(crate) fn text(self) -> String {
        match self {
            Self::AtLeast(least) => format!("≥ {least}"),
            Self::AtMost(most) => format!("≤ {most}"),
        }
    }
}

impl Part {
    /// A figure without anything to it but its share.
    pub(crate) fn new(name: impl Into<String>, rate: f64, limit: f64, unit: &'static str) -> Self {
        Self {
            name: name.into(),
            rate,
            limit,
            unit,
            ratio: crate::figures::share(rate, limit),
            noise: 1.0,
            target: None,
            moments: vec![],
            facts: Map::new(),
        }
    }

    /// A figure that is the mean of its slices.
    pub(crate) fn mean(name: impl Into<String>, course: Course, unit: &'static str) -> Self {
        Self::new(name, course.rate(), course.limit(), unit).course(course)
    }

    /// The slices it comes from.
    pub(crate) fn course(mut self, course: Course) -> Self {
        self.noise = course.noise();
        let stolen = course.stolen_percent();
        self.moments = course.into_moments();
        self.fact(STOLEN, stolen)
    }

    pub(crate) fn noise(mut self, noise: f64) -> Self {
        self.noise = noise;
        self
    }

    pub(crate) fn target(mut self, target: Target) -> Self {
        self.target = Some(target);
        self
    }

    pub(crate) fn fact(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.facts.insert(name.to_owned(), value.into());
        self
    }

    pub(crate) fn costs(mut self, costs: &Costs) -> Self {
        if let Value::Object(costs) = costs.json() {
            self.facts.extend(costs);
        }
        self
    }

    fn json(&self) -> Map<String, Value> {
        let mut told = Map::new();
        let mut tell = |name: &str, value: Value| told.insert(name.to_owned(), value);
        tell("part", json!(self.name));
        tell("ratio", json!(rounded(self.ratio, 4)));
        tell("rate", json!(rounded(self.rate, 2)));
        tell("limit", json!(rounded(self.limit, 2)));
        tell("unit", json!(self.unit));
        tell("noise", json!(rounded(self.noise, 3)));
        if let Some(target) = self.target {
            tell("target", json!(target.text()));
            tell("met", json!(target.is_met(self.ratio)));
        }
        if !self.moments.is_empty() {
            let moments = self.moments.iter().map(|moment| Moment {
                second: rounded(moment.second, 3),
                rate: rounded(moment.rate, 2),
                limit: rounded(moment.limit, 2),
                stolen_percent: rounded(moment.stolen_percent, 2),
            });
            tell("slices", json!(moments.collect::<Vec<_>>()));
        }
        for (name, value) in &self.facts {
            let value = match value.as_f64() {
                Some(real) if value.is_f64() => json!(rounded(real, 4)),
                _ => value.clone(),
            };
            tell(name, value);
        }
        told
    }
}

impl Found {
    /// One object: the first part's figures on top, all parts below.
    pub(crate) fn json(&self, environment: &Value, settings: &Value) -> Value {
        let parts: Vec<Map<String, Value>> = self.parts.iter().map(Part::json).collect();
        let mut told = parts.first().cloned().unwrap_or_default();
        // Once is enough.
        told.remove("slices");
        told.insert("case".to_owned(), json!(self.case.word()));
        told.insert("ratioIs".to_owned(), json!(self.ratio_is));
        told.insert("parts".to_owned(), json!(parts));
        told.insert("notes".to_owned(), json!(self.notes));
        told.insert("seconds".to_owned(), json!(rounded(self.seconds, 1)));
        told.insert("environment".to_owned(), environment.clone());
        told.insert("settings".to_owned(), settings.clone());
        Value::Object(told)
    }

    /// A headline, a table and notes.
    pub(crate) fn text(&self) -> String {
        let mut text = format!("\n== {}: {}\n", self.case.word(), self.ratio_is);
        let mut table = Table::new();
        table
            .load_style(presets::UTF8_FULL_CONDENSED)
            .set_content_arrangement(ContentArrangement::Disabled);
        let columns = self.columns();
        let titles = ["", "rate", "limit", "unit", "ratio", "±", "target"];
        table.set_header(titles.into_iter().chain(columns.iter().map(|it| it.1)));
        for part in &self.parts {
            let target = part.target.map_or_else(String::new, |target| {
                let mark = if target.is_met(part.ratio) {
                    "met"
                } else {
                    "MISSED"
                };
                format!("{} {mark}", target.text())
            });
            let mut cells = vec![
                Cell::new(&part.name),
                right(number(part.rate)),
                right(number(part.limit)),
                Cell::new(part.unit),
                right(number(part.ratio)),
                right(format!("{:.0} %", part.noise * 100.0)),
                Cell::new(target),
            ];
            cells.extend(
                columns
                    .iter()
                    .map(|(key, _)| right(told(part.facts.get(*key)))),
            );
            table.add_row(cells);
        }
        let _ = writeln!(text, "{table}");
        for note in &self.notes {
            let _ = writeln!(text, "- {note}");
        }
        let _ = writeln!(text, "({:.0} s)", self.seconds);
        text
    }

    /// Names the parts of which the generator was the limit, and not the node.
    pub(crate) fn blame_generator(&mut self) {
        let blamed = |part: &&Part| part.facts.contains_key(GENERATOR);
        let names = self.parts.iter().filter(blamed).map(|part| &*part.name);
        let names: Vec<&str> = names.collect();
        if !names.is_empty() {
            let note = format!(
                "the load generator was itself the limit, or late, of: {}",
                names.join("; ")
            );
            self.notes.push(note);
        }
    }

    /// Names the parts for whose time others took much of this machine's processors.
    pub(crate) fn blame_others(&mut self) {
        let blamed = |part: &Part| {
            let taken = part.facts.get(STOLEN).and_then(Value::as_f64);
            let percent = taken.filter(|percent| *percent > STOLEN_PERCENT_MAX)?;
            Some(format!("{} ({percent:.0} %)", part.name))
        };
        let named: Vec<String> = self.parts.iter().filter_map(blamed).collect();
        if !named.is_empty() {
            let note = format!(
                "other machines of the same host took this one's processors during: {}",
                named.join("; ")
            );
            self.notes.push(note);
        }
    }

    /// The columns that any part has something for.
    fn columns(&self) -> Vec<(&'static str, &'static str)> {
        let is_told = |part: &Part, key: &str| {
            let value = part.facts.get(key).and_then(Value::as_f64);
            value.is_some_and(|value| value != 0.0)
        };
        let has = |key: &str| self.parts.iter().any(|part| is_told(part, key));
        COLUMNS.into_iter().filter(|(key, _)| has(key)).collect()
    }
}

/// What other machines took of the processors, of a hundred parts.
const STOLEN: &str = "stolenPercent";
/// A part of whose time others took more is named. Less is what a host does for itself; of more, a figure says as much
/// about the host as about us.
const STOLEN_PERCENT_MAX: f64 = 2.0;

/// The fact that a faster node would not have been noticed.
pub(crate) const GENERATOR: &str = "generatorWasTheLimit";

/// Facts that tables show, and their titles.
const COLUMNS: [(&str, &str); 29] = [
    ("p50Ms", "p50 ms"),
    ("p99Ms", "p99 ms"),
    ("p999Ms", "p99.9 ms"),
    ("quietSlices", "quiet slices"),
    ("quietP99Ms", "their p99 ms"),
    ("quietRatio", "their ratio"),
    ("lagP99Ms", "lag p99 ms"),
    ("commitP99Ms", "commit p99 ms"),
    ("medianMs", "median ms"),
    ("worstMs", "worst ms"),
    ("count", "n"),
    ("batchSize", "batch"),
    ("statementsPerTx", "stmts/tx"),
    ("commitsPerTx", "commits/tx"),
    ("rowsPerTx", "rows/tx"),
    ("walBytesPerTx", "WAL B/tx"),
    ("nodeCpuSecondsPer1000", "node CPU s/1000"),
    ("postgresCpuSecondsPer1000", "PG CPU s/1000"),
    ("chainCpuSecondsPer1000", "chain CPU s/1000"),
    ("rpcRequestsPerTx", "RPC/tx"),
    ("nodeCpuPercent", "node CPU %"),
    ("postgresCpuPercent", "PG CPU %"),
    ("statementsPerSecond", "stmts/s"),
    ("walBytesPerSecond", "WAL B/s"),
    ("startSeconds", "start s"),
    ("nodeMemoryMiB", "node MiB"),
    (STOLEN, "stolen %"),
    ("generatorBusy", "generator"),
    ("refused", "refused"),
];

fn right(text: String) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}

fn told(value: Option<&Value>) -> String {
    let value = value.unwrap_or(&Value::Null);
    match (value.as_f64(), value) {
        (Some(_), _) if value.is_u64() => value.to_string(),
        (Some(real), _) => number(real),
        (None, Value::String(text)) => text.clone(),
        (None, Value::Null | Value::Bool(_) | Value::Number(_)) => String::new(),
        (None, Value::Array(_) | Value::Object(_)) => value.to_string(),
    }
}

/// As many digits as say something.
pub(crate) fn number(real: f64) -> String {
    match real.abs() {
        size if size >= 100.0 => format!("{real:.0}"),
        size if size >= 10.0 => format!("{real:.1}"),
        size if size >= 1.0 || size == 0.0 => format!("{real:.2}"),
        _ => format!("{real:.3}"),
    }
}

fn rounded(real: f64, digits: i32) -> f64 {
    let scale = 10.0_f64.powi(digits);
    (real * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_is_one_object_with_its_first_part_on_top() {
        let first = Part::new("a", 30.0, 100.0, "tx/s").target(Target::AtLeast(0.2));
        let second = Part::new("b", 30.0, 0.0, "tx/s").target(Target::AtMost(0.5));
        let found = Found {
            case: Case::Create,
            ratio_is: "rate over limit",
            parts: vec![first.fact("batchSize", 2.5), second],
            notes: vec![],
            seconds: 1.0,
        };
        let told = found.json(&json!({}), &json!({}));
        assert_eq!(told["case"], "create");
        assert_eq!((&told["ratio"], &told["met"]), (&json!(0.3), &json!(true)));
        assert_eq!(told["parts"][1]["ratio"], 0.0);
        assert!(found.text().contains("batch"), "{}", found.text());
        assert!(!found.text().contains("RPC/tx"));
    }

    #[test]
    fn whoever_took_the_processors_is_named_with_what_was_measured_meanwhile() {
        let part = |name: &str, taken: f64| Part::new(name, 1.0, 1.0, "tx/s").fact(STOLEN, taken);
        let mut found = Found {
            case: Case::Create,
            ratio_is: "rate over limit",
            parts: vec![part("calm", 1.5), part("robbed", 30.4)],
            notes: vec![],
            seconds: 1.0,
        };
        found.blame_others();
        assert!(
            found.notes[0].ends_with("during: robbed (30 %)"),
            "{:?}",
            found.notes
        );
        found.parts.pop();
        found.notes.clear();
        found.blame_others();
        assert!(found.notes.is_empty());
    }

    #[test]
    fn a_target_says_on_which_side_of_it_is_good() {
        assert!(Target::AtLeast(0.5).is_met(0.5) && !Target::AtLeast(0.5).is_met(0.4));
        assert!(Target::AtMost(0.5).is_met(0.5) && !Target::AtMost(0.5).is_met(0.6));
    }
}
