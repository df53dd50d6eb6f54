//! Several nonces reserved at once: all of them, or none.

use std::time::Duration;

use fencepost_app::ports::Store;
use fencepost_domain::ids::Nonce;
use fencepost_domain::keccak256;
use serde_json::{Value, json};

use super::reserving::{RESERVE, wish};
use super::sabotage::{Fault, Sabotage};
use super::world::{ALICE, Server, World, lane_on, named, payment};

async fn list(server: &Server, more: &Value, status: u16) -> Vec<Value> {
    let reply = server.post(RESERVE, &wish(more)).await;
    assert_eq!(reply.status, status, "{}", reply.text());
    reply.json()["reservations"].as_array().unwrap().clone()
}

/// The name of the n-th of several under a name.
fn derived(name: &str, n: usize) -> String {
    format!("reserve:{}:{n}", &keccak256(name).to_string()[2..18])
}

#[tokio::test(start_paused = true)]
async fn several_are_lent_together_and_told_again_with_the_same_locks() {
    let server = World::new().server().await;
    let three = json!({ "count": 3, "requestId": "a" });
    let first = list(&server, &three, 201).await;
    let nonces: Vec<_> = first.iter().map(|each| each["nonce"].clone()).collect();
    assert_eq!(nonces, [0, 1, 2]);
    let names: Vec<_> = first.iter().map(|each| each["requestId"].clone()).collect();
    assert_eq!(
        names,
        [json!("a"), json!(derived("a", 1)), json!(derived("a", 2))]
    );
    assert_eq!(list(&server, &three, 200).await, first);
    assert_eq!(list(&server, &json!({ "count": 1 }), 201).await.len(), 1);
    assert_eq!(
        list(&server, &json!({ "count": 100 }), 201).await.len(),
        100
    );
    assert_eq!(server.rows().await.len(), 104);
}

#[tokio::test(start_paused = true)]
async fn another_number_under_the_same_name_is_another_request() {
    let server = World::new().server().await;
    let first = list(&server, &json!({ "count": 2, "requestId": "a" }), 201).await;
    for other in [
        json!({ "requestId": "a" }),
        json!({ "count": 3, "requestId": "a" }),
    ] {
        let reply = server.post(RESERVE, &wish(&other)).await;
        assert_eq!(
            (reply.status, reply.code().as_str()),
            (409, "idempotency_conflict")
        );
        assert_eq!(reply.json()["txId"], first[0]["reservationId"]);
    }
    server
        .post(RESERVE, &wish(&json!({ "requestId": "b" })))
        .await;
    let reply = server
        .post(RESERVE, &wish(&json!({ "count": 1, "requestId": "b" })))
        .await;
    assert_eq!(reply.code(), "idempotency_conflict");
    assert_eq!(server.rows().await.len(), 3, "nothing more is lent");
}

/// The name of the second is a transaction's, so the wish cannot be fulfilled: nothing stays lent.
#[tokio::test(start_paused = true)]
async fn what_was_lent_of_several_is_given_back_when_one_cannot_be() {
    let server = World::new().server().await;
    let taken = server.create(&named(&derived("a", 1), 1)).await;
    let three = wish(&json!({ "count": 3, "requestId": "a" }));
    let reply = server.post(RESERVE, &three).await;
    assert_eq!(
        (reply.status, reply.code().as_str()),
        (409, "idempotency_conflict")
    );
    assert_eq!(reply.json()["txId"], taken["txId"]);
    assert_eq!(reply.json()["requestId"], "a");
    assert!(
        reply.text().contains("use a new request id"),
        "{}",
        reply.text()
    );
    let lane = server.store.lane(lane_on(1, ALICE)).await.unwrap().unwrap();
    let nonce = |n| Nonce::new(n).unwrap();
    assert_eq!(lane.free, [nonce(1), nonce(2)]);
    // The same name lends nothing any more, and says so.
    let reply = server.post(RESERVE, &three).await;
    assert_eq!(reply.code(), "idempotency_conflict");
    assert!(
        reply.text().contains("use a new request id"),
        "{}",
        reply.text()
    );
    let lane = server.store.lane(lane_on(1, ALICE)).await.unwrap().unwrap();
    assert_eq!(lane.free, [nonce(1), nonce(2)]);
    // What was given back goes out again.
    let next = list(&server, &json!({ "count": 2, "requestId": "b" }), 201).await;
    assert_eq!(
        (&next[0]["nonce"], &next[1]["nonce"]),
        (&json!(1), &json!(2))
    );
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_given_back_is_not_told_as_undone() {
    let (world, sabotage) = Sabotage::world();
    let server = world.server().await;
    server.create(&named(&derived("a", 1), 1)).await;
    sabotage.fail("settle", Fault::Away);
    let three = wish(&json!({ "count": 3, "requestId": "a" }));
    let reply = server.post(RESERVE, &three).await;
    assert_eq!(
        (reply.status, reply.code().as_str()),
        (504, "outcome_unknown")
    );
    assert_eq!(reply.json()["requestId"], "a");
    assert!(
        !sabotage.was_answering("settle"),
        "a client that goes away stops nothing"
    );
}

/// The answer for the others comes too late; the same request tells all, and completes what was not begun.
#[tokio::test(start_paused = true)]
async fn several_of_which_some_are_unknown_are_completed_by_the_same_request() {
    let (mut world, sabotage) = Sabotage::world();
    world.limits.request_timeout = Duration::from_secs(3);
    let server = world.server().await;
    server.create(&payment(1)).await;
    let three = json!({ "count": 3, "requestId": "a" });
    let body = wish(&three);
    let first = sabotage.called("create");
    // The first of them passes, after a moment in which that changes; the others have to wait.
    sabotage.slow("create", Duration::from_secs(1));
    let spoiling = async {
        first.await;
        sabotage.repair();
        sabotage.slow("create", Duration::from_secs(10));
    };
    let (reply, ()) = tokio::join!(server.post(RESERVE, &body), spoiling);
    assert_eq!(
        (reply.status, reply.code().as_str()),
        (504, "outcome_unknown")
    );
    assert_eq!(reply.json()["requestId"], "a");
    let rows = server.rows().await;
    assert_eq!(
        rows.len(),
        2,
        "the first of three is stored, and still lent"
    );
    assert_eq!(rows[1].state.name().word(), "RESERVED");
    sabotage.repair();
    server.until_stored(4).await;
    let told = list(&server, &three, 200).await;
    let nonces: Vec<_> = told.iter().map(|each| each["nonce"].clone()).collect();
    assert_eq!(nonces, [1, 2, 3]);
    assert!(
        told.iter().all(|each| each["state"] == "RESERVED"),
        "{told:?}"
    );
}

/// The second cannot be stored for now. The same request at another node may just have been answered with the
/// first: it stays lent, and the same request completes it.
#[tokio::test(start_paused = true)]
async fn under_a_name_nothing_is_given_back_that_the_same_request_may_have_got() {
    let (world, sabotage) = Sabotage::world();
    let server = world.server().await;
    let three = json!({ "count": 3, "requestId": "a" });
    let body = wish(&three);
    let first = sabotage.called("create");
    sabotage.slow("create", Duration::from_secs(1));
    let spoiling = async {
        first.await;
        sabotage.repair();
        sabotage.fail("create", Fault::Away);
    };
    let (reply, ()) = tokio::join!(server.post(RESERVE, &body), spoiling);
    assert_eq!(
        (reply.status, reply.code().as_str()),
        (504, "outcome_unknown"),
        "{}",
        reply.text()
    );
    let rows = server.rows().await;
    assert_eq!((rows.len(), rows[0].state.name().word()), (1, "RESERVED"));
    sabotage.repair();
    let told = list(&server, &three, 201).await;
    let nonces: Vec<_> = told.iter().map(|each| each["nonce"].clone()).collect();
    assert_eq!(nonces, [0, 1, 2]);
}

/// An operator pauses the signer between the first of two and the second. Whoever repeats the request meanwhile is
/// answered with the first: it is nobody else's, and once nonces are given again the same name completes both.
#[tokio::test(start_paused = true)]
async fn several_that_a_pause_has_stopped_stay_lent_and_are_completed_by_the_same_name() {
    let (world, sabotage) = Sabotage::world();
    let server = world.server().await;
    server.create(&payment(1)).await;
    let two = json!({ "count": 2, "requestId": "a" });
    let signer = format!("/api/v1/signers/{ALICE}");
    let reason = json!({ "reason": "x" });
    let first = sabotage.called("create");
    sabotage.slow("create", Duration::from_secs(1));
    let pausing = async {
        first.await;
        sabotage.called("create").await;
        let paused = server.post(&format!("{signer}/pause"), &reason).await;
        assert_eq!(paused.status, 200);
    };
    let body = wish(&two);
    let (reply, ()) = tokio::join!(server.post(RESERVE, &body), pausing);
    sabotage.repair();
    assert_eq!(
        (reply.status, reply.code().as_str()),
        (504, "outcome_unknown"),
        "{}",
        reply.text()
    );
    assert_eq!(sabotage.count("settle"), 0, "nothing is given back");
    let rows = server.rows().await;
    assert_eq!((rows.len(), rows[1].state.name().word()), (2, "RESERVED"));
    server.post(&format!("{signer}/resume"), &reason).await;
    let lent = list(&server, &two, 201).await;
    let nonces: Vec<_> = lent.iter().map(|each| each["nonce"].clone()).collect();
    assert_eq!(nonces, [1, 2]);
    assert!(lent.iter().all(|each| each["state"] == "RESERVED"));
    assert_eq!(list(&server, &two, 200).await, lent);
    let next = list(&server, &json!({ "count": 1 }), 201).await;
    assert_eq!(next[0]["nonce"], 3);
}

#[tokio::test(start_paused = true)]
async fn several_that_were_given_back_by_their_holder_are_told_as_they_stand() {
    let server = World::new().server().await;
    let two = json!({ "count": 2, "requestId": "a" });
    for each in list(&server, &two, 201).await {
        let path = format!(
            "/api/v1/nonces/{}/recycle",
            each["reservationId"].as_str().unwrap()
        );
        let body = json!({ "lockToken": each["lockToken"] });
        assert_eq!(server.post(&path, &body).await.status, 200);
    }
    let told = list(&server, &two, 200).await;
    assert!(
        told.iter().all(|each| each["state"] == "RECYCLABLE"),
        "{told:?}"
    );
    assert_eq!(
        (&told[0]["nonce"], &told[1]["nonce"]),
        (&json!(0), &json!(1))
    );
    assert_eq!(server.rows().await.len(), 2);
}
