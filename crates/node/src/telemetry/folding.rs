//! Repeated warnings are one line: the first is logged, the others are counted, and once a minute one line says how
//! many there were. Only warnings: each `error` asks for a person, and each `info` line of a critical write is a record.

use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tracing::callsite::Identifier;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

/// How long warnings are counted before a line says how many there were. Longer, and people read old news; shorter, and a
/// warning that repeats fills the log.
const PERIOD: Duration = Duration::from_secs(60);
/// So many different lines of one place in the code are logged in a period; the rest is counted together. More, and
/// a warning that names something else each time fills the log; fewer, and fewer of them can be distinguished.
const LINES_MAX: usize = 60;
/// So many characters of a repeated line are in the line that counts it.
const TEXT_MAX: usize = 400;
/// What the counting lines are called: they are not folded themselves.
const TARGET: &str = "fencepost::repeated";

/// Folds repeated warnings; a clone counts in the same place.
#[derive(Clone, Default)]
pub(super) struct Folding(Arc<Mutex<HashMap<Identifier, Place>>>);

/// The warnings of one place in the code. There are as many as the program has.
#[derive(Default)]
struct Place {
    /// Lines that were logged in this period, and how often each came.
    lines: HashMap<String, u64>,
    /// Lines beyond [`LINES_MAX`], and the first of them.
    others: Option<(String, u64)>,
}

impl Folding {
    /// Reports what has repeated, once a period, for as long as the process lives.
    pub(super) fn start(&self) -> io::Result<()> {
        let folding = self.clone();
        let reporting = move || {
            loop {
                std::thread::sleep(PERIOD);
                folding.report();
            }
        };
        let thread = std::thread::Builder::new().name("repeated-warnings".to_owned());
        thread.spawn(reporting).map(|_| ())
    }

    /// Reports what has repeated since the last time, and begins to count anew.
    pub(super) fn report(&self) {
        // The lines below come back to this lock.
        let places = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        for place in places.into_values() {
            for (text, times) in place.lines.into_iter().filter(|(_, times)| *times > 1) {
                let shown = grouped(times);
                tracing::warn!(target: TARGET, times, "{text} … {shown} times in the last minute");
            }
            if let Some((text, times)) = place.others {
                let shown = grouped(times);
                tracing::warn!(target: TARGET, times, "{text} … and others like it, {shown} in the last minute");
            }
        }
    }

    /// Whether a line is to be logged; one that is not is counted.
    fn is_new(&self, place: Identifier, text: String) -> bool {
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = places.entry(place).or_default();
        if let Some(times) = place.lines.get_mut(&text) {
            *times += 1;
            return false;
        }
        if place.lines.len() < LINES_MAX {
            place.lines.insert(text, 1);
            return true;
        }
        place.others.get_or_insert((text, 0)).1 += 1;
        false
    }
}

impl<S: Subscriber> Layer<S> for Folding {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        let about = event.metadata();
        if *about.level() != Level::WARN || about.target() == TARGET {
            return true;
        }
        let mut text = Text::default();
        event.record(&mut text);
        self.is_new(about.callsite(), text.whole())
    }
}

/// A line as a text: its message, then its fields.
#[derive(Default)]
struct Text {
    message: String,
    fields: String,
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let written = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
        written.expect("a string takes all");
    }
}

impl Text {
    fn whole(self) -> String {
        let mut text = self.message + &self.fields;
        if let Some((end, _)) = text.char_indices().nth(TEXT_MAX) {
            text.truncate(end);
        }
        text
    }
}

/// 1312 as `1,312`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use tracing_subscriber::fmt::MakeWriter;
    use tracing_subscriber::prelude::*;

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl<'a> MakeWriter<'a> for Lines {
        type Writer = Self;

        fn make_writer(&'a self) -> Self {
            self.clone()
        }
    }

    impl Lines {
        fn take(&self) -> Vec<String> {
            let bytes = std::mem::take(&mut *self.0.lock().unwrap());
            let text = String::from_utf8(bytes).unwrap();
            text.lines().map(str::to_owned).collect()
        }
    }

    /// Logs with folding, and gives what was written: at once, and when the period is over.
    fn logged(work: impl FnOnce()) -> (Vec<String>, Vec<String>) {
        let (folding, lines) = (Folding::default(), Lines::default());
        let format = tracing_subscriber::fmt::layer().with_ansi(false);
        let log = tracing_subscriber::registry()
            .with(folding.clone())
            .with(format.with_writer(lines.clone()));
        let _guard = tracing::subscriber::set_default(log);
        work();
        let at_once = lines.take();
        folding.report();
        (at_once, lines.take())
    }

    #[test]
    fn a_warning_that_repeats_is_one_line_and_a_count() {
        let (at_once, later) = logged(|| {
            for _ in 0..1_312 {
                tracing::warn!(error = "refused", "the store does not answer");
            }
            tracing::warn!(error = "refused", "another place");
        });
        assert_eq!(at_once.len(), 2, "{at_once:?}");
        assert_eq!(later.len(), 1, "{later:?}");
        let counted = "the store does not answer error=\"refused\" … 1,312 times in the last minute times=1312";
        assert!(later[0].ends_with(counted), "{later:?}");
    }

    #[test]
    fn errors_and_critical_writes_are_never_folded() {
        let (at_once, later) = logged(|| {
            for n in 0..100 {
                tracing::event!(Level::ERROR, tx_id = n, "it is stuck");
                tracing::event!(Level::ERROR, "a person must act");
                tracing::info!(write = "create", "written");
            }
        });
        assert_eq!((at_once.len(), later.len()), (300, 0), "{later:?}");
    }

    #[test]
    fn warnings_that_differ_are_logged_one_by_one_up_to_a_limit() {
        let (at_once, later) = logged(|| {
            for n in 0..1_000 {
                tracing::warn!(tx_id = n, "its policy was asked in vain");
            }
        });
        assert_eq!(at_once.len(), LINES_MAX);
        assert_eq!(later.len(), 1, "{later:?}");
        let counted = "and others like it, 940 in the last minute";
        assert!(later[0].contains(counted), "{later:?}");
    }

    #[test]
    fn a_warning_is_logged_again_in_the_next_period() {
        let (at_once, later) = logged(|| {
            let warn = || tracing::warn!("again");
            warn();
            warn();
        });
        assert_eq!((at_once.len(), later.len()), (1, 1));
        let folding = Folding::default();
        let log = tracing_subscriber::registry().with(folding.clone());
        let _guard = tracing::subscriber::set_default(log);
        let warn = || tracing::warn!("again");
        warn();
        folding.report();
        assert!(folding.0.lock().unwrap().is_empty());
        warn();
        assert_eq!(folding.0.lock().unwrap().len(), 1);
    }

    #[test]
    fn thousands_are_grouped() {
        let check = |number, shown: &str| assert_eq!(grouped(number), shown);
        check(1, "1");
        check(999, "999");
        check(1_000, "1,000");
        check(1_234_567, "1,234,567");
    }
}
