//! Reading what was asked for and done.

use axum::http::Request;
use serde_json::json;

use super::access::{KEYS, as_key};
use super::sabotage::{Fault, Sabotage};
use super::world::{ALICE, BOB, TO, World, payment};

fn audit(signer: &str) -> String {
    format!("/api/v1/signers/{signer}/audit")
}

#[tokio::test(start_paused = true)]
async fn what_nobody_has_touched_has_no_acts() {
    let server = World::new().server().await;
    let sent = server.create(&payment(1)).await;
    let path = format!("/api/v1/tx/{}/remedies", sent["txId"].as_str().unwrap());
    let reply = server.get(&path).await;
    assert_eq!(
        (reply.status, reply.json()),
        (200, json!({ "remedies": [] }))
    );
    let reply = server.get(&audit(ALICE)).await;
    let nothing = json!({ "acts": [], "nextCursor": null });
    assert_eq!((reply.status, reply.json()), (200, nothing));
    let nobody = "/api/v1/tx/01890a5d-ac96-774b-bcce-b302099a8057/remedies";
    assert_eq!(server.get(nobody).await.code(), "not_found");
    assert_eq!(server.get("/api/v1/tx/7/remedies").await.fields(), ["txId"]);
    assert_eq!(server.get(&audit(TO)).await.code(), "unknown_signer");
    for (query, field) in [
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("cursor=a1-x", "cursor"),
        ("cursor=a1-", "cursor"),
        ("cursor=s1-1", "cursor"),
        ("cursor=a1-99999999999999999999", "cursor"),
        ("who=me", "who"),
    ] {
        let reply = server.get(&format!("{}?{query}", audit(ALICE))).await;
        assert_eq!(reply.fields(), [field], "{query}");
    }
    let reply = server.get(&format!("{}?chain=moon", audit(ALICE))).await;
    assert_eq!(reply.code(), "unknown_chain");
    let page = format!("{}?chain=main&limit=5&cursor=a1-7", audit(ALICE));
    assert_eq!(server.get(&page).await.status, 200);
}

/// Whoever sends the header believes that the same act is done once. It is not kept under a name, so nothing is
/// done at all.
#[tokio::test(start_paused = true)]
async fn an_act_is_refused_under_a_name_that_would_not_be_kept() {
    let server = World::new().server().await;
    let sent = server.create(&payment(1)).await;
    let remedy = format!("/api/v1/tx/{}/remedy", sent["txId"].as_str().unwrap());
    let of_signer = |act: &str| format!("/api/v1/signers/{ALICE}/{act}");
    let act = json!({ "reason": "x" });
    for (path, body) in [
        (of_signer("pause"), act.clone()),
        (of_signer("resume"), act.clone()),
        (of_signer("reconcile"), act),
        (remedy, json!({ "action": "CANCEL", "reason": "x" })),
    ] {
        let request = Request::post(&path).header("idempotency-key", "a");
        let request = request.body(body.to_string().into()).unwrap();
        let reply = server.send(request).await;
        assert_eq!(reply.fields(), ["Idempotency-Key"], "{path}");
    }
    let acts = server.get(&audit(ALICE)).await.json();
    assert_eq!(acts["acts"], json!([]));
    let remedies = format!("/api/v1/tx/{}/remedies", sent["txId"].as_str().unwrap());
    assert_eq!(server.get(&remedies).await.json()["remedies"], json!([]));
}

#[tokio::test(start_paused = true)]
async fn a_key_reads_of_its_own_signers_only() {
    let mut world = World::new();
    world.access = KEYS.access();
    let server = world.server().await;
    let mut bob = payment(1);
    bob["signer"] = json!(BOB);
    let sent = as_key(&server, "all", "POST", "/api/v1/tx", &bob.to_string()).await;
    let sent = sent.json();
    let path = format!("/api/v1/tx/{}/remedies", sent["txId"].as_str().unwrap());
    assert_eq!(
        as_key(&server, "alice", "GET", &path, "").await.code(),
        "not_found"
    );
    assert_eq!(as_key(&server, "read", "GET", &path, "").await.status, 200);
    assert_eq!(
        as_key(&server, "alice", "GET", &audit(BOB), "")
            .await
            .code(),
        "forbidden"
    );
    assert_eq!(
        as_key(&server, "alice", "GET", &audit(ALICE), "")
            .await
            .status,
        200
    );
}

#[tokio::test(start_paused = true)]
async fn reading_acts_from_a_store_that_is_away_is_told() {
    let (world, sabotage) = Sabotage::world();
    let server = world.server().await;
    sabotage.fail("lane", Fault::Away);
    let reply = server.get(&audit(ALICE)).await;
    assert_eq!(
        (reply.status, reply.code().as_str()),
        (503, "store_unavailable")
    );
}
