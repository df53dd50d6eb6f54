//! Taking over nonces that another service has given. Like setting a cursor it is rare, on a paused lane and
//! by a person: a transaction of several statements, because it must read under the lane's lock.

use deadpool_postgres::Transaction;
use fencepost_app::ports::{Audit, Import, Imported, OpenTx, StoreError, Unimportable};
use fencepost_domain::ids::{LaneId, NodeId, Nonce, RequestId, TxId};
use tokio::time::error::Elapsed;
use tokio::time::timeout_at;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::fault::{Fault, Unique, fault, refused};
use crate::operate::{HELD_FROM, LANE_LOCK, is_paused};
use crate::row::column;
use crate::{PostgresStore, micros, rows};

const IMPORT: &str = include_str!("../sql/import.sql");

/// Which items clash with what is stored.
const CLASHES: &str = "
SELECT i.k, n.tx_id AS by_nonce, i.nonce < f.nonce AS is_used, r.tx_id AS by_request, a.tx_id AS by_hash
  FROM unnest($2::bigint[], $3::text[], $4::bytea[]) WITH ORDINALITY AS i(nonce, request_id, tx_hash, k)
  LEFT JOIN managed_tx n ON n.lane_id = $1 AND n.nonce = i.nonce
  LEFT JOIN managed_tx r ON r.lane_id = $1 AND r.request_id = i.request_id
  LEFT JOIN tx_attempt a ON a.tx_hash = i.tx_hash
        AND a.chain_id = (SELECT l.chain_id FROM signer_lease l WHERE l.lane_id = $1)
  LEFT JOIN lane_floor f ON f.lane_id = $1
 WHERE n.tx_id IS NOT NULL OR i.nonce < f.nonce OR r.tx_id IS NOT NULL OR a.tx_id IS NOT NULL
 ORDER BY i.k";

/// Tries; more means that others enqueue the same request ids at this very moment.
const TRIES: usize = 3;

/// The rows of an import, as arrays.
#[derive(Default)]
struct Items {
    tx: Vec<Uuid>,
    kind: Vec<&'static str>,
    request_id: Vec<Option<String>>,
    payload: Vec<Option<Vec<u8>>>,
    payload_hash: Vec<Option<Vec<u8>>>,
    nonce: Vec<i64>,
    state: Vec<String>,
    sub_state: Vec<Option<String>>,
    tx_hash: Vec<Option<Vec<u8>>>,
    lock: Vec<Option<Uuid>>,
    ttl: Vec<Option<i64>>,
    due: Vec<i64>,
    attempt_kind: Vec<Option<&'static str>>,
    raw: Vec<Option<Vec<u8>>>,
    max_fee: Vec<Option<String>>,
    max_priority_fee: Vec<Option<String>>,
    tried: Vec<bool>,
    seal: Vec<Option<Vec<u8>>>,
}

impl Items {
    fn of(open: &[OpenTx]) -> Self {
        let mut items = Self::default();
        for open in open {
            items.add(open);
        }
        items
    }

    fn add(&mut self, open: &OpenTx) {
        use fencepost_app::ports::Body;
        let (row, flat, attempt) = (open.row(), open.state().flat(), open.attempt());
        let payload = row.payload();
        let loan = match row.body {
            Body::Reserved(loan) => Some(loan),
            Body::Managed(_) | Body::Placeholder(_) => None,
        };
        let fees = attempt.as_ref().and_then(|attempt| attempt.fees);
        self.tx.push(open.tx.0);
        self.kind.push(row.kind().word());
        let name = open.request_id.as_ref().map(RequestId::as_str);
        self.request_id.push(name.map(str::to_owned));
        self.payload.push(payload.map(|(bytes, _)| bytes.to_vec()));
        self.payload_hash
            .push(payload.map(|(_, hash)| hash.to_vec()));
        self.nonce.push(open.nonce.column());
        self.state.push(flat.state);
        self.sub_state.push(flat.sub_state);
        self.tx_hash.push(flat.tx_hash);
        self.lock.push(loan.map(|loan| loan.lock.0));
        self.ttl.push(loan.map(|loan| micros(loan.ttl)));
        self.due.push(micros(open.due_in()));
        self.attempt_kind
            .push(attempt.as_ref().map(|attempt| attempt.kind.word()));
        self.raw
            .push(attempt.as_ref().map(|attempt| attempt.raw.to_vec()));
        self.max_fee.push(fees.map(|fees| fees.max_fee.to_string()));
        let tip = fees.and_then(|fees| fees.max_priority_fee);
        self.max_priority_fee.push(tip.map(|tip| tip.to_string()));
        // A holder's own send was no try of ours.
        self.tried.push(loan.is_none());
        self.seal.push(open.seal.map(|seal| seal.to_vec()));
    }
}

impl PostgresStore {
    pub(crate) async fn import_open(
        &self,
        lane: LaneId,
        import: &Import,
        audit: &Audit,
    ) -> Result<Imported, StoreError> {
        for _ in 0..TRIES {
            if let Some(imported) = self.try_import(lane, import, audit).await? {
                return Ok(imported);
            }
        }
        Err(StoreError::Busy("others store the same request ids".into()))
    }

    /// Nothing where a request id was stored between the look and the write: the next try finds it.
    async fn try_import(
        &self,
        lane: LaneId,
        import: &Import,
        audit: &Audit,
    ) -> Result<Option<Imported>, StoreError> {
        let deadline = self.connections.call_deadline();
        let silent = |silence: Elapsed| StoreError::Unavailable(silence.into());
        let mut client = self.connections.writer().await?;
        let (server, act) = (client.server, Uuid::now_v7());
        // The import frees the lane for others.
        self.connections.memory.gives_up(&[lane.0]);
        let begun = timeout_at(deadline, client.transaction()).await;
        let transaction = begun.map_err(silent)?.map_err(refused)?;
        let importing = take_over(&transaction, lane, import, (audit, act));
        let imported = timeout_at(deadline, importing).await.map_err(silent)??;
        let is_written = matches!(imported, Some(Imported::Done { .. })) && !import.dry_run;
        if !is_written {
            return Ok(imported);
        }
        let committed = timeout_at(deadline, transaction.commit()).await;
        self.operated(committed, server, lane, act)?;
        Ok(imported)
    }
}

/// Takes the nonces over in an open transaction, or says why not.
async fn take_over(
    transaction: &Transaction<'_>,
    lane: LaneId,
    import: &Import,
    by: (&Audit, Uuid),
) -> Result<Option<Imported>, StoreError> {
    let row = transaction.query_opt(LANE_LOCK, &[&lane.0]).await;
    let Some(row) = row.map_err(refused)? else {
        return Ok(Some(Imported::UnknownLane));
    };
    if !is_paused(&row)? {
        return Ok(Some(Imported::NotPaused));
    }
    let from = Nonce::from_column(column(&row, "next_nonce")?)?;
    let next = import.next_nonce.column();
    let above = transaction.query_opt(HELD_FROM, &[&lane.0, &next]).await;
    if let Some(above) = above.map_err(refused)? {
        let nonce = Nonce::from_column(column(&above, "nonce")?)?;
        return Ok(Some(Imported::Holds(nonce)));
    }
    let items = Items::of(&import.open);
    let clashes = clashes(transaction, lane, &items).await?;
    if !clashes.is_empty() {
        return Ok(Some(Imported::Refused(clashes)));
    }
    if !import.dry_run && !write(transaction, lane, (from, import), &items, by).await? {
        return Ok(None);
    }
    Ok(Some(Imported::Done { from }))
}

async fn clashes(
    transaction: &Transaction<'_>,
    lane: LaneId,
    items: &Items,
) -> Result<Vec<(usize, Unimportable)>, StoreError> {
    let params: [&(dyn ToSql + Sync); 4] =
        [&lane.0, &items.nonce, &items.request_id, &items.tx_hash];
    let found = transaction.query(CLASHES, &params).await.map_err(refused)?;
    let mut clashes = Vec::new();
    for row in &found {
        let k: i64 = column(row, "k")?;
        let at = usize::try_from(k - 1).unwrap_or_default();
        let by = |name| Ok::<_, StoreError>(column::<Option<Uuid>>(row, name)?.map(TxId));
        let is_used: Option<bool> = column(row, "is_used")?;
        let why = match (by("by_nonce")?, is_used, by("by_request")?, by("by_hash")?) {
            (Some(tx), ..) => Unimportable::NonceHeld(tx),
            (None, Some(true), ..) => Unimportable::NonceUsed,
            (None, _, Some(tx), _) => Unimportable::RequestKnown(tx),
            (None, _, None, Some(tx)) => Unimportable::HashKnown(tx),
            (None, _, None, None) => continue,
        };
        clashes.push((at, why));
    }
    Ok(clashes)
}

/// Whether it was written: a request id that was enqueued meanwhile stops it.
async fn write(
    transaction: &Transaction<'_>,
    lane: LaneId,
    (from, import): (Nonce, &Import),
    items: &Items,
    (audit, act): (&Audit, Uuid),
) -> Result<bool, StoreError> {
    let (next, count) = (import.next_nonce, import.open.len());
    let change = format!("next_nonce={from} -> next_nonce={next} open={count}");
    let (next, count) = (next.column(), rows(count));
    let node = audit.node.as_ref().map(NodeId::as_str);
    let params: [&(dyn ToSql + Sync); 27] = [
        &lane.0,
        &next,
        &count,
        &items.tx,
        &items.kind,
        &items.request_id,
        &items.payload,
        &items.payload_hash,
        &items.nonce,
        &items.state,
        &items.sub_state,
        &items.tx_hash,
        &items.lock,
        &items.ttl,
        &items.due,
        &items.attempt_kind,
        &items.raw,
        &items.max_fee,
        &items.max_priority_fee,
        &items.tried,
        &audit.by,
        &audit.reason,
        &audit.details,
        &change,
        &act,
        &items.seal,
        &node,
    ];
    match transaction.execute(IMPORT, &params).await {
        Ok(_) => Ok(true),
        Err(error) if matches!(fault(&error), Fault::Taken(Unique::Request)) => Ok(false),
        Err(error) => Err(refused(error)),
    }
}
