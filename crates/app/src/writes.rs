//! The log of critical writes: one `info` line for each, with who wrote it under which token. Above a rate
//! lines are left out and counted; metrics count every write.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fencepost_domain::B256;
use fencepost_domain::ids::{LaneId, Nonce, Token, TxId};
use fencepost_domain::state::State;
use tracing::Level;

use crate::node::Node;
use crate::ports::{Held, Move, OpenTx, Record};

/// An `error` line about a lane: signer, node and token come first, then what else is known.
macro_rules! lane_error {
    ($node:expr, $held:expr, $($rest:tt)*) => {
        tracing::error!(
            signer = %$node.signer_of($held.lane),
            node_id = $node.holder.node.as_str(),
            token = %$held.token,
            $($rest)*
        )
    };
}
pub(crate) use lane_error;

/// A kind of critical write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Write {
    /// A request was stored with its nonce.
    Create,
    /// A request was stored without a nonce.
    Queue,
    /// A queued request got its nonce.
    Promote,
    /// A transaction moved.
    Move,
    /// A transaction ended.
    End,
    /// Bytes that are due were claimed, to be sent again.
    Claim,
    /// A lane was taken.
    Acquire,
    /// A lane was given up.
    Release,
    /// A lane was paused.
    Pause,
    /// A lane's cursor moved.
    Cursor,
    /// The holder of a reserved nonce called.
    Reservation,
    /// A nonce that another service has given was taken over.
    Import,
}

impl Write {
    const ALL: [Self; 12] = [
        Self::Create,
        Self::Queue,
        Self::Promote,
        Self::Move,
        Self::End,
        Self::Claim,
        Self::Acquire,
        Self::Release,
        Self::Pause,
        Self::Cursor,
        Self::Reservation,
        Self::Import,
    ];

    /// The word in the line, and what the line says.
    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Create => ("create", "stored"),
            Self::Queue => ("queue", "queued"),
            Self::Promote => ("promote", "promoted"),
            Self::Move => ("move", "moved"),
            Self::End => ("end", "ended"),
            Self::Claim => ("claim", "claimed to be sent again"),
            Self::Acquire => ("acquire", "leading the lane"),
            Self::Release => ("release", "gave the lane up"),
            Self::Pause => ("pause", "paused the lane"),
            Self::Cursor => ("cursor", "moved the cursor"),
            Self::Reservation => ("reservation", "settled a reservation"),
            Self::Import => ("import", "took over from another service"),
        }
    }

    const fn place(self) -> usize {
        // In the order of `ALL`; the test below holds them together.
        match self {
            Self::Create => 0,
            Self::Queue => 1,
            Self::Promote => 2,
            Self::Move => 3,
            Self::End => 4,
            Self::Claim => 5,
            Self::Acquire => 6,
            Self::Release => 7,
            Self::Pause => 8,
            Self::Cursor => 9,
            Self::Reservation => 10,
            Self::Import => 11,
        }
    }
}

/// What a line says. A write to a lane itself has no transaction.
pub(crate) struct Line<'a> {
    pub(crate) write: Write,
    pub(crate) held: Held,
    pub(crate) tx: Option<TxId>,
    pub(crate) nonce: Option<Nonce>,
    /// State and sub-state of a transaction; what was true of a lane.
    pub(crate) from: (&'a str, Option<&'a str>),
    pub(crate) to: (&'a str, Option<&'a str>),
}

/// Shows what may be missing: every line has every field.
pub(crate) struct OrDash<T>(pub(crate) Option<T>);

impl<T: fmt::Display> fmt::Display for OrDash<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(known) => known.fmt(f),
            None => f.write_str("-"),
        }
    }
}

/// Decides which lines are written.
#[derive(Debug)]
pub(crate) struct WriteLog {
    per_second: u64,
    /// Until when, in nanoseconds of our ticks, what was written would take at the allowed rate.
    busy_until: AtomicU64,
    left_out: [AtomicU64; Write::ALL.len()],
}

const SECOND: u64 = 1_000_000_000;

impl WriteLog {
    pub(crate) fn new(per_second: u64) -> Self {
        Self {
            per_second,
            busy_until: AtomicU64::new(0),
            left_out: Default::default(),
        }
    }

    /// Whether one more may be written: never more than a second's worth at once. If not, it is counted.
    fn admits(&self, write: Write, now: Duration) -> bool {
        let now = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        let admitted = SECOND.checked_div(self.per_second).and_then(|each| {
            let taken = |until: u64| {
                let until = until.max(now).saturating_add(each);
                (until <= now.saturating_add(SECOND)).then_some(until)
            };
            let order = Ordering::Relaxed;
            self.busy_until.fetch_update(order, order, taken).ok()
        });
        if admitted.is_none() {
            self.left_out[write.place()].fetch_add(1, Ordering::Relaxed);
        }
        admitted.is_some()
    }

    /// How many of each kind were left out since this was last asked.
    fn take_left_out(&self) -> Vec<(&'static str, u64)> {
        let count = |write: Write| self.left_out[write.place()].swap(0, Ordering::Relaxed);
        let counted = Write::ALL.map(|write| (write.words().0, count(write)));
        counted.into_iter().filter(|(_, n)| *n > 0).collect()
    }
}

impl Node {
    /// A lane's signer, as log lines name it.
    pub(crate) fn signer_of(&self, lane: LaneId) -> impl fmt::Display + use<> {
        OrDash(self.directory.seat_by_id(lane).map(|seat| seat.lane.signer))
    }

    /// The lane under the token that we last had for it, for lines about lanes that we may not lead.
    pub(crate) fn last_held(&self, lane: LaneId) -> Held {
        let token = Token::NONE;
        self.leases.held(lane).unwrap_or(Held { lane, token })
    }

    /// Logs a critical write, unless too many were logged lately.
    pub(crate) fn log_write(&self, line: &Line<'_>) {
        self.log_write_of(line, None);
    }

    /// The same of a write that stores an attempt or names a hash.
    pub(crate) fn log_write_of(&self, line: &Line<'_>, tx_hash: Option<B256>) {
        self.log_write_for(line, tx_hash, None);
    }

    /// The same of a write that an API key of this name asked for; without a name the line has no such field.
    fn log_write_for(&self, line: &Line<'_>, tx_hash: Option<B256>, created_by: Option<&str>) {
        if !tracing::enabled!(Level::INFO) || !self.writes.admits(line.write, self.ticks.ticks()) {
            return;
        }
        let (write, text) = line.write.words();
        let ((from, from_sub), (to, to_sub)) = (line.from, line.to);
        tracing::info!(
            signer = %self.signer_of(line.held.lane),
            tx_id = %OrDash(line.tx),
            node_id = self.holder.node.as_str(),
            token = %line.held.token,
            nonce = %OrDash(line.nonce),
            tx_hash = %OrDash(tx_hash),
            write,
            from,
            from_sub,
            to,
            to_sub,
            created_by,
            "{text}"
        );
    }

    /// Logs a move of a transaction.
    pub(crate) fn log_move(&self, held: Held, nonce: Option<Nonce>, step: &Move) {
        let (from, from_sub) = step.from;
        let stored = step.attempt.as_ref().map(|attempt| attempt.hash);
        let line = Line {
            write: if step.to.is_final() {
                Write::End
            } else {
                Write::Move
            },
            held,
            tx: Some(step.tx),
            nonce,
            from: (from.word(), from_sub),
            to: words(&step.to),
        };
        self.log_write_of(&line, stored.or(step.event.hash));
    }

    /// Logs a transaction that was stored, or got its nonce.
    pub(crate) fn log_stored(&self, write: Write, token: Token, record: &Record) {
        let lane = record.lane_id;
        let line = Line {
            write,
            held: Held { lane, token },
            tx: Some(record.tx),
            nonce: record.state.nonce(),
            from: ("NONE", None),
            to: words(&record.state),
        };
        self.log_write_for(&line, None, record.created_by.as_deref());
    }

    /// Logs what was taken over from another service, and that the cursor moved.
    pub(crate) fn log_imported(&self, held: Held, (from, to): (Nonce, Nonce), open: &[OpenTx]) {
        self.log_cursor(held, from, to);
        for open in open {
            let line = Line {
                write: Write::Import,
                held,
                tx: Some(open.tx),
                nonce: Some(open.nonce),
                from: ("NONE", None),
                to: words(&open.state()),
            };
            self.log_write_of(&line, open.hash());
        }
    }

    /// Logs that a lane's cursor moved, if it did.
    pub(crate) fn log_cursor(&self, held: Held, from: Nonce, to: Nonce) {
        if from != to {
            self.log_write(&Line {
                write: Write::Cursor,
                held,
                tx: None,
                nonce: Some(to),
                from: (&from.to_string(), None),
                to: (&to.to_string(), None),
            });
        }
    }

    /// Logs how many lines were left out since the last time.
    pub(crate) fn log_left_out(&self) {
        let counted = self.writes.take_left_out();
        if counted.is_empty() {
            return;
        }
        let left_out: u64 = counted.iter().map(|(_, n)| n).sum();
        let kinds: Vec<String> = counted
            .iter()
            .map(|(kind, n)| format!("{kind}={n}"))
            .collect();
        tracing::info!(
            node_id = self.holder.node.as_str(),
            left_out,
            kinds = kinds.join(" "),
            "critical writes left out of the log: more than log.writes_per_second"
        );
    }
}

/// A state's words, as the store has them.
pub(crate) const fn words(state: &State) -> (&'static str, Option<&'static str>) {
    (state.name().word(), state.sub())
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: fn(u64) -> Duration = Duration::from_millis;

    fn admitted(log: &WriteLog, tries: usize, now: Duration) -> usize {
        (0..tries).filter(|_| log.admits(Write::Move, now)).count()
    }

    #[test]
    fn a_seconds_worth_is_written_at_once_and_then_one_by_one() {
        let log = WriteLog::new(100);
        assert_eq!(admitted(&log, 250, AT(5_000)), 100);
        assert_eq!(log.take_left_out(), [("move", 150)]);
        // A hundredth of a second later there is room for one more.
        assert_eq!(admitted(&log, 5, AT(5_010)), 1);
        assert_eq!(admitted(&log, 250, AT(5_510)), 50);
        assert_eq!(admitted(&log, 250, AT(60_000)), 100);
        assert_eq!(log.take_left_out(), [("move", 4 + 200 + 150)]);
        assert_eq!(log.take_left_out(), []);
    }

    #[test]
    fn what_is_left_out_is_counted_by_kind_and_told_once() {
        let log = WriteLog::new(0);
        for write in [Write::Create, Write::End, Write::Create] {
            assert!(!log.admits(write, AT(1)));
        }
        assert_eq!(log.take_left_out(), [("create", 2), ("end", 1)]);
        assert_eq!(log.take_left_out(), []);
    }

    #[test]
    fn every_kind_has_a_place_and_a_word_of_its_own() {
        let places = Write::ALL.map(Write::place);
        assert!(places.into_iter().eq(0..Write::ALL.len()));
        let words = Write::ALL.map(|write| write.words().0);
        let distinct: std::collections::BTreeSet<&str> = words.into_iter().collect();
        assert_eq!(distinct.len(), Write::ALL.len());
    }
}
