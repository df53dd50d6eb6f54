//! More connections than a node has file descriptors for, and many at once.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use fencepost_testkit::postgres::shared;
use fencepost_testkit::wait;
use futures::future::{join_all, try_join_all};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::fleet::{Fleet, LEASE, request};

/// The usual limit of file descriptors, and more connections than it allows.
const DESCRIPTORS: u32 = 1_024;
const IDLE: usize = 1_300;
/// As many as knock at once; beyond the queue of 1,024 that listeners usually have.
const AT_ONCE: usize = 2_000;
/// A connection that found room in the kernel's queue is there at once. One that was dropped tries again after a second.
const CONNECT: Duration = Duration::from_millis(900);

async fn open(address: &str) -> Result<TcpStream> {
    let connected = timeout(wait::PATIENCE, TcpStream::connect(address)).await;
    Ok(connected.context("it is not let in")??)
}

/// Goal: connections that say nothing cost a node neither its leases nor its clients.
#[tokio::test]
async fn idle_connections_beyond_the_descriptor_limit_lose_their_places_and_nothing_else()
-> Result<()> {
    let database = shared().await?.create_database().await?;
    let fleet = Fleet::new(database.url())?
        .descriptors(DESCRIPTORS)
        .keyed()?;
    let node = fleet.start("a").await?;
    assert!(node.post(&request(1, None)).await?.is_accepted());
    let (token, expires) = fleet.lease(1).await?;
    let address = node.url.trim_start_matches("http://").to_owned();
    let mut idle = Vec::new();
    for _ in 0..IDLE {
        idle.push(open(&address).await?);
    }
    let accepted = node.post(&request(1, None)).await?;
    assert!(accepted.is_accepted(), "{accepted:?}");
    for path in ["/livez", "/readyz"] {
        assert_eq!(node.get(path).await?.status, 200, "{path}");
    }
    // Two leases later the node still has the first one.
    let later = expires + 2 * i64::try_from(LEASE.as_millis())?;
    let renewed = wait::until("the lease is renewed", || async {
        let (token, expires) = fleet.lease(1).await?;
        Ok((expires > later).then_some(token))
    });
    assert_eq!(renewed.await?, token, "the lease was lost");
    // Those that were idle longest have been closed, the newest have not.
    let mut byte = [0];
    assert_eq!(
        timeout(wait::PATIENCE, idle[0].read(&mut byte))
            .await?
            .unwrap_or(0),
        0
    );
    let newest = idle.last_mut().context("one")?;
    newest
        .write_all(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .await?;
    assert!(timeout(wait::PATIENCE, newest.read(&mut byte)).await?? > 0);
    let open = node.meter("fencepost_http_connections ").await?;
    ensure!(open < f64::from(DESCRIPTORS), "{open} connections are open");
    let closed = node
        .meter("fencepost_http_connections_closed_for_room_total ")
        .await?;
    ensure!(closed > 0.0, "none was closed for room");
    assert_eq!(node.lines("connections_full"), 1, "it is logged once");
    Ok(())
}

/// The node stands still, so that nothing is accepted, while all connect. Then each is answered.
#[tokio::test]
async fn a_burst_of_connections_waits_in_the_queue_of_the_kernel() -> Result<()> {
    let allowed = std::fs::read_to_string("/proc/sys/net/core/somaxconn")?;
    let count = AT_ONCE.min(allowed.trim().parse()?);
    let database = shared().await?.create_database().await?;
    let fleet = Fleet::new(database.url())?;
    let node = fleet.start("a").await?;
    let address = node.url.trim_start_matches("http://").to_owned();
    node.signal("STOP")?;
    let burst = join_all((0..count).map(|_| timeout(CONNECT, TcpStream::connect(&address)))).await;
    node.signal("CONT")?;
    let burst: Vec<TcpStream> = burst.into_iter().flatten().flatten().collect();
    assert_eq!(burst.len(), count, "connections were dropped");
    let answered = try_join_all(burst.into_iter().map(|mut stream| async move {
        let ask = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        stream.write_all(ask).await?;
        let mut answer = String::new();
        timeout(wait::PATIENCE, stream.read_to_string(&mut answer)).await??;
        ensure!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
        Ok(())
    }));
    answered.await?;
    Ok(())
}
