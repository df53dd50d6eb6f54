//! One move of one transaction: its row and everything that is written together with it.

use fencepost_app::ports::check::cut;
use fencepost_app::ports::{Closing, Move};
use fencepost_domain::flat::Name;
use fencepost_domain::ids::{ChainId, LaneId, Nonce, Token, TxId};
use fencepost_domain::state::State;
use rusqlite::params;

use crate::db::Db;
use crate::due;
use crate::error::Answer;
use crate::history::{Teller, store_attempt};
use crate::queue;
use crate::row::key;

/// A write of a transaction's row. Whatever it does, it counts the version.
pub(crate) struct Change<'a> {
    tx: TxId,
    to: &'a State,
    token: Option<Token>,
    error: Option<&'a str>,
    receipt: Option<&'a str>,
    attempts: u32,
    tries: u32,
}

impl<'a> Change<'a> {
    pub(crate) fn of(tx: TxId, to: &'a State) -> Self {
        Self {
            tx,
            to,
            token: None,
            error: None,
            receipt: None,
            attempts: 0,
            tries: 0,
        }
    }

    /// Written by the lane's leader, under this token.
    pub(crate) fn under(self, token: Token) -> Self {
        let token = Some(token);
        Self { token, ..self }
    }

    /// An attempt was stored with it.
    pub(crate) fn attempted(self) -> Self {
        Self {
            attempts: 1,
            ..self
        }
    }

    /// That counts as a try to send it.
    fn tried(self) -> Self {
        Self { tries: 1, ..self }
    }

    pub(crate) fn write(&self, db: &Db<'_>) -> Answer<()> {
        let flat = self.to.flat();
        let in_block = self.to.inclusion().is_some();
        let tried_at = (self.tries > 0).then_some(db.now);
        db.run_one(
            "UPDATE managed_tx SET state = ?2, sub_state = ?3, nonce = ?4, nonce_given_back = ?5,
                tx_hash = ?6, block_number = ?7, block_hash = ?8, mined_hash = ?9, mined_by = ?10,
                mined_status = ?11, foreign_hash = ?12, attempts = attempts + ?13,
                submit_attempts = submit_attempts + ?14, last_error = coalesce(?15, last_error),
                first_submit_at = coalesce(first_submit_at, ?16),
                last_submit_at = coalesce(?16, last_submit_at),
                receipt = CASE WHEN ?7 IS NULL THEN NULL ELSE coalesce(?17, receipt) END,
                confirmed_at = CASE WHEN ?18 IS NULL THEN NULL ELSE coalesce(confirmed_at, ?18) END,
                fencing_token = coalesce(?19, fencing_token),
                version = version + 1, updated_at = ?20
             WHERE tx_id = ?1",
            params![
                key(self.tx),
                flat.state,
                flat.sub_state,
                flat.nonce,
                flat.nonce_given_back,
                flat.tx_hash,
                flat.block_number,
                flat.block_hash,
                flat.mined_hash,
                flat.mined_by,
                flat.mined_status,
                flat.foreign_hash,
                self.attempts,
                self.tries,
                self.error.map(cut),
                tried_at,
                self.receipt.filter(|_| in_block),
                (self.to.is_final() && in_block).then_some(db.now),
                self.token.map(Token::column),
                db.now,
            ],
        )
    }
}

/// Writes one move that was checked before.
pub(crate) fn write(
    db: &Db<'_>,
    teller: &mut Teller<'_>,
    chain: ChainId,
    attempts: u32,
    step: &Move,
) -> Answer<()> {
    let token = teller.author.token;
    let mut change = Change::of(step.tx, &step.to).under(token);
    change.error = step.error.as_deref();
    change.receipt = step.receipt.as_deref();
    let mut stored = None;
    if let Some(attempt) = &step.attempt {
        let n = attempts + 1;
        store_attempt(db, step.tx, n, chain, attempt, token)?;
        change = change.attempted().tried();
        stored = Some(n);
    }
    if let Some(sent) = step.sent {
        db.run(
            "UPDATE tx_attempt SET outcome = ?3
             WHERE tx_id = ?1 AND n = ?2 AND outcome IS NOT 'ACCEPTED'",
            params![key(step.tx), sent.n, sent.outcome.word()],
        )?;
    }
    change.write(db)?;
    if step.held_nonce
        && let Some(nonce) = step.to.gave_back()
    {
        give_back(db, teller.lane, nonce)?;
    }
    // What waits may be told of and still wait.
    if step.from.0 == Name::Queued && step.to.name() != Name::Queued {
        queue::leave(db, step.tx)?;
    }
    reschedule(db, teller.lane, step)?;
    let (from, sub) = step.from;
    teller.tell(db, step.tx, &step.event, Some((from.word(), sub)), &step.to)?;
    match &step.closes {
        Some(closing) => close(db, closing, stored),
        None => Ok(()),
    }
}

/// What holds a nonce and has not ended is due some time; what has ended never is.
fn reschedule(db: &Db<'_>, lane: LaneId, step: &Move) -> Answer<()> {
    let Some(nonce) = step.to.nonce().filter(|_| !step.to.is_final()) else {
        return due::remove(db, step.tx);
    };
    match step.due_in {
        Some(wait) => due::put(db, lane, step.tx, nonce, db.later(wait)),
        None => due::keep(db, lane, step.tx, nonce),
    }
}

/// A nonce that nobody signed for is free again.
pub(crate) fn give_back(db: &Db<'_>, lane: LaneId, nonce: Nonce) -> Answer<()> {
    db.run_one(
        "INSERT INTO free_nonce (lane_id, nonce) VALUES (?1, ?2)",
        params![lane.0, nonce.column()],
    )
}

fn close(db: &Db<'_>, closing: &Closing, attempt: Option<u32>) -> Answer<()> {
    let refused = closing.refused.as_deref();
    let state = if refused.is_some() { "REFUSED" } else { "DONE" };
    db.run_one(
        "UPDATE remedy SET state = ?2, result = ?3, attempt_n = ?4, closed_at = ?5
         WHERE remedy_id = ?1 AND closed_at IS NULL",
        params![closing.remedy.0, state, refused.map(cut), attempt, db.now],
    )
}
