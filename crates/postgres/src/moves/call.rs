//! The parameters of one statement of moves, as arrays.

use std::borrow::Cow;

use fencepost_app::ports::{Holder, LaneMoves, Move, check};
use fencepost_domain::confirmation::Stretch;
use fencepost_domain::flat::Name;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::column::Sparse;
use crate::{PostgresStore, micros, number, rows};

#[derive(Default)]
struct Lanes {
    id: Vec<i64>,
    token: Vec<i64>,
    n: Vec<i64>,
    signs: Vec<bool>,
}

/// The new rows of `managed_tx`.
#[derive(Default)]
struct Rows<'a> {
    /// The number of the lane in the call, from one.
    lane: Vec<i32>,
    tx: Vec<Uuid>,
    version: Vec<i64>,
    state: Vec<String>,
    sub_state: Sparse<String>,
    nonce: Sparse<i64>,
    gave_back: Sparse<i64>,
    tx_hash: Sparse<Vec<u8>>,
    block_number: Sparse<i64>,
    block_hash: Sparse<Vec<u8>>,
    mined_hash: Sparse<Vec<u8>>,
    mined_by: Sparse<String>,
    mined_status: Sparse<String>,
    foreign_hash: Sparse<Vec<u8>>,
    ends: Sparse<bool>,
    error: Sparse<Cow<'a, str>>,
    receipt: Sparse<&'a str>,
    signs: Sparse<bool>,
    due: Sparse<i64>,
    redue: Sparse<bool>,
    frees: Sparse<bool>,
    queued: Sparse<bool>,
}

#[derive(Default)]
struct Events<'a> {
    ord: Vec<i32>,
    kind: Vec<&'static str>,
    from_state: Vec<&'static str>,
    from_sub: Sparse<&'static str>,
    hash: Sparse<Vec<u8>>,
    block_number: Sparse<i64>,
    block_hash: Sparse<Vec<u8>>,
    new_fork: Sparse<bool>,
    note: Sparse<Cow<'a, str>>,
    confirmations: Sparse<Vec<u8>>,
}

/// Bytes to store, outcomes of sends and closed remedies; nothing for most moves.
#[derive(Default)]
struct Extras<'a> {
    kind: Sparse<&'static str>,
    hash: Sparse<&'a [u8]>,
    raw: Sparse<&'a [u8]>,
    max_fee: Sparse<String>,
    max_priority_fee: Sparse<String>,
    sent_n: Sparse<i32>,
    outcome: Sparse<&'static str>,
    remedy: Sparse<i64>,
    refused: Sparse<Cow<'a, str>>,
}

/// Which parts of the statement a call needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parts([bool; Self::NAMES.len()]);

impl Parts {
    /// As `moves.sql` names them.
    const NAMES: [&str; 5] = ["signs", "sends", "closes", "dues", "gives"];
    pub(crate) const CHOICES: usize = 1 << Self::NAMES.len();

    pub(crate) fn has(self, name: &str) -> bool {
        let named = Self::NAMES.iter().zip(self.0);
        named
            .into_iter()
            .any(|(each, wanted)| wanted && *each == name)
    }

    /// A number for each choice.
    pub(crate) fn choice(self) -> usize {
        self.0
            .iter()
            .fold(0, |bits, part| bits * 2 + usize::from(*part))
    }
}

/// One statement's parameters, fixed before its first try.
pub(crate) struct Call<'a> {
    node: Option<&'a str>,
    incarnation: i64,
    lease: i64,
    lanes: Lanes,
    rows: Rows<'a>,
    events: Events<'a>,
    extras: Extras<'a>,
}

impl<'a> Call<'a> {
    /// Without a holder nothing is fenced: the lock token of a reservation stands for it.
    pub(crate) fn new(
        store: &PostgresStore,
        holder: Option<&'a Holder>,
        batches: impl IntoIterator<Item = &'a LaneMoves>,
    ) -> Self {
        let mut call = Self {
            node: holder.map(|holder| holder.node.as_str()),
            incarnation: holder.map_or(0, |holder| holder.incarnation.column()),
            lease: store.lease_micros(),
            lanes: Lanes::default(),
            rows: Rows::default(),
            events: Events::default(),
            extras: Extras::default(),
        };
        for batch in batches {
            call.lanes.id.push(batch.held.lane.0);
            call.lanes.token.push(batch.held.token.column());
            call.lanes.n.push(rows(batch.moves.len()));
            call.lanes
                .signs
                .push(batch.moves.iter().any(|step| step.attempt.is_some()));
            for (place, step) in batch.moves.iter().enumerate() {
                call.add_row(number(call.lanes.id.len()), step);
                call.add_event(step, number(place + 1));
                call.add_extras(step);
            }
        }
        call
    }

    fn add_row(&mut self, lane: i32, step: &'a Move) {
        let flat = step.to.flat();
        let r = &mut self.rows;
        r.lane.push(lane);
        r.tx.push(step.tx.0);
        r.version.push(step.version.column());
        r.state.push(flat.state);
        r.sub_state.push(flat.sub_state);
        r.nonce.push(flat.nonce);
        r.gave_back.push(flat.nonce_given_back);
        r.tx_hash.push(flat.tx_hash);
        r.block_number.push(flat.block_number);
        r.block_hash.push(flat.block_hash);
        r.mined_hash.push(flat.mined_hash);
        r.mined_by.push(flat.mined_by);
        r.mined_status.push(flat.mined_status);
        r.foreign_hash.push(flat.foreign_hash);
        r.ends.mark(step.to.is_final());
        r.error.push(step.error.as_deref().map(check::cut));
        r.receipt.push(step.receipt.as_deref());
        r.signs.mark(step.attempt.is_some());
        let is_due = step.to.nonce().is_some();
        r.due.push(step.due_in.filter(|_| is_due).map(micros));
        r.redue.mark(is_due && was_not_due(step.from.0));
        r.frees
            .mark(step.held_nonce && step.to.gave_back().is_some());
        // What waits may be told of and still wait.
        r.queued
            .mark(step.from.0 == Name::Queued && step.to.name() != Name::Queued);
    }

    fn add_event(&mut self, step: &'a Move, ord: i32) {
        let (event, e) = (&step.event, &mut self.events);
        e.ord.push(ord);
        e.kind.push(event.kind.word());
        e.from_state.push(step.from.0.word());
        e.from_sub.push(step.from.1);
        e.hash.push(event.hash.map(|hash| hash.to_vec()));
        e.block_number
            .push(event.block.map(|block| block.number.column()));
        e.block_hash
            .push(event.block.map(|block| block.hash.to_vec()));
        e.new_fork.mark(event.new_fork);
        e.note.push(event.note.as_deref().map(check::clean));
        e.confirmations
            .push(event.confirmations.as_ref().map(Stretch::column));
    }

    fn add_extras(&mut self, step: &'a Move) {
        let (attempt, x) = (step.attempt.as_ref(), &mut self.extras);
        let fees = attempt.and_then(|attempt| attempt.fees);
        let tip = fees.and_then(|fees| fees.max_priority_fee);
        x.kind.push(attempt.map(|attempt| attempt.kind.word()));
        x.hash.push(attempt.map(|attempt| attempt.hash.as_slice()));
        x.raw.push(attempt.map(|attempt| attempt.raw.as_ref()));
        x.max_fee.push(fees.map(|fees| fees.max_fee.to_string()));
        x.max_priority_fee.push(tip.map(|tip| tip.to_string()));
        // A number that no attempt can have finds none, and the move is stale.
        x.sent_n
            .push(step.sent.map(|sent| i32::try_from(sent.n).unwrap_or(0)));
        x.outcome.push(step.sent.map(|sent| sent.outcome.word()));
        let closing = step.closes.as_ref();
        x.remedy.push(closing.map(|closing| closing.remedy.0));
        let refused = closing.and_then(|closing| closing.refused.as_deref());
        x.refused.push(refused.map(check::cut));
    }

    pub(crate) fn hashes(&self) -> &[Option<&'a [u8]>] {
        self.extras.hash.cells()
    }

    pub(crate) const fn parts(&self) -> Parts {
        let (r, x) = (&self.rows, &self.extras);
        Parts([
            x.kind.is_filled(),
            x.sent_n.is_filled(),
            x.remedy.is_filled(),
            r.ends.is_filled() || r.redue.is_filled() || r.due.is_filled(),
            r.frees.is_filled() || r.queued.is_filled(),
        ])
    }

    /// In the order of the statement's numbers.
    pub(crate) fn params(&self) -> [&(dyn ToSql + Sync); 48] {
        let (l, r, e) = (&self.lanes, &self.rows, &self.events);
        let x = &self.extras;
        [
            &l.id,
            &l.token,
            &l.n,
            &l.signs,
            &self.node,
            &self.incarnation,
            &self.lease,
            &r.lane,
            &r.tx,
            &r.version,
            &r.state,
            &r.sub_state,
            &r.nonce,
            &r.gave_back,
            &r.tx_hash,
            &r.block_number,
            &r.block_hash,
            &r.mined_hash,
            &r.mined_by,
            &r.mined_status,
            &r.foreign_hash,
            &r.ends,
            &r.error,
            &r.receipt,
            &r.signs,
            &r.due,
            &r.redue,
            &r.frees,
            &r.queued,
            &e.ord,
            &e.kind,
            &e.from_state,
            &e.from_sub,
            &e.hash,
            &e.block_number,
            &e.block_hash,
            &e.new_fork,
            &e.note,
            &x.kind,
            &x.hash,
            &x.raw,
            &x.max_fee,
            &x.max_priority_fee,
            &x.sent_n,
            &x.outcome,
            &x.remedy,
            &x.refused,
            &e.confirmations,
        ]
    }
}

/// Only what holds a nonce and has not ended is due; whatever comes back from elsewhere is due now.
const fn was_not_due(from: Name) -> bool {
    match from {
        Name::Queued | Name::Confirmed | Name::Failed | Name::Used | Name::Recyclable => true,
        Name::Allocated | Name::Tracking | Name::Stuck | Name::Reserved | Name::Submitted => false,
    }
}
