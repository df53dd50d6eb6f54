//! Whatever was told as stuck was so, for the reason that was told.

use std::collections::HashMap;

use super::{Findings, Line};
use crate::facts::{Evidence, Mined, TxRow};
use crate::note::{Micros, Note};
use crate::world::config::{STUCK_AFTER_S, STUCK_ATTEMPTS};
use crate::world::lane::chain_of;

const SURGE: &str = "dev_surge";
const SECOND: Micros = 1_000_000;
/// Between the look at the chain and the row that tells of it lie a decision and a statement, which a fault
/// can hold up.
const SLACK: Micros = 15 * SECOND;

/// Faults after which a node could not know what a chain holds: it was away, could not be reached or was slow.
/// What has waited for too long is told then, too, although nobody could be asked.
fn cut_off(evidence: &Evidence<'_>, lane: usize, told: Micros) -> bool {
    let chain = chain_of(lane).name();
    evidence.notes.iter().any(|note| {
        if let Note::Fault {
            at,
            until,
            kind,
            target,
            ..
        } = note
        {
            let of_way = kind.starts_with("rpc_") && target.contains(chain);
            let of_chain = kind.starts_with(chain) && kind.ends_with("_restart");
            (of_way || of_chain) && *at < told && told < *until + SLACK
        } else {
            false
        }
    })
}

/// Lies of endpoints, with when they began and ended.
fn lies(evidence: &Evidence<'_>) -> Vec<(Micros, Micros, String)> {
    let mut lies = Vec::new();
    for note in evidence.notes {
        if let Note::Fault {
            at,
            until,
            kind,
            target,
            ..
        } = note
            && (kind == "dev_lie" || kind == SURGE)
        {
            // While fees are high endpoints refuse what pays too little, and say the truth.
            let what = if kind == SURGE { "refuses" } else { target };
            lies.push((*at, *until, what.to_owned()));
        }
    }
    lies
}

pub(super) fn check(evidence: &Evidence<'_>, findings: &mut Findings) {
    let rows: HashMap<&str, &TxRow> = evidence
        .rows
        .txs
        .iter()
        .map(|row| (row.tx.as_str(), row))
        .collect();
    let mined: HashMap<(usize, u64), &Mined> = evidence
        .mined
        .iter()
        .map(|mined| ((mined.lane, mined.nonce), mined))
        .collect();
    let lies = lies(evidence);
    let mut blocks: HashMap<&str, Micros> = HashMap::new();
    for note in evidence.notes {
        if let Note::Block { at, hash } = note {
            blocks.insert(hash, *at);
        }
    }
    for told in &evidence.rows.completions {
        if told.row.state != "STUCK" {
            continue;
        }
        let Some(row) = rows.get(told.row.tx.as_str()) else {
            findings.add(Line::StuckUntrue, format!("nobody is {told:?}"));
            continue;
        };
        let lied = |what: &str| {
            let near = |(from, to, lie): &&(Micros, Micros, String)| {
                lie.contains(what) && *from < told.at && told.at < *to + 2 * SLACK
            };
            lies.iter().any(|lie| near(&lie))
        };
        let block = row.nonce.and_then(|nonce| mined.get(&(row.lane, nonce)));
        let seen = block.and_then(|block| blocks.get(block.block.as_str()));
        let was_mined = seen.is_some_and(|seen| seen + SLACK < told.at);
        let why = match told.row.sub.as_deref() {
            Some("NO_RECEIPT") => {
                let waited = told.at.saturating_sub(row.created) >= STUCK_AFTER_S * SECOND;
                if !waited && row.sends < STUCK_ATTEMPTS {
                    Some("it had not waited long")
                } else if was_mined && !lied("") && !cut_off(evidence, row.lane, told.at) {
                    Some("it was in a block")
                } else {
                    None
                }
            }
            Some("GAP") => {
                (!had_gap(evidence, row, told.at)).then_some("no lower nonce was given back")
            }
            Some("REFUSED") => (!lied("refuses")).then_some("nobody refused it"),
            Some(_) | None => Some("nothing of this kind was done"),
        };
        if let Some(why) = why {
            findings.add(Line::StuckUntrue, format!("{told:?} of {row:?}: {why}"));
        }
    }
}

/// A lower nonce of the lane had been given back by then.
fn had_gap(evidence: &Evidence<'_>, stuck: &TxRow, at: Micros) -> bool {
    evidence.rows.txs.iter().any(|row| {
        let below = row.given_back < stuck.nonce && row.given_back.is_some();
        row.lane == stuck.lane && below && row.updated < at
    })
}

#[cfg(test)]
mod tests {
    use super::super::planted::Case;
    use super::*;

    const LATE: Micros = 100 * SECOND;

    #[test]
    fn no_receipt_is_true_of_what_waited_and_was_in_no_block() {
        let mut case = Case::calm();
        case.see("block 1", LATE);
        case.stick(1, "NO_RECEIPT", LATE);
        case.finds(&[]);
    }

    #[test]
    fn no_receipt_of_what_had_not_waited_is_found() {
        let mut case = Case::calm();
        case.see("block 1", LATE);
        case.stick(1, "NO_RECEIPT", 2 * SECOND);
        case.finds(&[Line::StuckUntrue]);
        case.rows.txs[1].sends = STUCK_ATTEMPTS;
        case.finds(&[]);
    }

    #[test]
    fn no_receipt_of_what_was_in_a_block_is_found_unless_an_endpoint_lied() {
        let mut case = Case::calm();
        case.see("block 1", SECOND);
        case.stick(1, "NO_RECEIPT", LATE);
        case.finds(&[Line::StuckUntrue]);
        case.lie("endpoint 1 has no receipts", LATE - SECOND, LATE);
        case.finds(&[]);
    }

    #[test]
    fn no_receipt_of_what_was_in_a_block_is_excused_by_a_cut_to_its_own_chain_only() {
        let mut case = Case::calm();
        case.see("block 1", SECOND);
        case.stick(1, "NO_RECEIPT", LATE);
        case.fault("rpc_cut", "a to dev 1", LATE - SECOND, LATE);
        case.finds(&[Line::StuckUntrue]);
        case.fault("rpc_cut", "a to anvil", LATE - SECOND, LATE);
        case.finds(&[]);
    }

    #[test]
    fn a_gap_without_a_nonce_that_was_given_back_is_found() {
        let mut case = Case::calm();
        case.stick(1, "GAP", LATE);
        case.finds(&[Line::StuckUntrue]);
    }

    #[test]
    fn a_refusal_that_nobody_uttered_and_reasons_that_cannot_be_are_found() {
        for sub in [
            "REFUSED",
            "NONCE_TAKEN",
            "NO_FUNDS",
            "SIGNER_ERROR",
            "REORG_AFTER_FINAL",
            "TAMPERED",
        ] {
            let mut case = Case::calm();
            case.stick(1, sub, LATE);
            case.finds(&[Line::StuckUntrue]);
        }
    }
}
