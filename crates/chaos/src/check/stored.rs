//! Acked is stored, refused is not, nothing is stored twice.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{Findings, Line};
use crate::facts::{Evidence, TxRow};
use crate::note::{Answer, Meaning, Micros, Note};

/// What a client was told of one request id.
#[derive(Default)]
struct Told<'a> {
    lane: usize,
    /// The ids that it was told are its transaction's.
    ids: BTreeSet<&'a str>,
    refused: bool,
    doubt: bool,
    asked: bool,
    /// When it was last told that nothing is stored, before anything else was told or left open.
    refused_at: Option<Micros>,
}

impl<'a> Told<'a> {
    fn hear(&mut self, at: Micros, answer: &'a Answer) {
        match answer.meaning() {
            Meaning::Done => self.ids.extend(answer.tx.as_deref()),
            Meaning::Refused => {
                self.refused = true;
                if !self.doubt && self.ids.is_empty() {
                    self.refused_at = Some(at);
                }
            }
            Meaning::Doubt => self.doubt = true,
        }
    }
}

fn told<'a>(evidence: &Evidence<'a>) -> BTreeMap<&'a str, Told<'a>> {
    let mut told: BTreeMap<&str, Told<'_>> = BTreeMap::new();
    for note in evidence.notes {
        if let Note::Asked { request, lane, .. } = note {
            let entry = told.entry(request).or_default();
            entry.lane = *lane;
            entry.asked = true;
        }
        if let Note::Told {
            at,
            request,
            answer,
            ..
        } = note
        {
            told.entry(request).or_default().hear(*at, answer);
        }
        if let Note::Lent {
            at,
            request,
            lane,
            answer,
            ..
        } = note
        {
            let entry = told.entry(request).or_default();
            entry.lane = *lane;
            entry.asked = true;
            entry.hear(*at, answer);
        }
    }
    told
}

pub(super) fn check(evidence: &Evidence<'_>, findings: &mut Findings) {
    let told = told(evidence);
    let by_id: HashMap<&str, &TxRow> = evidence
        .rows
        .txs
        .iter()
        .map(|row| (row.tx.as_str(), row))
        .collect();
    let mut by_request: HashMap<(usize, &str), Vec<&TxRow>> = HashMap::new();
    for row in &evidence.rows.txs {
        if let Some(request) = &row.request {
            by_request.entry((row.lane, request)).or_default().push(row);
        }
    }
    for (request, told) in &told {
        for id in &told.ids {
            let stored = by_id.get(id);
            let fits =
                |row: &&&TxRow| row.lane == told.lane && row.request.as_deref() == Some(request);
            if stored.filter(fits).is_none() {
                findings.add(
                    Line::AckedNotStored,
                    format!("{request} as {id}: {stored:?}"),
                );
            }
        }
        if told.ids.len() > 1 {
            findings.add(Line::StoredTwice, format!("{request} is {:?}", told.ids));
        }
        let rows = by_request.get(&(told.lane, request));
        let count = rows.map_or(0, Vec::len);
        if count > 1 {
            findings.add(Line::StoredTwice, format!("{request}: {rows:?}"));
        }
        if count > 0 && told.refused && !told.doubt && told.ids.is_empty() {
            findings.add(Line::RefusedStored, format!("{request}: {rows:?}"));
        }
        // Whoever comes again is told of it as if nothing had been wrong; but it was there too soon.
        let too_soon = |row: &&&TxRow| told.refused_at.is_some_and(|at| row.created <= at);
        if let Some(row) = rows.into_iter().flatten().find(too_soon)
            && !told.ids.is_empty()
        {
            findings.add(Line::RefusedStored, format!("{request} by then: {row:?}"));
        }
    }
    of_nobody(evidence, &told, findings);
    payloads(evidence, findings);
    conflicts(evidence, findings);
}

/// Rows under a name that nobody has used.
fn of_nobody(evidence: &Evidence<'_>, told: &BTreeMap<&str, Told<'_>>, findings: &mut Findings) {
    for row in evidence
        .rows
        .txs
        .iter()
        .filter(|row| row.kind != "placeholder")
    {
        let request = row.request.as_deref().unwrap_or_default();
        let asked = told.get(request).filter(|told| told.asked);
        if asked.is_none_or(|told| told.lane != row.lane) {
            findings.add(Line::RefusedStored, format!("nobody asked for {row:?}"));
        }
    }
}

/// No two requests have one payload: a payload that is stored twice is a request that is.
fn payloads(evidence: &Evidence<'_>, findings: &mut Findings) {
    let mut seen: HashMap<&str, &str> = HashMap::new();
    for row in &evidence.rows.txs {
        if let Some(hash) = &row.payload_hash
            && let Some(other) = seen.insert(hash, &row.tx)
        {
            let what = format!("{} and {other} have one payload", row.tx);
            findings.add(Line::StoredTwice, what);
        }
    }
}

fn conflicts(evidence: &Evidence<'_>, findings: &mut Findings) {
    for note in evidence.notes {
        if let Note::Conflict {
            request, answer, ..
        } = note
            && answer.meaning() == Meaning::Done
        {
            findings.add(Line::ConflictTaken, format!("{request}: {answer:?}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::planted::{Case, accepted, refused, silence};
    use super::*;

    #[test]
    fn a_calm_run_has_no_findings() {
        Case::calm().finds(&[]);
    }

    #[test]
    fn an_acknowledged_request_that_is_not_stored_is_found() {
        let mut case = Case::calm();
        case.tell("lost", accepted("no-such-transaction"));
        case.finds(&[Line::AckedNotStored]);
    }

    #[test]
    fn an_acknowledged_request_that_is_stored_for_another_lane_is_found() {
        let mut case = Case::calm();
        case.rows.txs[0].lane = 1;
        assert!(case.lines().contains(&Line::AckedNotStored));
    }

    #[test]
    fn a_refused_request_that_is_stored_is_found_and_one_in_doubt_is_not() {
        let mut case = Case::calm();
        case.forget_told("first");
        case.tell("first", refused(503));
        case.finds(&[Line::RefusedStored]);
        case.tell("first", silence());
        case.finds(&[]);
    }

    #[test]
    fn a_request_that_was_there_when_it_was_refused_is_found_although_it_was_told_later() {
        let mut case = Case::calm();
        case.forget_told("first");
        case.rows.txs[0].created = 5;
        case.tell_at(10, "first", refused(503));
        case.tell_at(20, "first", accepted("tx-0"));
        case.finds(&[Line::RefusedStored]);
        case.rows.txs[0].created = 15;
        case.finds(&[]);
        let mut case = Case::calm();
        case.forget_told("first");
        case.tell_at(9, "first", silence());
        case.tell_at(10, "first", refused(503));
        case.tell_at(20, "first", accepted("tx-0"));
        case.finds(&[]);
    }

    #[test]
    fn a_row_that_nobody_asked_for_is_found() {
        let mut case = Case::calm();
        case.rows.txs[0].request = Some("somebody else's".into());
        assert!(case.lines().contains(&Line::RefusedStored));
    }

    #[test]
    fn a_request_that_is_told_or_stored_as_two_is_found() {
        let mut case = Case::calm();
        case.tell("first", accepted("tx-1"));
        assert!(case.lines().contains(&Line::StoredTwice));
        let mut case = Case::calm();
        case.rows.txs[1].request = Some("first".into());
        assert!(case.lines().contains(&Line::StoredTwice));
        let mut case = Case::calm();
        case.rows.txs[1].payload_hash = case.rows.txs[0].payload_hash.clone();
        case.finds(&[Line::StoredTwice]);
    }

    #[test]
    fn an_id_that_is_taken_for_another_payload_is_found() {
        let mut case = Case::calm();
        case.contradict("first", refused(409));
        case.finds(&[]);
        case.contradict("first", accepted("tx-0"));
        case.finds(&[Line::ConflictTaken]);
    }
}
