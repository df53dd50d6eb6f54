//! What holders of reservations say to the model.

use std::time::Duration;

use fencepost_app::ports::{
    LATE_HASHES_MAX, Record, Settle, SettleAct, Settled, StoreError, check,
};
use fencepost_domain::attempt::{self, Attempt};
use fencepost_domain::event::{self, Event};
use fencepost_domain::flat::Name;
use fencepost_domain::state::{Kind, State};
use fencepost_domain::transition::{Input, Refusal};
use fencepost_domain::{B256, Bytes};

use super::accept::words;
use super::memory::Whole;

impl Whole {
    pub(super) fn settle(&mut self, call: &Settle) -> Result<Settled, StoreError> {
        check::settle(call)?;
        let row = self.records.get(&call.reservation);
        let Some(row) = row.filter(|row| row.kind == Kind::Reserved).cloned() else {
            return Ok(Settled::NotFound);
        };
        let lost = Settled::LockLost { recorded: false };
        let Some(mut terms) = row.reservation.filter(|terms| terms.lock == call.lock) else {
            return Ok(lost);
        };
        let over = matches!(row.state, State::Recyclable(_));
        Ok(match call.act {
            SettleAct::Submitted { hash, .. } if over => self.late(row, hash),
            SettleAct::Submitted { hash, due_in } => self.submitted(row, hash, due_in),
            SettleAct::Recycle if over => Settled::Done(Box::new(row)),
            SettleAct::Recycle => self.follow(row, Input::Recycle, None, Duration::ZERO),
            SettleAct::Extend(_) if over => lost,
            SettleAct::Extend(by) => {
                if row.state.name() != Name::Reserved {
                    return Ok(Settled::Refused(Refusal::Over));
                }
                let until = terms.expires_at.max(self.later(by));
                let longer = until.duration_since(terms.expires_at);
                terms.expires_at = until;
                let lane = self.lane_mut(row.lane_id);
                *lane.due.get_mut(&row.tx).unwrap() += longer;
                let tx = row.tx;
                self.save(Record {
                    reservation: Some(terms),
                    ..row
                });
                Settled::Done(Box::new(self.records[&tx].clone()))
            }
        })
    }

    fn submitted(&mut self, row: Record, hash: B256, due_in: Duration) -> Settled {
        if row.state.hash() == Some(hash) {
            return Settled::Done(Box::new(row));
        }
        let other = self.owner_of(row.lane.chain, hash);
        if other.is_some_and(|other| other != row.tx) {
            return Settled::Refused(Refusal::OtherHash);
        }
        self.follow(row, Input::Submit(hash), Some(hash), due_in)
    }

    /// The nonce may be someone else's by now, but the hash must never be lost.
    fn late(&mut self, mut row: Record, hash: B256) -> Settled {
        match self.owner_of(row.lane.chain, hash) {
            Some(tx) => Settled::LockLost {
                recorded: tx == row.tx,
            },
            None if row.attempts >= LATE_HASHES_MAX => Settled::LockLost { recorded: false },
            None => {
                let event = Event::new(event::Kind::Submitted)
                    .hash(Some(hash))
                    .note("late");
                let token = self.lanes[&row.lane_id].token;
                self.store_attempt(&mut row, external(hash), token);
                self.tell_holder(&row, event, words(&row.state));
                self.save(row);
                Settled::LockLost { recorded: true }
            }
        }
    }

    fn follow(
        &mut self,
        mut row: Record,
        input: Input,
        hash: Option<B256>,
        due_in: Duration,
    ) -> Settled {
        let from = words(&row.state);
        let moved = match row.state.clone().apply(input) {
            Ok(moved) => moved,
            Err(why) => return Settled::Refused(why),
        };
        row.state = moved.to;
        if let Some(hash) = hash {
            let token = self.lanes[&row.lane_id].token;
            self.store_attempt(&mut row, external(hash), token);
        }
        let due_at = self.later(due_in);
        let lane = self.lane_mut(row.lane_id);
        lane.free.extend(row.state.gave_back());
        if row.state.is_final() {
            lane.due.remove(&row.tx);
        } else {
            lane.due.insert(row.tx, due_at);
        }
        self.tell_holder(&row, moved.event, from);
        let tx = row.tx;
        self.save(row);
        Settled::Done(Box::new(self.records[&tx].clone()))
    }

    fn tell_holder(&mut self, row: &Record, event: Event, from: (String, Option<String>)) {
        let token = self.lanes[&row.lane_id].token;
        self.tell(row, event, Some(from), None, token);
    }
}

/// What a holder has sent: we know its hash and nothing else.
fn external(hash: B256) -> Attempt {
    Attempt {
        kind: attempt::Kind::External,
        hash,
        raw: Bytes::new(),
        fees: None,
    }
}
