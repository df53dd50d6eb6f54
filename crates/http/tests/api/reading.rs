//! Reading one transaction, and what happened to it.

use serde_json::{Value, json};

use super::chain_steps::{hash, id};
use super::world::{ALICE, BOB, World, named, payment};

#[tokio::test(start_paused = true)]
async fn a_transaction_is_found_by_everything_that_names_it() {
    let server = World::new().server().await;
    let told = server.create(&named("order 17", 1)).await;
    let tx = id(&told);
    server.confirm(tx, 7).await;
    let read = server.get(&format!("/api/v1/tx/{tx}")).await.json();
    let seven = hash(7).to_string();
    assert_eq!(read["state"], "CONFIRMED");
    assert_eq!(read["txHash"], json!(seven));
    assert_eq!(
        (&read["blockNumber"], &read["blockHash"]),
        (&json!(500), &json!(hash(0xbb).to_string()))
    );
    assert_eq!(read["receipt"], json!({ "status": "0x1", "logs": [] }));
    assert!(read["confirmedAt"].is_string());
    for path in [
        format!("by-request?signer={ALICE}&requestId=order%2017"),
        format!(
            "by-request?signer={}&requestId=order+17&chain=main",
            ALICE.to_lowercase()
        ),
        format!("by-nonce?signer={ALICE}&nonce=0"),
        format!("by-hash/{seven}"),
        format!(
            "by-hash/{}?chain=main",
            seven.to_uppercase().replace("0X", "0x")
        ),
        tx.to_string().to_uppercase(),
    ] {
        let reply = server.get(&format!("/api/v1/tx/{path}")).await;
        assert_eq!((reply.status, reply.json()), (200, read.clone()), "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_not_there_is_not_found() {
    let server = World::new().server().await;
    server.create(&payment(1)).await;
    let nobody = "01890a5d-ac96-774b-bcce-b302099a8057";
    let zero = hash(0);
    for path in [
        nobody.to_owned(),
        format!("{nobody}/history"),
        format!("{nobody}/attempts"),
        format!("{nobody}/confirmations"),
        format!("by-request?signer={ALICE}&requestId=x"),
        format!("by-nonce?signer={ALICE}&nonce=1"),
        format!("by-nonce?signer={BOB}&nonce=0"),
        format!("by-hash/{zero}"),
    ] {
        let reply = server.get(&format!("/api/v1/tx/{path}")).await;
        assert_eq!(
            (reply.status, reply.code().as_str()),
            (404, "not_found"),
            "{path}"
        );
    }
    let reply = server
        .get(&format!(
            "/api/v1/tx/by-nonce?signer={ALICE}&nonce=1&chain=moon"
        ))
        .await;
    assert_eq!(reply.code(), "unknown_chain");
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_is_told_by_its_name() {
    let server = World::new().server().await;
    let check = async |path: &str, expected: &[&str]| {
        let reply = server.get(&format!("/api/v1/tx{path}")).await;
        assert_eq!(reply.fields(), expected, "{path}");
    };
    check("/x", &["txId"]).await;
    check("/%ff", &["txId"]).await;
    check("/01890a5dac96774bbcceb302099a8057", &["txId"]).await;
    check("/x/history?after=-1&limit=0", &["after", "limit", "txId"]).await;
    check("/x/attempts?a=1", &["a", "txId"]).await;
    check("/by-hash/0x12", &["hash"]).await;
    check("/by-request", &["requestId", "signer"]).await;
    check(
        "/by-request?signer=0x1&requestId=",
        &["requestId", "signer"],
    )
    .await;
    check(&format!("/by-nonce?signer={ALICE}"), &["nonce"]).await;
    check(&format!("/by-nonce?signer={ALICE}&nonce=+1"), &["nonce"]).await;
    check(
        &format!("/by-nonce?signer={ALICE}&nonce=9223372036854775808"),
        &["nonce"],
    )
    .await;
    check(
        &format!("/by-nonce?signer={ALICE}&nonce=1&nonce=2"),
        &["nonce"],
    )
    .await;
    check(
        &format!("/by-nonce?signer={ALICE}&nonce=1&height=2"),
        &["height"],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_history_tells_every_step_and_the_attempts_every_hash() {
    let server = World::new().server().await;
    let tx = id(&server.create(&payment(1)).await);
    assert_eq!(
        server
            .get(&format!("/api/v1/tx/{tx}/attempts"))
            .await
            .json(),
        json!({ "attempts": [] })
    );
    let confirmations = server
        .get(&format!("/api/v1/tx/{tx}/confirmations"))
        .await
        .json();
    assert_eq!(confirmations, json!({ "confirmations": [] }));
    server.confirm(tx, 7).await;
    let history = server.get(&format!("/api/v1/tx/{tx}/history")).await.json();
    let events = history["events"].as_array().unwrap();
    let kinds: Vec<_> = events
        .iter()
        .map(|event| event["kind"].as_str().unwrap())
        .collect();
    assert_eq!(
        kinds,
        ["accepted", "signed", "submitted", "receipt", "confirmed"]
    );
    assert_eq!(events[0]["from"], Value::Null);
    assert_eq!(
        events[0]["to"],
        json!({ "state": "ALLOCATED", "subState": null })
    );
    assert_eq!(
        events[3]["to"],
        json!({ "state": "TRACKING", "subState": "MINED" })
    );
    assert_eq!(
        (&events[3]["blockNumber"], &events[3]["node"]),
        (&json!(500), &json!("n1"))
    );
    let after = events[3]["seq"].as_u64().unwrap();
    let rest = server
        .get(&format!("/api/v1/tx/{tx}/history?after={after}"))
        .await
        .json();
    assert_eq!(rest["events"], json!([events[4]]));
    let first = server
        .get(&format!("/api/v1/tx/{tx}/history?limit=1"))
        .await
        .json();
    assert_eq!(first["events"], json!([events[0]]));
    let attempts = server
        .get(&format!("/api/v1/tx/{tx}/attempts"))
        .await
        .json();
    let expected = json!({ "attempts": [{
        "n": 1, "kind": "ORIGINAL", "txHash": hash(7).to_string(), "gasPrice": null,
        "maxFeePerGas": "70", "maxPriorityFeePerGas": "7", "outcome": "ACCEPTED",
        "token": attempts["attempts"][0]["token"], "at": attempts["attempts"][0]["at"],
    }] });
    assert_eq!(attempts, expected);
}
