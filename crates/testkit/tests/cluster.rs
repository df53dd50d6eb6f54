//! The cluster: that it is a real server, survives what it should, and leaves nothing behind.

use std::path::Path;

use anyhow::Result;
use fencepost_testkit::gate::backend_pid;
use fencepost_testkit::postgres::{Cluster, Options, Signal, Stop, connect, shared};
use fencepost_testkit::wait;
use tokio_postgres::Client;

async fn count(client: &Client) -> Result<i64> {
    Ok(client
        .query_one("SELECT count(*) FROM note", &[])
        .await?
        .get(0))
}

/// A zombie is dead; when it is buried is up to init.
fn alive(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}

async fn wait_until_gone(pids: &[i32], directory: &Path) -> Result<()> {
    wait::until("server and directory are gone", || async {
        let gone = !directory.exists() && !pids.iter().any(|pid| alive(*pid));
        Ok(gone.then_some(()))
    })
    .await
}

#[tokio::test]
async fn a_cluster_is_durable_and_takes_the_callers_settings() -> Result<()> {
    let settings = vec![
        ("work_mem".into(), "7MB".into()),
        ("cluster_name".into(), "it's".into()),
    ];
    let cluster = Cluster::start(Options { settings }).await?;
    let admin = cluster.admin().await?;
    for (name, expected) in [
        ("fsync", "on"),
        ("synchronous_commit", "on"),
        ("full_page_writes", "on"),
        ("max_connections", "300"),
        ("deadlock_timeout", "200ms"),
        ("server_encoding", "UTF8"),
        ("work_mem", "7MB"),
        ("cluster_name", "it's"),
    ] {
        let value: String = admin.query_one(&format!("SHOW {name}"), &[]).await?.get(0);
        assert_eq!(value, expected, "{name}");
    }
    Ok(())
}

#[tokio::test]
async fn a_dropped_cluster_leaves_neither_process_nor_directory() -> Result<()> {
    let cluster = Cluster::start(Options::default()).await?;
    let directory = cluster.directory().to_owned();
    let pids = cluster.server_pids().await?;
    assert!(directory.is_dir() && alive(pids[0]));
    drop(cluster);
    assert!(!directory.exists() && !alive(pids[0]));
    wait_until_gone(&pids, &directory).await
}

#[tokio::test]
async fn a_crash_keeps_what_was_committed_and_only_that() -> Result<()> {
    let cluster = Cluster::start(Options::default()).await?;
    let database = cluster.create_database().await?;
    let client = database.connect().await?;
    client
        .batch_execute("CREATE TABLE note (n int); INSERT INTO note VALUES (1)")
        .await?;
    client
        .batch_execute("BEGIN; INSERT INTO note VALUES (2)")
        .await?;
    cluster.restart_immediate().await?;
    assert!(client.batch_execute("COMMIT").await.is_err());
    assert_eq!(count(&database.connect().await?).await?, 1);
    assert!(cluster.log().contains("automatic recovery in progress"));
    Ok(())
}

#[tokio::test]
async fn a_stopped_cluster_comes_back_on_the_same_port() -> Result<()> {
    let cluster = Cluster::start(Options::default()).await?;
    let database = cluster.create_database().await?;
    cluster.stop(Stop::Fast).await?;
    assert!(connect(&database.url()).await.is_err());
    assert!(
        cluster.stop(Stop::Fast).await.is_err(),
        "stopping twice is a mistake of the test"
    );
    cluster.start_again().await?;
    database.connect().await?;
    Ok(())
}

#[tokio::test]
async fn a_backend_can_be_frozen_thawed_and_killed() -> Result<()> {
    let database = shared().await?.create_database().await?;
    let server = database.server();
    let (client, onlooker) = (database.connect().await?, database.connect().await?);
    let pid = backend_pid(&client).await?;
    assert!(server.backend_pids().await?.contains(&pid));

    server.signal_backend(pid, Signal::Stop).await?;
    let mut asking = Box::pin(client.query_one("SELECT 1", &[]));
    // The frozen one cannot have answered when somebody who asked later has been served.
    tokio::select! {
        biased;
        answer = &mut asking => panic!("a frozen backend answered {answer:?}"),
        answer = onlooker.query_one("SELECT 2", &[]) => { answer?; }
    }
    server.signal_backend(pid, Signal::Continue).await?;
    asking.await?;

    server.kill_backend(pid).await?;
    assert!(client.query_one("SELECT 1", &[]).await.is_err());
    assert!(!server.backend_pids().await?.contains(&pid));
    Ok(())
}

#[tokio::test]
async fn databases_can_be_made_all_at_once() -> Result<()> {
    let server = shared().await?;
    let made: Vec<_> = (0..8)
        .map(|_| tokio::spawn(server.create_database()))
        .collect();
    let mut names = Vec::new();
    for database in made {
        let database = database.await??;
        database
            .connect()
            .await?
            .batch_execute("CREATE TABLE note (n int)")
            .await?;
        names.push(database.name().to_owned());
    }
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 8);
    Ok(())
}

#[test]
fn the_shared_server_outlives_the_runtime_that_started_it() -> Result<()> {
    for _ in 0..2 {
        let runtime = tokio::runtime::Runtime::new()?;
        runtime.block_on(async { shared().await?.create_database().await })?;
    }
    Ok(())
}
