//! Two processes under one node id: the older one notices and ends.

use anyhow::Result;
use fencepost_testkit::postgres::shared;
use fencepost_testkit::wait;

use super::fleet::{Fleet, request};

#[tokio::test]
async fn the_older_of_two_processes_with_one_id_ends() -> Result<()> {
    let database = shared().await?.create_database().await?;
    let fleet = Fleet::new(database.url())?;
    let mut older = fleet.start("a").await?;
    older.post(&request(1, None)).await?;
    let newer = fleet.start("a").await?;
    let ended = older.ended().await?;
    assert_eq!(ended.code(), Some(3), "{ended:?}");
    wait::until("its last words are read", || async {
        Ok(older.has_logged("node_id_in_use").then_some(()))
    })
    .await?;
    let answer = newer.post(&request(1, None)).await?;
    assert!(answer.is_accepted(), "{answer:?}");
    fleet.all_allocated(1, 2).await
}
