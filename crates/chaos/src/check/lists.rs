//! I13: the confirmations that events publish are one chain, from the block on top of the transaction's, as long as
//! what made it final. What is told of a transaction that has ended is not told again after a later fork, but none here
//! is as deep as the block right on top of it.

use std::collections::HashMap;

use super::{Findings, Line};
use crate::facts::{Evidence, Mined, ToldRow, TxRow};
use crate::world::config::CONFIRMATIONS;

/// What a reader of one transaction's events has.
#[derive(Debug, Default)]
struct List<'a> {
    /// The block it is in.
    own: Option<&'a str>,
    /// Hashes of the blocks on top.
    blocks: Vec<&'a str>,
}

impl<'a> List<'a> {
    fn read(&mut self, told: &'a ToldRow) -> Result<(), String> {
        if told.new_fork || told.kind == "receipt" {
            self.blocks.clear();
        }
        if told.kind == "receipt" {
            self.own = told.block.as_deref();
        }
        let Some((parent, added)) = told.confirmations.split_first() else {
            return Ok(());
        };
        let below = self.blocks.last().copied().or(self.own);
        self.blocks.extend(added.iter().map(String::as_str));
        if below != Some(parent) || self.blocks.last().copied() != told.block.as_deref() {
            return Err(format!("{told:?} is told on top of {below:?}"));
        }
        Ok(())
    }

    fn ends(&self, row: &TxRow, mined: &Mined) -> Result<(), String> {
        let whole = usize::try_from(CONFIRMATIONS).is_ok_and(|most| self.blocks.len() == most);
        let stands = self.own == Some(&mined.block);
        let first = self.blocks.first().copied();
        if whole && stands && first == mined.next.as_deref() {
            return Ok(());
        }
        Err(format!("{} is in {mined:?} and ends with {self:?}", row.tx))
    }
}

pub(super) fn check(evidence: &Evidence<'_>, findings: &mut Findings) {
    let mut lists: HashMap<&str, List<'_>> = HashMap::new();
    for told in &evidence.rows.told {
        if let Err(why) = lists.entry(&told.tx).or_default().read(told) {
            findings.add(Line::ForksSpliced, why);
        }
    }
    let mined: HashMap<&str, &Mined> = evidence
        .mined
        .iter()
        .map(|mined| (mined.hash.as_str(), mined))
        .collect();
    for row in &evidence.rows.txs {
        let at = row.mined.as_deref().and_then(|hash| mined.get(hash));
        let ended = ["CONFIRMED", "FAILED_FINAL", "USED"].contains(&row.state.as_str());
        if let Some(at) = at.filter(|_| ended) {
            let list = lists.remove(row.tx.as_str()).unwrap_or_default();
            if let Err(why) = list.ends(row, at) {
                findings.add(Line::ForksSpliced, why);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::planted::Case;
    use super::*;

    fn of(case: &mut Case, tx: &str, kind: &str) -> usize {
        let mut told = case.rows.told.iter();
        let found = told.position(|told| told.tx == tx && told.kind == kind);
        found.unwrap()
    }

    #[test]
    fn a_list_of_two_forks_is_found_and_one_that_is_replaced_whole_is_not() {
        let mut case = Case::calm();
        let place = of(&mut case, "tx-1", "confirmations");
        let mut fork = case.rows.told[place].clone();
        fork.confirmations[2] = "another".into();
        case.rows.told.insert(place, fork);
        case.finds_some(Line::ForksSpliced);
        case.rows.told[place + 1].new_fork = true;
        case.finds(&[]);
    }

    #[test]
    fn blocks_that_are_missing_in_the_middle_below_or_above_are_found() {
        for gone in [1, 3, usize::try_from(CONFIRMATIONS).unwrap()] {
            let mut case = Case::calm();
            let place = of(&mut case, "tx-0", "confirmations");
            let told = &mut case.rows.told[place];
            told.confirmations.remove(gone);
            told.block = told.confirmations.last().cloned();
            case.finds(&[Line::ForksSpliced]);
        }
    }

    #[test]
    fn a_list_on_top_of_a_block_that_was_replaced_is_found() {
        let mut case = Case::calm();
        case.mined[0].next = Some("another".into());
        case.finds(&[Line::ForksSpliced]);
        let place = of(&mut case, "tx-0", "receipt");
        case.rows.told[place].block = Some("another".into());
        case.finds_some(Line::ForksSpliced);
    }
}
