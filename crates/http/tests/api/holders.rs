//! What the holders of lent nonces say, and what they are told.

use std::time::Duration;

use serde_json::{Value, json};

use super::access::{KEYS, as_key};
use super::chain_steps::hash;
use super::reserving::{RESERVE, reserved};
use super::sabotage::{Fault, Sabotage};
use super::world::{ALICE, BOB, Reply, Server, World, payment};

async fn say(server: &Server, lent: &Value, what: &str, mut body: Value) -> Reply {
    let id = lent["reservationId"].as_str().unwrap();
    if body.get("lockToken").is_none() {
        body["lockToken"] = lent["lockToken"].clone();
    }
    server
        .post(&format!("/api/v1/nonces/{id}/{what}"), &body)
        .await
}

fn sent(n: u8) -> Value {
    json!({ "txHash": hash(n).to_string() })
}

fn with(told: &Value, field: &str, value: Value) -> Value {
    let mut told = told.clone();
    told[field] = value;
    told
}

/// A client whose answer was lost says it again: the nonce was given back once.
#[tokio::test(start_paused = true)]
async fn a_nonce_that_is_given_back_twice_is_counted_once() {
    let server = World::new().server().await;
    let lent = reserved(&server, &json!({})).await;
    for _ in 0..3 {
        let reply = say(&server, &lent, "recycle", json!({})).await;
        assert_eq!(reply.json()["state"], "RECYCLABLE", "{}", reply.text());
    }
    let metrics = server.get("/metrics").await.text();
    let counted = "fencepost_tx_end_total{state=\"RECYCLABLE\",sub_state=\"\"} 1\n";
    assert!(metrics.contains(counted), "{metrics}");
}

#[tokio::test(start_paused = true)]
async fn a_holder_names_what_it_sent_once_and_for_all() {
    let server = World::new().server().await;
    let lent = reserved(&server, &json!({})).await;
    let expected = with(&lent, "state", json!("SUBMITTED"));
    let expected = with(&expected, "txHash", json!(hash(1).to_string()));
    let expected = with(&expected, "namedHash", json!(hash(1).to_string()));
    for _ in 0..2 {
        let reply = say(&server, &lent, "submitted", sent(1)).await;
        assert_eq!((reply.status, reply.json()), (200, expected.clone()));
    }
    let reply = say(&server, &lent, "submitted", sent(2)).await;
    assert_eq!((reply.status, reply.code().as_str()), (409, "hash_differs"));
    assert_eq!(reply.json()["txId"], lent["reservationId"]);
    // What was sent may be mined tomorrow.
    let reply = say(&server, &lent, "recycle", json!({})).await;
    assert_eq!(
        (reply.status, reply.code().as_str()),
        (409, "already_submitted")
    );
    let reply = say(&server, &lent, "extend", json!({ "ttlSeconds": 5 })).await;
    assert_eq!(
        (reply.status, reply.code().as_str()),
        (409, "already_submitted")
    );
    let found = server.get(&format!("/api/v1/tx/by-hash/{}", hash(1))).await;
    assert_eq!(found.json()["txId"], lent["reservationId"]);
    assert_eq!(found.json()["state"], "SUBMITTED");
}

#[tokio::test(start_paused = true)]
async fn a_nonce_that_was_given_back_goes_to_the_next() {
    let server = World::new().server().await;
    let lent = reserved(&server, &json!({})).await;
    server.create(&payment(1)).await;
    for _ in 0..2 {
        let reply = say(&server, &lent, "recycle", json!({})).await;
        let expected = with(&lent, "state", json!("RECYCLABLE"));
        assert_eq!(
            (reply.status, reply.json()),
            (200, expected),
            "with the nonce it had"
        );
    }
    let next = reserved(&server, &json!({})).await;
    assert_eq!(next["nonce"], 0);
    // A late call of the previous holder: what it sent is recorded, and it is told what that means.
    let late = say(&server, &lent, "submitted", sent(1)).await;
    assert_eq!((late.status, late.code().as_str()), (409, "lock_lost"));
    assert!(
        late.text().contains("was recorded against the nonce"),
        "{}",
        late.text()
    );
    assert_eq!(late.json()["txId"], lent["reservationId"]);
    let late = say(&server, &lent, "extend", json!({ "ttlSeconds": 5 })).await;
    assert_eq!((late.status, late.code().as_str()), (409, "lock_lost"));
    assert!(
        late.text().contains("no hash was recorded"),
        "{}",
        late.text()
    );
}

/// Everything has a bound: whoever gave a nonce back cannot have hash after hash stored and followed.
#[tokio::test(start_paused = true)]
async fn hashes_that_come_too_late_are_bounded() {
    let server = World::new().server().await;
    let lent = reserved(&server, &json!({})).await;
    let given_back = say(&server, &lent, "recycle", json!({})).await;
    assert_eq!(given_back.status, 200);
    for n in 1..=40 {
        let late = say(&server, &lent, "submitted", sent(n)).await;
        assert_eq!((late.status, late.code().as_str()), (409, "lock_lost"));
        let recorded = late.text().contains("was recorded against the nonce");
        assert_eq!(recorded, n <= 16, "{n}: {}", late.text());
    }
    let id = lent["reservationId"].as_str().unwrap();
    let attempts = server.get(&format!("/api/v1/tx/{id}/attempts")).await;
    assert_eq!(attempts.json()["attempts"].as_array().unwrap().len(), 16);
}

#[tokio::test(start_paused = true)]
async fn only_the_holder_of_the_lock_is_heard() {
    let server = World::new().server().await;
    let lent = reserved(&server, &json!({})).await;
    let other = reserved(&server, &json!({})).await;
    for (what, mut body) in [
        ("submitted", sent(1)),
        ("recycle", json!({})),
        ("extend", json!({ "ttlSeconds": 5 })),
    ] {
        body["lockToken"] = other["lockToken"].clone();
        let reply = say(&server, &lent, what, body).await;
        assert_eq!(
            (reply.status, reply.code().as_str()),
            (409, "lock_lost"),
            "{what}"
        );
        assert!(
            reply.text().contains("no hash was recorded"),
            "{}",
            reply.text()
        );
    }
    let id = lent["reservationId"].as_str().unwrap();
    let now = server.get(&format!("/api/v1/nonces/{id}")).await.json();
    assert_eq!(
        (&now["state"], &now["expiresAt"]),
        (&json!("RESERVED"), &lent["expiresAt"])
    );
}

#[tokio::test(start_paused = true)]
async fn a_holder_gets_more_time_and_never_less() {
    let server = World::new().server().await;
    let lent = reserved(&server, &json!({ "ttlSeconds": 60 })).await;
    let time =
        |told: &Value| -> jiff::Timestamp { told["expiresAt"].as_str().unwrap().parse().unwrap() };
    let longer = say(&server, &lent, "extend", json!({ "ttlSeconds": 600 }))
        .await
        .json();
    let more = time(&longer).duration_since(time(&lent)).as_secs();
    assert!((539..=541).contains(&more), "{more}");
    let shorter = say(&server, &lent, "extend", json!({ "ttlSeconds": 1 })).await;
    assert_eq!(
        (shorter.status, time(&shorter.json())),
        (200, time(&longer))
    );
}

#[tokio::test(start_paused = true)]
async fn each_wrong_field_of_a_holder_is_told_by_its_name() {
    let server = World::new().server().await;
    let lent = reserved(&server, &json!({})).await;
    let lock = lent["lockToken"].as_str().unwrap();
    let id = lent["reservationId"].as_str().unwrap();
    let check = async |what: &str, body: Value, expected: &[&str]| {
        let path = format!("/api/v1/nonces/{id}/{what}");
        assert_eq!(
            server.post(&path, &body).await.fields(),
            expected,
            "{what} {body}"
        );
    };
    check("submitted", json!({}), &["txHash", "lockToken"]).await;
    check(
        "submitted",
        json!({ "lockToken": lock, "txHash": "0x1" }),
        &["txHash"],
    )
    .await;
    check(
        "submitted",
        json!({ "lockToken": 1, "txHash": hash(1).to_string() }),
        &["lockToken"],
    )
    .await;
    check("recycle", json!({}), &["lockToken"]).await;
    check(
        "recycle",
        json!({ "lockToken": lock, "txHash": hash(1).to_string() }),
        &["txHash"],
    )
    .await;
    check(
        "recycle",
        json!({ "lockToken": lock.replace('-', "") }),
        &["lockToken"],
    )
    .await;
    check("extend", json!({ "lockToken": lock }), &["ttlSeconds"]).await;
    check(
        "extend",
        json!({ "lockToken": lock, "ttlSeconds": 86_401 }),
        &["ttlSeconds"],
    )
    .await;
    check("extend", json!([]), &["body", "ttlSeconds", "lockToken"]).await;
    let reply = server
        .post("/api/v1/nonces/7/recycle", &json!({ "lockToken": lock }))
        .await;
    assert_eq!(reply.fields(), ["id"]);
    assert_eq!(server.get("/api/v1/nonces/7").await.fields(), ["id"]);
}

#[tokio::test(start_paused = true)]
async fn what_is_no_reservation_is_not_found() {
    let server = World::new().server().await;
    let sent = server.create(&payment(1)).await;
    let tx = sent["txId"].as_str().unwrap();
    let nobody = "01890a5d-ac96-774b-bcce-b302099a8057";
    for id in [tx, nobody] {
        let path = format!("/api/v1/nonces/{id}");
        assert_eq!(server.get(&path).await.code(), "not_found");
        let body = json!({ "lockToken": nobody });
        let reply = server.post(&format!("{path}/recycle"), &body).await;
        assert_eq!((reply.status, reply.code().as_str()), (404, "not_found"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_hears_and_says_nothing_of_other_signers_nonces() {
    let mut world = World::new();
    world.access = KEYS.access();
    let server = world.server().await;
    let body = json!({ "signer": BOB }).to_string();
    let lent = as_key(&server, "all", "POST", RESERVE, &body).await.json();
    let path = format!("/api/v1/nonces/{}", lent["reservationId"].as_str().unwrap());
    let lock = json!({ "lockToken": lent["lockToken"] }).to_string();
    let recycle = format!("{path}/recycle");
    assert_eq!(
        as_key(&server, "alice", "GET", &path, "").await.code(),
        "not_found"
    );
    let reply = as_key(&server, "alice", "POST", &recycle, &lock).await;
    assert_eq!(reply.code(), "not_found");
    assert_eq!(
        as_key(&server, "read", "POST", &recycle, &lock)
            .await
            .code(),
        "forbidden"
    );
    assert_eq!(
        as_key(&server, "submit", "POST", &recycle, &lock)
            .await
            .status,
        200
    );
    assert_ne!(lent["signer"], ALICE);
}

#[tokio::test(start_paused = true)]
async fn a_holder_whose_answer_is_lost_or_late_is_told_that_it_may_say_it_again() {
    let (mut world, sabotage) = Sabotage::world();
    world.limits.request_timeout = Duration::from_secs(3);
    let server = world.server().await;
    let lent = reserved(&server, &json!({})).await;
    for fault in [Fault::Lost, Fault::Silent] {
        sabotage.fail("settle", fault);
        let reply = say(&server, &lent, "submitted", sent(1)).await;
        assert_eq!(
            (reply.status, reply.code().as_str()),
            (504, "outcome_unknown")
        );
        assert!(
            reply.text().contains("Saying it again is safe"),
            "{}",
            reply.text()
        );
        assert_eq!(reply.json()["txId"], lent["reservationId"]);
        sabotage.repair();
    }
    sabotage.fail("settle", Fault::Away);
    let reply = say(&server, &lent, "submitted", sent(1)).await;
    assert_eq!(
        (reply.status, reply.code().as_str()),
        (503, "store_unavailable")
    );
    sabotage.repair();
    sabotage.fail("find", Fault::Silent);
    let reply = say(&server, &lent, "submitted", sent(1)).await;
    assert_eq!((reply.status, reply.code().as_str()), (503, "timed_out"));
    sabotage.repair();
    let reply = say(&server, &lent, "submitted", sent(1)).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert!(
        !sabotage.was_answering("settle"),
        "a client that goes away stops nothing"
    );
}
