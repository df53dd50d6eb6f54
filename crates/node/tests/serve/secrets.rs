//! Keys in the URLs of endpoints are not logged at any level, not even by libraries.

use anyhow::{Result, ensure};
use fencepost_testkit::wait;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::TcpListener;
use tokio::time::timeout;

use super::process::Home;

/// Plays the endpoint until the node has sent its request, which holds the key and the password.
async fn requested(listener: &TcpListener) -> Result<String> {
    let (stream, _) = listener.accept().await?;
    let mut lines = BufReader::new(stream).lines();
    let mut head = String::new();
    while let Some(line) = lines.next_line().await?.filter(|line| !line.is_empty()) {
        head += &line;
        head.push('\n');
    }
    Ok(head)
}

#[tokio::test]
async fn the_url_of_a_websocket_endpoint_is_not_in_the_log() -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port();
    let home = Home::signing("http://127.0.0.1:1")?;
    let ws = format!("ws://me:hush1@127.0.0.1:{port}/v3/hush2?key=hush3");
    home.announce(&ws)?;
    let filter = "trace,tungstenite=trace,tungstenite::handshake::client=trace";
    let (node, mut log) = home.serve_logging(filter).await?;
    let logged = tokio::spawn(async move {
        let mut logged = String::new();
        log.read_to_string(&mut logged).await?;
        anyhow::Ok(logged)
    });
    let said = node.said.clone();
    let head = timeout(wait::PATIENCE, requested(&listener)).await??;
    // "me:hush1".
    for sent in ["/v3/hush2?key=hush3", "Basic bWU6aHVzaDE="] {
        ensure!(head.contains(sent), "{sent} in\n{head}");
    }
    node.signal("KILL")?;
    let logged = said + &timeout(wait::PATIENCE, logged).await???;
    ensure!(logged.contains("tungstenite"), "no traces:\n{logged}");
    for secret in ["hush", "bWU6aHVzaDE"] {
        let line = logged.lines().find(|line| line.contains(secret));
        ensure!(line.is_none(), "{line:?}");
    }
    Ok(())
}
