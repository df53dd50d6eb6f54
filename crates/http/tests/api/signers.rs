//! Signers as operators see and hold them.

use fencepost_sqlite::SqliteStore;
use serde_json::{Value, json};

use super::access::{KEYS, as_key};
use super::chain_steps::id;
use super::world::{ALICE, BOB, Server, TO, World, payment};

async fn signer(server: &Server) -> Value {
    let reply = server.get(&format!("/api/v1/signers/{ALICE}")).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json()
}

#[tokio::test(start_paused = true)]
async fn a_signer_is_told_whole() {
    let world = World::new();
    let server = world.server().await;
    let fresh = signer(&server).await;
    let expected = json!({
        "signer": ALICE, "chain": "main", "leader": null, "nextNonce": 0, "chainLatest": null,
        "chainPending": null, "inFlight": 0, "queued": 0, "oldestAgeSeconds": null, "stuck": 0,
        "gaps": [], "freeNonces": [], "paused": null, "waiting": null, "head": null,
    });
    assert_eq!(fresh, expected);
    let first = server.create(&payment(1)).await;
    let second = server.create(&payment(2)).await;
    server.create(&payment(3)).await;
    server.reject(id(&second)).await;
    tokio::time::advance(std::time::Duration::from_secs(5)).await;
    let told = signer(&server).await;
    let leader = &told["leader"];
    let expected = json!({
        "signer": ALICE, "chain": "main",
        "leader": { "node": "n1", "url": "http://127.0.0.1:1", "token": 1, "expiresAt": leader["expiresAt"] },
        "nextNonce": 3, "chainLatest": null, "chainPending": null, "inFlight": 2, "queued": 0,
        "oldestAgeSeconds": told["oldestAgeSeconds"], "stuck": 0, "gaps": [1], "freeNonces": [1], "paused": null, "waiting": null,
        "head": { "txId": first["txId"], "nonce": 0, "state": "ALLOCATED", "subState": null, "why": "not signed yet" },
    });
    assert_eq!(told, expected);
    assert!(told["oldestAgeSeconds"].as_u64().unwrap() >= 5);
}

#[tokio::test(start_paused = true)]
async fn all_signers_are_listed_page_by_page() {
    let mut world = World::new();
    world.chains = vec![("main", 1), ("side", 2)];
    let server = world.server().await;
    let all = server.get("/api/v1/signers").await.json();
    assert_eq!(all["signers"].as_array().unwrap().len(), 4);
    assert_eq!(all["nextCursor"], Value::Null);
    let side = server.get("/api/v1/signers?chain=side").await.json();
    assert_eq!(side["signers"].as_array().unwrap().len(), 2);
    let first = server.get("/api/v1/signers?limit=3").await.json();
    let cursor = first["nextCursor"].as_str().unwrap();
    let rest = server
        .get(&format!("/api/v1/signers?limit=3&cursor={cursor}"))
        .await
        .json();
    assert_eq!(rest["signers"], json!([all["signers"][3]]));
    for (query, field) in [
        ("limit=0", "limit"),
        ("cursor=s1-x", "cursor"),
        ("cursor=1", "cursor"),
        ("a=", "a"),
    ] {
        let reply = server.get(&format!("/api/v1/signers?{query}")).await;
        assert_eq!(reply.fields(), [field], "{query}");
    }
    assert_eq!(
        server.get("/api/v1/signers?chain=moon").await.code(),
        "unknown_chain"
    );
    let reply = server.get(&format!("/api/v1/signers/{ALICE}")).await;
    assert_eq!(reply.fields(), ["chain"]);
    let reply = server
        .get(&format!("/api/v1/signers/{ALICE}?chain=side"))
        .await;
    assert_eq!(reply.json()["chain"], "side");
}

#[tokio::test(start_paused = true)]
async fn a_signer_that_is_not_there_is_told_so() {
    let server = World::new().server().await;
    assert_eq!(
        server.get(&format!("/api/v1/signers/{TO}")).await.code(),
        "unknown_signer"
    );
    assert_eq!(server.get("/api/v1/signers/bob").await.fields(), ["signer"]);
    let body = json!({ "reason": "x" });
    let reply = server
        .post(&format!("/api/v1/signers/{TO}/pause"), &body)
        .await;
    assert_eq!(reply.code(), "unknown_signer");
}

#[tokio::test(start_paused = true)]
async fn a_paused_signer_gives_no_nonces_until_it_is_resumed() {
    let server = World::new().server().await;
    server.create(&payment(1)).await;
    let pause = format!("/api/v1/signers/{ALICE}/pause");
    let reply = server
        .post(&pause, &json!({ "reason": "maintenance" }))
        .await;
    assert_eq!(
        (reply.status, &reply.json()["paused"]),
        (200, &json!("OPERATOR"))
    );
    assert_eq!(reply.json()["nextNonce"], 1);
    assert_eq!(
        server.post("/api/v1/tx", &payment(2)).await.code(),
        "signer_paused"
    );
    assert_eq!(signer(&server).await["paused"], "OPERATOR");
    // Another signer goes on.
    let mut bob = payment(1);
    bob["signer"] = json!(BOB);
    server.create(&bob).await;
    let resume = format!("/api/v1/signers/{ALICE}/resume");
    let reply = server
        .post(&resume, &json!({ "chain": "main", "reason": "done" }))
        .await;
    assert_eq!((reply.status, &reply.json()["paused"]), (200, &Value::Null));
    assert_eq!(server.create(&payment(2)).await["nonce"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_pause_needs_a_reason() {
    let server = World::new().server().await;
    let path = format!("/api/v1/signers/{ALICE}/pause");
    let check = async |body: Value, expected: &[&str]| {
        assert_eq!(server.post(&path, &body).await.fields(), expected, "{body}");
    };
    check(json!({}), &["reason"]).await;
    check(json!({ "reason": "  " }), &["reason"]).await;
    check(json!({ "reason": "a\u{0}" }), &["reason"]).await;
    check(json!({ "reason": "x".repeat(1_001) }), &["reason"]).await;
    check(json!({ "reason": "ä".repeat(1_001) }), &["reason"]).await;
    check(
        json!({ "reason": 1, "chain": 1, "who": 1 }),
        &["who", "chain", "reason"],
    )
    .await;
    check(json!("please"), &["body", "reason"]).await;
    check(json!({ "reason": "x", "audit": [5] }), &["audit"]).await;
    let long = json!({ "a": "x".repeat(16 * 1024) });
    check(json!({ "reason": "x", "audit": long }), &["audit"]).await;
    assert_eq!(signer(&server).await["paused"], Value::Null);
}

/// The description counts characters, and so must we: a reason in another script is no shorter.
#[tokio::test(start_paused = true)]
async fn a_reason_is_as_long_as_the_description_says() {
    let server = World::new().server().await;
    server.create(&payment(1)).await;
    let reason = "错".repeat(1_000);
    let signer = format!("/api/v1/signers/{ALICE}");
    let body = json!({ "reason": reason });
    let reply = server.post(&format!("{signer}/pause"), &body).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    let acts = server.get(&format!("{signer}/audit")).await.json();
    assert_eq!(acts["acts"][0]["reason"], reason);
}

#[tokio::test]
async fn a_pause_is_audited_with_the_name_of_the_key() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("fencepost.db");
    let mut world = World::on(|terms, clock| SqliteStore::open(&file, terms, clock).unwrap());
    world.access = KEYS.access();
    let server = world.server().await;
    let path = format!("/api/v1/signers/{ALICE}/pause");
    let reply = as_key(
        &server,
        "operate",
        "POST",
        &path,
        r#"{"reason":"ticket 5","audit":{"ticket":5}}"#,
    )
    .await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    let reader = rusqlite::Connection::open(&file).unwrap();
    let audit: (String, String, String, String) = reader
        .query_row(
            "SELECT action, asked_by, reason, details FROM remedy",
            [],
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)),
        )
        .unwrap();
    assert_eq!((&*audit.0, &*audit.3), ("PAUSE", r#"{"ticket":5}"#));
    assert_eq!(
        (audit.1.as_str(), audit.2.as_str()),
        ("operate", "ticket 5")
    );
}
