//! What is seen while the story runs: bars on a terminal, plain lines elsewhere. It all goes to stderr; stdout
//! is for the summary.

use std::io::{IsTerminal, Write};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How often plain lines tell how far it is.
const TELL_EVERY: Duration = Duration::from_secs(2);
const TICK: Duration = Duration::from_millis(100);

/// How far the story is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Far {
    pub(super) accepted: u64,
    pub(super) mined: u64,
    pub(super) told: u64,
}

/// Where it is shown.
pub(super) struct Screen {
    began: Instant,
    total: u64,
    kind: Kind,
}

enum Kind {
    Bars {
        all: MultiProgress,
        rows: [ProgressBar; 3],
    },
    Lines(Mutex<Option<Instant>>),
}

/// Something that takes a while.
pub(super) struct Spinner<'a> {
    screen: &'a Screen,
    row: Option<ProgressBar>,
}

impl Screen {
    pub(super) fn new(total: u64) -> Screen {
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        let kind = if std::io::stderr().is_terminal() && !dumb {
            bars(total)
        } else {
            Kind::Lines(Mutex::new(None))
        };
        let began = Instant::now();
        Screen { began, total, kind }
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Tells something that happened.
    pub(super) fn say(&self, text: &str) {
        let line = format!("{:5.1} s  {text}", self.elapsed().as_secs_f64());
        match &self.kind {
            // Who has closed stderr does not want to know.
            Kind::Bars { all, .. } => drop(all.println(line)),
            Kind::Lines(_) => drop(writeln!(std::io::stderr(), "{line}")),
        }
    }

    /// Shows how far the story is.
    pub(super) fn show(&self, far: Far) {
        match &self.kind {
            Kind::Bars { rows, .. } => {
                for (row, position) in rows.iter().zip([far.accepted, far.mined, far.told]) {
                    row.set_position(position);
                }
            }
            Kind::Lines(last) => {
                let Ok(mut last) = last.lock() else { return };
                if last.is_none_or(|last| last.elapsed() >= TELL_EVERY) {
                    *last = Some(Instant::now());
                    self.say(&self.told(far));
                }
            }
        }
    }

    fn told(&self, far: Far) -> String {
        let Far {
            accepted,
            mined,
            told,
        } = far;
        let total = self.total;
        format!("of {total}: {accepted} accepted, {mined} mined, {told} final")
    }

    /// Shows something that takes a while, until it is done.
    pub(super) fn spin(&self, text: &str) -> Spinner<'_> {
        let row = match &self.kind {
            Kind::Bars { all, .. } => {
                let row = all.add(ProgressBar::new_spinner());
                row.set_style(style("         {spinner:.cyan} {msg}"));
                row.set_message(text.to_owned());
                row.enable_steady_tick(TICK);
                Some(row)
            }
            Kind::Lines(_) => {
                self.say(text);
                None
            }
        };
        Spinner { screen: self, row }
    }

    /// Takes the bars away, and tells how far it has come.
    pub(super) fn end(&self, far: Far) {
        self.clear();
        self.say(&self.told(far));
    }

    fn clear(&self) {
        if let Kind::Bars { all, rows } = &self.kind {
            for row in rows {
                row.finish_and_clear();
            }
            let _ = all.clear();
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.clear();
    }
}

impl Spinner<'_> {
    /// It is done.
    pub(super) fn done(self, text: &str) {
        let screen = self.screen;
        drop(self);
        screen.say(text);
    }
}

impl Drop for Spinner<'_> {
    fn drop(&mut self) {
        if let Some(row) = &self.row {
            row.finish_and_clear();
        }
    }
}

fn bars(total: u64) -> Kind {
    let all = MultiProgress::with_draw_target(ProgressDrawTarget::stderr());
    let rows = [
        ("accepted", "blue"),
        ("mined", "yellow"),
        ("final", "green"),
    ];
    let rows = rows.map(|(name, colour)| {
        let row = all.add(ProgressBar::new(total));
        // Colours are left out where NO_COLOR is set.
        let template = format!("{{prefix:>8}} {{bar:40.{colour}}} {{pos:>4}}/{{len}}");
        row.set_style(style(&template).progress_chars("━╸─"));
        row.set_prefix(name);
        row
    });
    Kind::Bars { all, rows }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("it is one of ours")
}
