//! Nonces that are lent: reserving them, one at a time.

use std::time::Duration;

use axum::http::Request;
use serde_json::{Value, json};

use super::access::{KEYS, as_key};
use super::sabotage::{Fault, Sabotage};
use super::world::{ALICE, BOB, Server, TO, World, named, payment};

pub(crate) const RESERVE: &str = "/api/v1/nonces/reserve";

/// Reserves and returns the reservation.
pub(crate) async fn reserved(server: &Server, more: &Value) -> Value {
    let reply = server.post(RESERVE, &wish(more)).await;
    assert_eq!(reply.status, 201, "{}", reply.text());
    reply.json()
}

/// A wish of Alice's, with these fields too.
pub(crate) fn wish(more: &Value) -> Value {
    let mut body = json!({ "signer": ALICE });
    for (field, value) in more.as_object().unwrap() {
        body[field] = value.clone();
    }
    body
}

#[tokio::test(start_paused = true)]
async fn a_reservation_is_told_whole_and_takes_a_nonce_like_any_other() {
    let world = World::new();
    let server = world.server().await;
    server.create(&payment(1)).await;
    let told = reserved(&server, &json!({ "ttlSeconds": 90 })).await;
    let expected = json!({
        "reservationId": told["reservationId"], "signer": ALICE, "chain": "main", "requestId": null,
        "nonce": 1, "lockToken": told["lockToken"], "state": "RESERVED", "txHash": null,
        "namedHash": null, "expiresAt": told["expiresAt"],
    });
    assert_eq!(told, expected);
    let until: jiff::Timestamp = told["expiresAt"].as_str().unwrap().parse().unwrap();
    let rest = until.duration_since(world.now()).as_secs();
    assert!((88..=90).contains(&rest), "{rest}");
    assert_eq!(server.create(&payment(2)).await["nonce"], 2);
    // Whoever only reads is not told the lock.
    let id = told["reservationId"].as_str().unwrap();
    let read = server.get(&format!("/api/v1/nonces/{id}")).await.json();
    let mut without = expected;
    without.as_object_mut().unwrap().remove("lockToken");
    assert_eq!(read, without);
    // It is a transaction too, in which there is no lock either.
    let reply = server.get(&format!("/api/v1/tx/{id}")).await;
    assert_eq!(reply.json()["kind"], "reserved");
    assert!(!reply.text().contains(told["lockToken"].as_str().unwrap()));
}

#[tokio::test(start_paused = true)]
async fn two_reservations_have_two_locks_that_nobody_can_guess() {
    let server = World::new().server().await;
    let locks = [
        reserved(&server, &json!({})).await["lockToken"].clone(),
        reserved(&server, &json!({})).await["lockToken"].clone(),
    ];
    assert_ne!(locks[0], locks[1]);
    for lock in locks {
        // A random one: what is made of the time could be guessed.
        let lock = uuid::Uuid::try_parse(lock.as_str().unwrap()).unwrap();
        assert_eq!(lock.get_version_num(), 4);
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_time_a_nonce_is_lent_as_long_as_is_configured() {
    let mut world = World::new();
    world.settings.lending.ttl = Duration::from_secs(500);
    let server = world.server().await;
    let told = reserved(&server, &json!({})).await;
    let until: jiff::Timestamp = told["expiresAt"].as_str().unwrap().parse().unwrap();
    let rest = until.duration_since(world.now()).as_secs();
    assert!((498..=500).contains(&rest), "{rest}");
}

#[tokio::test(start_paused = true)]
async fn the_same_name_gives_the_same_reservation_with_the_same_lock() {
    let server = World::new().server().await;
    let first = reserved(&server, &json!({ "requestId": "a" })).await;
    let body = wish(&json!({ "requestId": "a", "ttlSeconds": 7 }));
    let again = server.post(RESERVE, &body).await;
    assert_eq!((again.status, again.json()), (200, first.clone()));
    // The header names it too.
    let request = Request::post(RESERVE).header("idempotency-key", "a");
    let request = request.body(wish(&json!({})).to_string().into()).unwrap();
    let again = server.send(request).await;
    assert_eq!((again.status, again.json()), (200, first));
    let request = Request::post(RESERVE).header("idempotency-key", "b");
    let request = request.body(body.to_string().into()).unwrap();
    assert_eq!(server.send(request).await.fields(), ["requestId"]);
    assert_eq!(server.rows().await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_name_is_a_transactions_or_a_reservations() {
    let server = World::new().server().await;
    let sent = server.create(&named("a", 1)).await;
    let body = wish(&json!({ "requestId": "a" }));
    let reply = server.post(RESERVE, &body).await;
    assert_eq!(
        (reply.status, reply.code().as_str()),
        (409, "idempotency_conflict")
    );
    assert_eq!(reply.json()["txId"], sent["txId"]);
    let lent = reserved(&server, &json!({ "requestId": "b" })).await;
    let reply = server.post("/api/v1/tx", &named("b", 1)).await;
    assert_eq!(
        (reply.status, reply.code().as_str()),
        (409, "idempotency_conflict")
    );
    assert_eq!(reply.json()["txId"], lent["reservationId"]);
    assert_eq!(server.rows().await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn each_wrong_field_of_a_wish_is_told_by_its_name() {
    let server = World::new().server().await;
    let check = async |body: Value, expected: &[&str]| {
        assert_eq!(
            server.post(RESERVE, &body).await.fields(),
            expected,
            "{body}"
        );
    };
    let more = |more: Value| wish(&more);
    check(json!({}), &["signer"]).await;
    check(json!({ "signer": 1 }), &["signer"]).await;
    check(json!("a nonce"), &["body", "signer"]).await;
    for ttl in [
        json!(0),
        json!(86_401),
        json!("60"),
        json!(1.5),
        json!(-1),
        json!(true),
    ] {
        check(more(json!({ "ttlSeconds": ttl })), &["ttlSeconds"]).await;
    }
    for count in [json!(0), json!(101), json!("1"), json!([])] {
        check(more(json!({ "count": count })), &["count"]).await;
    }
    check(more(json!({ "requestId": " a" })), &["requestId"]).await;
    check(more(json!({ "chain": 1, "nonce": 1 })), &["nonce", "chain"]).await;
    let reply = server.post(RESERVE, &more(json!({ "count": 1e30 }))).await;
    let text = "must be a whole number, not a fraction or a number beyond 64 bits";
    assert!(reply.text().contains(text), "{}", reply.text());
    assert_eq!(
        server.post(RESERVE, &json!({ "signer": TO })).await.code(),
        "unknown_signer"
    );
    let moon = more(json!({ "chain": "moon" }));
    assert_eq!(server.post(RESERVE, &moon).await.code(), "unknown_chain");
    assert_eq!(
        server
            .post(&format!("{RESERVE}?a=1"), &wish(&json!({})))
            .await
            .fields(),
        ["a"]
    );
    assert!(server.rows().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_paused_signer_lends_nothing() {
    let server = World::new().server().await;
    server.create(&payment(1)).await;
    let pause = format!("/api/v1/signers/{ALICE}/pause");
    server.post(&pause, &json!({ "reason": "x" })).await;
    let reply = server.post(RESERVE, &wish(&json!({}))).await;
    assert_eq!(
        (reply.status, reply.code().as_str()),
        (423, "signer_paused")
    );
    assert_eq!(server.rows().await.len(), 1);
}

/// I6 and I7: a known name is answered with what became of it, whatever the signer does now.
#[tokio::test(start_paused = true)]
async fn a_reservation_that_is_known_is_told_while_its_signer_is_paused() {
    let server = World::new().server().await;
    let lent = reserved(&server, &json!({ "requestId": "a" })).await;
    let pause = format!("/api/v1/signers/{ALICE}/pause");
    server.post(&pause, &json!({ "reason": "x" })).await;
    let body = wish(&json!({ "requestId": "a" }));
    let again = server.post(RESERVE, &body).await;
    assert_eq!((again.status, again.json()), (200, lent));
}

#[tokio::test(start_paused = true)]
async fn a_key_reserves_for_its_signers_only() {
    let mut world = World::new();
    world.access = KEYS.access();
    let server = world.server().await;
    let post = async |signer: &str| {
        let body = json!({ "signer": signer }).to_string();
        as_key(&server, "alice", "POST", RESERVE, &body).await
    };
    assert_eq!(post(ALICE).await.status, 201);
    assert_eq!(post(BOB).await.code(), "forbidden");
    let many = json!({ "signer": ALICE, "count": 100 }).to_string();
    // Each nonce of several is paid for.
    let reply = as_key(&server, "slow", "POST", RESERVE, &many).await;
    assert_eq!(reply.status, 201, "the rate of a whole second is unused");
    let reply = as_key(&server, "slow", "POST", RESERVE, &many).await;
    assert_eq!(reply.code(), "rate_limited");
}

/// What we have no key of can be lent, and never sent by us.
#[tokio::test(start_paused = true)]
async fn a_watch_only_signer_lends_its_nonces_and_takes_no_transactions() {
    let mut world = World::new();
    world.watch_only = vec![BOB];
    let server = world.server().await;
    let mut bob = payment(1);
    bob["signer"] = json!(BOB);
    let reply = server.post("/api/v1/tx", &bob).await;
    assert_eq!(reply.fields(), ["signer"]);
    let why = "is watch-only here: its nonces can only be reserved";
    assert!(reply.text().contains(why), "{}", reply.text());
    let batch = json!({ "requests": [bob, payment(1)] });
    let results = server.post("/api/v1/tx/batch", &batch).await.json()["results"].clone();
    assert_eq!(results[0]["problem"]["errors"][0]["field"], "signer");
    assert_eq!(results[1]["status"], 202);
    assert_eq!(
        reserved(&server, &json!({ "signer": BOB })).await["nonce"],
        0
    );
}

#[tokio::test(start_paused = true)]
async fn a_wish_without_an_answer_is_unknown_and_repeating_it_gives_the_same() {
    let (mut world, sabotage) = Sabotage::world();
    world.limits.request_timeout = Duration::from_secs(3);
    let server = world.server().await;
    server.create(&payment(1)).await;
    sabotage.slow("create", Duration::from_secs(5));
    let body = wish(&json!({ "requestId": "a" }));
    let began = tokio::time::Instant::now();
    let reply = server.post(RESERVE, &body).await;
    assert_eq!(
        (reply.status, reply.code().as_str()),
        (504, "outcome_unknown")
    );
    assert_eq!(reply.json()["requestId"], "a");
    assert_eq!(began.elapsed().as_secs(), 3);
    sabotage.repair();
    server.until_stored(2).await;
    let again = server.post(RESERVE, &body).await;
    assert_eq!((again.status, &again.json()["nonce"]), (200, &json!(1)));
    sabotage.fail("acquire", Fault::Away);
    let bob = server.post(RESERVE, &json!({ "signer": BOB })).await;
    assert_eq!(bob.code(), "store_unavailable");
}
