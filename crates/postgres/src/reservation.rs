//! What the holder of a reservation says. Its lock token is the fence, so this needs no leader; but
//! the lane's row is taken as for any other write, and the version it was decided on must stand.

use std::time::Duration;

use fencepost_app::ports::{
    Held, Key, LATE_HASHES_MAX, LaneMoves, Move, Record, Settle, SettleAct, Settled, StoreError,
};
use fencepost_domain::attempt::{self, Attempt};
use fencepost_domain::event::{self, Event};
use fencepost_domain::ids::Token;
use fencepost_domain::state::{Kind, State};
use fencepost_domain::transition::{Input, Refusal, Transition};
use fencepost_domain::{B256, Bytes};

use crate::fault::{Fault, Unique, after_write, refused};
use crate::moves::{Call, SETTLE};
use crate::statement::Written;
use crate::{PostgresStore, micros};

/// Moves the end of the loan and the time at which the leader looks at it by as much.
const EXTEND: &str = "
WITH old AS MATERIALIZED (
    SELECT tx_id, reserve_expires_at AS until FROM managed_tx
     WHERE tx_id = $1 AND version = $2 AND state = 'RESERVED' AND lock_token = $3
       FOR NO KEY UPDATE
), new AS (
    UPDATE managed_tx m
       SET reserve_expires_at = greatest(old.until, clock_timestamp() + $4::bigint * interval '1 microsecond'),
           version = m.version + 1, updated_at = clock_timestamp()
      FROM old WHERE m.tx_id = old.tx_id
    RETURNING m.tx_id, m.lane_id, m.reserve_expires_at, m.reserve_expires_at - old.until AS more
), due AS (
    UPDATE due_work d SET due_at = d.due_at + new.more FROM new WHERE d.tx_id = new.tx_id
)
SELECT tx_id, lane_id AS ack_lane, tx_id AS ack_tx, reserve_expires_at AS ack_until FROM new";

/// Rounds of reading and writing; more means that the leader moves it at this very moment.
const ROUNDS: usize = 5;

/// What one round came to.
enum Round {
    Over(Settled),
    /// It has moved since it was read, perhaps by a try of ours whose reply was lost.
    Again {
        lost: bool,
    },
}

impl PostgresStore {
    pub(crate) async fn settle_call(&self, call: &Settle) -> Result<Settled, StoreError> {
        let mut lost = false;
        for _ in 0..ROUNDS {
            match self.settle_round(call).await {
                Ok(Round::Over(settled)) => {
                    if lost {
                        self.see_call(call).await.map_err(after_write)?;
                    }
                    return Ok(settled);
                }
                Ok(Round::Again { lost: one }) => lost |= one,
                Err(error) if lost => return Err(after_write(error)),
                Err(error) => return Err(error),
            }
        }
        let busy = StoreError::Busy("the reservation keeps moving".into());
        Err(if lost { after_write(busy) } else { busy })
    }

    /// A lost try may have done what the answer says, and nothing else remembers it.
    async fn see_call(&self, call: &Settle) -> Result<(), StoreError> {
        let Some(record) = self.find_by(&Key::Id(call.reservation)).await? else {
            return Ok(());
        };
        self.see_events(&[record.lane_id.0]).await
    }

    async fn settle_round(&self, call: &Settle) -> Result<Round, StoreError> {
        let record = self.find_by(&Key::Id(call.reservation)).await?;
        let Some(record) = record.filter(|record| record.kind == Kind::Reserved) else {
            return Ok(Round::Over(Settled::NotFound));
        };
        if record.reservation.is_none_or(|loan| loan.lock != call.lock) {
            return Ok(Round::Over(Settled::LockLost { recorded: false }));
        }
        match call.act {
            SettleAct::Submitted { hash, due_in } => self.submitted(record, hash, due_in).await,
            SettleAct::Recycle => self.recycled(record).await,
            SettleAct::Extend(by) => self.extended(call, record, by).await,
        }
    }

    async fn submitted(
        &self,
        record: Record,
        hash: B256,
        due_in: Duration,
    ) -> Result<Round, StoreError> {
        let external = Attempt {
            kind: attempt::Kind::External,
            hash,
            raw: Bytes::new(),
            fees: None,
        };
        match record.state.clone().apply(Input::Submit(hash)) {
            Ok(moved) => {
                let step = Move::of(&record, moved).attempt(external).due_in(due_in);
                let taken = Settled::Refused(Refusal::OtherHash);
                self.settle_move(record, step, taken).await
            }
            Err(Refusal::Unchanged) => done(record),
            // The same words again, after the chain has answered them.
            Err(Refusal::Over) if record.state.hash() == Some(hash) => done(record),
            Err(Refusal::Over) if record.state.gave_back().is_some() => {
                self.late(record, external).await
            }
            Err(why) => Ok(Round::Over(Settled::Refused(why))),
        }
    }

    /// The nonce is given back and may be someone else's; the hash is kept and followed all the same.
    async fn late(&self, record: Record, external: Attempt) -> Result<Round, StoreError> {
        let known = self
            .find_by(&Key::Hash(record.lane.chain, external.hash))
            .await?;
        if let Some(known) = known {
            let recorded = known.tx == record.tx;
            return Ok(Round::Over(Settled::LockLost { recorded }));
        }
        // Nothing was named while the nonce was lent, so all its attempts are late ones. The write compares
        // the version that was counted at.
        if record.attempts >= LATE_HASHES_MAX {
            return Ok(Round::Over(Settled::LockLost { recorded: false }));
        }
        let event = Event::new(event::Kind::Submitted)
            .hash(Some(external.hash))
            .note("late");
        let same = Transition {
            to: record.state.clone(),
            event,
        };
        let step = Move::of(&record, same).attempt(external);
        let taken = Settled::LockLost { recorded: false };
        let round = self.settle_move(record, step, taken).await?;
        Ok(if matches!(round, Round::Over(Settled::Done(_))) {
            Round::Over(Settled::LockLost { recorded: true })
        } else {
            round
        })
    }

    async fn recycled(&self, record: Record) -> Result<Round, StoreError> {
        if record.state.gave_back().is_some() {
            return done(record);
        }
        match record.state.clone().apply(Input::Recycle) {
            Ok(moved) => {
                let step = Move::of(&record, moved);
                self.settle_move(record, step, Settled::Refused(Refusal::Signed))
                    .await
            }
            Err(why) => Ok(Round::Over(Settled::Refused(why))),
        }
    }

    async fn extended(
        &self,
        call: &Settle,
        record: Record,
        by: Duration,
    ) -> Result<Round, StoreError> {
        match &record.state {
            State::Reserved(_) => {}
            State::Recyclable(_) => return Ok(Round::Over(Settled::LockLost { recorded: false })),
            State::Queued(_)
            | State::Allocated(_)
            | State::Tracking(_)
            | State::Confirmed(_)
            | State::Failed(_)
            | State::Stuck(_)
            | State::Submitted(_)
            | State::Used(_) => return Ok(Round::Over(Settled::Refused(Refusal::Over))),
        }
        let (version, lock, by) = (record.version.column(), call.lock.0, micros(by));
        let rows = self
            .connections
            .write_plain(EXTEND, &[&record.tx.0, &version, &lock, &by])
            .await?;
        if rows.is_empty() {
            // A lost try may be why; asking again moves the end to the same distance from now.
            return Ok(Round::Again { lost: true });
        }
        self.reread(&record).await
    }

    async fn settle_move(
        &self,
        record: Record,
        step: Move,
        hash_taken: Settled,
    ) -> Result<Round, StoreError> {
        let held = Held {
            lane: record.lane_id,
            token: Token::default(),
        };
        let batch = LaneMoves {
            held,
            moves: vec![step],
        };
        let call = Call::new(self, None, [&batch]);
        match self
            .connections
            .write(SETTLE.sql(call.parts()), &call.params())
            .await?
        {
            Written::Rows { .. } => self.reread(&record).await,
            Written::Refused {
                fault: Fault::Partial,
                again,
                ..
            } => Ok(Round::Again { lost: again }),
            Written::Refused {
                fault: Fault::Taken(Unique::Hash),
                ..
            } => Ok(Round::Over(hash_taken)),
            Written::Refused {
                error, again: true, ..
            } => Err(StoreError::OutcomeUnknown(error.into())),
            Written::Refused { error, .. } => Err(refused(error)),
        }
    }

    /// What has just been written, as it stands.
    async fn reread(&self, record: &Record) -> Result<Round, StoreError> {
        let found = self.find_by(&Key::Id(record.tx)).await;
        match found.map_err(after_write)? {
            Some(record) => done(record),
            None => Ok(Round::Over(Settled::NotFound)),
        }
    }
}

fn done(record: Record) -> Result<Round, StoreError> {
    Ok(Round::Over(Settled::Done(Box::new(record))))
}
