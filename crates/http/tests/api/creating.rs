//! Having one transaction sent.

use axum::body::Body;
use axum::http::Request;
use fencepost_app::ports::{Audit, CursorMove, Held, PauseChange, PauseReason, Store};
use fencepost_app::settings::NotLeader;
use fencepost_domain::ids::Nonce;
use fencepost_domain::request::Meta;
use serde_json::{Value, json};

use super::world::{ALICE, BOB, Reply, Server, TO, World, lane_on, named, payment};

async fn with_key(server: &Server, key: &[u8], body: &Value) -> Reply {
    let request = Request::post("/api/v1/tx")
        .header("Idempotency-Key", key)
        .body(Body::from(body.to_string()));
    server.send(request.unwrap()).await
}

#[tokio::test(start_paused = true)]
async fn a_transaction_is_stored_with_its_nonce_and_told_whole() {
    let world = World::new();
    let server = world.server().await;
    let body = json!({
        "signer": ALICE.to_lowercase(),
        "chain": "main",
        "requestId": "order 17",
        "payload": {
            "to": TO, "value": "0x10", "data": "0xABcd", "gas": "0xF4240",
            "maxFeePerGas": "1000", "maxPriorityFeePerGas": "0x10",
            "accessList": [{ "address": ALICE, "storageKeys": [format!("0x{}", "AB".repeat(32))] }],
        },
        "notAfter": world.in_seconds(60),
        "meta": { "customer": 7, "big": 123_456_789_012_345_678_901_234_567_890_f64 },
    });
    let told = server.create(&body).await;
    let expected = json!({
        "txId": told["txId"],
        "kind": "managed",
        "chain": "main",
        "signer": ALICE,
        "requestId": "order 17",
        "nonce": 0,
        "state": "ALLOCATED",
        "subState": null,
        "txHash": null,
        "payload": {
            "to": TO, "value": "16", "data": "0xabcd", "gas": "1000000",
            "maxFeePerGas": "1000", "maxPriorityFeePerGas": "16",
            "accessList": [{ "address": ALICE, "storageKeys": [format!("0x{}", "ab".repeat(32))] }],
        },
        "submitAttempts": 0,
        "lastError": null,
        "blockNumber": null,
        "blockHash": null,
        "receipt": null,
        "confirmedAt": null,
        "createdAt": told["createdAt"],
        "updatedAt": told["createdAt"],
        "notAfter": body["notAfter"],
        "meta": body["meta"],
        "createdBy": null,
    });
    assert_eq!(told, expected);
    let id = told["txId"].as_str().unwrap();
    assert_eq!(
        server.get(&format!("/api/v1/tx/{id}")).await.json(),
        expected
    );
    assert_eq!(server.create(&payment(1)).await["nonce"], 1);
}

#[tokio::test(start_paused = true)]
async fn meta_is_given_back_as_it_was_written() {
    let server = World::new().server().await;
    let meta = r#"{"n": 12345678901234567890123, "e": 1.50, "e": "\u00e9"}"#;
    let body = payment(1).to_string();
    let body = body.replacen('{', &format!("{{\"meta\": {meta},"), 1);
    let reply = server
        .call(axum::http::Method::POST, "/api/v1/tx", body)
        .await;
    assert_eq!(reply.status, 202);
    assert!(
        reply.text().contains(&format!("\"meta\":{meta}")),
        "{}",
        reply.text()
    );
}

#[tokio::test(start_paused = true)]
async fn a_repeated_request_id_gives_the_same_transaction_and_spends_nothing() {
    let server = World::new().server().await;
    let first = server.create(&named("a", 16)).await;
    let mut again = named("a", 0);
    again["payload"] = json!({ "to": TO.to_uppercase().replace("0X", "0x"), "value": "0x10" });
    again["meta"] = json!("another meta is no other request");
    let reply = server.post("/api/v1/tx", &again).await;
    assert_eq!((reply.status, reply.json()), (200, first));
    assert_eq!(server.create(&payment(1)).await["nonce"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_request_id_with_another_payload_is_a_conflict_and_spends_nothing() {
    let server = World::new().server().await;
    let first = server.create(&named("a", 1)).await;
    let reply = server.post("/api/v1/tx", &named("a", 2)).await;
    assert_eq!(
        (reply.status, reply.code().as_str()),
        (409, "idempotency_conflict")
    );
    assert_eq!(reply.json()["txId"], first["txId"]);
    assert_eq!(reply.json()["requestId"], "a");
    let mut absent = named("a", 1);
    absent["payload"]["data"] = json!("0x");
    assert_eq!(
        server.post("/api/v1/tx", &absent).await.code(),
        "idempotency_conflict"
    );
    assert_eq!(server.create(&payment(1)).await["nonce"], 1);
    // Names belong to a signer.
    let mut other = named("a", 2);
    other["signer"] = json!(BOB);
    assert_eq!(server.create(&other).await["nonce"], 0);
}

#[tokio::test(start_paused = true)]
async fn a_hundred_at_once_under_one_name_store_one() {
    let server = World::new().server().await;
    let body = named("a", 1);
    let replies =
        futures::future::join_all((0..100).map(|_| server.post("/api/v1/tx", &body))).await;
    let new = replies.iter().filter(|reply| reply.status == 202).count();
    let known = replies.iter().filter(|reply| reply.status == 200).count();
    assert_eq!((new, known), (1, 99));
    assert_eq!(server.rows().await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_idempotency_key_is_the_request_id() {
    let server = World::new().server().await;
    let reply = with_key(&server, b"k1", &payment(1)).await;
    assert_eq!(
        (reply.status, &reply.json()["requestId"]),
        (202, &json!("k1"))
    );
    assert_eq!(with_key(&server, b"k1", &payment(1)).await.status, 200);
    assert_eq!(with_key(&server, b"k1", &named("k1", 1)).await.status, 200);
    assert_eq!(
        with_key(&server, b"k2", &named("k1", 1)).await.fields(),
        ["requestId"]
    );
    assert_eq!(
        with_key(&server, b"", &payment(1)).await.fields(),
        ["Idempotency-Key"]
    );
    assert_eq!(
        with_key(&server, b"\xff", &payment(1)).await.fields(),
        ["Idempotency-Key"]
    );
    let long = "x".repeat(201);
    let reply = with_key(&server, long.as_bytes(), &payment(1)).await;
    assert_eq!(reply.fields(), ["Idempotency-Key"]);
    let request = Request::post("/api/v1/tx")
        .header("Idempotency-Key", "k3")
        .header("Idempotency-Key", "k4")
        .body(Body::from(payment(1).to_string()));
    assert_eq!(
        server.send(request.unwrap()).await.fields(),
        ["Idempotency-Key"]
    );
    assert_eq!(server.rows().await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_request_past_its_time_is_refused_without_a_name_and_ends_expired_under_one() {
    let world = World::new();
    let server = world.server().await;
    let mut body = named("a", 1);
    body["notAfter"] = json!(world.in_seconds(5));
    let first = server.create(&body).await;
    tokio::time::advance(std::time::Duration::from_secs(10)).await;
    let again = server.post("/api/v1/tx", &body).await;
    assert_eq!((again.status, &again.json()["txId"]), (200, &first["txId"]));
    body["payload"]["value"] = json!("2");
    assert_eq!(
        server.post("/api/v1/tx", &body).await.code(),
        "idempotency_conflict"
    );
    body["requestId"] = json!(null);
    assert_eq!(
        server.post("/api/v1/tx", &body).await.fields(),
        ["notAfter"]
    );
    assert_eq!(server.rows().await.len(), 1);
    body["requestId"] = json!("b");
    let late = server.create(&body).await;
    assert_eq!(late["nonce"], Value::Null);
    let told = server.get("/api/v1/tx/completions?wait=30").await.json();
    assert_eq!(told["completions"][0]["txId"], late["txId"]);
    assert_eq!(told["completions"][0]["subState"], "EXPIRED");
    let next = server.create(&payment(3)).await;
    assert_eq!(next["nonce"], 1, "the late one has spent none");
}

#[tokio::test(start_paused = true)]
async fn unknown_signers_and_chains_are_told_apart() {
    let server = World::new().server().await;
    let mut body = payment(1);
    body["signer"] = json!(TO);
    let reply = server.post("/api/v1/tx", &body).await;
    assert_eq!(
        (reply.status, reply.code().as_str()),
        (404, "unknown_signer")
    );
    let mut body = payment(1);
    body["chain"] = json!("moon");
    let reply = server.post("/api/v1/tx", &body).await;
    assert_eq!(
        (reply.status, reply.code().as_str()),
        (404, "unknown_chain")
    );
}

#[tokio::test(start_paused = true)]
async fn with_several_chains_a_request_must_name_one() {
    let mut world = World::new();
    world.chains = vec![("main", 1), ("side", 2)];
    let server = world.server().await;
    assert_eq!(
        server.post("/api/v1/tx", &payment(1)).await.fields(),
        ["chain"]
    );
    for chain in ["main", "side"] {
        let mut body = payment(1);
        body["chain"] = json!(chain);
        let told = server.create(&body).await;
        assert_eq!((&told["chain"], &told["nonce"]), (&json!(chain), &json!(0)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_paused_signer_takes_nothing() {
    let server = World::new().server().await;
    let lane = server.store.lane(lane_on(1, ALICE)).await.unwrap().unwrap();
    let audit = Audit {
        by: "test".to_owned(),
        reason: "test".to_owned(),
        details: None,
        node: None,
    };
    let pause = PauseChange::Pause(PauseReason::CursorJump);
    server.store.pause(lane.id, pause, &audit).await.unwrap();
    let reply = server.post("/api/v1/tx", &named("a", 1)).await;
    assert_eq!(
        (reply.status, reply.code().as_str()),
        (423, "signer_paused")
    );
    assert_eq!(reply.json()["requestId"], "a");
    assert!(server.rows().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_signer_without_nonces_takes_nothing() {
    let server = World::new().server().await;
    server.create(&payment(1)).await;
    let lane = server.store.lane(lane_on(1, ALICE)).await.unwrap().unwrap();
    let raise = CursorMove::Raise {
        holder: server.node.holder().clone(),
        held: Held {
            lane: lane.id,
            token: lane.token,
        },
        to: Nonce::MAX,
    };
    let audit = Audit {
        by: "test".to_owned(),
        reason: "test".to_owned(),
        details: None,
        node: None,
    };
    server
        .store
        .move_cursor(lane.id, &raise, &audit)
        .await
        .unwrap();
    let reply = server.post("/api/v1/tx", &payment(2)).await;
    assert_eq!(
        (reply.status, reply.code().as_str()),
        (409, "nonces_exhausted")
    );
    assert_eq!(server.rows().await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_signer_led_elsewhere_waits_in_the_queue_or_is_refused() {
    let mut world = World::new();
    let leader = world.server_at("n1", "http://127.0.0.1:1").await;
    leader.create(&payment(1)).await;
    let follower = world.server_at("n2", "http://127.0.0.1:2").await;
    let told = follower.create(&payment(2)).await;
    assert_eq!(
        (&told["state"], &told["subState"], &told["nonce"]),
        (&json!("QUEUED"), &json!("WAITING_LEADER"), &Value::Null)
    );
    world.settings.not_leader = NotLeader::Reject;
    let rejecting = world.server_at("n3", "http://127.0.0.1:3").await;
    let reply = rejecting.post("/api/v1/tx", &payment(3)).await;
    assert_eq!((reply.status, reply.code().as_str()), (409, "not_leader"));
}

#[tokio::test(start_paused = true)]
async fn bounds_of_meta_are_those_of_its_text() {
    let server = World::new().server().await;
    let mut body = payment(1);
    body["meta"] = json!("x".repeat(Meta::BYTES_MAX - 2));
    server.create(&body).await;
    body["meta"] = json!("x".repeat(Meta::BYTES_MAX - 1));
    assert_eq!(server.post("/api/v1/tx", &body).await.fields(), ["meta"]);
}
