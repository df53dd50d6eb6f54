//! Servers that cannot keep promises are refused before anything is written to them.

use anyhow::Result;
use fencepost_app::ports::{Store, StoreError};
use fencepost_postgres::PostgresStore;
use fencepost_testkit::postgres::{Cluster, Options, shared};

use super::post::{LONG, direct, settings};

async fn refusal(setting: &str) -> Result<String> {
    let settings_of = vec![(setting.to_owned(), "off".to_owned())];
    let cluster = Cluster::start(Options {
        settings: settings_of,
    })
    .await?;
    let url = cluster.create_database().await?.url();
    match PostgresStore::open(settings("node", url, LONG)).await {
        Err(StoreError::Unfit(why)) => Ok(why),
        Err(other) => panic!("not for its settings: {other:?}"),
        Ok(_) => panic!("{setting} is off and it was taken"),
    }
}

#[tokio::test]
async fn a_server_that_can_lose_commits_is_refused() -> Result<()> {
    for setting in ["fsync", "full_page_writes"] {
        let why = refusal(setting).await?;
        assert!(why.contains(setting), "{why}");
    }
    Ok(())
}

#[tokio::test]
async fn a_standby_is_refused_and_its_primary_is_not() -> Result<()> {
    let primary = Cluster::start(Options::default()).await?;
    let database = primary.create_database().await?;
    direct(&database).await?.ping().await?;
    let standby = primary.standby().await?;
    standby.wait_caught_up().await?;
    let to_standby = settings("node", standby.url(database.name()), LONG);
    for answer in [
        PostgresStore::attach(to_standby.clone()).await,
        PostgresStore::open(to_standby).await,
    ] {
        let error = answer.err().expect("a standby cannot be written to");
        assert!(
            matches!(error, StoreError::Unavailable(_) | StoreError::Unfit(_)),
            "{error:?}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn a_database_without_our_tables_is_named_as_such() -> Result<()> {
    let database = shared().await?.create_database().await?;
    let answer = PostgresStore::attach(settings("node", database.url(), LONG)).await;
    let Err(StoreError::Unfit(why)) = answer else {
        panic!("{:?}", answer.err());
    };
    assert!(why.contains("migrate"), "{why}");
    Ok(())
}
