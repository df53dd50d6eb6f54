//! The proxy's faults, byte by byte on an echo server, and what they mean for a PostgreSQL session.

use std::net::SocketAddr;

use anyhow::Result;
use fencepost_testkit::postgres::{Database, connect, shared};
use fencepost_testkit::proxy::Proxy;
use fencepost_testkit::wait;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_postgres::NoTls;

/// Answers each byte with itself, and tells the test what it has heard. `None` is the end.
struct Echo {
    addr: SocketAddr,
    heard: mpsc::UnboundedReceiver<Option<u8>>,
}

impl Echo {
    async fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let addr = listener.local_addr()?;
        let (tell, heard) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let tell = tell.clone();
                tokio::spawn(async move {
                    while let Ok(byte) = stream.read_u8().await {
                        let _ = tell.send(Some(byte));
                        let _ = stream.write_u8(byte).await;
                    }
                    let _ = tell.send(None);
                });
            }
        });
        Ok(Self { addr, heard })
    }

    async fn hears(&mut self, bytes: &[u8]) {
        for byte in bytes {
            assert_eq!(self.heard.recv().await, Some(Some(*byte)));
        }
    }

    async fn hears_the_end(&mut self) {
        assert_eq!(self.heard.recv().await, Some(None));
    }
}

async fn talk(client: &mut TcpStream, bytes: &[u8]) -> Result<()> {
    client.write_all(bytes).await?;
    let mut reply = vec![0; bytes.len()];
    client.read_exact(&mut reply).await?;
    assert_eq!(reply, bytes);
    Ok(())
}

async fn is_closed(client: &mut TcpStream) -> bool {
    !client.read(&mut [0]).await.is_ok_and(|count| count > 0)
}

async fn echo() -> Result<(Echo, Proxy, TcpStream)> {
    let echo = Echo::start().await?;
    let proxy = Proxy::start(echo.addr).await?;
    let mut client = TcpStream::connect(proxy.addr()).await?;
    talk(&mut client, b"hello").await?;
    let mut echo = echo;
    echo.hears(b"hello").await;
    Ok((echo, proxy, client))
}

#[tokio::test]
async fn swallowed_replies_are_lost_for_old_connections_and_not_for_new_ones() -> Result<()> {
    let (mut echo, proxy, mut old) = echo().await?;
    proxy.swallow_after(2);
    old.write_all(b"abcd").await?;
    echo.hears(b"abcd").await;
    proxy.wait_for_lost_reply().await?;
    talk(&mut TcpStream::connect(proxy.addr()).await?, b"new").await?;
    proxy.cut();
    let mut rest = Vec::new();
    let _ = old.read_to_end(&mut rest).await;
    assert_eq!(rest, b"ab");
    Ok(())
}

#[tokio::test]
async fn held_requests_arrive_on_release_although_the_client_has_gone() -> Result<()> {
    let (mut echo, proxy, mut client) = echo().await?;
    proxy.hold_requests();
    client.write_all(b"late").await?;
    drop(client);
    proxy.wait_for_request(b"late").await?;
    // A second connection is served meanwhile, and nothing of the first has come through before it.
    let mut second = TcpStream::connect(proxy.addr()).await?;
    talk(&mut second, b"second").await?;
    echo.hears(b"second").await;
    proxy.release_requests();
    echo.hears(b"late").await;
    echo.hears_the_end().await;
    Ok(())
}

#[tokio::test]
async fn a_truncated_request_stops_half_way_and_is_lost_by_a_cut() -> Result<()> {
    let (mut echo, proxy, mut client) = echo().await?;
    proxy.truncate_next_request(3);
    client.write_all(b"abcdef").await?;
    proxy.wait_for_request(b"abcdef").await?;
    echo.hears(b"abc").await;
    assert_eq!(proxy.held_bytes(), 3);
    proxy.cut();
    echo.hears_the_end().await;
    proxy.wait_until_idle().await?;
    assert_eq!(proxy.connections(), 0);
    Ok(())
}

#[tokio::test]
async fn a_cut_closes_both_sides_and_lets_the_client_come_back() -> Result<()> {
    let (mut echo, proxy, mut client) = echo().await?;
    proxy.cut();
    assert!(is_closed(&mut client).await);
    echo.hears_the_end().await;
    talk(&mut TcpStream::connect(proxy.addr()).await?, b"again").await
}

#[tokio::test]
async fn a_forsaken_client_is_closed_and_its_server_hears_nothing_of_it() -> Result<()> {
    let (mut echo, proxy, mut client) = echo().await?;
    client.write_all(b"last words").await?;
    echo.hears(b"last words").await;
    proxy.forsake();
    let mut rest = Vec::new();
    let _ = client.read_to_end(&mut rest).await;
    talk(&mut TcpStream::connect(proxy.addr()).await?, b"new").await?;
    echo.hears(b"new").await;
    assert_eq!(proxy.connections(), 2, "the server's side is still open");
    proxy.cut();
    echo.hears_the_end().await;
    Ok(())
}

#[tokio::test]
async fn refused_connections_are_closed_and_old_ones_go_on() -> Result<()> {
    let (_echo, proxy, mut client) = echo().await?;
    proxy.refuse();
    assert!(is_closed(&mut TcpStream::connect(proxy.addr()).await?).await);
    talk(&mut client, b"still here").await?;
    proxy.accept();
    talk(&mut TcpStream::connect(proxy.addr()).await?, b"again").await
}

#[tokio::test]
async fn a_retargeted_proxy_sends_new_connections_elsewhere() -> Result<()> {
    let (_first, proxy, _client) = echo().await?;
    let mut second = Echo::start().await?;
    proxy.retarget(second.addr);
    talk(&mut TcpStream::connect(proxy.addr()).await?, b"moved").await?;
    second.hears(b"moved").await;
    Ok(())
}

#[tokio::test]
async fn each_occurrence_of_a_request_is_seen_once_even_after_its_connection_has_ended()
-> Result<()> {
    let (_echo, proxy, mut client) = echo().await?;
    talk(&mut client, b"one two one").await?;
    drop(client);
    proxy.wait_until_idle().await?;
    proxy.wait_for_request(b"one").await?;
    proxy.wait_for_request(b"one").await?;
    let third = tokio::time::timeout(std::time::Duration::ZERO, proxy.wait_for_request(b"one"));
    assert!(third.await.is_err());
    Ok(())
}

/// A database with an empty table of notes, behind a proxy.
async fn postgres() -> Result<(Database, Proxy)> {
    let database = shared().await?.create_database().await?;
    database
        .connect()
        .await?
        .batch_execute("CREATE TABLE note (n int)")
        .await?;
    let proxy = Proxy::start(database.server().addr()?).await?;
    Ok((database, proxy))
}

async fn wait_for_note(database: &Database) -> Result<()> {
    let client = database.connect().await?;
    wait::until("the note is committed", || async {
        Ok((client.query("SELECT n FROM note", &[]).await?.len() == 1).then_some(()))
    })
    .await
}

#[tokio::test]
async fn a_commit_whose_reply_is_lost_has_happened() -> Result<()> {
    let (database, proxy) = postgres().await?;
    let client = connect(&database.url_through(proxy.addr())).await?;
    client
        .batch_execute("BEGIN; INSERT INTO note VALUES (1)")
        .await?;
    proxy.swallow_replies();
    let commit = tokio::spawn(async move { client.batch_execute("COMMIT").await });
    proxy.wait_for_lost_reply().await?;
    assert_eq!(
        database
            .connect()
            .await?
            .query("SELECT n FROM note", &[])
            .await?
            .len(),
        1
    );
    assert!(!commit.is_finished());
    proxy.cut();
    assert!(commit.await?.is_err(), "the client cannot know");
    Ok(())
}

/// Method: the connection's own task is ended, because a client that is merely dropped stays connected
/// until its last statement is answered.
#[tokio::test]
async fn a_statement_of_a_client_that_has_gone_executes_late() -> Result<()> {
    let (database, proxy) = postgres().await?;
    let url = database.url_through(proxy.addr());
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await?;
    let connection = tokio::spawn(connection);
    proxy.hold_requests();
    let insert =
        tokio::spawn(async move { client.batch_execute("INSERT INTO note VALUES (1)").await });
    proxy.wait_for_request(b"INSERT INTO note").await?;
    connection.abort();
    assert!(insert.await?.is_err());
    let onlooker = database.connect().await?;
    assert!(onlooker.query("SELECT n FROM note", &[]).await?.is_empty());
    proxy.release_requests();
    wait_for_note(&database).await
}

#[tokio::test]
async fn a_half_sent_statement_never_executes() -> Result<()> {
    let (database, proxy) = postgres().await?;
    let client = connect(&database.url_through(proxy.addr())).await?;
    proxy.truncate_next_request(20);
    let sql = "INSERT INTO note VALUES (1)";
    let insert = tokio::spawn(async move { client.batch_execute(sql).await });
    proxy.wait_for_request(sql.as_bytes()).await?;
    proxy.cut();
    assert!(insert.await?.is_err());
    let client = database.connect().await?;
    wait::until("the server gives the session up", || async {
        let others = "SELECT pid FROM pg_stat_activity
                      WHERE datname = current_database() AND pid <> pg_backend_pid()";
        Ok(client.query(others, &[]).await?.is_empty().then_some(()))
    })
    .await?;
    assert!(client.query("SELECT n FROM note", &[]).await?.is_empty());
    Ok(())
}

#[tokio::test]
async fn a_forgetful_proxy_carries_and_strikes_as_any_other() -> Result<()> {
    let mut echo = Echo::start().await?;
    let proxy = Proxy::start_forgetful(echo.addr).await?;
    let mut client = TcpStream::connect(proxy.addr()).await?;
    talk(&mut client, b"hello").await?;
    echo.hears(b"hello").await;
    let seen = tokio::time::timeout(std::time::Duration::ZERO, proxy.wait_for_request(b"hello"));
    assert!(seen.await.is_err());
    proxy.cut();
    assert!(is_closed(&mut client).await);
    Ok(())
}
