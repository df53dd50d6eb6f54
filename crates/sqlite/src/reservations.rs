//! Reservations: what their holders say. The lock token is the fence, the domain decides what may
//! happen, and whatever a holder says it has sent is kept, even too late.

use std::time::Duration;

use fencepost_app::ports::{LATE_HASHES_MAX, Record, Reservation, Settle, SettleAct, Settled};
use fencepost_domain::attempt::{self, Attempt};
use fencepost_domain::event::{self, Event};
use fencepost_domain::ids::TxId;
use fencepost_domain::state::State;
use fencepost_domain::transition::{Input, Refusal, Transition};
use fencepost_domain::{B256, Bytes};
use rusqlite::params;

use crate::db::{Db, micros};
use crate::due;
use crate::error::{Answer, broken};
use crate::history::{Author, Teller, holder_of, store_attempt, words};
use crate::moves::lane_of;
use crate::reads;
use crate::row::key;
use crate::step::{Change, give_back};

pub(crate) fn settle(db: &Db<'_>, call: &Settle) -> Answer<Settled> {
    let Some(record) = reads::by_id(db, call.reservation)? else {
        return Ok(Settled::NotFound);
    };
    let Some(loan) = record.reservation else {
        return Ok(Settled::NotFound);
    };
    if loan.lock != call.lock {
        return Ok(Settled::LockLost { recorded: false });
    }
    match call.act {
        SettleAct::Submitted { hash, due_in } => submitted(db, record, hash, due_in),
        SettleAct::Recycle => recycle(db, record),
        SettleAct::Extend(by) => extend(db, record, loan, by),
    }
}

fn submitted(db: &Db<'_>, record: Record, hash: B256, due_in: Duration) -> Answer<Settled> {
    if let State::Recyclable(_) = record.state {
        return late(db, &record, hash);
    }
    // Saying the same again changes nothing, however far the chain has come meanwhile.
    if record.state.hash() == Some(hash) {
        return Ok(Settled::Done(Box::new(record)));
    }
    let owner = holder_of(db, record.lane.chain, hash)?;
    if owner.is_some_and(|owner| owner != record.tx) {
        return Ok(Settled::Refused(Refusal::OtherHash));
    }
    let moved = match record.state.clone().apply(Input::Submit(hash)) {
        Ok(moved) => moved,
        Err(refusal) => return Ok(Settled::Refused(refusal)),
    };
    write(db, &record, &moved, Some(hash))?;
    // A nonce that the chain has used can still be named; it has ended all the same.
    if let Some(nonce) = moved.to.nonce().filter(|_| !moved.to.is_final()) {
        due::put(db, record.lane_id, record.tx, nonce, db.later(due_in))?;
    }
    done(db, record.tx)
}

/// The nonce was given back and may be someone else's by now, so two transactions may compete for
/// it on chain. The hash is kept so that it is followed and explained.
fn late(db: &Db<'_>, record: &Record, hash: B256) -> Answer<Settled> {
    if let Some(holder) = holder_of(db, record.lane.chain, hash)? {
        let recorded = holder == record.tx;
        return Ok(Settled::LockLost { recorded });
    }
    // Nothing was named while the nonce was lent, so all its attempts are late ones.
    if record.attempts >= LATE_HASHES_MAX {
        return Ok(Settled::LockLost { recorded: false });
    }
    let event = Event::new(event::Kind::Submitted).hash(Some(hash));
    let same = Transition {
        to: record.state.clone(),
        event: event.note("late"),
    };
    write(db, record, &same, Some(hash))?;
    Ok(Settled::LockLost { recorded: true })
}

fn recycle(db: &Db<'_>, record: Record) -> Answer<Settled> {
    if let State::Recyclable(_) = record.state {
        return Ok(Settled::Done(Box::new(record)));
    }
    let moved = match record.state.clone().apply(Input::Recycle) {
        Ok(moved) => moved,
        Err(refusal) => return Ok(Settled::Refused(refusal)),
    };
    write(db, &record, &moved, None)?;
    due::remove(db, record.tx)?;
    if let Some(nonce) = moved.to.gave_back() {
        give_back(db, record.lane_id, nonce)?;
    }
    done(db, record.tx)
}

fn extend(db: &Db<'_>, record: Record, loan: Reservation, by: Duration) -> Answer<Settled> {
    match record.state {
        State::Reserved(_) => {}
        State::Recyclable(_) => return Ok(Settled::LockLost { recorded: false }),
        State::Queued(_)
        | State::Allocated(_)
        | State::Tracking(_)
        | State::Confirmed(_)
        | State::Failed(_)
        | State::Stuck(_)
        | State::Submitted(_)
        | State::Used(_) => return Ok(Settled::Refused(Refusal::Over)),
    }
    let until = micros(loan.expires_at);
    // A shorter wish never takes back what was promised.
    let longer = db.later(by).max(until);
    db.run_one(
        "UPDATE managed_tx SET reserve_expires_at = ?2, version = version + 1, updated_at = ?3
         WHERE tx_id = ?1",
        params![key(record.tx), longer, db.now],
    )?;
    due::shift(db, record.tx, longer - until)?;
    done(db, record.tx)
}

/// Writes a move that no leader made: without a node, under the lane's token of the moment.
fn write(db: &Db<'_>, record: &Record, moved: &Transition, hash: Option<B256>) -> Answer<()> {
    let lane = lane_of(db, record.lane_id)?;
    let author = Author {
        node: None,
        token: lane.token,
    };
    let mut teller = Teller {
        lane: lane.id,
        seq: lane.lane_seq,
        author,
    };
    let mut change = Change::of(record.tx, &moved.to);
    if let Some(hash) = hash {
        let n = record.attempts + 1;
        store_attempt(
            db,
            record.tx,
            n,
            lane.lane.chain,
            &external(hash),
            lane.token,
        )?;
        change = change.attempted();
    }
    change.write(db)?;
    teller.tell(db, record.tx, &moved.event, words(&record.state), &moved.to)?;
    // The lease is its leader's to renew.
    db.run_one(
        "UPDATE signer_lease SET lane_seq = ?2, updated_at = ?3 WHERE lane_id = ?1",
        params![lane.id.0, teller.seq.column(), db.now],
    )
}

fn external(hash: B256) -> Attempt {
    Attempt {
        kind: attempt::Kind::External,
        hash,
        raw: Bytes::new(),
        fees: None,
    }
}

fn done(db: &Db<'_>, tx: TxId) -> Answer<Settled> {
    let record = reads::by_id(db, tx)?;
    let record = record.ok_or_else(|| broken("a reservation vanished"))?;
    Ok(Settled::Done(Box::new(record)))
}
