//! Nodes that start together on an empty database wait for each other's migrations and all come up.

use anyhow::Result;
use fencepost_app::ports::Store;
use fencepost_postgres::PostgresStore;
use fencepost_store_tests::builders::lane;
use fencepost_testkit::postgres::shared;
use futures::future::try_join_all;

use super::post::{LONG, settings};
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
