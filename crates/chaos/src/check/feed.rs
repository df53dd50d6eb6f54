//! The feed: numbers without holes, rows that never change, and ends that are told once or corrected.

use std::collections::HashMap;

use super::{Findings, Line};
use crate::facts::Evidence;
use crate::note::{FeedRow, Note};

pub(super) fn check(evidence: &Evidence<'_>, findings: &mut Findings) {
    stored(evidence, findings);
    read(evidence, findings);
    told(evidence, findings);
}

fn stored(evidence: &Evidence<'_>, findings: &mut Findings) {
    let completions = &evidence.rows.completions;
    for (expected, completion) in (1..).zip(completions) {
        if completion.row.seq != expected {
            let what = format!(
                "{} is stored where {expected} should be",
                completion.row.seq
            );
            findings.add(Line::FeedHole, what);
            break;
        }
    }
    let last = completions.last().map_or(0, |last| last.row.seq);
    if last != evidence.rows.feed_head {
        let what = format!("the last is {last}, the head {}", evidence.rows.feed_head);
        findings.add(Line::FeedHole, what);
    }
}

/// What readers saw: each page begins where it was asked to, has no hole, and has the rows that everybody
/// else has seen.
fn read(evidence: &Evidence<'_>, findings: &mut Findings) {
    let stored = evidence.rows.completions.iter();
    let stored: HashMap<u64, &FeedRow> = stored
        .map(|completion| (completion.row.seq, &completion.row))
        .collect();
    for note in evidence.notes {
        let Note::Fed {
            at,
            reader,
            after,
            rows,
            ..
        } = note
        else {
            continue;
        };
        for (expected, row) in (after + 1..).zip(rows) {
            if row.seq != expected {
                let seq = row.seq;
                let what = format!("at {at} reader {reader} had {seq} where {expected} should be");
                findings.add(Line::FeedHole, what);
                break;
            }
            if stored.get(&row.seq) != Some(&row) {
                let is = stored.get(&row.seq);
                let what = format!("at {at} reader {reader} had {row:?}, and it is {is:?}");
                findings.add(Line::FeedRewritten, what);
            }
        }
    }
}

/// After an end nothing is told of a transaction but what a reorg below it changed.
fn told(evidence: &Evidence<'_>, findings: &mut Findings) {
    let mut ended: HashMap<&str, &FeedRow> = HashMap::new();
    for completion in &evidence.rows.completions {
        let row = &completion.row;
        let deep = row.sub.as_deref() == Some("REORG_AFTER_FINAL") || row.corrects.is_some();
        if let Some(before) = ended.get(row.tx.as_str())
            && !deep
        {
            let what = format!("{row:?} after {before:?}");
            findings.add(Line::EndTakenBack, what);
        }
        if row.state != "STUCK" {
            ended.insert(&row.tx, row);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::planted::Case;
    use super::*;

    #[test]
    fn a_hole_in_the_stored_feed_is_found() {
        let mut case = Case::calm();
        case.rows.completions.remove(0);
        case.finds_some(Line::FeedHole);
        let mut case = Case::calm();
        case.rows.feed_head += 1;
        case.finds(&[Line::FeedHole]);
    }

    #[test]
    fn a_hole_that_a_reader_saw_is_found() {
        let mut case = Case::calm();
        case.feed(0, &[0]);
        case.feed(1, &[1]);
        case.finds(&[]);
        case.feed(0, &[1]);
        case.finds(&[Line::FeedHole]);
    }

    #[test]
    fn a_row_that_a_reader_saw_otherwise_is_found() {
        let mut case = Case::calm();
        case.feed(0, &[0, 1]);
        case.rows.completions[0].row.state = "FAILED_FINAL".into();
        case.finds_some(Line::FeedRewritten);
    }

    #[test]
    fn a_second_end_is_found_unless_it_corrects() {
        let mut case = Case::calm();
        let mut again = case.rows.completions[0].clone();
        again.row.seq = 3;
        case.rows.completions.push(again);
        case.rows.feed_head = 3;
        case.finds(&[Line::EndTakenBack]);
        case.rows.completions[2].row.corrects = Some(1);
        case.finds(&[]);
    }
}
