//! What happened, a line for each step. Two runs of one seed give the same bytes, and the digest says so
//! without keeping them.

use std::collections::VecDeque;
use std::fmt::{Display, Write};
use std::sync::Mutex;

use tokio::time::Instant;

/// How many of the last lines are shown with a violation.
const TAIL: usize = 80;
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;

/// The lines of a run.
#[derive(Debug)]
pub(crate) struct Trace {
    began: Instant,
    prints: bool,
    lines: Mutex<Lines>,
}

#[derive(Debug)]
struct Lines {
    digest: u64,
    steps: u64,
    line: String,
    tail: VecDeque<String>,
    all: Vec<String>,
}

impl Trace {
    /// Nothing has happened. All lines are kept only where they are wanted.
    #[must_use]
    pub(crate) fn new(keeps_all: bool) -> Self {
        Self {
            began: Instant::now(),
            prints: keeps_all,
            lines: Mutex::new(Lines {
                digest: FNV_OFFSET,
                steps: 0,
                line: String::new(),
                tail: VecDeque::new(),
                all: Vec::new(),
            }),
        }
    }

    /// A step that matters.
    pub(crate) fn note(&self, who: &str, what: impl Display) {
        self.line(who, what, true);
    }

    /// A step of which there are many: it counts, and is not shown with a violation.
    pub(crate) fn murmur(&self, who: &str, what: impl Display) {
        self.line(who, what, false);
    }

    fn line(&self, who: &str, what: impl Display, loud: bool) {
        let now = self.began.elapsed();
        let mut lines = self.lines.lock().expect("nothing panics while it is held");
        let mut line = std::mem::take(&mut lines.line);
        line.clear();
        let (seconds, millis) = (now.as_secs(), now.subsec_millis());
        write!(line, "{seconds:>4}.{millis:03} {who:<8} {what}").expect("a string takes all");
        lines.steps += 1;
        for byte in line.bytes() {
            lines.digest = (lines.digest ^ u64::from(byte)).wrapping_mul(FNV_PRIME);
        }
        if self.prints {
            lines.all.push(line.clone());
        }
        if loud {
            if lines.tail.len() == TAIL {
                lines.tail.pop_front();
            }
            lines.tail.push_back(line.clone());
        }
        lines.line = line;
    }

    /// How many steps there were, what they come to, and the last or all of them.
    #[must_use]
    pub(crate) fn told(&self) -> Told {
        let lines = self.lines.lock().expect("nothing panics while it is held");
        Told {
            digest: lines.digest,
            steps: lines.steps,
            tail: lines.tail.iter().cloned().collect(),
            all: lines.all.clone(),
        }
    }
}

/// A finished trace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Told {
    /// Of all lines.
    pub digest: u64,
    /// How many lines.
    pub steps: u64,
    /// The last of those that matter.
    pub tail: Vec<String>,
    /// All of them, where they were kept.
    pub all: Vec<String>,
}
