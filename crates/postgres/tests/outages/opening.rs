//! Nodes that start together on an empty database wait for each other's migrations and all come up; and a
//! migration that cannot have a table yet does not keep it from others.

use anyhow::Result;
use fencepost_app::ports::Store;
use fencepost_postgres::PostgresStore;
use fencepost_store_tests::builders::lane;
use fencepost_testkit::postgres::shared;
use fencepost_testkit::wait;
use futures::future::try_join_all;

use super::post::{LONG, SHORT, settings};
use super::traces::Traces;

async fn open_at_once(nodes: usize) -> Result<()> {
    let database = shared().await?.create_database().await?;
    let open = |_| PostgresStore::open(settings("node", database.url(), LONG));
    let stores = try_join_all((0..nodes).map(open)).await?;
    let ids = try_join_all(stores.iter().map(|store| async {
        store.ping().await?;
        store.open_lanes(&[lane(1), lane(2)]).await
    }))
    .await?;
    assert!(ids.windows(2).all(|pair| pair[0] == pair[1]), "{ids:?}");
    let onlooker = database.connect().await?;
    let sql = "SELECT count(*) FROM refinery_schema_history";
    let migrations: i64 = onlooker.query_one(sql, &[]).await?.get(0);
    let before = Traces::read(&onlooker).await?;
    // Opening again changes nothing.
    open(0).await?.ping().await?;
    assert_eq!(
        onlooker.query_one(sql, &[]).await?.get::<_, i64>(0),
        migrations
    );
    before.assert_added(&onlooker, &[], "opening again").await
}

#[tokio::test]
async fn two_nodes_open_an_empty_database_at_once() -> Result<()> {
    open_at_once(2).await
}

#[tokio::test]
async fn eight_nodes_open_an_empty_database_at_once() -> Result<()> {
    open_at_once(8).await
}

/// A backup reads a table for hours. Whoever migrates it meanwhile waits, and all others go on: a lock that is
/// waited for stands before everyone who comes later.
#[tokio::test]
async fn a_migration_that_waits_for_a_backup_stops_nobody() -> Result<()> {
    let database = shared().await?.create_database().await?;
    drop(PostgresStore::open(settings("old", database.url(), LONG)).await?);
    let backup = database.connect().await?;
    let before = "ALTER TABLE managed_tx DROP CONSTRAINT is_sound;
        ALTER TABLE signer_lease DROP CONSTRAINT is_sound;
        DROP FUNCTION is_sound_tx, is_sound_lane;
        DROP TABLE failover_lane, failover_node, store_era, store_name, store_replaced;
        ALTER TABLE store_identity DROP COLUMN feed_seq, DROP COLUMN era, DROP COLUMN leap, DROP COLUMN feed_waits;
        ALTER TABLE remedy DROP CONSTRAINT lane_of_act, DROP COLUMN raw, DROP COLUMN severity, DROP COLUMN then_state,
              DROP COLUMN node, DROP COLUMN token;
        ALTER TABLE managed_tx DROP COLUMN seal, DROP COLUMN created_by;
        ALTER TABLE tx_event DROP COLUMN confirmations;
        DELETE FROM refinery_schema_history WHERE version >= 4";
    backup.batch_execute(before).await?;
    let dump = "BEGIN; SELECT FROM managed_tx";
    backup.batch_execute(dump).await?;

    let opening = PostgresStore::open(settings("new", database.url(), SHORT));
    let opening = tokio::spawn(opening);
    let other = database.connect().await?;
    wait::until("it waits for the table", async || {
        let sql = "SELECT FROM pg_locks WHERE NOT granted AND relation = 'managed_tx'::regclass";
        Ok(other.query_opt(sql, &[]).await?)
    })
    .await?;
    let patient = format!("SET lock_timeout = {}", SHORT.as_millis());
    other.batch_execute(&patient).await?;
    other.query("SELECT FROM managed_tx", &[]).await?;
    assert!(!opening.is_finished());

    backup.batch_execute("COMMIT").await?;
    opening.await??.ping().await?;
    Ok(())
}
