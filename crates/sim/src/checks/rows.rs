//! Rows as they change: whose a nonce is, what never changes, and what may follow an end.

use fencepost_app::ports::{Record, Store};
use fencepost_domain::attempt::Kind;
use fencepost_domain::ids::{LaneId, TxId};
use fencepost_domain::state::{self, Allocated, Failed, Signing, State, Why};
use tokio::time::Instant;

use super::{Checker, Known};
use crate::sometimes::Rare;
use crate::world::World;

/// A broken promise and its facts.
pub(super) type Broken = (&'static str, String);

impl World {
    /// These rows were written just now.
    pub(crate) async fn look_at(&self, ids: &[TxId]) {
        let rows = self.store.find_many(ids).await;
        let mut rows = rows.expect("it is asked directly");
        rows.sort_by_key(|row| row.tx);
        for row in rows {
            let known = self.checker().attempts_of(row.tx);
            if row.attempts > known {
                self.read_attempts(&row).await;
            }
            let mut broken = Vec::new();
            let mut seen = Vec::new();
            self.checker().row(&row, &mut broken, &mut seen);
            for (promise, facts) in broken {
                self.violate(promise, facts);
            }
            for rare in seen {
                self.saw(rare);
            }
            self.look_at_lists(&row).await;
        }
    }

    async fn read_attempts(&self, row: &Record) {
        let attempts = self.store.attempts(&[row.tx]).await;
        for stored in attempts.expect("it is asked directly") {
            let mut checker = self.checker();
            let hash = stored.attempt.hash;
            let fresh = Known {
                tx: row.tx,
                n: stored.n,
                kind: stored.attempt.kind,
                at: Instant::now(),
                raw: stored.attempt.raw,
            };
            let old = checker
                .attempts
                .entry(hash)
                .or_insert_with(|| fresh.clone());
            let same = old.tx == fresh.tx && old.n == fresh.n && old.raw == fresh.raw;
            let facts = format!("{hash} was {old:?}, and is {fresh:?}");
            let count = checker.counts.entry(row.tx).or_default();
            *count = stored.n.max(*count);
            drop(checker);
            if !same {
                self.violate("attempts are never rewritten", facts);
            }
        }
    }
}

impl Checker {
    /// Compares a row with what it was.
    fn row(&mut self, new: &Record, broken: &mut Vec<Broken>, seen: &mut Vec<Rare>) {
        let old = self.rows.insert(new.tx, new.clone());
        if let Some(old) = &old {
            self.unchanged(old, new, broken);
        }
        self.hold(old.as_ref(), new, broken);
        let changed = old.as_ref().is_none_or(|old| old.state != new.state);
        if !changed {
            return;
        }
        let had_ended = old.as_ref().is_some_and(|old| old.state.is_final());
        if had_ended {
            self.undone(old.as_ref().expect("it had ended"), new, broken);
        }
        if new.state.is_final() {
            self.ended_once.insert(new.tx);
            self.ended(new, broken, seen);
        }
        if let State::Stuck(stuck) = &new.state {
            seen.extend(match stuck.why {
                Why::Gap => Some(Rare::StuckGap),
                Why::NoReceipt => Some(Rare::StuckNoReceipt),
                Why::Refused => Some(Rare::StuckRefused),
                Why::SignerError => Some(Rare::StuckSigner),
                Why::ReorgAfterFinal => Some(Rare::ReorgAfterFinal),
                Why::NonceTaken | Why::NoFunds | Why::Tampered => None,
            });
        }
    }

    /// What was asked for never changes, and a nonce with bytes stays.
    fn unchanged(&self, old: &Record, new: &Record, broken: &mut Vec<Broken>) {
        let intent = |row: &Record| {
            let named = (row.lane_id, row.kind, row.request_id.clone());
            (named, row.payload.clone(), row.created_at, row.not_after)
        };
        if intent(old) != intent(new) || new.version < old.version {
            broken.push((
                "a stored intent is never rewritten",
                format!("{old:?} then {new:?}"),
            ));
        }
        if self.signed.contains(&new.tx) && old.state.nonce() != new.state.nonce() {
            broken.push(("I5 maybe sent is sent", format!("{old:?} then {new:?}")));
        }
    }

    /// I2: one holder for a nonce, and for ever once bytes are stored.
    fn hold(&mut self, old: Option<&Record>, new: &Record, broken: &mut Vec<Broken>) {
        let before = old.and_then(|old| old.state.nonce());
        let now = new.state.nonce();
        let lane = new.lane_id;
        if let Some(before) = before.filter(|before| Some(*before) != now) {
            self.lane(lane).freed.insert(before.get());
            self.holders.remove(&(lane, before.get()));
        }
        let Some(nonce) = now else {
            return;
        };
        let is_given = before.is_none() && is_unsigned(&new.state);
        if is_given && new.not_after.is_some_and(|until| until < new.updated_at) {
            let facts = format!("{new:?}");
            broken.push(("no nonce is given after notAfter", facts));
        }
        let place = (lane, nonce.get());
        let holder = *self.holders.entry(place).or_insert(new.tx);
        if holder != new.tx {
            broken.push(("I2 no nonce twice", self.two(place, holder, new)));
        }
        let signed = new.kind != state::Kind::Reserved && new.attempts > 0;
        if signed {
            self.signed.insert(new.tx);
            let bound = *self.bound.entry(place).or_insert(new.tx);
            if bound != new.tx {
                broken.push(("I2 no nonce twice", self.two(place, bound, new)));
            }
        } else if let Some(bound) = self.bound.get(&place).filter(|bound| **bound != new.tx) {
            broken.push(("I2 no nonce twice", self.two(place, *bound, new)));
        }
    }

    fn two(&self, place: (LaneId, u64), holder: TxId, new: &Record) -> String {
        let other = self.rows.get(&holder);
        format!("{place:?} is held by {other:?} and by {new:?}")
    }

    /// I8: only a reorg of its final block moves what has ended, and it is told as that.
    fn undone(&self, old: &Record, new: &Record, broken: &mut Vec<Broken>) {
        // A holder who comes late may still name what it has sent, while nothing else changes.
        if let (State::Used(old), State::Used(new)) = (&old.state, &new.state)
            && old.hash.is_none()
            && (old.nonce, old.at, old.foreign) == (new.nonce, new.at, new.foreign)
        {
            return;
        }
        let is_told =
            matches!(&new.state, State::Stuck(stuck) if stuck.why == Why::ReorgAfterFinal);
        let block = match &old.state {
            State::Confirmed(done) => Some(done.at.block.hash),
            State::Failed(
                Failed::Reverted(_, at)
                | Failed::Cancelled(Some((_, at)))
                | Failed::Placeholder(_, at)
                | Failed::Substituted(_, at),
            ) => Some(at.block.hash),
            State::Used(used) => used.at.map(|at| at.block.hash),
            State::Failed(
                Failed::Cancelled(None)
                | Failed::NonceTaken { .. }
                | Failed::Expired
                | Failed::Rejected { .. },
            )
            | State::Queued(_)
            | State::Allocated(_)
            | State::Tracking(_)
            | State::Stuck(_)
            | State::Reserved(_)
            | State::Submitted(_)
            | State::Recyclable(_) => None,
        };
        let was_replaced = block.is_none_or(|block| self.mirror.was_replaced(&block));
        let is_loan = matches!(new.state, State::Submitted(_) | State::Reserved(_));
        if !(is_told || is_loan) || !was_replaced {
            broken.push(("I8 submitted is not final", format!("{old:?} then {new:?}")));
        }
    }

    /// The kind of an attempt, by its hash.
    pub(super) fn kind_of(&self, tx: TxId, hash: &alloy_primitives::B256) -> Option<(u32, Kind)> {
        let known = self.attempts.get(hash).filter(|known| known.tx == tx)?;
        Some((known.n, known.kind))
    }
}

/// It has its nonce, and nothing more has happened to it.
const fn is_unsigned(state: &State) -> bool {
    matches!(
        state,
        State::Allocated(Allocated {
            bytes: Signing::Unsigned,
            ..
        })
    )
}
