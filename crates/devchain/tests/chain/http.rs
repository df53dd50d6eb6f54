//! The server, over real sockets.

use std::time::Duration;

use alloy_rpc_types_eth::TransactionReceipt;
use fencepost_devchain::{Fault, FaultKind, Server, ServerConfig, Shared, When};
use reqwest::Client;
use serde_json::{Value, json};

use crate::world::*;

/// A request that is answered at all is answered sooner; only one that hangs lasts so long.
const PATIENCE: Duration = Duration::from_secs(30);
const IMPATIENCE: Duration = Duration::from_millis(150);

fn client() -> Client {
    // Another test may have been first.
    drop(rustls::crypto::ring::default_provider().install_default());
    Client::builder().timeout(PATIENCE).build().unwrap()
}

async fn started(config: ServerConfig) -> (Shared, Server) {
    let shared = Shared::new(chain());
    let server = Server::start(shared.clone(), config).await.unwrap();
    (shared, server)
}

async fn post(client: &Client, url: &str, body: String) -> reqwest::Result<(u16, String)> {
    let response = client.post(url).body(body).send().await?;
    Ok((response.status().as_u16(), response.text().await?))
}

async fn ask(client: &Client, url: &str, method: &str, params: Value) -> Value {
    let (status, body) = post(client, url, request(method, &params)).await.unwrap();
    assert_eq!(status, 200, "{body}");
    let mut answer: Value = serde_json::from_str(&body).unwrap();
    assert!(answer.get("error").is_none(), "{method}: {answer}");
    answer["result"].take()
}

#[tokio::test]
async fn transactions_of_all_types_go_there_and_back() {
    let (_shared, server) = started(ServerConfig::default()).await;
    let (client, url) = (client(), server.url(MAIN));
    let raws = [
        tx(0, 0).legacy(Some(CHAIN_ID)),
        tx(0, 1).gas(50_000).listed(),
        tx(0, 2).raw(),
    ];
    let mut hashes = Vec::new();
    for raw in raws {
        hashes.push(ask(&client, &url, "eth_sendRawTransaction", json!([raw])).await);
    }
    ask(&client, &url, "evm_mine", json!([])).await;
    for (number, hash) in hashes.iter().enumerate() {
        let told = ask(&client, &url, "eth_getTransactionReceipt", json!([hash])).await;
        let told: TransactionReceipt = serde_json::from_value(told).unwrap();
        assert!(told.inner.status());
        assert_eq!(usize::from(u8::from(told.inner.tx_type())), number);
    }
    server.stop().await;
}

#[tokio::test]
async fn each_endpoint_has_its_path() {
    let (shared, server) = started(ServerConfig::default()).await;
    let fault = Fault::new(FaultKind::ChainId(5));
    shared.lock().add_fault(OTHER, fault).unwrap();
    let client = client();
    for (path, expected) in [
        ("", "0x7a69"),
        ("0", "0x7a69"),
        ("main", "0x7a69"),
        ("1", "0x5"),
        ("other", "0x5"),
    ] {
        let url = format!("http://{}/{path}", server.address());
        assert_eq!(
            ask(&client, &url, "eth_chainId", json!([])).await,
            expected,
            "{path}"
        );
    }
    let nowhere = format!("http://{}/2", server.address());
    let (status, _) = post(&client, &nowhere, String::new()).await.unwrap();
    assert_eq!(status, 404);
    let response = client.get(server.url(MAIN)).send().await.unwrap();
    assert_eq!(response.status(), 405);
}

#[tokio::test]
async fn faults_reach_the_wire() {
    let (shared, server) = started(ServerConfig::default()).await;
    let (client, url) = (client(), server.url(MAIN));
    let add = |kind| {
        shared
            .lock()
            .add_fault(MAIN, Fault::new(kind).times(1))
            .unwrap()
    };
    let chain_id = || request("eth_chainId", &json!([]));

    let (status, body, when) = (429, "slow down".to_owned(), When::Before);
    add(FaultKind::Http { status, body, when });
    let got = post(&client, &url, chain_id()).await.unwrap();
    assert_eq!(got, (429, "slow down".to_owned()));

    add(FaultKind::Disconnect(When::After));
    let send = request("eth_sendRawTransaction", &json!([tx(0, 0).raw()]));
    let error = post(&client, &url, send).await.unwrap_err();
    assert!(!error.is_timeout(), "{error}");
    assert_eq!(shared.lock().pooled(MAIN).unwrap().len(), 1);

    add(FaultKind::Hang(When::Before));
    let hangs = client
        .post(&url)
        .body(chain_id())
        .timeout(IMPATIENCE)
        .send();
    assert!(hangs.await.unwrap_err().is_timeout());

    add(FaultKind::Late(1));
    assert_eq!(post(&client, &url, chain_id()).await.unwrap().0, 200);
}

#[tokio::test]
async fn bodies_are_bounded_and_must_be_text() {
    let config = ServerConfig {
        body_bytes_max: 1_000,
        ..ServerConfig::default()
    };
    let (_shared, server) = started(config).await;
    let (client, url) = (client(), server.url(MAIN));
    let (status, _) = post(&client, &url, "x".repeat(1_001)).await.unwrap();
    assert_eq!(status, 413);
    let response = client
        .post(&url)
        .body(vec![0xff, 0xfe])
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), 400);
    assert_eq!(post(&client, &url, "x".repeat(1_000)).await.unwrap().0, 200);
}

#[tokio::test]
async fn blocks_are_mined_by_interval_until_the_server_stops() {
    let config = ServerConfig {
        block_interval: Some(Duration::from_millis(2)),
        ..ServerConfig::default()
    };
    let (shared, server) = started(config).await;
    let mined = async {
        while shared.lock().head().number() < 3 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, mined).await.unwrap();
    assert!(
        shared.lock().head().header.timestamp > 1_750_000_000,
        "it is the time of day"
    );
    server.stop().await;
}

#[tokio::test]
async fn stopping_cuts_what_hangs() {
    let (shared, server) = started(ServerConfig::default()).await;
    let fault = Fault::new(FaultKind::Hang(When::After));
    shared.lock().add_fault(MAIN, fault).unwrap();
    let (client, url) = (client(), server.url(MAIN));
    let body = request("eth_sendRawTransaction", &json!([tx(0, 0).raw()]));
    let hangs = tokio::spawn(async move { post(&client, &url, body).await });
    let arrived = async {
        while shared.lock().pooled(MAIN).unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, arrived).await.unwrap();
    let address = server.address();
    server.stop().await;
    let error = hangs.await.unwrap().unwrap_err();
    assert!(!error.is_timeout(), "{error}");
    assert!(
        tokio::net::TcpStream::connect(address).await.is_err(),
        "nobody listens"
    );
}
