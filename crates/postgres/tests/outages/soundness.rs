//! What the tables themselves refuse, whatever statement brings it.

use anyhow::{Context, Result, ensure};
use fencepost_postgres::PostgresStore;
use fencepost_testkit::postgres::{Database, shared};
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use super::post::{LONG, settings};

type Column = (&'static str, &'static str);

const HASH: &str = "decode(repeat('ab', 32), 'hex')";
const SHORT: &str = "decode(repeat('ab', 31), 'hex')";
const LOCK: &str = "'00000000-0000-0000-0000-000000000001'";

/// Rows that there are: a name, the one that it is told by its differences to, and those.
const SOUND: [(&str, &str, &[Column]); 12] = [
    (
        "unsigned",
        "",
        &[
            ("kind", "'managed'"),
            ("state", "'ALLOCATED'"),
            ("payload", "'\\x01'"),
            ("payload_hash", HASH),
            ("nonce", "5"),
            ("version", "1"),
        ],
    ),
    (
        "placeholder",
        "unsigned",
        &[
            ("kind", "'placeholder'"),
            ("payload", "NULL"),
            ("payload_hash", "NULL"),
        ],
    ),
    (
        "sent",
        "unsigned",
        &[
            ("state", "'TRACKING'"),
            ("sub_state", "'BROADCAST'"),
            ("tx_hash", HASH),
        ],
    ),
    (
        "mined",
        "sent",
        &[
            ("sub_state", "'MINED'"),
            ("block_number", "7"),
            ("block_hash", HASH),
            ("mined_hash", HASH),
            ("mined_by", "'ORIGINAL'"),
            ("mined_status", "'SUCCESS'"),
        ],
    ),
    (
        "confirmed",
        "mined",
        &[("state", "'CONFIRMED'"), ("sub_state", "NULL")],
    ),
    ("thinned", "confirmed", &[("payload", "''")]),
    (
        "stuck",
        "sent",
        &[("state", "'STUCK'"), ("sub_state", "'NO_RECEIPT'")],
    ),
    (
        "queued",
        "unsigned",
        &[
            ("state", "'QUEUED'"),
            ("sub_state", "'WAITING_LEADER'"),
            ("nonce", "NULL"),
        ],
    ),
    (
        "expired",
        "queued",
        &[("state", "'FAILED_FINAL'"), ("sub_state", "'EXPIRED'")],
    ),
    ("cancelled", "expired", &[("sub_state", "'CANCELLED'")]),
    (
        "lent",
        "placeholder",
        &[
            ("kind", "'reserved'"),
            ("state", "'RESERVED'"),
            ("lock_token", LOCK),
            ("reserve_expires_at", "now()"),
        ],
    ),
    (
        "given back",
        "lent",
        &[
            ("state", "'RECYCLABLE'"),
            ("nonce", "NULL"),
            ("nonce_given_back", "5"),
        ],
    ),
];

/// What makes them rows that no state has.
const UNSOUND: [(&str, &[Column]); 28] = [
    ("unsigned", &[("kind", "'other'")]),
    ("unsigned", &[("payload", "NULL")]),
    ("unsigned", &[("payload_hash", "NULL")]),
    ("unsigned", &[("payload_hash", SHORT)]),
    ("unsigned", &[("payload", "''")]),
    ("unsigned", &[("lock_token", LOCK)]),
    ("unsigned", &[("state", "'RESERVED'")]),
    ("unsigned", &[("state", "'NONE'")]),
    ("unsigned", &[("sub_state", "'SIGNED'")]),
    ("unsigned", &[("sub_state", "'BROADCAST'")]),
    ("unsigned", &[("nonce", "NULL")]),
    ("unsigned", &[("nonce", "-1")]),
    ("placeholder", &[("payload", "'\\x01'")]),
    ("lent", &[("lock_token", "NULL")]),
    ("lent", &[("reserve_expires_at", "NULL")]),
    ("lent", &[("state", "'ALLOCATED'")]),
    ("sent", &[("tx_hash", "NULL")]),
    ("sent", &[("tx_hash", SHORT)]),
    ("sent", &[("sub_state", "NULL")]),
    ("sent", &[("sub_state", "'MINED'")]),
    ("mined", &[("block_hash", "NULL")]),
    ("mined", &[("mined_status", "'OTHER'")]),
    ("confirmed", &[("block_number", "NULL")]),
    ("queued", &[("nonce", "5")]),
    ("expired", &[("nonce", "5")]),
    ("stuck", &[("sub_state", "'SIGNED'")]),
    ("given back", &[("nonce_given_back", "-1")]),
    // Bytes were made for that nonce.
    ("expired", &[("nonce_given_back", "5"), ("attempts", "1")]),
];

/// A row that there is, with these differences.
fn row(name: &str, changes: &[Column]) -> Vec<Column> {
    let base = SOUND.iter().find(|(known, ..)| *known == name);
    let base = base.map_or(vec![], |(_, base, own)| row(base, own));
    let kept = base.into_iter();
    let kept = kept.filter(|(column, _)| changes.iter().all(|(changed, _)| changed != column));
    kept.chain(changes.iter().copied()).collect()
}

/// Whether the table takes it. It is gone again either way.
async fn takes(client: &Client, columns: &[Column]) -> Result<bool> {
    let (names, values): (Vec<&str>, Vec<&str>) = columns.iter().copied().unzip();
    let sql = format!(
        "WITH new AS (INSERT INTO managed_tx (tx_id, lane_id, fencing_token, {}) VALUES (gen_random_uuid(), 1, 1, {})
         RETURNING tx_id) SELECT FROM new",
        names.join(", "),
        values.join(", ")
    );
    client.batch_execute("BEGIN").await?;
    let stored = client.batch_execute(&sql).await;
    client.batch_execute("ROLLBACK").await?;
    match stored {
        Ok(()) => Ok(true),
        Err(error) => {
            let refusal = error.as_db_error().context("no answer")?;
            ensure!(
                refusal.code() == &SqlState::CHECK_VIOLATION,
                "{refusal}: {columns:?}"
            );
            ensure!(refusal.constraint() == Some("is_sound"), "{refusal}");
            Ok(false)
        }
    }
}

async fn client() -> Result<(Database, Client)> {
    let database = shared().await?.create_database().await?;
    drop(PostgresStore::open(settings("a", database.url(), LONG)).await?);
    let client = database.connect().await?;
    Ok((database, client))
}

#[tokio::test]
async fn a_row_that_no_state_has_is_refused() -> Result<()> {
    let (_database, client) = client().await?;
    for (name, ..) in SOUND {
        assert!(takes(&client, &row(name, &[])).await?, "{name} is refused");
    }
    for (name, changes) in UNSOUND {
        let taken = takes(&client, &row(name, changes)).await?;
        assert!(!taken, "{name} is taken with {changes:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_lane_that_nobody_or_half_a_node_leads_is_refused() -> Result<()> {
    let (_database, client) = client().await?;
    let lane =
        "INSERT INTO signer_lease (chain_id, signer, owner_node, owner_incarnation, owner_url)
         VALUES (1, decode(repeat('ab', 20), 'hex'), 'a', 1, 'http://a')";
    for change in [
        "owner_url = NULL",
        "owner_node = NULL",
        "owner_incarnation = 0",
        "next_nonce = -1",
        "lane_seq = -1",
        "paused = 'OTHER'",
        "signer = '\\x01'",
        "chain_id = -1",
    ] {
        client.batch_execute(&format!("BEGIN; {lane}")).await?;
        let update = format!("UPDATE signer_lease SET {change}");
        let refused = client.batch_execute(&update).await.err();
        let refused = refused.as_ref().and_then(tokio_postgres::Error::code);
        assert_eq!(refused, Some(&SqlState::CHECK_VIOLATION), "{change}");
        client.batch_execute("ROLLBACK").await?;
    }
    Ok(())
}
