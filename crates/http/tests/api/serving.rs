//! Real connections: stopping in order, and clients that go away.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use fencepost_app::lifecycle::accept::Verdict;
use fencepost_app::ports::{NewTx, Peers, Unforwarded};
use fencepost_domain::ids::Lane;
use fencepost_http::serve;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, timeout};

use super::sabotage::Sabotage;
use super::world::{World, payment};

async fn connect(listener: &TcpListener) -> TcpStream {
    TcpStream::connect(listener.local_addr().unwrap())
        .await
        .unwrap()
}

fn post(body: &str) -> String {
    let length = body.len();
    format!(
        "POST /api/v1/tx HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}

#[tokio::test]
async fn a_stop_ends_long_polls_and_idle_connections_at_once() {
    let (world, sabotage) = Sabotage::world();
    let server = world.server().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (mut idle, mut polling) = (connect(&listener).await, connect(&listener).await);
    let (stop, stopped) = oneshot::channel::<()>();
    let stopping = async move { drop(stopped.await) };
    let serving = tokio::spawn(serve(world.api(&server), listener, stopping));
    idle.write_all(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
        .await
        .unwrap();
    let mut buffer = [0; 1024];
    assert!(idle.read(&mut buffer).await.unwrap() > 0);
    let poll = "GET /api/v1/tx/completions?wait=30 HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let polled = sabotage.called("completions");
    polling.write_all(poll.as_bytes()).await.unwrap();
    polled.await;
    let began = Instant::now();
    server.node.drain();
    stop.send(()).unwrap();
    timeout(Duration::from_secs(5), serving)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    assert!(
        began.elapsed() < Duration::from_secs(2),
        "{:?}",
        began.elapsed()
    );
    let mut answer = String::new();
    polling.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    assert!(answer.contains("\"completions\":[]"), "{answer}");
}

/// Goal: a kept connection is closed when it was idle for as long as it may be, and no sooner; a request that waits
/// for longer than that is no idle connection.
#[tokio::test]
async fn an_idle_connection_is_kept_as_long_as_it_may_be_idle() {
    let mut world = World::new();
    let idle = Duration::from_secs(1);
    world.limits.idle_timeout = idle;
    let server = world.server().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut client = connect(&listener).await;
    let serving = tokio::spawn(serve(
        world.api(&server),
        listener,
        std::future::pending::<()>(),
    ));
    let mut buffer = [0; 4096];
    for path in ["/livez", "/api/v1/tx/completions?wait=2", "/livez"] {
        let ask = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        client.write_all(ask.as_bytes()).await.unwrap();
        let read = client.read(&mut buffer).await.unwrap();
        assert!(buffer[..read].starts_with(b"HTTP/1.1 200"), "{path}");
        tokio::time::sleep(idle / 2).await;
    }
    let began = Instant::now();
    let end = timeout(Duration::from_secs(20), client.read(&mut buffer)).await;
    assert_eq!(end.unwrap().unwrap_or(0), 0, "it is closed");
    assert!(began.elapsed() >= idle / 4, "{:?}", began.elapsed());
    serving.abort();
}

#[tokio::test]
async fn a_stop_waits_for_the_answers_in_hand() {
    let (world, sabotage) = Sabotage::world();
    let server = world.server().await;
    server.create(&payment(0)).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut client = connect(&listener).await;
    let (stop, stopped) = oneshot::channel::<()>();
    let stopping = async move { drop(stopped.await) };
    let serving = tokio::spawn(serve(world.api(&server), listener, stopping));
    sabotage.slow("create", Duration::from_millis(300));
    let creating = sabotage.called("create");
    client
        .write_all(post(&payment(1).to_string()).as_bytes())
        .await
        .unwrap();
    creating.await;
    stop.send(()).unwrap();
    timeout(Duration::from_secs(5), serving)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    // It has not returned before that.
    assert_eq!(server.rows().await.len(), 2);
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 202 Accepted"), "{answer}");
}

/// The leader takes its time, and then was not reached.
#[derive(Default)]
struct Hesitant {
    asked: Notify,
    answer: Notify,
}

#[async_trait]
impl Peers for Hesitant {
    async fn forward(
        &self,
        _: &str,
        _: Lane,
        _: &NewTx,
        _: Duration,
    ) -> Result<Verdict, Unforwarded> {
        self.asked.notify_one();
        self.answer.notified().await;
        Err(Unforwarded::NotSent("too late".into()))
    }

    async fn nudge(&self, _: &str, _: Lane, _: Duration) -> Result<(), Unforwarded> {
        Err(Unforwarded::NotSent("nobody is told".into()))
    }
}

#[tokio::test]
async fn a_client_that_goes_away_stops_nothing_half_way() {
    let mut world = World::new();
    let leader = world.server_at("n1", "http://127.0.0.1:1").await;
    leader.create(&payment(0)).await;
    let peers = Arc::new(Hesitant::default());
    world.peers = Arc::clone(&peers) as Arc<dyn Peers>;
    let server = world.server_at("n2", "http://127.0.0.1:2").await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut client = connect(&listener).await;
    tokio::spawn(serve(world.api(&server), listener, std::future::pending()));
    let request = post(&payment(1).to_string());
    client.write_all(request.as_bytes()).await.unwrap();
    peers.asked.notified().await;
    drop(client);
    peers.answer.notify_one();
    let stored = async {
        while server.rows().await.len() < 2 {
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_secs(5), stored).await.unwrap();
}

/// As many connections as there are places ask and never read: each is cut, and others are served.
#[tokio::test]
async fn clients_that_do_not_read_lose_their_places() {
    let mut world = World::new();
    world.limits.connections = 2;
    world.limits.write_timeout = Duration::from_millis(300);
    let server = world.server().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (mut deaf, mut dumb) = (connect(&listener).await, connect(&listener).await);
    let mut patient = connect(&listener).await;
    tokio::spawn(serve(world.api(&server), listener, std::future::pending()));
    let ask = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(2_000);
    for client in [&mut deaf, &mut dumb] {
        // It is cut somewhere in the middle, or keeps what it could not send for later.
        let _ = timeout(Duration::from_millis(200), client.write_all(&ask)).await;
    }
    patient
        .write_all(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .await
        .unwrap();
    let mut answer = String::new();
    let reading = patient.read_to_string(&mut answer);
    timeout(Duration::from_secs(20), reading)
        .await
        .expect("a place has become free")
        .unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    drop((deaf, dumb));
}
