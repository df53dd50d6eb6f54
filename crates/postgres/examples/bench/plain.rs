//! The limit: plain UNNEST statements on the same tables and indexes, without fence, cursor or
//! guard, over the wire and prepared.

use anyhow::Result;
use tokio_postgres::{Client, Statement};
use uuid::Uuid;

const INSERT: &str = include_str!("../../../bench/sql/plain_insert.sql");
const UPDATE: &str = include_str!("../../../bench/sql/plain_update.sql");

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
        self.client
            .execute(&self.update, &[&lanes, &txs, &seqs, &hashes])
            .await?;
        Ok(())
    }
}
