//! What a run has to say: a table for people and a summary in JSON for programs.

use std::collections::BTreeMap;

use comfy_table::{Cell, CellAlignment, Table, presets};
use serde::Serialize;

use crate::check::{Findings, LINES, Line};
use crate::facts::{Evidence, Rows};
use crate::failover::Failover;
use crate::note::{Answer, Meaning, Note};

/// Violations of each line that are told in full; the rest is in the summary's counts.
const SHOWN: usize = 8;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Summary {
    pub(crate) seed: u64,
    pub(crate) seconds: u64,
    pub(crate) heal_seconds: u64,
    pub(crate) passed: bool,
    pub(crate) violations: BTreeMap<&'static str, usize>,
    pub(crate) found: Vec<String>,
    pub(crate) done: BTreeMap<String, u64>,
    pub(crate) faults: BTreeMap<String, u64>,
    pub(crate) faults_total: u64,
    pub(crate) faults_not_done: u64,
    pub(crate) takeovers: u64,
    pub(crate) failover: Failover,
    pub(crate) ends: BTreeMap<String, u64>,
    /// What nodes logged for people to act on, by its code.
    pub(crate) errors_logged: BTreeMap<String, u64>,
}

/// Times that a run knows of itself.
pub(crate) struct Frame {
    pub(crate) seed: u64,
    pub(crate) seconds: u64,
    pub(crate) heal_seconds: u64,
    pub(crate) errors_logged: BTreeMap<String, u64>,
}

pub(crate) fn summary(
    frame: Frame,
    evidence: &Evidence<'_>,
    findings: &Findings,
    failover: Failover,
) -> Summary {
    let (faults, faults_not_done) = faults(evidence.notes);
    let counts = findings.counts();
    let of = |line: &Line| {
        let line = *line;
        let of_line = findings.0.iter().filter(move |found| found.line == line);
        of_line.take(SHOWN)
    };
    let found = LINES.iter().flat_map(of);
    // A lane's first leader took it over from nobody.
    let tokens = evidence.rows.lanes.iter();
    let takeovers = tokens.map(|lane| lane.token.saturating_sub(1)).sum();
    Summary {
        seed: frame.seed,
        seconds: frame.seconds,
        heal_seconds: frame.heal_seconds,
        passed: findings.0.is_empty(),
        violations: counts.iter().map(|(line, n)| (line.word(), *n)).collect(),
        found: found
            .map(|found| format!("{}: {}", found.line.word(), found.what))
            .collect(),
        done: done(evidence),
        faults_total: faults.values().sum(),
        faults,
        faults_not_done,
        takeovers,
        failover,
        ends: ends(evidence.rows),
        errors_logged: frame.errors_logged,
    }
}

fn faults(notes: &[Note]) -> (BTreeMap<String, u64>, u64) {
    let mut faults: BTreeMap<String, u64> = BTreeMap::new();
    let mut not_done = 0;
    for note in notes {
        if let Note::Fault { kind, done, .. } = note {
            if *done {
                *faults.entry(kind.clone()).or_default() += 1;
            } else {
                not_done += 1;
            }
        }
    }
    (faults, not_done)
}

fn ends(rows: &Rows) -> BTreeMap<String, u64> {
    let mut ends: BTreeMap<String, u64> = BTreeMap::new();
    for row in &rows.txs {
        let sub = row.sub.as_deref().map(|sub| format!("/{sub}"));
        let end = format!("{} {}{}", row.kind, row.state, sub.unwrap_or_default());
        *ends.entry(end).or_default() += 1;
    }
    for told in rows
        .completions
        .iter()
        .filter(|told| told.row.state == "STUCK")
    {
        let sub = told.row.sub.as_deref().unwrap_or_default();
        *ends.entry(format!("told STUCK/{sub}")).or_default() += 1;
    }
    ends
}

/// The status of an answer, as people say it.
fn status(answer: &Answer) -> String {
    match (answer.status, &answer.code) {
        (Some(status), Some(code)) => format!("{status} {code}"),
        (Some(status), None) => status.to_string(),
        (None, _) => "no answer".to_owned(),
    }
}

/// Counts of everything that was asked, told and seen.
fn done(evidence: &Evidence<'_>) -> BTreeMap<String, u64> {
    let mut done: BTreeMap<String, u64> = BTreeMap::new();
    let mut count = |what: String, n: u64| *done.entry(what).or_default() += n;
    for note in evidence.notes {
        match note {
            Note::Asked { .. } => count("requests".into(), 1),
            Note::Told { answer, .. } => count(format!("create {}", status(answer)), 1),
            Note::Conflict { answer, .. } => count(format!("conflict {}", status(answer)), 1),
            Note::Lent { answer, .. } => count(format!("reserve {}", status(answer)), 1),
            Note::Signed { .. } => count("signed by holders".into(), 1),
            Note::LoanSaid { word, answer, .. } => {
                count(format!("{word:?} {}", status(answer)).to_lowercase(), 1);
            }
            Note::Remedy { action, answer, .. } => {
                let said = match answer.meaning() {
                    Meaning::Done => "taken",
                    Meaning::Refused => "refused",
                    Meaning::Doubt => "in doubt",
                };
                count(format!("{action} {said}"), 1);
            }
            Note::Laned { verb, answer, .. } => count(format!("{verb} {}", status(answer)), 1),
            Note::Fed { rows, .. } => {
                count("pages of the feed".into(), 1);
                count(
                    "rows of the feed".into(),
                    u64::try_from(rows.len()).unwrap_or(0),
                );
            }
            Note::Looked { .. } => count("changes looked at".into(), 1),
            Note::Sampled { .. } => count("samples".into(), 1),
            Note::Block { .. } => count("blocks seen".into(), 1),
            Note::Fault { .. }
            | Note::Killed { .. }
            | Note::Ended { .. }
            | Note::NotHealed { .. } => {}
        }
    }
    let rows = u64::try_from(evidence.rows.txs.len()).unwrap_or(0);
    count("stored".into(), rows);
    count(
        "in blocks".into(),
        u64::try_from(evidence.mined.len()).unwrap_or(0),
    );
    done
}

fn table(title: &str, rows: impl Iterator<Item = (String, String)>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_header([title, ""]);
    for (what, count) in rows {
        let count = Cell::new(count).set_alignment(CellAlignment::Right);
        table.add_row([Cell::new(what), count]);
    }
    table
}

fn numbers(counts: &BTreeMap<String, u64>) -> impl Iterator<Item = (String, String)> {
    counts.iter().map(|(what, n)| (what.clone(), n.to_string()))
}

pub(crate) fn print(summary: &Summary) {
    println!("{}", table("done", numbers(&summary.done)));
    println!("{}", table("ended", numbers(&summary.ends)));
    println!("{}", table("faults", numbers(&summary.faults)));
    if !summary.errors_logged.is_empty() {
        println!(
            "{}",
            table("logged as errors", numbers(&summary.errors_logged))
        );
    }
    let Failover {
        accept,
        allocation,
        accept_undisturbed,
        allocation_undisturbed,
        ..
    } = &summary.failover;
    let times = [
        ("to the next accept", accept),
        ("to the next nonce", allocation),
        (
            "to the next accept, no other fault near",
            accept_undisturbed,
        ),
        (
            "to the next nonce, no other fault near",
            allocation_undisturbed,
        ),
    ];
    let ms = |time: Option<u64>| time.map_or("–".to_owned(), |time| format!("{time} ms"));
    let times = times.map(|(what, figures)| {
        let (median, worst) = (ms(figures.median_ms), ms(figures.worst_ms));
        (
            what.to_owned(),
            format!("{median} median, {worst} worst of {}", figures.count),
        )
    });
    println!("{}", table("from kill -9", times.into_iter()));
    let lines = LINES.iter().map(|line| {
        let count = summary.violations.get(line.word()).copied().unwrap_or(0);
        (line.meaning().to_owned(), count.to_string())
    });
    println!("{}", table("must be zero", lines));
    for found in &summary.found {
        println!("{found}");
    }
}
