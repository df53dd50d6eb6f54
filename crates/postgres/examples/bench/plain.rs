//! The limit: plain UNNEST statements on the same tables and indexes, without fence, cursor or
//! guard, over the wire and prepared.

use anyhow::Result;
use tokio_postgres::{Client, Statement};
use uuid::Uuid;

const INSERT: &str = "
WITH t AS (
    INSERT INTO managed_tx (tx_id, lane_id, kind, request_id, payload, payload_hash, nonce, state, fencing_token)
    SELECT tx_id, lane_id, 'managed', request_id, payload, payload_hash, nonce, 'ALLOCATED', 1
      FROM unnest($1::bigint[], $2::uuid[], $3::text[], $4::bytea[], $5::bytea[], $6::bigint[])
           AS i(lane_id, tx_id, request_id, payload, payload_hash, nonce)
), e AS (
    INSERT INTO tx_event (lane_id, lane_seq, tx_id, kind, to_state, node, fencing_token)
    SELECT lane_id, nonce + 1, tx_id, 'accepted', 'ALLOCATED', 'bench', 1
      FROM unnest($1::bigint[], $2::uuid[], $6::bigint[]) AS i(lane_id, tx_id, nonce)
)
INSERT INTO due_work (tx_id, lane_id, due_at)
SELECT tx_id, lane_id, clock_timestamp() FROM unnest($1::bigint[], $2::uuid[]) AS i(lane_id, tx_id)";

const UPDATE: &str = "
WITH t AS (
    UPDATE managed_tx m
       SET state = i.state, sub_state = i.sub_state, tx_hash = i.tx_hash, fencing_token = 1,
           version = m.version + 1, updated_at = clock_timestamp()
      FROM unnest($2::uuid[], $4::text[], $5::text[], $6::bytea[]) AS i(tx_id, state, sub_state, tx_hash)
     WHERE m.tx_id = i.tx_id
)
INSERT INTO tx_event (lane_id, lane_seq, tx_id, kind, from_state, from_sub, to_state, to_sub, tx_hash,
                      note, node, fencing_token)
SELECT lane_id, lane_seq, tx_id, 'submitted', 'TRACKING', 'BROADCAST', 'TRACKING', 'BROADCAST', tx_hash,
       'AMBIGUOUS', 'bench', 1
  FROM unnest($1::bigint[], $2::uuid[], $3::bigint[], $6::bytea[]) AS i(lane_id, tx_id, lane_seq, tx_hash)";

/// The same session settings as the store's writers.
const SESSION: &str =
    "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET jit = off";

/// A connection that writes without any care.
pub(crate) struct Plain {
    client: Client,
    insert: Statement,
    update: Statement,
}

/// Rows to insert, as arrays.
#[derive(Default)]
pub(crate) struct Rows {
    pub(crate) lane: Vec<i64>,
    pub(crate) tx: Vec<Uuid>,
    pub(crate) request: Vec<String>,
    pub(crate) payload: Vec<Vec<u8>>,
    pub(crate) hash: Vec<Vec<u8>>,
    pub(crate) nonce: Vec<i64>,
}

impl Plain {
    pub(crate) async fn new(url: &str) -> Result<Self> {
        let client = fencepost_testkit::postgres::connect(url).await?;
        client.batch_execute(SESSION).await?;
        let insert = client.prepare(INSERT).await?;
        let update = client.prepare(UPDATE).await?;
        Ok(Self {
            client,
            insert,
            update,
        })
    }

    pub(crate) async fn insert(&self, rows: &Rows) -> Result<()> {
        let r = rows;
        self.client
            .execute(
                &self.insert,
                &[&r.lane, &r.tx, &r.request, &r.payload, &r.hash, &r.nonce],
            )
            .await?;
        Ok(())
    }

    pub(crate) async fn update(
        &self,
        lanes: &[i64],
        txs: &[Uuid],
        seqs: &[i64],
        hashes: &[Vec<u8>],
    ) -> Result<()> {
        let states = vec!["TRACKING"; txs.len()];
        let subs = vec!["BROADCAST"; txs.len()];
        self.client
            .execute(
                &self.update,
                &[&lanes, &txs, &seqs, &states, &subs, &hashes],
            )
            .await?;
        Ok(())
    }
}
