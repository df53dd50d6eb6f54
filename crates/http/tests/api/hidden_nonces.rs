//! `api.hide_nonces`: only keys that may operate are told nonces.

use std::sync::Arc;

use fencepost_app::ports::{Chain, CountMode};
use fencepost_domain::attempt::SignedFees;
use serde_json::{Value, json};

use super::access::{KEYS, as_key};
use super::chain_steps::id;
use super::counting::{Counting, Says};
use super::world::{ALICE, Server, World, named};

const HIDDEN: &str = "It is about a nonce, and hidden from this key.";

/// A node with keys, on which the second transaction of a signer is signed and the third rejected.
async fn server(hides: bool) -> (Server, String) {
    let mut world = World::new();
    world.access = KEYS.access().hiding_nonces(hides);
    let server = world.server().await;
    let mut ids = Vec::new();
    for name in ["a", "b", "c"] {
        let body = named(name, 1).to_string();
        let told = as_key(&server, "all", "POST", "/api/v1/tx", &body).await;
        ids.push(id(&told.json()));
    }
    let fees = SignedFees {
        max_fee: 70,
        max_priority_fee: Some(7),
    };
    server.sign(ids[1], 7, fees).await;
    server
        .reject_for(ids[2], "nonce too low: next nonce 5")
        .await;
    (server, ids[1].to_string())
}

async fn get(server: &Server, key: &str, path: &str) -> Value {
    let reply = as_key(server, key, "GET", path, "").await;
    assert_eq!(reply.status, 200, "{key} {path}: {}", reply.text());
    reply.json()
}

#[tokio::test(start_paused = true)]
async fn a_key_that_may_not_operate_is_told_no_nonce_anywhere() {
    let (server, tx) = server(true).await;
    for path in [
        format!("/api/v1/tx/{tx}"),
        format!("/api/v1/tx/by-request?signer={ALICE}&requestId=b"),
        format!("/api/v1/tx/by-hash/0x{}", "07".repeat(32)),
    ] {
        assert_eq!(
            get(&server, "read", &path).await["nonce"],
            Value::Null,
            "{path}"
        );
        assert_eq!(get(&server, "all", &path).await["nonce"], 1, "{path}");
    }
    let page = get(&server, "read", "/api/v1/tx").await;
    for told in page["transactions"].as_array().unwrap() {
        assert_eq!(told["nonce"], Value::Null, "{told}");
    }
    assert_eq!(page["transactions"][0]["lastError"], HIDDEN);
    let feed = get(&server, "read", "/api/v1/tx/completions").await;
    assert_eq!(feed["completions"][0]["nonce"], Value::Null);
    assert_eq!(feed["completions"][0]["state"], "FAILED_FINAL");
    for signer in [
        get(&server, "read", &format!("/api/v1/signers/{ALICE}")).await,
        get(&server, "read", "/api/v1/signers").await["signers"][0].clone(),
    ] {
        for field in ["nextNonce", "chainLatest", "chainPending"] {
            assert_eq!(signer[field], Value::Null, "{field}: {signer}");
        }
        assert_eq!(
            (&signer["gaps"], &signer["freeNonces"]),
            (&json!([]), &json!([]))
        );
        assert_eq!(signer["head"]["nonce"], Value::Null);
        assert_eq!(signer["inFlight"], 2);
    }
    let shown = get(&server, "all", &format!("/api/v1/signers/{ALICE}")).await;
    assert_eq!(
        (&shown["nextNonce"], &shown["freeNonces"]),
        (&json!(3), &json!([2]))
    );
}

#[tokio::test(start_paused = true)]
async fn a_key_that_only_submits_is_told_none_either_and_by_nonce_is_forbidden() {
    let (server, _) = server(true).await;
    let body = named("d", 1).to_string();
    let told = as_key(&server, "submit", "POST", "/api/v1/tx", &body).await;
    assert_eq!((told.status, &told.json()["nonce"]), (202, &Value::Null));
    let batch = json!({ "requests": [named("e", 1)] }).to_string();
    let told = as_key(&server, "submit", "POST", "/api/v1/tx/batch", &batch).await;
    assert_eq!(
        told.json()["results"][0]["transaction"]["nonce"],
        Value::Null
    );
    let path = format!("/api/v1/tx/by-nonce?signer={ALICE}&nonce=1");
    let told = as_key(&server, "read", "GET", &path, "").await;
    assert_eq!((told.status, told.code().as_str()), (403, "forbidden"));
    assert_eq!(get(&server, "all", &path).await["nonce"], 1);
}

/// Whoever knows the lock token holds the nonce and signs with it; a key that only reads is told nothing.
#[tokio::test(start_paused = true)]
async fn a_reservation_tells_its_nonce_to_its_holder_and_to_operators_only() {
    let (server, _) = server(true).await;
    let body = json!({ "signer": ALICE, "requestId": "r" }).to_string();
    let told = as_key(&server, "submit", "POST", "/api/v1/nonces/reserve", &body).await;
    assert_eq!(told.status, 201, "{}", told.text());
    let lent = told.json();
    assert!(lent["nonce"].is_u64(), "{lent}");
    let path = format!("/api/v1/nonces/{}", lent["reservationId"].as_str().unwrap());
    let read = get(&server, "read", &path).await;
    assert_eq!(
        (&read["nonce"], &read["state"]),
        (&Value::Null, &json!("RESERVED"))
    );
    assert_eq!(get(&server, "all", &path).await["nonce"], lent["nonce"]);
    let body = json!({ "lockToken": lent["lockToken"], "ttlSeconds": 60 }).to_string();
    let extended = as_key(&server, "submit", "POST", &format!("{path}/extend"), &body).await;
    assert_eq!(
        extended.json()["nonce"],
        lent["nonce"],
        "{}",
        extended.text()
    );
}

/// The counts of endpoints that disagree are nonces too.
#[tokio::test(start_paused = true)]
async fn why_a_signer_waits_is_hidden_and_that_it_waits_is_not() {
    let mut world = World::new();
    world.access = KEYS.access().hiding_nonces(true);
    let counting = Counting::that(Says::Quarrels);
    world.chain = Some(counting as Arc<dyn Chain>);
    world.settings.chain_query = Some(CountMode::Pending);
    let server = world.server().await;
    let body = named("a", 1).to_string();
    as_key(&server, "all", "POST", "/api/v1/tx", &body).await;
    let path = format!("/api/v1/signers/{ALICE}");
    let waiting = get(&server, "read", &path).await["waiting"].clone();
    assert_eq!(
        waiting,
        json!({ "reason": "ENDPOINTS_DISAGREE", "why": HIDDEN })
    );
    let why = get(&server, "all", &path).await["waiting"]["why"].clone();
    assert!(why.as_str().unwrap().contains('7'), "{why}");
}

/// Operators and policies write nonces into their reasons and audits.
#[tokio::test(start_paused = true)]
async fn what_was_asked_for_a_transaction_is_told_without_its_nonces() {
    let (server, tx) = server(true).await;
    let body = json!({ "action": "REPLACE", "reason": "nonce 1 is late", "audit": { "nonce": 1 } });
    let path = format!("/api/v1/tx/{tx}");
    let asked = format!("{path}/remedy");
    let asked = as_key(&server, "all", "POST", &asked, &body.to_string()).await;
    assert_eq!(asked.status, 202, "{}", asked.text());
    let path = format!("{path}/remedies");
    let read = get(&server, "read", &path).await["remedies"][0].clone();
    assert_eq!(
        (&read["reason"], &read["audit"], &read["action"]),
        (&json!(HIDDEN), &Value::Null, &json!("REPLACE"))
    );
    let all = get(&server, "all", &path).await["remedies"][0].clone();
    assert_eq!(
        (&all["reason"], &all["audit"]),
        (&body["reason"], &body["audit"])
    );
}

#[tokio::test(start_paused = true)]
async fn without_it_everyone_who_reads_is_told() {
    let (server, tx) = server(false).await;
    assert_eq!(
        get(&server, "read", &format!("/api/v1/tx/{tx}")).await["nonce"],
        1
    );
    let mut world = World::new();
    world.access = world.access.hiding_nonces(true);
    let open = world.server().await;
    assert_eq!(
        open.create(&named("a", 1)).await["nonce"],
        0,
        "without keys everyone may operate"
    );
}
