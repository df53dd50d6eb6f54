//! How each transaction ended, held against the chain and against what was asked for.

use std::collections::{HashMap, HashSet};

use super::{Findings, Line};
use crate::facts::{AttemptRow, Evidence, Mined, TxRow};
use crate::note::{LoanWord, Meaning, Note, Purpose};

/// What is needed to judge an end.
struct Court<'a> {
    /// What is in a block, by lane and nonce.
    mined: HashMap<(usize, u64), &'a Mined>,
    /// What has an effect on the chain, by the payload's value.
    executed: HashMap<u64, &'a Mined>,
    attempts: HashMap<&'a str, &'a AttemptRow>,
    /// By request id.
    asked: HashMap<&'a str, (u64, Purpose)>,
    /// Transactions that somebody may have called off.
    called_off: HashSet<&'a str>,
}

impl<'a> Court<'a> {
    fn of(evidence: &Evidence<'a>) -> Self {
        let by_nonce = |mined: &'a Mined| ((mined.lane, mined.nonce), mined);
        let done = evidence.mined.iter().filter(|mined| mined.ok);
        let attempts = evidence.rows.attempts.iter();
        let mut court = Self {
            mined: evidence.mined.iter().map(by_nonce).collect(),
            executed: done.map(|mined| (mined.value, mined)).collect(),
            attempts: attempts.map(|row| (row.hash.as_str(), row)).collect(),
            asked: HashMap::new(),
            called_off: HashSet::new(),
        };
        for note in evidence.notes {
            if let Note::Asked {
                request,
                value,
                purpose,
                ..
            } = note
            {
                court.asked.insert(request, (*value, *purpose));
            }
            // In doubt it may have been stored, and then it is carried out.
            if let Note::Remedy {
                tx, action, answer, ..
            } = note
                && (action == "CANCEL" || action == "PLACEHOLDER")
                && answer.meaning() != Meaning::Refused
            {
                court.called_off.insert(tx);
            }
        }
        court
    }

    /// What is wrong with how it ended.
    fn judge(&self, row: &TxRow) -> Result<(), String> {
        match row.kind.as_str() {
            "managed" => self.managed(row),
            "reserved" => self.reserved(row),
            "placeholder" => self.placeholder(row),
            other => Err(format!("a kind {other}")),
        }
    }

    fn managed(&self, row: &TxRow) -> Result<(), String> {
        let request = row.request.as_deref().unwrap_or_default();
        let (value, purpose) = *self.asked.get(request).ok_or("nobody asked for it")?;
        let executed = self.executed.get(&value);
        match (row.state.as_str(), row.sub.as_deref()) {
            ("CONFIRMED", None) => {
                let mined = self.in_block(row)?;
                let as_asked = mined.ok && mined.value == value && purpose != Purpose::Revert;
                as_asked
                    .then_some(())
                    .ok_or(format!("in a block is {mined:?}"))
            }
            ("FAILED_FINAL", Some("REVERTED")) => {
                let mined = self.in_block(row)?;
                let as_asked = !mined.ok && mined.value == value && purpose == Purpose::Revert;
                as_asked
                    .then_some(())
                    .ok_or(format!("in a block is {mined:?}"))
            }
            ("FAILED_FINAL", Some("CANCELLED" | "PLACEHOLDER")) => {
                if executed.is_some() {
                    return Err(format!("it was executed: {executed:?}"));
                }
                if !self.called_off.contains(row.tx.as_str()) {
                    return Err("nobody called it off".into());
                }
                match row.nonce {
                    Some(_) => self.used_up(row),
                    None => Ok(()),
                }
            }
            ("FAILED_FINAL", Some("EXPIRED")) if purpose == Purpose::Expiring => match executed {
                Some(mined) => Err(format!("it was executed: {mined:?}")),
                None => Ok(()),
            },
            (_, _) => Err("it should not have ended like this".into()),
        }
    }

    fn reserved(&self, row: &TxRow) -> Result<(), String> {
        match row.state.as_str() {
            "USED" => self.in_block(row).map(drop),
            "RECYCLABLE" => Ok(()),
            _other => Err("it should not have ended like this".into()),
        }
    }

    fn placeholder(&self, row: &TxRow) -> Result<(), String> {
        match (row.state.as_str(), row.sub.as_deref()) {
            ("CONFIRMED", None) | ("FAILED_FINAL", Some("PLACEHOLDER" | "CANCELLED")) => {
                self.used_up(row)
            }
            (_, _) => Err("it should not have ended like this".into()),
        }
    }

    /// What is in a block under its nonce, which is what it says is there.
    fn in_block(&self, row: &TxRow) -> Result<&'a Mined, String> {
        let nonce = row.nonce.ok_or("it has no nonce")?;
        let mined = self.mined.get(&(row.lane, nonce));
        let mined = *mined.ok_or("its nonce is in no block")?;
        if row.mined.as_ref() != Some(&mined.hash) {
            return Err(format!("in a block is {mined:?}"));
        }
        Ok(mined)
    }

    /// Its nonce was used by bytes of its own that move nothing.
    fn used_up(&self, row: &TxRow) -> Result<(), String> {
        let mined = self.in_block(row)?;
        let attempt = self.attempts.get(mined.hash.as_str());
        let idle = |attempt: &&&AttemptRow| {
            attempt.tx == row.tx && ["CANCEL", "PLACEHOLDER"].contains(&attempt.kind.as_str())
        };
        let used = attempt.filter(idle).is_some() && mined.value == 0;
        used.then_some(()).ok_or(format!("in a block is {mined:?}"))
    }
}

pub(super) fn check(evidence: &Evidence<'_>, findings: &mut Findings) {
    let court = Court::of(evidence);
    for row in &evidence.rows.txs {
        if let Err(why) = court.judge(row) {
            findings.add(Line::WrongEnd, format!("{row:?}: {why}"));
        }
    }
    unowned(evidence, findings);
    loans(evidence, findings);
    told(evidence, findings);
}

/// The last that the feed told of each is how it ended.
fn told(evidence: &Evidence<'_>, findings: &mut Findings) {
    let completions = evidence.rows.completions.iter();
    let last: HashMap<&str, (&str, Option<&str>)> = completions
        .map(|told| {
            (
                told.row.tx.as_str(),
                (told.row.state.as_str(), told.row.sub.as_deref()),
            )
        })
        .collect();
    for row in &evidence.rows.txs {
        let ended = ["CONFIRMED", "FAILED_FINAL", "USED"].contains(&row.state.as_str());
        let is = (row.state.as_str(), row.sub.as_deref());
        if ended && last.get(row.tx.as_str()) != Some(&is) {
            let what = format!("the feed told {:?} of {row:?}", last.get(row.tx.as_str()));
            findings.add(Line::WrongEnd, what);
        }
    }
}

/// Whatever is in a block was somebody's, who has ended by it.
fn unowned(evidence: &Evidence<'_>, findings: &mut Findings) {
    let rows = evidence.rows.txs.iter();
    let owned: HashSet<(usize, u64)> = rows
        .filter_map(|row| Some((row.lane, row.nonce?)))
        .collect();
    for mined in evidence.mined {
        if !owned.contains(&(mined.lane, mined.nonce)) {
            findings.add(
                Line::WrongEnd,
                format!("nobody holds the nonce of {mined:?}"),
            );
        }
    }
}

/// A holder who was told that its hash is noted has used its nonce.
fn loans(evidence: &Evidence<'_>, findings: &mut Findings) {
    let rows = evidence.rows.txs.iter();
    let rows: HashMap<&str, &TxRow> = rows.map(|row| (row.tx.as_str(), row)).collect();
    for note in evidence.notes {
        let Note::LoanSaid {
            loan, word, answer, ..
        } = note
        else {
            continue;
        };
        if answer.meaning() != Meaning::Done {
            continue;
        }
        let expected = match word {
            LoanWord::Submitted => "USED",
            LoanWord::Recycle => "RECYCLABLE",
        };
        let row = rows.get(loan.as_str());
        if row.is_none_or(|row| row.state != expected) {
            let what = format!("the loan {loan} should be {expected}: {row:?}");
            findings.add(Line::WrongEnd, what);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::planted::{Case, accepted, refused, silence};
    use super::*;

    fn cancelled() -> Case {
        let mut case = Case::calm();
        case.end(0, "FAILED_FINAL", Some("CANCELLED"));
        case.rows.attempts[0].kind = "CANCEL".into();
        case.rows.attempts[0].value = Some(0);
        case.mined[0].value = 0;
        case
    }

    #[test]
    fn a_confirmed_transaction_that_no_block_holds_is_found() {
        let mut case = Case::calm();
        case.mined.remove(0);
        case.finds(&[Line::WrongEnd]);
    }

    #[test]
    fn a_confirmed_transaction_that_was_reverted_is_found() {
        let mut case = Case::calm();
        case.mined[0].ok = false;
        case.finds(&[Line::WrongEnd]);
    }

    #[test]
    fn a_transaction_that_ended_by_another_hash_is_found() {
        let mut case = Case::calm();
        case.rows.txs[0].mined = Some("0xother".into());
        case.finds(&[Line::WrongEnd]);
    }

    #[test]
    fn a_cancel_that_nobody_asked_for_is_found_and_one_in_doubt_is_not() {
        let mut case = cancelled();
        case.finds(&[Line::WrongEnd]);
        case.remedy("tx-0", "CANCEL", refused(409));
        case.finds(&[Line::WrongEnd]);
        case.remedy("tx-0", "CANCEL", silence());
        case.finds(&[]);
    }

    #[test]
    fn a_cancelled_payload_that_was_executed_is_found() {
        let mut case = cancelled();
        case.remedy("tx-0", "CANCEL", accepted("tx-0"));
        case.finds(&[]);
        case.mined[0].value = 1;
        case.finds(&[Line::WrongEnd]);
    }

    #[test]
    fn an_end_that_is_none_and_one_that_was_impossible_are_found() {
        for (state, sub) in [
            ("TRACKING", Some("BROADCAST")),
            ("FAILED_FINAL", Some("NONCE_TAKEN")),
            ("FAILED_FINAL", Some("EXPIRED")),
            ("FAILED_FINAL", Some("REVERTED")),
        ] {
            let mut case = Case::calm();
            case.end(0, state, sub);
            case.finds(&[Line::WrongEnd]);
        }
    }

    #[test]
    fn an_end_that_the_feed_did_not_tell_is_found() {
        let mut case = Case::calm();
        case.rows.completions[0].row.tx = "another".into();
        case.finds(&[Line::WrongEnd]);
    }

    #[test]
    fn a_holder_whose_hash_was_noted_and_not_used_is_found() {
        let mut case = Case::calm();
        case.lend("RECYCLABLE", LoanWord::Submitted);
        case.finds(&[Line::WrongEnd]);
        let mut case = Case::calm();
        case.lend("RECYCLABLE", LoanWord::Recycle);
        case.finds(&[]);
    }
}
