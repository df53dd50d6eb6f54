//! The end of the story: every promise with what was counted, as a table or as JSON.

use std::io::IsTerminal;
use std::time::Duration;

use comfy_table::{Cell, Color, ContentArrangement, Table, presets};
use serde_json::{Value, json};

use super::promises::Promise;
use super::story::{Told, seconds};

/// What is told at the end.
pub(super) struct Summary {
    promises: Vec<Promise>,
    times: Vec<(&'static str, &'static str, Option<Duration>)>,
    nodes: Vec<u32>,
    transactions: usize,
    signers: usize,
}

impl Summary {
    pub(super) fn new(told: &Told, promises: Vec<Promise>, signers: usize) -> Summary {
        let (reorg, crash) = (told.facts.reorg.as_ref(), told.facts.crash.as_ref());
        let times = vec![
            ("ready", "node ready", Some(told.ready_after)),
            (
                "reorg",
                "reorg → all back in blocks",
                reorg.and_then(|it| it.back_after),
            ),
            (
                "failover",
                "next node ready",
                crash.map(|it| it.ready_after),
            ),
            (
                "completion",
                "kill -9 → next final one",
                crash.and_then(|it| it.told_after),
            ),
            ("total", "all of it", Some(told.lasted)),
        ];
        Summary {
            promises,
            times,
            nodes: crash.map_or_else(Vec::new, |it| vec![it.pids.0, it.pids.1]),
            transactions: told.facts.requests.len(),
            signers,
        }
    }

    /// The promises that were broken.
    pub(super) fn broken(&self) -> Vec<&'static str> {
        let broken = self.promises.iter().filter(|it| !it.kept);
        broken.map(|it| it.name).collect()
    }

    pub(super) fn json(&self) -> Value {
        let times = self.times.iter();
        let times = times.map(|(name, _, time)| ((*name).to_owned(), json!(time.map(millis))));
        json!({
            "kept": self.broken().is_empty(),
            "transactions": self.transactions,
            "signers": self.signers,
            "promises": self.promises,
            "seconds": Value::Object(times.collect()),
            "nodes": self.nodes,
        })
    }

    /// For people. Colours are for terminals whose user has not set NO_COLOR.
    pub(super) fn table(&self) -> String {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|it| !it.is_empty());
        let mut table = Table::new();
        table.load_style(presets::UTF8_FULL_CONDENSED);
        table.set_content_arrangement(ContentArrangement::Dynamic);
        if !std::io::stdout().is_terminal() {
            table.force_no_tty();
        }
        table.set_header([
            "",
            "promise",
            "what was counted on the chain and in the API",
        ]);
        for Promise {
            promise,
            counted,
            kept,
            ..
        } in &self.promises
        {
            let (mark, colour) = if *kept {
                ("✔", Color::Green)
            } else {
                ("✘", Color::Red)
            };
            let mark = Cell::new(mark);
            let mark = if refused { mark } else { mark.fg(colour) };
            table.add_row([mark, Cell::new(promise), Cell::new(counted)]);
        }
        let times = self.times.iter();
        let times =
            times.map(|(_, name, time)| format!("{name}: {}", time.map_or("–".into(), seconds)));
        let times = times.collect::<Vec<_>>().join(" · ");
        let (kept, all) = (
            self.promises.len() - self.broken().len(),
            self.promises.len(),
        );
        format!("{table}\n{times}\n{kept} of {all} promises kept")
    }
}

/// In seconds, to the millisecond.
fn millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 1_000.0).round() / 1_000.0
}
