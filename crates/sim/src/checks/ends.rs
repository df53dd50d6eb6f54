//! Ends: each is true of a block that was deep enough on the chain, or of nothing that was ever sent.

use alloy_primitives::B256;
use fencepost_app::ports::Record;
use fencepost_domain::attempt::Kind;
use fencepost_domain::ids::Nonce;
use fencepost_domain::state::{self, Execution, Failed, Inclusion, State, Used};

use super::Checker;
use super::rows::Broken;
use crate::sometimes::Rare;

impl Checker {
    /// I8, I9: nothing ends without proof.
    pub(super) fn ended(&self, row: &Record, broken: &mut Vec<Broken>, seen: &mut Vec<Rare>) {
        let untrue = match &row.state {
            State::Confirmed(done) => {
                self.older_won(row, &done.at, seen);
                self.included(row, done.nonce, &done.at, Execution::Success)
            }
            State::Failed(failed) => self.failed(row, failed, seen),
            State::Used(used) => {
                seen.push(Rare::LoanUsed);
                self.used(row, used)
            }
            State::Recyclable(_) => {
                let by_time = row.last_error.is_some();
                seen.push(if by_time {
                    Rare::LoanExpired
                } else {
                    Rare::LoanRecycled
                });
                None
            }
            State::Queued(_)
            | State::Allocated(_)
            | State::Tracking(_)
            | State::Stuck(_)
            | State::Reserved(_)
            | State::Submitted(_) => None,
        };
        if let Some(why) = untrue {
            broken.push(("I9 a verdict needs proof", format!("{why}: {row:?}")));
        }
    }

    fn failed(&self, row: &Record, failed: &Failed, seen: &mut Vec<Rare>) -> Option<String> {
        let unsent = || {
            let sent = self.attempts_of(row.tx) > 0;
            sent.then(|| "bytes of it are stored".to_owned())
        };
        match failed {
            Failed::Reverted(nonce, at) => {
                seen.push(Rare::Reverted);
                self.included(row, *nonce, at, Execution::Reverted)
            }
            Failed::Cancelled(Some((nonce, at))) => {
                seen.push(Rare::Cancelled);
                self.used_up(row, *nonce, at, Kind::Cancel)
            }
            Failed::Placeholder(nonce, at) => {
                seen.push(Rare::Placeholder);
                self.used_up(row, *nonce, at, Kind::Placeholder)
            }
            Failed::Substituted(nonce, at) => {
                seen.push(Rare::Substituted);
                self.used_up(row, *nonce, at, Kind::Substitute)
            }
            Failed::NonceTaken { nonce, foreign, .. } => {
                seen.push(Rare::NonceTaken);
                self.taken(row, *nonce, *foreign)
            }
            Failed::Cancelled(None) => unsent(),
            Failed::Expired => {
                seen.push(Rare::Expired);
                unsent()
            }
            Failed::Rejected { .. } => {
                seen.push(Rare::Rejected);
                unsent()
            }
        }
    }

    /// Its payload is in this deep block, with this result.
    fn included(
        &self,
        row: &Record,
        nonce: Nonce,
        at: &Inclusion,
        execution: Execution,
    ) -> Option<String> {
        let (_, kind) = match self.kind_of(row.tx, &at.hash) {
            Some(known) => known,
            None => return Some("the hash is none of its attempts".to_owned()),
        };
        if kind != at.by || !matches!(kind, Kind::Original | Kind::Replacement) {
            return Some(format!("{kind:?} executes no payload"));
        }
        self.deep(row, nonce, at.block.hash, at.hash, Some(execution))
    }

    fn used_up(&self, row: &Record, nonce: Nonce, at: &Inclusion, by: Kind) -> Option<String> {
        let kind = self.kind_of(row.tx, &at.hash).map(|(_, kind)| kind);
        if kind != Some(by) {
            return Some(format!("{kind:?} is not {by:?}"));
        }
        self.deep(row, nonce, at.block.hash, at.hash, None)
    }

    fn used(&self, row: &Record, used: &Used) -> Option<String> {
        match (&used.at, used.foreign) {
            (Some(at), _) => self.deep(row, used.nonce, at.block.hash, at.hash, None),
            (None, foreign) => self.taken(row, used.nonce, foreign),
        }
    }

    /// Another transaction of the same account and nonce is in a deep block.
    fn taken(&self, row: &Record, nonce: Nonce, foreign: Option<B256>) -> Option<String> {
        let Some(foreign) = foreign else {
            // A lent nonce is used by whatever uses it; of our own that proves nothing.
            let lent = row.kind == state::Kind::Reserved;
            let used = self.mirror.deep_use(row.lane.signer, nonce.get());
            return (!lent || !used).then(|| "nobody knows by what".to_owned());
        };
        if self.kind_of(row.tx, &foreign).is_some() && row.kind != state::Kind::Reserved {
            return Some("that is an attempt of its own".to_owned());
        }
        let signer = row.lane.signer;
        let found = self
            .mirror
            .deep_with(&foreign)
            .any(|tx| tx.tx.sender == signer && tx.tx.nonce == nonce.get());
        (!found).then(|| format!("{foreign} was in no deep block with this nonce"))
    }

    fn deep(
        &self,
        row: &Record,
        nonce: Nonce,
        block: B256,
        hash: B256,
        execution: Option<Execution>,
    ) -> Option<String> {
        let Some(mined) = self.mirror.deep_in(&block, &hash) else {
            return Some(format!(
                "{hash} was never in {block} with that block deep enough"
            ));
        };
        let is_it = mined.tx.sender == row.lane.signer && mined.tx.nonce == nonce.get();
        let ran = if mined.receipt.is_success {
            Execution::Success
        } else {
            Execution::Reverted
        };
        let as_told = execution.is_none_or(|execution| execution == ran);
        (!is_it || !as_told).then(|| format!("the block holds {mined:?}"))
    }

    fn older_won(&self, row: &Record, at: &Inclusion, seen: &mut Vec<Rare>) {
        let Some((n, kind)) = self.kind_of(row.tx, &at.hash) else {
            return;
        };
        if kind == Kind::Replacement {
            seen.push(Rare::Replaced);
        }
        let newer = |known: &&super::Known| known.tx == row.tx && known.n > n;
        if n < self.attempts_of(row.tx) {
            seen.push(Rare::OlderAttemptWon);
            let mut newer = self.attempts.values().filter(newer);
            if newer.any(|known| known.kind == Kind::Cancel) {
                seen.push(Rare::CancelLost);
            }
        }
    }
}
