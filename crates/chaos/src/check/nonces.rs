//! No nonce twice, none lost, and no hole in what a lane tells.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{Findings, Line};
use crate::facts::Evidence;

pub(super) fn check(evidence: &Evidence<'_>, findings: &mut Findings) {
    rows(evidence, findings);
    bytes(evidence, findings);
    gaps(evidence, findings);
    for lane in &evidence.rows.lanes {
        if lane.events != lane.events_last {
            let what = format!(
                "lane {} has {} events and counts {}",
                lane.lane, lane.events, lane.events_last
            );
            findings.add(Line::EventHole, what);
        }
    }
}

fn rows(evidence: &Evidence<'_>, findings: &mut Findings) {
    let mut held: BTreeMap<(usize, u64), &str> = BTreeMap::new();
    for row in &evidence.rows.txs {
        if let Some(nonce) = row.nonce
            && let Some(other) = held.insert((row.lane, nonce), &row.tx)
        {
            let what = format!("{} and {other} hold {nonce} of lane {}", row.tx, row.lane);
            findings.add(Line::NonceRepeated, what);
        }
    }
}

/// Whatever was ever signed for a nonce is one transaction's, and for the nonce that it holds.
fn bytes(evidence: &Evidence<'_>, findings: &mut Findings) {
    let rows: HashMap<&str, (usize, Option<u64>)> = evidence
        .rows
        .txs
        .iter()
        .map(|row| (row.tx.as_str(), (row.lane, row.nonce)))
        .collect();
    let mut signed: HashMap<(usize, u64), &str> = HashMap::new();
    for attempt in &evidence.rows.attempts {
        let Some((lane, holds)) = rows.get(attempt.tx.as_str()) else {
            let what = format!("{} was signed for nothing that is stored", attempt.hash);
            findings.add(Line::NonceRepeated, what);
            continue;
        };
        let Some(nonce) = attempt.nonce else { continue };
        if *holds != Some(nonce) {
            let what = format!("{} holds {holds:?} and signed {nonce}", attempt.tx);
            findings.add(Line::NonceRepeated, what);
        }
        let before = signed.insert((*lane, nonce), &attempt.tx);
        if let Some(other) = before.filter(|other| *other != attempt.tx) {
            let what = format!("{} and {other} signed {nonce} of lane {lane}", attempt.tx);
            findings.add(Line::NonceRepeated, what);
        }
    }
}

/// Every nonce below the cursor is held or free, and none is both.
fn gaps(evidence: &Evidence<'_>, findings: &mut Findings) {
    let free: BTreeSet<(usize, u64)> = evidence.rows.free.iter().copied().collect();
    let held = evidence.rows.txs.iter();
    let held: BTreeSet<(usize, u64)> = held
        .filter_map(|row| Some((row.lane, row.nonce?)))
        .collect();
    for lane in &evidence.rows.lanes {
        for nonce in 0..lane.cursor {
            let at = (lane.lane, nonce);
            let what = match (held.contains(&at), free.contains(&at)) {
                (true, false) | (false, true) => continue,
                (true, true) => "is held and free",
                (false, false) => "is nobody's",
            };
            let what = format!("nonce {nonce} of lane {} {what}", lane.lane);
            findings.add(Line::UnexplainedGap, what);
        }
        let beyond = held.range((lane.lane, lane.cursor)..=(lane.lane, u64::MAX));
        for (_, nonce) in beyond {
            let what = format!(
                "nonce {nonce} of lane {} is not below the cursor",
                lane.lane
            );
            findings.add(Line::UnexplainedGap, what);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::planted::Case;
    use super::*;

    #[test]
    fn two_rows_with_one_nonce_are_found() {
        let mut case = Case::calm();
        case.rows.txs[1].nonce = Some(0);
        assert!(case.lines().contains(&Line::NonceRepeated));
    }

    #[test]
    fn bytes_that_were_signed_for_another_transactions_nonce_are_found() {
        let mut case = Case::calm();
        case.rows.attempts[1].nonce = Some(0);
        assert!(case.lines().contains(&Line::NonceRepeated));
        let mut case = Case::calm();
        case.rows.attempts[1].tx = "tx-0".into();
        assert!(case.lines().contains(&Line::NonceRepeated));
    }

    #[test]
    fn a_nonce_that_nobody_has_is_found_and_a_free_one_is_not() {
        let mut case = Case::calm();
        case.rows.lanes[0].cursor += 1;
        case.finds(&[Line::UnexplainedGap]);
        case.rows.free.push((0, 2));
        case.finds(&[]);
        case.rows.free.push((0, 1));
        case.finds(&[Line::UnexplainedGap]);
    }

    #[test]
    fn a_nonce_above_the_cursor_is_found() {
        let mut case = Case::calm();
        case.rows.lanes[0].cursor -= 1;
        case.finds(&[Line::UnexplainedGap]);
    }

    #[test]
    fn a_hole_in_a_lanes_events_is_found() {
        let mut case = Case::calm();
        case.rows.lanes[0].events -= 1;
        case.finds(&[Line::EventHole]);
    }
}
