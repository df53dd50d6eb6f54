//! The schema's numbered files, each applied once, in order and whole.

use fencepost_app::ports::StoreError;
use fencepost_domain::mutant::Mutant;
use rusqlite::{Connection, TransactionBehavior};

use crate::db::Db;
use crate::error::Answer;

/// A file is never changed after a release: the next change is the next file.
const MIGRATIONS: &[&str] = &[
    include_str!("../migrations/0001_tables.sql"),
    include_str!("../migrations/0002_guards.sql"),
    include_str!("../migrations/0003_acts.sql"),
    include_str!("../migrations/0004_retiring.sql"),
    include_str!("../migrations/0005_confirmations.sql"),
    include_str!("../migrations/0006_imports.sql"),
    include_str!("../migrations/0007_decisions.sql"),
    include_str!("../migrations/0008_seal.sql"),
    include_str!("../migrations/0009_key_names.sql"),
    include_str!("../migrations/0010_store_name.sql"),
];

/// "FNCP": tells our files from any other SQLite database.
const APPLICATION_ID: i32 = 0x464e_4350;

/// The version that this program needs.
fn needed() -> i64 {
    i64::try_from(MIGRATIONS.len()).expect("a handful of files")
}

/// Whether the database is as this program needs it.
pub(crate) fn check(db: &Db<'_>) -> Answer<()> {
    let have: i64 = db.value("PRAGMA user_version", [])?;
    if have == needed() {
        return Ok(());
    }
    Err(unknown(have).into())
}

fn unknown(have: i64) -> StoreError {
    StoreError::Unfit(format!(
        "its schema is version {have} and this program knows {}: run the newer program",
        needed()
    ))
}

/// Brings the database up to date; refuses one that is not ours or that a newer program wrote.
pub(crate) fn migrate(conn: &mut Connection) -> Answer<()> {
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let have: i64 = tx.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    let id: i32 = tx.query_row("PRAGMA application_id", [], |row| row.get(0))?;
    let tables: i64 = tx.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if id != APPLICATION_ID && tables > 0 {
        let why = "the file is another program's SQLite database";
        return Err(StoreError::Unfit(why.to_owned()).into());
    }
    if have > needed() {
        return Err(unknown(have).into());
    }
    let done = usize::try_from(have).unwrap_or_default();
    for sql in &MIGRATIONS[done..] {
        if Mutant::GiveBackAfterSigning.is_on() {
            tx.execute_batch(&unguarded(sql))?;
        } else {
            tx.execute_batch(sql)?;
        }
    }
    tx.pragma_update(None, "application_id", APPLICATION_ID)?;
    tx.pragma_update(None, "user_version", needed())?;
    Ok(tx.commit()?)
}

/// The tables without the guards against giving back what was signed: they would hide what the broken rule does.
fn unguarded(sql: &str) -> String {
    if sql == MIGRATIONS[1] {
        // All but what numbers the feed.
        let head = sql
            .find("CREATE TRIGGER tx_completion_head")
            .unwrap_or_default();
        let end = sql[head..].find("END;").unwrap_or_default();
        return sql[head..head + end + 4].to_owned();
    }
    let rejected = "WHEN 'REJECTED' THEN nonce IS NULL AND tx_hash IS NULL";
    sql.replace(" AND attempts = 0))", "))")
        .replace(rejected, "WHEN 'REJECTED' THEN nonce IS NULL")
}
