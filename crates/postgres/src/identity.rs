//! What the store says of itself to a node that starts, and what an operator declares about it.

use fencepost_app::ports::StoreError;
use fencepost_app::store_memory::PEERS_MAX;
use fencepost_domain::store_identity::{FoundStore, StoreId};
use uuid::Uuid;

use crate::row::{column, corrupt};
use crate::{PostgresStore, rows};

const FOUND: &str = "
SELECT s.store_id, s.declared_at IS NOT NULL AS is_declared,
       NOT EXISTS (SELECT FROM managed_tx)
       AND NOT EXISTS (SELECT FROM signer_lease WHERE next_nonce > 0) AS is_empty,
       ARRAY(SELECT r.store_id FROM store_replaced r ORDER BY r.at) AS replaces
  FROM store_name s";

const DECLARE: &str = "
WITH replaced AS (
    INSERT INTO store_replaced (store_id) SELECT $1::uuid WHERE $1::uuid IS NOT NULL
    ON CONFLICT (store_id) DO NOTHING
)
UPDATE store_name SET declared_at = coalesce(declared_at, clock_timestamp()) RETURNING store_id";

impl PostgresStore {
    /// What the store says of itself.
    pub async fn describe(&self) -> Result<FoundStore, StoreError> {
        let found = self.connections.read(FOUND, &[]).await?;
        let row = found.first().ok_or_else(|| corrupt("store_id"))?;
        let replaces: Vec<Uuid> = column(row, "replaces")?;
        Ok(FoundStore {
            id: StoreId(column(row, "store_id")?),
            is_empty: column(row, "is_empty")?,
            is_declared: column(row, "is_declared")?,
            replaces: replaces.into_iter().map(StoreId).collect(),
        })
    }

    /// Where nodes of the store were reached, those with the newest heartbeats first. They need not live.
    pub async fn known_urls(&self) -> Result<Vec<String>, StoreError> {
        let sql = "SELECT url FROM node ORDER BY heartbeat_at DESC LIMIT $1";
        let found = self.connections.read(sql, &[&rows(PEERS_MAX)]).await?;
        found.iter().map(|row| column(row, "url")).collect()
    }

    /// Declares that the store is meant to be new, in place of the one that a node remembers.
    pub async fn declare_new(&self, instead_of: Option<StoreId>) -> Result<StoreId, StoreError> {
        let instead_of = instead_of.map(|store| store.0);
        let declared = self
            .connections
            .write_plain(DECLARE, &[&instead_of])
            .await?;
        let row = declared.first().ok_or_else(|| corrupt("store_id"))?;
        Ok(StoreId(column(row, "store_id")?))
    }
}
