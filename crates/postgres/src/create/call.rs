//! The parameters of one create statement: lanes, free nonces and rows as arrays.

use fencepost_app::ports::{Body, Holder};
use fencepost_domain::ids::{Nonce, TxId};
use jiff::Timestamp;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::work::{Layout, Work};
use crate::{PostgresStore, micros};

#[derive(Default)]
struct Lanes {
    id: Vec<i64>,
    token: Vec<i64>,
    expected: Vec<i64>,
    next: Vec<i64>,
    n: Vec<i64>,
    passes_queue: Vec<bool>,
}

#[derive(Default)]
struct Free {
    lane: Vec<i64>,
    nonce: Vec<i64>,
    needed: Vec<bool>,
}

#[derive(Default)]
struct Rows<'a> {
    lane: Vec<i64>,
    tx: Vec<Uuid>,
    kind: Vec<&'static str>,
    request: Vec<Option<&'a str>>,
    payload: Vec<Option<Vec<u8>>>,
    payload_hash: Vec<Option<Vec<u8>>>,
    nonce: Vec<i64>,
    not_after: Vec<Option<Timestamp>>,
    meta: Vec<Option<&'a str>>,
    lock: Vec<Option<Uuid>>,
    ttl: Vec<Option<i64>>,
    ord: Vec<i64>,
    due: Vec<i64>,
    token: Vec<i64>,
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

    pub(crate) fn add(&mut self, work: &Work<'a>, layout: &Layout) {
        let lane = work.lane().0;
        let plan = &layout.plan;
        self.lanes.id.push(lane);
        self.lanes.token.push(work.batch.held.token.column());
        self.lanes.expected.push(plan.expected.column());
        self.lanes.next.push(plan.next.column());
        self.lanes.n.push(crate::rows(layout.places.len()));
        // Filling gaps takes nobody's turn.
        self.lanes.passes_queue.push(plan.nonces.is_empty());
        for nonce in &plan.nonces[..plan.from_free] {
            self.add_free(lane, *nonce, true);
        }
        for (ord, (place, nonce)) in layout.places.iter().enumerate() {
            if work.asked(*place).is_some() {
                self.add_free(lane, *nonce, false);
            }
            self.add_row(work, *place, *nonce, ord + 1);
        }
    }

    fn add_free(&mut self, lane: i64, nonce: Nonce, needed: bool) {
        self.free.lane.push(lane);
        self.free.nonce.push(nonce.column());
        self.free.needed.push(needed);
    }

    fn add_row(&mut self, work: &Work<'a>, place: usize, nonce: Nonce, ord: usize) {
        let tx = &work.batch.txs[place];
        let (payload, hash) = tx.payload().unzip();
        let loan = match tx.body {
            Body::Reserved(loan) => Some(loan),
            Body::Managed(_) | Body::Placeholder(_) => None,
        };
        let rows = &mut self.rows;
        rows.lane.push(work.lane().0);
        rows.token.push(work.batch.held.token.column());
        rows.tx.push(tx.tx.0);
        rows.kind.push(tx.kind().word());
        rows.request
            .push(tx.request_id.as_ref().map(|id| id.as_str()));
        rows.payload.push(payload);
        rows.payload_hash.push(hash.map(|hash| hash.to_vec()));
        rows.nonce.push(nonce.column());
        rows.not_after.push(tx.not_after);
        rows.meta.push(tx.meta.as_ref().map(|meta| meta.as_str()));
        rows.lock.push(loan.map(|loan| loan.lock.0));
        rows.ttl.push(loan.map(|loan| micros(loan.ttl)));
        rows.ord.push(crate::rows(ord));
        rows.due
            .push(loan.map_or(0, |loan| micros(loan.ttl + loan.grace)));
    }

    pub(crate) fn ids(&self) -> Vec<TxId> {
        self.rows.tx.iter().copied().map(TxId).collect()
    }

    pub(crate) fn nonces(&self) -> &[i64] {
        &self.rows.nonce
    }

    /// In the order of the statement's numbers.
    pub(crate) fn params(&self) -> [&(dyn ToSql + Sync); 26] {
        let (lanes, free, rows) = (&self.lanes, &self.free, &self.rows);
        [
            &lanes.id,
            &lanes.token,
            &lanes.expected,
            &lanes.next,
            &lanes.n,
            &self.node,
            &self.incarnation,
            &self.lease,
            &free.lane,
            &free.nonce,
            &free.needed,
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
            &lanes.passes_queue,
            &rows.due,
            &rows.token,
        ]
    }
}
