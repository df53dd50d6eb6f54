//! Several hosts: the one that can be written to is found, whichever it is and whatever the others do.

use std::iter;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use anyhow::Result;
use fencepost_app::ports::{Store, StoreError};
use fencepost_postgres::{PostgresStore, Settings};
use fencepost_testkit::postgres::{Cluster, Options, Stop};
use fencepost_testkit::proxy::Proxy;

use super::node::{settings, works};

/// The URL of a database on several servers.
fn url(ports: &[u16], database: &str) -> String {
    let hosts: Vec<_> = ports
        .iter()
        .map(|port| format!("127.0.0.1:{port}"))
        .collect();
    let hosts = hosts.join(",");
    format!("postgres://fencepost@{hosts}/{database}?target_session_attrs=read-write")
}

#[tokio::test]
async fn a_standby_as_first_host_is_passed_over_and_found_when_it_is_promoted() -> Result<()> {
    let primary = Cluster::start(Options::default()).await?;
    let database = primary.create_database().await?;
    let standby = primary.standby().await?;
    let ports = [standby.addr()?.port(), primary.addr()?.port()];
    let url = url(&ports, database.name());
    let seat = works(settings(url)).await?;
    standby.wait_caught_up().await?;

    primary.stop(Stop::Fast).await?;
    let down = seat.store.ping().await;
    let Err(StoreError::Unavailable(why)) = down else {
        panic!("{down:?}");
    };
    let why = why.to_string();
    assert!(
        why.contains("standby") && why.contains(&format!(":{}", ports[1])),
        "{why}"
    );
    let _promoted = standby.promote().await?;
    seat.store.ping().await?;
    Ok(())
}

#[tokio::test]
async fn a_first_host_that_says_nothing_costs_a_bounded_time_and_only_now_and_then() -> Result<()> {
    let primary = Cluster::start(Options::default()).await?;
    let database = primary.create_database().await?;
    // The system takes connections for it, and nobody ever answers.
    let mute = TcpListener::bind(("127.0.0.1", 0))?;
    mute.set_nonblocking(true)?;
    let callers = || iter::from_fn(|| mute.accept().ok()).count();
    let proxy = Proxy::start(primary.addr()?).await?;
    let ports = [mute.local_addr()?.port(), proxy.addr().port()];
    let timeout = Duration::from_secs(4);
    let node = Settings {
        statement_timeout: timeout,
        ..settings(url(&ports, database.name()))
    };
    let begun = Instant::now();
    let store = PostgresStore::open(node).await?;
    // Half of a connection's time for the mute one, once; after that it is tried last.
    assert!(begun.elapsed() < timeout * 4, "{:?}", begun.elapsed());
    assert_eq!(callers(), 1);
    proxy.cut();
    store.ping().await?;
    assert_eq!(callers(), 0);
    Ok(())
}

#[tokio::test]
async fn when_no_host_can_be_written_to_each_is_named() -> Result<()> {
    let primary = Cluster::start(Options::default()).await?;
    let closed = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
    let port = primary.addr()?.port();
    let answer = PostgresStore::open(settings(url(&[closed, port], "nowhere"))).await;
    let Err(StoreError::Unavailable(why)) = answer else {
        panic!("{:?}", answer.err());
    };
    let why = why.to_string();
    assert!(why.contains(&format!("127.0.0.1:{closed}: ")), "{why}");
    assert!(why.contains(&format!("127.0.0.1:{port}: ")), "{why}");
    assert!(why.contains("\"nowhere\" does not exist"), "{why}");
    Ok(())
}
