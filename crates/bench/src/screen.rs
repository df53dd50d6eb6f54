//! How far the run is, on stderr: a bar on a terminal, a line for each step elsewhere.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

const TICK: Duration = Duration::from_millis(200);

/// What shows the steps.
pub(crate) struct Screen {
    bar: Option<ProgressBar>,
    began: Instant,
}

impl Screen {
    /// For so many steps.
    pub(crate) fn new(steps: u64) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(Some(steps), ProgressDrawTarget::stderr());
            let template = "{bar:30.cyan} {pos:>3}/{len} {elapsed:>4} {wide_msg}";
            let style = ProgressStyle::with_template(template).expect("it is one of ours");
            bar.set_style(style.progress_chars("━╸─"));
            bar.enable_steady_tick(TICK);
            bar
        });
        Self {
            bar,
            began: Instant::now(),
        }
    }

    /// The next step begins.
    pub(crate) fn step(&self, case: &str, what: &str) {
        match &self.bar {
            Some(bar) => {
                bar.inc(1);
                bar.set_message(format!("{case}: {what}"));
            }
            None => eprintln!("{:>4} s  {case}: {what}", self.began.elapsed().as_secs()),
        }
    }

    /// Something that a reader should see whatever comes after it.
    pub(crate) fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| eprintln!("{text}")),
            None => eprintln!("{text}"),
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
