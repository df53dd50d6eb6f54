//! What is in blocks: only what somebody stored or named before, and each payload once.

use std::collections::{HashMap, HashSet};

use super::{Findings, Line};
use crate::facts::Evidence;
use crate::note::Note;

pub(super) fn check(evidence: &Evidence<'_>, findings: &mut Findings) {
    hashes(evidence, findings);
    payloads(evidence, findings);
    signed(evidence, findings);
}

fn hashes(evidence: &Evidence<'_>, findings: &mut Findings) {
    let stored = evidence.rows.attempts.iter();
    let mut known: HashSet<&str> = stored.map(|attempt| attempt.hash.as_str()).collect();
    for note in evidence.notes {
        if let Note::Signed { hash, .. } = note {
            known.insert(hash);
        }
    }
    for mined in evidence.mined {
        if !known.contains(mined.hash.as_str()) {
            findings.add(Line::MinedUnknown, format!("{mined:?}"));
        }
    }
}

/// A value is one payload's. Cancels and placeholders move nothing, and so name none.
fn payloads(evidence: &Evidence<'_>, findings: &mut Findings) {
    let mut asked: HashMap<u64, usize> = HashMap::new();
    for note in evidence.notes {
        if let Note::Asked { value, lane, .. } | Note::Signed { value, lane, .. } = note {
            asked.insert(*value, *lane);
        }
    }
    let mut executed: HashMap<u64, &str> = HashMap::new();
    for mined in evidence.mined.iter().filter(|mined| mined.value > 0) {
        if let Some(other) = executed.insert(mined.value, &mined.hash) {
            let what = format!("{} by {} and {other}", mined.value, mined.hash);
            findings.add(Line::ExecutedTwice, what);
        }
        if asked.get(&mined.value) != Some(&mined.lane) {
            findings.add(Line::ExecutedTwice, format!("nobody asked for {mined:?}"));
        }
    }
}

/// Signed bytes may be mined some day: they move what their request asked for, or nothing.
fn signed(evidence: &Evidence<'_>, findings: &mut Findings) {
    let mut asked: HashMap<&str, u64> = HashMap::new();
    for note in evidence.notes {
        if let Note::Asked { request, value, .. } = note {
            asked.insert(request, *value);
        }
    }
    let rows = evidence.rows.txs.iter();
    let wanted: HashMap<&str, u64> = rows
        .filter_map(|row| Some((row.tx.as_str(), *asked.get(row.request.as_deref()?)?)))
        .collect();
    for attempt in &evidence.rows.attempts {
        let Some(value) = attempt.value else { continue };
        let expected = match attempt.kind.as_str() {
            "CANCEL" | "PLACEHOLDER" => Some(0),
            _payload => wanted.get(attempt.tx.as_str()).copied(),
        };
        if expected != Some(value) {
            let what = format!("{attempt:?} should move {expected:?}");
            findings.add(Line::ExecutedTwice, what);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::planted::Case;
    use super::*;

    #[test]
    fn a_hash_that_nobody_has_stored_is_found() {
        let mut case = Case::calm();
        case.rows.attempts[0].hash = "0xother".into();
        case.finds_some(Line::MinedUnknown);
    }

    #[test]
    fn a_payload_that_was_executed_twice_is_found() {
        let mut case = Case::calm();
        case.mined[1].value = case.mined[0].value;
        case.finds_some(Line::ExecutedTwice);
    }

    #[test]
    fn bytes_that_move_something_else_are_found_before_they_are_mined() {
        let mut case = Case::calm();
        case.rows.attempts[0].value = Some(7);
        case.finds(&[Line::ExecutedTwice]);
        case.rows.attempts[0].kind = "CANCEL".into();
        case.finds(&[Line::ExecutedTwice]);
    }

    #[test]
    fn a_payload_that_nobody_asked_for_is_found() {
        let mut case = Case::calm();
        case.mined[1].value = 999;
        case.finds_some(Line::ExecutedTwice);
    }
}
