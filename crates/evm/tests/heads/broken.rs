//! Endpoints that break, refuse, hang or talk nonsense: the next try is made, and nothing else happens.

use std::time::Duration;

use fencepost_evm::WsLimits;
use tokio::io::AsyncWriteExt;
use tokio_tungstenite::tungstenite::{Bytes, Message};

use super::server::{Peer, Server, Watched, limits};

/// The next try is a good one, and wakes the follower up.
async fn check_recovers(server: &Server, watched: &Watched) {
    let mut peer = server.subscriber().await;
    watched.until_woken().await;
    peer.announce(7).await;
    watched.until_woken().await;
    assert_eq!(watched.meter("connected"), "1");
}

#[tokio::test]
async fn a_connection_that_is_closed_is_made_again() {
    let server = Server::start().await;
    let watched = Watched::start(server.endpoint(limits()));
    for _ in 0..3 {
        let mut peer = server.subscriber().await;
        watched.until_woken().await;
        peer.announce(1).await;
        watched.until_woken().await;
        peer.close().await;
    }
    // Cut off, without a word.
    drop(server.subscriber().await);
    watched.until_woken().await;
    check_recovers(&server, &watched).await;
}

#[tokio::test]
async fn garbage_is_ignored() {
    let server = Server::start().await;
    let watched = Watched::start(server.endpoint(limits()));
    let mut peer = Peer::open(server.connection().await).await;
    for garbage in ["", "{", "null", "[[]]", r#"{"id":7,"result":"0x1"}"#] {
        peer.send(garbage).await;
    }
    peer.answer().await;
    watched.until_woken().await;
    for garbage in [
        "eth_subscription",
        r#"{"method":"eth_subscribe"}"#,
        r#"{"id":1,"error":{"code":-32000,"message":"late"}}"#,
    ] {
        peer.send(garbage).await;
    }
    peer.put(Message::binary(vec![0xff; 1_000])).await;
    peer.put(Message::Pong(Bytes::from_static(b"unasked")))
        .await;
    peer.until_read().await;
    assert!(watched.sleeps());
    peer.announce(1).await;
    watched.until_woken().await;
    assert_eq!(watched.meter("heads_total"), "1");
}

#[tokio::test]
async fn a_message_that_is_too_long_or_no_text_ends_the_connection() {
    let server = Server::start().await;
    let watched = Watched::start(server.endpoint(WsLimits {
        message_bytes_max: 10_000,
        ..limits()
    }));
    let mut peer = server.subscriber().await;
    watched.until_woken().await;
    peer.send(&"x".repeat(10_001)).await;
    let mut peer = server.subscriber().await;
    watched.until_woken().await;
    // No WebSocket at all from here on.
    peer.raw().write_all(&[0xff; 100]).await.unwrap();
    check_recovers(&server, &watched).await;
}

#[tokio::test]
async fn an_endpoint_that_refuses_is_tried_again() {
    let server = Server::start().await;
    let watched = Watched::start(server.endpoint(limits()));
    for answer in [
        "HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 301 Moved\r\nlocation: ws://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}",
        "SSH-2.0-OpenSSH\r\n\r\n",
        "",
    ] {
        let mut stream = server.connection().await;
        stream.write_all(answer.as_bytes()).await.unwrap();
    }
    let mut peer = Peer::open(server.connection().await).await;
    peer.read().await;
    let error = r#"{"code":-32601,"message":"notifications not supported"}"#;
    peer.send(&format!(r#"{{"jsonrpc":"2.0","id":1,"error":{error}}}"#))
        .await;
    peer.until_left().await;
    assert!(watched.sleeps());
    assert_eq!(watched.meter("connected"), "0");
    check_recovers(&server, &watched).await;
}

/// There is one connection at a time, so the next one shows that the last was given up.
#[tokio::test]
async fn an_endpoint_that_never_answers_is_given_up_and_tried_again() {
    let server = Server::start().await;
    let watched = Watched::start(server.endpoint(WsLimits {
        open_timeout: Duration::from_millis(500),
        ..limits()
    }));
    let _handshake_hangs = server.connection().await;
    let subscription_hangs = server.hurried_subscriber(false).await;
    let _again = server.connection().await;
    subscription_hangs.until_left().await;
    assert!(watched.sleeps());
}

/// The peer is kept but not read, so that it answers no ping.
#[tokio::test]
async fn a_connection_that_falls_silent_is_given_up_and_made_again() {
    let server = Server::start().await;
    let watched = Watched::start(server.endpoint(WsLimits {
        ping_after: Duration::from_millis(200),
        ..limits()
    }));
    let silent = server.hurried_subscriber(true).await;
    watched.until_woken().await;
    let _again = server.connection().await;
    silent.until_left().await;
}
