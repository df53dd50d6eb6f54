//! Nonces that are used up because later ones wait.

use axum::http::Request;
use serde_json::{Value, json};

use super::access::{KEYS, as_key};
use super::chain_steps::id;
use super::sabotage::{Fault, Sabotage};
use super::world::{ALICE, BOB, Reply, Server, TO, World, named, payment};

fn path(signer: &str) -> String {
    format!("/api/v1/signers/{signer}/placeholder")
}

async fn fill(server: &Server, body: &Value) -> Reply {
    server.post(&path(ALICE), body).await
}

/// Nonces 0 and 1 were given back, and nonce 2 waits for them.
async fn with_gaps(server: &Server) {
    let given_back = [
        server.create(&payment(1)).await,
        server.create(&payment(2)).await,
    ];
    server.create(&payment(3)).await;
    for sent in &given_back {
        server.reject(id(sent)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_placeholder_takes_its_nonce_and_keeps_who_and_why() {
    let server = World::new().server().await;
    with_gaps(&server).await;
    let body = json!({ "nonce": 1, "reason": "fill", "audit": { "ticket": 5 }, "requestId": "a" });
    let reply = fill(&server, &body).await;
    assert_eq!(reply.status, 202, "{}", reply.text());
    let told = reply.json();
    assert_eq!(
        (&told["kind"], &told["nonce"]),
        (&json!("placeholder"), &json!(1))
    );
    assert_eq!(
        (&told["state"], &told["payload"]),
        (&json!("ALLOCATED"), &Value::Null)
    );
    let meta = json!({ "by": "anonymous", "reason": "fill", "audit": { "ticket": 5 } });
    assert_eq!(told["meta"], meta);
    // It is found like any other.
    let at = format!("/api/v1/tx/{}", told["txId"].as_str().unwrap());
    assert_eq!(server.get(&at).await.json(), told);
    let again = fill(&server, &body).await;
    assert_eq!((again.status, again.json()), (200, told.clone()));
    let mut bare = body.clone();
    bare.as_object_mut().unwrap().remove("requestId");
    let request = Request::post(path(ALICE)).header("idempotency-key", "a");
    let reply = server
        .send(request.body(bare.to_string().into()).unwrap())
        .await;
    assert_eq!((reply.status, reply.json()), (200, told.clone()));
    // The same name for another nonce is another request.
    let mut other = body;
    other["nonce"] = json!(0);
    let reply = fill(&server, &other).await;
    assert_eq!(
        (reply.status, reply.code().as_str()),
        (409, "idempotency_conflict")
    );
    assert_eq!(reply.json()["txId"], told["txId"]);
    let reply = server.post("/api/v1/tx", &named("a", 1)).await;
    assert_eq!(reply.code(), "idempotency_conflict");
    // Without an audit of its own it has none, and the nonce that is left is still free.
    let reply = fill(&server, &json!({ "nonce": 0, "reason": "fill" })).await;
    assert_eq!(reply.json()["meta"]["audit"], Value::Null);
    assert_eq!(reply.json()["requestId"], Value::Null);
}

/// Known is known, also when final: one that was refused for good is told as such, and its nonce is open.
#[tokio::test(start_paused = true)]
async fn a_placeholder_that_has_ended_is_told_by_its_name() {
    let server = World::new().server().await;
    with_gaps(&server).await;
    let body = json!({ "nonce": 0, "reason": "fill", "requestId": "a" });
    let filled = fill(&server, &body).await.json();
    server.reject(id(&filled)).await;
    let again = fill(&server, &body).await;
    assert_eq!(again.status, 200, "{}", again.text());
    let again = again.json();
    assert_eq!(
        (&again["txId"], &again["subState"]),
        (&filled["txId"], &json!("REJECTED"))
    );
    // For another nonce it is still another request, and under another name the nonce can be filled.
    let other = json!({ "nonce": 1, "reason": "fill", "requestId": "a" });
    assert_eq!(fill(&server, &other).await.code(), "idempotency_conflict");
    let next = json!({ "nonce": 0, "reason": "fill", "requestId": "b" });
    let reply = fill(&server, &next).await;
    assert_eq!(reply.status, 202, "{}", reply.text());
}

#[tokio::test(start_paused = true)]
async fn each_wrong_field_of_a_placeholder_is_told_by_its_name() {
    let server = World::new().server().await;
    with_gaps(&server).await;
    let check = async |body: Value, expected: &[&str]| {
        assert_eq!(fill(&server, &body).await.fields(), expected, "{body}");
    };
    check(json!({}), &["nonce", "reason"]).await;
    check(json!([]), &["body", "nonce", "reason"]).await;
    for nonce in [
        json!("1"),
        json!(-1),
        json!(1.5),
        json!(u64::MAX),
        Value::Null,
    ] {
        check(json!({ "nonce": nonce, "reason": "x" }), &["nonce"]).await;
    }
    check(
        json!({ "nonce": 1, "reason": "", "gas": 1 }),
        &["gas", "reason"],
    )
    .await;
    check(
        json!({ "nonce": 1, "reason": "x", "requestId": "" }),
        &["requestId"],
    )
    .await;
    check(
        json!({ "nonce": 1, "reason": "x", "audit": "5" }),
        &["audit"],
    )
    .await;
    // Each may be so large, but not together.
    let large = json!({ "a": "x".repeat(16_000) });
    let body = json!({ "nonce": 1, "reason": "x".repeat(1_000), "audit": large });
    check(body, &["audit"]).await;
    let body = json!({ "nonce": 1, "reason": "x" });
    assert_eq!(server.post(&path(TO), &body).await.code(), "unknown_signer");
    assert_eq!(server.post(&path("bob"), &body).await.fields(), ["signer"]);
    assert_eq!(server.rows().await.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_signer_that_cannot_sign_or_is_paused_takes_no_placeholder() {
    let mut world = World::new();
    world.watch_only = vec![BOB];
    let server = world.server().await;
    with_gaps(&server).await;
    let body = json!({ "nonce": 0, "reason": "x" });
    let reply = server.post(&path(BOB), &body).await;
    assert_eq!(reply.fields(), ["signer"]);
    assert!(reply.text().contains("watch-only"), "{}", reply.text());
    let pause = format!("/api/v1/signers/{ALICE}/pause");
    server.post(&pause, &json!({ "reason": "x" })).await;
    let reply = fill(&server, &body).await;
    assert_eq!(
        (reply.status, reply.code().as_str()),
        (423, "signer_paused")
    );
}

#[tokio::test(start_paused = true)]
async fn a_key_fills_gaps_of_its_own_signers_only() {
    let mut world = World::new();
    world.access = KEYS.access();
    let server = world.server().await;
    let body = r#"{"reason":"x","nonce":0}"#;
    let reply = as_key(&server, "alice", "POST", &path(BOB), body).await;
    assert_eq!(reply.code(), "forbidden");
}

#[tokio::test(start_paused = true)]
async fn a_placeholder_without_an_answer_is_unknown_and_named() {
    let (world, sabotage) = Sabotage::world();
    let server = world.server().await;
    with_gaps(&server).await;
    sabotage.fail("create", Fault::Silent);
    let body = json!({ "nonce": 0, "reason": "x", "requestId": "a" });
    let reply = fill(&server, &body).await;
    assert_eq!(
        (reply.status, reply.code().as_str()),
        (504, "outcome_unknown")
    );
    assert_eq!(reply.json()["requestId"], "a");
    assert!(reply.json()["txId"].is_string());
}
