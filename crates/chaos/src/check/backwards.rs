//! No going back: tokens, cursors and the feed's head, as sampled; and ends that were told.

use std::collections::HashMap;

use super::{Findings, Line};
use crate::facts::Evidence;
use crate::note::{LaneSample, Note};

pub(super) fn check(evidence: &Evidence<'_>, findings: &mut Findings) {
    samples(evidence, findings);
    looks(evidence, findings);
}

fn samples(evidence: &Evidence<'_>, findings: &mut Findings) {
    let mut lanes: HashMap<usize, (u64, u64)> = HashMap::new();
    let mut feed_before = (0, 0);
    for note in evidence.notes {
        let Note::Sampled {
            lanes: sampled,
            feed,
            epoch,
            at,
        } = note
        else {
            continue;
        };
        if *epoch < feed_before.0 || *feed < feed_before.1 {
            let what = format!("at {at} the feed was {epoch}/{feed} after {feed_before:?}");
            findings.add(Line::WentBack, what);
        }
        feed_before = (*epoch, *feed);
        for LaneSample {
            lane,
            token,
            cursor,
            ..
        } in sampled
        {
            let before = lanes.insert(*lane, (*token, *cursor));
            let (old_token, old_cursor) = before.unwrap_or_default();
            if *token < old_token || *cursor < old_cursor {
                let what = format!(
                    "at {at} lane {lane} was at token {token}, cursor {cursor}, after {old_token}, {old_cursor}"
                );
                findings.add(Line::WentBack, what);
            }
        }
    }
}

/// An end stays, but for a reorg below it, which is told as such.
fn looks(evidence: &Evidence<'_>, findings: &mut Findings) {
    let mut seen: HashMap<(usize, &str), (&str, Option<&str>)> = HashMap::new();
    for note in evidence.notes {
        let Note::Looked {
            reader,
            tx,
            state,
            sub,
            at,
        } = note
        else {
            continue;
        };
        let is = (state.as_str(), sub.as_deref());
        let was = seen.insert((*reader, tx.as_str()), is);
        let Some(was) = was else { continue };
        let ended = ["CONFIRMED", "FAILED_FINAL"].contains(&was.0);
        let told = is == ("STUCK", Some("REORG_AFTER_FINAL"));
        if ended && was != is && !told {
            let what = format!("at {at} {tx} was {is:?} after {was:?}");
            findings.add(Line::EndTakenBack, what);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::planted::Case;
    use super::*;

    #[test]
    fn a_token_or_cursor_that_goes_back_is_found() {
        for (token, cursor) in [(1, 5), (2, 4)] {
            let mut case = Case::calm();
            case.sample(0, 2, 5, 7);
            case.sample(0, token, cursor, 7);
            case.finds(&[Line::WentBack]);
        }
    }

    #[test]
    fn a_feed_that_goes_back_is_found() {
        let mut case = Case::calm();
        case.sample(0, 2, 5, 7);
        case.sample(0, 2, 5, 6);
        case.finds(&[Line::WentBack]);
    }

    #[test]
    fn an_end_that_is_taken_back_is_found_unless_a_deep_reorg_is_told() {
        let mut case = Case::calm();
        case.look("tx-0", "CONFIRMED", None);
        case.look("tx-0", "TRACKING", Some("REORGED"));
        case.finds(&[Line::EndTakenBack]);
        let mut case = Case::calm();
        case.look("tx-0", "CONFIRMED", None);
        case.look("tx-0", "STUCK", Some("REORG_AFTER_FINAL"));
        case.finds(&[]);
    }
}
