//! The parameters of one create statement: lanes, free nonces and rows as arrays.

use fencepost_app::ports::{Body, Holder};
use fencepost_domain::ids::{Nonce, TxId};
use fencepost_domain::state::Kind;
use jiff::Timestamp;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::work::{Layout, Work};
use crate::column::Sparse;
use crate::{PostgresStore, micros, number};

#[derive(Default)]
struct Lanes {
    id: Vec<i64>,
    token: Vec<i64>,
    expected: Vec<i64>,
    next: Vec<i64>,
    n: Vec<i64>,
    passes_queue: Sparse<bool>,
    /// The first time after which one of its rows is to be given no nonce.
    until: Sparse<Timestamp>,
}

#[derive(Default)]
struct Free {
    lane: Vec<i32>,
    nonce: Vec<i64>,
    needed: Sparse<bool>,
}

#[derive(Default)]
struct Rows<'a> {
    /// The number of the lane in the call, from one.
    lane: Vec<i32>,
    tx: Vec<Uuid>,
    /// Absent for what is managed.
    kind: Sparse<&'static str>,
    request: Sparse<&'a str>,
    payload: Sparse<&'a [u8]>,
    payload_hash: Sparse<&'a [u8]>,
    nonce: Vec<i64>,
    not_after: Sparse<Timestamp>,
    meta: Sparse<&'a str>,
    created_by: Sparse<&'a str>,
    lock: Sparse<Uuid>,
    ttl: Sparse<i64>,
    ord: Vec<i32>,
    /// Absent for what is due at once.
    due: Sparse<i64>,
    seal: Sparse<&'a [u8]>,
}

/// One statement's parameters, fixed before its first try.
pub(crate) struct Call<'a> {
    node: &'a str,
    incarnation: i64,
    lease: i64,
    lanes: Lanes,
    free: Free,
    rows: Rows<'a>,
}

impl<'a> Call<'a> {
    pub(crate) fn new(store: &PostgresStore, holder: &'a Holder) -> Self {
        Self {
            node: holder.node.as_str(),
            incarnation: holder.incarnation.column(),
            lease: store.lease_micros(),
            lanes: Lanes::default(),
            free: Free::default(),
            rows: Rows::default(),
        }
    }

    /// Lanes are added in the order of their ids.
    pub(crate) fn add(&mut self, work: &Work<'a>, layout: &Layout) {
        let plan = &layout.plan;
        self.lanes.id.push(work.lane().0);
        let lane = number(self.lanes.id.len());
        self.lanes.token.push(work.batch.held.token.column());
        self.lanes.expected.push(plan.expected.column());
        self.lanes.next.push(plan.next.column());
        self.lanes.n.push(crate::rows(layout.places.len()));
        // Filling gaps takes nobody's turn.
        self.lanes.passes_queue.mark(plan.nonces.is_empty());
        self.lanes.until.push(work.until(layout));
        for nonce in &plan.nonces[..plan.from_free] {
            self.add_free(lane, *nonce, true);
        }
        let mut rows: Vec<(i32, usize, Nonce)> = Vec::with_capacity(layout.places.len());
        for (ord, (place, nonce)) in layout.places.iter().enumerate() {
            if work.asked(*place).is_some() {
                self.add_free(lane, *nonce, false);
            }
            rows.push((number(ord + 1), *place, *nonce));
        }
        rows.sort_by_key(|(_, place, _)| {
            let tx = &work.batch.txs[*place];
            (tx.request_id.as_ref().map(|id| id.as_str()), tx.tx.0)
        });
        for row in rows {
            self.add_row(lane, work, row);
        }
    }

    fn add_free(&mut self, lane: i32, nonce: Nonce, needed: bool) {
        self.free.lane.push(lane);
        self.free.nonce.push(nonce.column());
        self.free.needed.mark(needed);
    }

    fn add_row(&mut self, lane: i32, work: &Work<'a>, row: (i32, usize, Nonce)) {
        let (ord, place, nonce) = row;
        let tx = &work.batch.txs[place];
        let (payload, hash) = tx.payload().unzip();
        let loan = match tx.body {
            Body::Reserved(loan) => Some(loan),
            Body::Managed(_) | Body::Placeholder(_) => None,
        };
        let rows = &mut self.rows;
        rows.lane.push(lane);
        rows.tx.push(tx.tx.0);
        let kind = tx.kind();
        rows.kind.push((kind != Kind::Managed).then(|| kind.word()));
        rows.request
            .push(tx.request_id.as_ref().map(|id| id.as_str()));
        rows.payload.push(payload);
        rows.payload_hash.push(hash.map(|hash| hash.as_slice()));
        rows.nonce.push(nonce.column());
        rows.not_after.push(tx.not_after);
        rows.meta.push(tx.meta.as_ref().map(|meta| meta.as_str()));
        rows.created_by.push(tx.created_by.as_deref());
        rows.lock.push(loan.map(|loan| loan.lock.0));
        rows.ttl.push(loan.map(|loan| micros(loan.ttl)));
        rows.ord.push(ord);
        rows.due
            .push(loan.map(|loan| micros(loan.ttl + loan.grace)));
        rows.seal.push(tx.seal.as_ref().map(|seal| seal.as_slice()));
    }

    /// Whether nonces that were given back are used up, or may be.
    pub(crate) fn takes_free(&self) -> bool {
        !self.free.lane.is_empty()
    }

    pub(crate) fn ids(&self) -> Vec<TxId> {
        self.rows.tx.iter().copied().map(TxId).collect()
    }

    /// In the order of the statement's numbers.
    pub(crate) fn params(&self) -> Vec<&(dyn ToSql + Sync)> {
        let (lanes, free, rows) = (&self.lanes, &self.free, &self.rows);
        let mut params: Vec<&(dyn ToSql + Sync)> = vec![
            &lanes.id,
            &lanes.token,
            &lanes.expected,
            &lanes.next,
            &lanes.n,
            &self.node,
            &self.incarnation,
            &self.lease,
            &lanes.passes_queue,
            &rows.lane,
            &rows.tx,
            &rows.kind,
            &rows.request,
            &rows.payload,
            &rows.payload_hash,
            &rows.nonce,
            &rows.not_after,
            &rows.meta,
            &rows.lock,
            &rows.ttl,
            &rows.ord,
            &rows.due,
            &rows.created_by,
            &rows.seal,
            &lanes.until,
        ];
        if self.takes_free() {
            params.extend([&free.lane as &(dyn ToSql + Sync), &free.nonce, &free.needed]);
        }
        params
    }
}
