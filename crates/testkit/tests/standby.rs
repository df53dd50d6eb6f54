//! The standby: that it follows, and that what it has not received is lost when it is promoted.

use anyhow::Result;
use fencepost_testkit::postgres::{Cluster, Database, Options, Server, Standby, Stop, connect};

async fn notes(server: &Server, database: &Database) -> Result<Vec<i32>> {
    let client = connect(&server.url(database.name())).await?;
    let rows = client.query("SELECT n FROM note ORDER BY n", &[]).await?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

/// A primary with note 1, and a standby that has it too.
async fn pair() -> Result<(Cluster, Standby, Database)> {
    // A standby that had fewer connections than its primary would not start: settings are copied too.
    let settings = vec![("max_connections".into(), "310".into())];
    let primary = Cluster::start(Options { settings }).await?;
    let standby = primary.standby().await?;
    let database = primary.create_database().await?;
    write(
        &database,
        "CREATE TABLE note (n int); INSERT INTO note VALUES (1)",
    )
    .await?;
    standby.wait_caught_up().await?;
    Ok((primary, standby, database))
}

async fn write(database: &Database, sql: &str) -> Result<()> {
    Ok(database.connect().await?.batch_execute(sql).await?)
}

#[tokio::test]
async fn a_promoted_standby_lacks_what_was_committed_after_it_was_cut_off() -> Result<()> {
    let (primary, standby, database) = pair().await?;
    assert_eq!(notes(&standby, &database).await?, [1]);
    let refused = connect(&standby.url(database.name())).await?;
    assert!(
        refused
            .batch_execute("INSERT INTO note VALUES (9)")
            .await
            .is_err()
    );

    standby.stop_receiving().await?;
    write(&database, "INSERT INTO note VALUES (2)").await?;
    primary.stop(Stop::Immediate).await?;
    let promoted = standby.promote().await?;

    let client = connect(&promoted.url(database.name())).await?;
    client.batch_execute("INSERT INTO note VALUES (3)").await?;
    assert_eq!(
        notes(&promoted, &database).await?,
        [1, 3],
        "2 was acknowledged and is lost"
    );
    Ok(())
}

#[tokio::test]
async fn a_promoted_standby_has_what_it_received_even_if_its_replay_was_paused() -> Result<()> {
    let (primary, standby, database) = pair().await?;
    standby.pause_replay().await?;
    write(&database, "INSERT INTO note VALUES (2)").await?;
    assert_eq!(notes(&standby, &database).await?, [1]);
    // A clean shutdown waits for the standby to have received everything.
    primary.stop(Stop::Fast).await?;
    let promoted = standby.promote().await?;
    assert_eq!(notes(&promoted, &database).await?, [1, 2]);
    Ok(())
}

#[tokio::test]
async fn a_paused_standby_catches_up_when_it_resumes() -> Result<()> {
    let (_primary, standby, database) = pair().await?;
    standby.pause_replay().await?;
    write(&database, "INSERT INTO note VALUES (2)").await?;
    assert_eq!(notes(&standby, &database).await?, [1]);
    standby.resume_replay().await?;
    standby.wait_caught_up().await?;
    assert_eq!(notes(&standby, &database).await?, [1, 2]);
    Ok(())
}
