//! The checker: pure functions from what clients, database and chains say to what must never be. It knows
//! nothing of the nodes. Each file has a few lines of the table, and tests that plant each violation.

mod stored;
mod nonces;
mod feed;
mod chain;
mod ends;
mod stuck;
mod lists;
mod backwards;
#[cfg(test)]
mod planted;

use std::collections::BTreeMap;

use crate::facts::Evidence;
use crate::note::Note;

/// Declares the lines of the table, so that none is left out of it.
macro_rules! lines {
    ($($variant:ident = $word:literal, $meaning:literal;)+) => {
        /// What must never be.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum Line { $(#[doc = $meaning] $variant,)+ }

        pub(crate) const LINES: &[Line] = &[$(Line::$variant,)+];

        impl Line {
            /// Its key in the summary.
            pub(crate) const fn word(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }

            pub(crate) const fn meaning(self) -> &'static str {
                match self { $(Self::$variant => $meaning,)+ }
            }
        }
    };
}

lines! {
    AckedNotStored = "ackedNotStored", "acknowledged and not stored, or stored as something else";
    RefusedStored = "refusedStored", "refused and stored all the same";
    StoredTwice = "storedTwice", "one request stored twice, or told as two";
    ConflictTaken = "conflictTaken", "an id taken again for another payload";
    NonceRepeated = "nonceRepeated", "one nonce for two transactions, in rows or in signed bytes";
    UnexplainedGap = "unexplainedGap", "a nonce below the cursor that nobody has";
    WentBack = "wentBack", "a token, a cursor or the feed's head that went back";
    FeedHole = "feedHole", "a hole in the feed, as readers or the database have it";
    FeedRewritten = "feedRewritten", "a row of the feed that was another one before";
    EventHole = "eventHole", "a hole in a lane's events";
    MinedUnknown = "minedUnknown", "a hash in a block that nobody had stored or named";
    ExecutedTwice = "executedTwice", "a payload that was executed twice, or that nobody asked for";
    WrongEnd = "wrongEnd", "an end that the chain contradicts";
    EndTakenBack = "endTakenBack", "an end that was told and taken back without a deep reorg";
    ForksSpliced = "forksSpliced", "published confirmations that are no one chain, or not whole at the end";
    StuckUntrue = "stuckUntrue", "told as stuck for a reason that was not so";
    NotHealed = "notHealed", "accepted, and not over although all was well again";
    NodeDied = "nodeDied", "a node that ended by itself or panicked";
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) line: Line,
    pub(crate) what: String,
}

/// What was found, in the order it was found.
#[derive(Debug, Default)]
pub(crate) struct Findings(pub(crate) Vec<Violation>);

impl Findings {
    pub(crate) fn add(&mut self, line: Line, what: impl Into<String>) {
        let what = what.into();
        self.0.push(Violation { line, what });
    }

    /// How many of each, zeros too.
    pub(crate) fn counts(&self) -> BTreeMap<Line, usize> {
        let count = |line: &Line| self.0.iter().filter(|found| found.line == *line).count();
        LINES.iter().map(|line| (*line, count(line))).collect()
    }
}

/// Everything that is wrong.
pub(crate) fn check(evidence: &Evidence<'_>) -> Findings {
    let mut findings = Findings::default();
    stored::check(evidence, &mut findings);
    nonces::check(evidence, &mut findings);
    backwards::check(evidence, &mut findings);
    feed::check(evidence, &mut findings);
    chain::check(evidence, &mut findings);
    ends::check(evidence, &mut findings);
    stuck::check(evidence, &mut findings);
    lists::check(evidence, &mut findings);
    for note in evidence.notes {
        if let Note::Ended { node, how, at } = note {
            findings.add(Line::NodeDied, format!("node {node} at {at}: {how}"));
        }
        if let Note::NotHealed { left, .. } = note {
            findings.add(Line::NotHealed, left);
        }
    }
    findings
}
