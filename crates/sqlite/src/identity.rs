//! What the store says of itself to a node that starts, and what an operator declares about it.

use fencepost_app::ports::StoreError;
use fencepost_domain::store_identity::{FoundStore, StoreId};
use rusqlite::params;
use uuid::Uuid;

use crate::db::Db;
use crate::error::{Answer, broken};
use crate::open::SqliteStore;

impl SqliteStore {
    /// What the store says of itself.
    pub async fn describe(&self) -> Result<FoundStore, StoreError> {
        self.read(describe).await
    }

    /// Declares that the store is meant to be new, in place of the one that a node remembers.
    pub async fn declare_new(&self, instead_of: Option<StoreId>) -> Result<StoreId, StoreError> {
        self.write(move |db| declare(db, instead_of)).await
    }
}

fn describe(db: &Db<'_>) -> Answer<FoundStore> {
    let is_used = db.exists(
        "SELECT 1 WHERE EXISTS (SELECT 1 FROM managed_tx)
                     OR EXISTS (SELECT 1 FROM signer_lease WHERE next_nonce > 0)",
        [],
    )?;
    Ok(FoundStore {
        id: store_id(db)?,
        is_empty: !is_used,
        is_declared: db.exists("SELECT 1 FROM store_name WHERE declared_at IS NOT NULL", [])?,
        replaces: db.all("SELECT store_id FROM store_replaced", [], |row| {
            read(row.get(0)?)
        })?,
    })
}

fn declare(db: &Db<'_>, instead_of: Option<StoreId>) -> Answer<StoreId> {
    if let Some(StoreId(replaced)) = instead_of {
        db.run(
            "INSERT INTO store_replaced (store_id, at) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
            params![replaced.as_bytes().as_slice(), db.now],
        )?;
    }
    db.run_one(
        "UPDATE store_name SET declared_at = coalesce(declared_at, ?1)",
        params![db.now],
    )?;
    store_id(db)
}

fn store_id(db: &Db<'_>) -> Answer<StoreId> {
    read(db.value("SELECT store_id FROM store_name", [])?)
}

fn read(bytes: Vec<u8>) -> Answer<StoreId> {
    let id = Uuid::from_slice(&bytes).map_err(|_| broken("a store's name is no UUID"))?;
    Ok(StoreId(id))
}
