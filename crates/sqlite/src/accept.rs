//! Accepting with a nonce. Duplicates are found first and spend nothing; what remains is checked
//! whole before the first row is written.

use std::collections::{HashMap, HashSet};

use fencepost_app::ports::{
    Body, Held, Holder, LaneBatch, LaneCreated, LaneRefusal, NewTx, Record, Stored,
};
use fencepost_domain::event::{self, Event};
use fencepost_domain::ids::{LaneId, Nonce, RequestId, Token, TxId};
use fencepost_domain::mutant::Mutant;
use fencepost_domain::nonce::{self, Plan};
use fencepost_domain::state::{Allocated, Reserved, Signing, State};
use rusqlite::params;

use crate::db::{Db, Micros, micros, plus};
use crate::due;
use crate::error::{Answer, broken};
use crate::history::{Author, Teller};
use crate::lease::LaneRow;
use crate::reads;
use crate::row::{key, time};

/// What is known of one item before anything is written.
enum Place {
    /// Its id or its name is in the store already.
    Found(Box<Record>),
    /// An earlier item of the batch has its id or its name.
    Again(usize),
    New,
}

pub(crate) fn create(
    db: &Db<'_>,
    holder: &Holder,
    batches: &[LaneBatch],
) -> Answer<Vec<LaneCreated>> {
    batches
        .iter()
        .map(|batch| create_lane(db, holder, batch))
        .collect()
}

/// Every refusal comes before the first row is written, so there is nothing to undo but with the whole operation. In the
/// first one of a group, which has no savepoint, one for each lane would copy every page that its rows touch.
fn create_lane(db: &Db<'_>, holder: &Holder, batch: &LaneBatch) -> Answer<LaneCreated> {
    let Some(row) = LaneRow::find(db, batch.held.lane)? else {
        return Ok(LaneCreated::Refused(LaneRefusal::UnknownLane));
    };
    let places = places(db, row.id, &batch.txs)?;
    let fresh: Vec<&NewTx> = (batch.txs.iter().zip(&places))
        .filter(|(_, place)| matches!(place, Place::New))
        .map(|(tx, _)| tx)
        .collect();
    // Duplicates cost nothing, so they are answered whoever leads the lane.
    if fresh.is_empty() {
        return answers(db, &row, batch, places, &[], row.next_nonce);
    }
    let fills = fresh.iter().all(|tx| is_placeholder(tx));
    if let Some(refusal) = closed(db, &row, holder, batch.held, !fills)? {
        return Ok(LaneCreated::Refused(refusal));
    }
    let is_late = |tx: &&NewTx| tx.not_after.is_some_and(|until| micros(until) < db.now);
    if fresh.iter().any(is_late) {
        return Ok(LaneCreated::Refused(LaneRefusal::Late(time(db.now)?)));
    }
    let wanted = fresh.iter().filter(|tx| !is_placeholder(tx)).count();
    let plan = match plan(db, &row, &batch.free, batch.cursor, wanted)? {
        Ok(plan) => plan,
        Err(refusal) => return Ok(LaneCreated::Refused(refusal)),
    };
    let nonces = match laid_out(db, row.id, &fresh, &plan)? {
        Ok(nonces) => nonces,
        Err(refusal) => return Ok(LaneCreated::Refused(refusal)),
    };
    let mut teller = Teller {
        lane: row.id,
        seq: row.lane_seq,
        author: Author {
            node: Some(&holder.node),
            token: batch.held.token,
        },
    };
    for (tx, nonce) in fresh.iter().zip(&nonces) {
        store(db, &mut teller, tx, *nonce)?;
    }
    spend(db, row.id, &plan)?;
    let next = if Mutant::CursorByInput.is_on() {
        let skipped = u64::try_from(batch.txs.len() - fresh.len()).unwrap_or(0);
        plan.next.plus(skipped).unwrap_or(plan.next)
    } else {
        plan.next
    };
    row.gave(db, next, teller.seq)?;
    answers(db, &row, batch, places, &nonces, next)
}

fn is_placeholder(tx: &NewTx) -> bool {
    matches!(tx.body, Body::Placeholder(_))
}

/// An id is looked for before a name, in the store and in the batch alike: the answer is then the
/// same as if the items had come one by one.
fn places(db: &Db<'_>, lane: LaneId, txs: &[NewTx]) -> Answer<Vec<Place>> {
    let mut ids: HashMap<TxId, usize> = HashMap::new();
    let mut names: HashMap<&RequestId, usize> = HashMap::new();
    let mut places = Vec::with_capacity(txs.len());
    for (at, tx) in txs.iter().enumerate() {
        let name = tx.request_id.as_ref();
        places.push(if let Some(first) = ids.get(&tx.tx) {
            Place::Again(*first)
        } else if let Some(stored) = reads::twin(db, lane, tx)? {
            Place::Found(Box::new(stored))
        } else if let Some(first) = name.and_then(|name| names.get(name)) {
            Place::Again(*first)
        } else {
            ids.insert(tx.tx, at);
            name.map(|name| names.insert(name, at));
            Place::New
        });
    }
    Ok(places)
}

/// Why no nonce of the lane may be given now, if so.
pub(crate) fn closed(
    db: &Db<'_>,
    row: &LaneRow,
    holder: &Holder,
    held: Held,
    waits_behind_queue: bool,
) -> Answer<Option<LaneRefusal>> {
    if !row.is_led(db, holder, held.token) {
        return Ok(Some(LaneRefusal::Fenced));
    }
    if let Some(reason) = row.stopped() {
        return Ok(Some(LaneRefusal::Paused(reason)));
    }
    let waiting = waits_behind_queue
        && db.exists(
            "SELECT 1 FROM lane_queue WHERE lane_id = ?1 LIMIT 1",
            [row.id.0],
        )?;
    Ok(waiting.then_some(LaneRefusal::QueueFirst))
}

/// The nonces that a batch gets: the caller's cursor must be the lane's, what it takes for free must
/// be free, and nobody may hold any of them.
pub(crate) fn plan(
    db: &Db<'_>,
    row: &LaneRow,
    free: &[Nonce],
    cursor: Nonce,
    n: usize,
) -> Answer<Result<Plan, LaneRefusal>> {
    if cursor != row.next_nonce {
        return Ok(Err(LaneRefusal::CursorMoved(row.next_nonce)));
    }
    let Ok(plan) = nonce::plan(free, cursor, n) else {
        return Ok(Err(LaneRefusal::Exhausted));
    };
    for nonce in &plan.nonces[..plan.from_free] {
        let is_free = db.exists(
            "SELECT 1 FROM free_nonce WHERE lane_id = ?1 AND nonce = ?2",
            params![row.id.0, nonce.column()],
        )?;
        if !is_free {
            return Ok(Err(LaneRefusal::FreeMoved));
        }
    }
    for nonce in &plan.nonces {
        if is_held(db, row.id, *nonce)? {
            return Ok(Err(LaneRefusal::NonceHeld(*nonce)));
        }
    }
    Ok(Ok(plan))
}

/// One nonce for each new item, in order: placeholders name their own, which nobody may hold.
fn laid_out(
    db: &Db<'_>,
    lane: LaneId,
    fresh: &[&NewTx],
    plan: &Plan,
) -> Answer<Result<Vec<Nonce>, LaneRefusal>> {
    let mut planned = plan.nonces.iter();
    let mut taken: HashSet<Nonce> = plan.nonces.iter().copied().collect();
    let mut nonces = Vec::with_capacity(fresh.len());
    for tx in fresh {
        nonces.push(match tx.body {
            Body::Placeholder(nonce) => {
                if !taken.insert(nonce) || is_held(db, lane, nonce)? {
                    return Ok(Err(LaneRefusal::NonceHeld(nonce)));
                }
                nonce
            }
            Body::Managed(_) | Body::Reserved(_) => {
                let short = || broken("a plan has fewer nonces than were asked for");
                *planned.next().ok_or_else(short)?
            }
        });
    }
    Ok(Ok(nonces))
}

/// Whether a transaction of the lane holds the nonce.
fn is_held(db: &Db<'_>, lane: LaneId, nonce: Nonce) -> Answer<bool> {
    db.exists(
        "SELECT 1 FROM managed_tx WHERE lane_id = ?1 AND nonce = ?2",
        params![lane.0, nonce.column()],
    )
}

fn store(db: &Db<'_>, teller: &mut Teller<'_>, tx: &NewTx, nonce: Nonce) -> Answer<()> {
    let (state, lent_until, due_at) = match tx.body {
        Body::Reserved(loan) => {
            let until = db.later(loan.ttl);
            let state = State::Reserved(Reserved { nonce });
            (state, Some(until), plus(until, loan.grace))
        }
        Body::Managed(_) | Body::Placeholder(_) => {
            let bytes = Signing::Unsigned;
            (State::Allocated(Allocated { nonce, bytes }), None, db.now)
        }
    };
    insert(db, teller.lane, tx, &state, lent_until, teller.author.token)?;
    due::add(db, teller.lane, tx.tx, nonce, due_at)?;
    if let Body::Placeholder(nonce) = tx.body {
        db.run(
            "DELETE FROM free_nonce WHERE lane_id = ?1 AND nonce = ?2",
            params![teller.lane.0, nonce.column()],
        )?;
    }
    let event = Event::new(event::Kind::Accepted);
    teller.tell(db, tx.tx, &event, None, &state)
}

/// Stores a new row.
pub(crate) fn insert(
    db: &Db<'_>,
    lane: LaneId,
    tx: &NewTx,
    state: &State,
    lent_until: Option<Micros>,
    token: Token,
) -> Answer<()> {
    let (payload, hash) = tx.payload().unzip();
    let lock = match tx.body {
        Body::Reserved(loan) => Some(*loan.lock.0.as_bytes()),
        Body::Managed(_) | Body::Placeholder(_) => None,
    };
    // Only what another service has sent begins with an attempt; a holder's own send was no try of ours.
    let sent = state.hash();
    let tried_at = sent.filter(|_| lock.is_none()).map(|_| db.now);
    db.run_one(
        "INSERT INTO managed_tx (tx_id, lane_id, kind, request_id, payload, payload_hash, state,
            sub_state, nonce, attempts, submit_attempts, not_after, meta, lock_token,
            reserve_expires_at, fencing_token, version, created_at, updated_at, tx_hash,
            first_submit_at, last_submit_at, created_by, seal)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?16 IS NOT NULL, ?17 IS NOT NULL, ?10, ?11,
            ?12, ?13, ?14, 1, ?15, ?15, ?16, ?17, ?17, ?18, ?19)",
        params![
            key(tx.tx),
            lane.0,
            tx.kind().word(),
            tx.request_id.as_ref().map(RequestId::as_str),
            payload,
            hash.map(|hash| hash.0),
            state.name().word(),
            state.sub(),
            state.nonce().map(Nonce::column),
            tx.not_after.map(micros),
            tx.meta.as_ref().map(|meta| meta.as_str()),
            lock,
            lent_until,
            token.column(),
            db.now,
            sent.map(|hash| hash.0),
            tried_at,
            tx.created_by.as_deref(),
            tx.seal.map(|seal| seal.0),
        ],
    )
}

/// Takes the free nonces that a plan used.
pub(crate) fn spend(db: &Db<'_>, lane: LaneId, plan: &Plan) -> Answer<()> {
    if Mutant::FreeNonceKept.is_on() {
        return Ok(());
    }
    for nonce in &plan.nonces[..plan.from_free] {
        db.run_one(
            "DELETE FROM free_nonce WHERE lane_id = ?1 AND nonce = ?2",
            params![lane.0, nonce.column()],
        )?;
    }
    Ok(())
}

fn answers(
    db: &Db<'_>,
    row: &LaneRow,
    batch: &LaneBatch,
    places: Vec<Place>,
    nonces: &[Nonce],
    next_nonce: Nonce,
) -> Answer<LaneCreated> {
    let at = time(db.now)?;
    let mut nonces = nonces.iter();
    let mut txs = Vec::with_capacity(places.len());
    for (tx, place) in batch.txs.iter().zip(places) {
        let stored = match place {
            Place::New => {
                let short = || broken("a new transaction has no nonce");
                let nonce = *nonces.next().ok_or_else(short)?;
                txs.push(Stored::New { nonce, at });
                continue;
            }
            Place::Found(stored) => stored,
            Place::Again(first) => {
                let gone = || broken("a transaction just stored is not there");
                let stored = reads::by_id(db, batch.txs[first].tx)?;
                Box::new(stored.ok_or_else(gone)?)
            }
        };
        txs.push(match tx.matches(row.id, &stored) {
            true => Stored::Known(stored),
            false => Stored::Conflict(stored),
        });
    }
    Ok(LaneCreated::Done {
        txs,
        next_nonce,
        more_free: has_free(db, row.id)?,
    })
}

/// Whether free nonces are left in the lane.
pub(crate) fn has_free(db: &Db<'_>, lane: LaneId) -> Answer<bool> {
    db.exists(
        "SELECT 1 FROM free_nonce WHERE lane_id = ?1 LIMIT 1",
        [lane.0],
    )
}
