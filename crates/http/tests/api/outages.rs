//! What is told when the store fails: whether nothing was stored, or that it is not known.

use std::time::Duration;

use fencepost_app::ports::Store;
use serde_json::{Value, json};

use super::sabotage::{Fault, Sabotage};
use super::world::{ALICE, BOB, lane_on, named, payment};

const PATHS: [(&str, &str); 5] = [
    ("find", "/api/v1/tx/01890a5d-ac96-774b-bcce-b302099a8057"),
    ("page", "/api/v1/tx"),
    ("completions", "/api/v1/tx/completions"),
    ("lanes", "/api/v1/signers"),
    (
        "lane",
        "/api/v1/signers/0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
    ),
];

#[tokio::test(start_paused = true)]
async fn reads_tell_that_the_store_is_away_silent_or_wrong() {
    let (world, sabotage) = Sabotage::world();
    let server = world.server().await;
    for (op, path) in PATHS {
        for (fault, code, status) in [
            (Fault::Away, "store_unavailable", 503),
            (Fault::Lost, "store_unavailable", 503),
            (Fault::Silent, "timed_out", 503),
            (Fault::Corrupt, "internal_error", 500),
            (Fault::Panic, "internal_error", 500),
        ] {
            sabotage.fail(op, fault);
            let reply = server.get(path).await;
            assert_eq!(
                (reply.status, reply.code().as_str()),
                (status, code),
                "{path} {fault:?}"
            );
            sabotage.repair();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_create_without_a_store_stores_nothing_and_says_so() {
    let (world, sabotage) = Sabotage::world();
    let server = world.server().await;
    sabotage.fail("acquire", Fault::Away);
    let reply = server.post("/api/v1/tx", &payment(1)).await;
    assert_eq!(
        (reply.status, reply.code().as_str()),
        (503, "store_unavailable")
    );
    let batch = json!({ "requests": [payment(1), named("a", 1)] });
    let results = server.post("/api/v1/tx/batch", &batch).await.json()["results"].clone();
    assert_eq!(results[0]["problem"]["code"], "store_unavailable");
    assert_eq!(results[1]["problem"]["requestId"], "a");
    assert!(server.rows().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_create_without_an_answer_is_unknown_and_named() {
    let (world, sabotage) = Sabotage::world();
    let server = world.server().await;
    server.create(&payment(1)).await;
    sabotage.fail("create", Fault::Silent);
    let reply = server.post("/api/v1/tx", &named("a", 2)).await;
    assert_eq!(
        (reply.status, reply.code().as_str()),
        (504, "outcome_unknown")
    );
    assert_eq!(reply.json()["requestId"], "a");
    let tx = reply.json()["txId"].as_str().unwrap().to_owned();
    assert_eq!(
        server.get(&format!("/api/v1/tx/{tx}")).await.code(),
        "not_found"
    );
}

#[tokio::test(start_paused = true)]
async fn the_api_waits_no_longer_than_its_limit() {
    let (mut world, sabotage) = Sabotage::world();
    world.limits.request_timeout = Duration::from_secs(3);
    let server = world.server().await;
    sabotage.fail("create", Fault::Silent);
    let began = tokio::time::Instant::now();
    assert_eq!(
        server.post("/api/v1/tx", &payment(1)).await.code(),
        "outcome_unknown"
    );
    assert_eq!(began.elapsed().as_secs(), 3);
    sabotage.fail("pause", Fault::Silent);
    let path = format!("/api/v1/signers/{ALICE}/pause");
    let reply = server.post(&path, &json!({ "reason": "x" })).await;
    assert_eq!(
        (reply.status, reply.code().as_str()),
        (504, "outcome_unknown")
    );
}

#[tokio::test(start_paused = true)]
async fn a_pause_whose_answer_is_lost_is_unknown() {
    let (world, sabotage) = Sabotage::world();
    let server = world.server().await;
    let path = format!("/api/v1/signers/{ALICE}/pause");
    sabotage.fail("pause", Fault::Lost);
    assert_eq!(
        server.post(&path, &json!({ "reason": "x" })).await.code(),
        "outcome_unknown"
    );
    let lane = server.store.lane(lane_on(1, ALICE)).await.unwrap().unwrap();
    assert!(lane.paused.is_some());
    sabotage.repair();
    sabotage.fail("pause", Fault::Away);
    assert_eq!(
        server.post(&path, &json!({ "reason": "x" })).await.code(),
        "store_unavailable"
    );
}

#[tokio::test(start_paused = true)]
async fn a_full_worker_says_so_at_once() {
    let (mut world, sabotage) = Sabotage::world();
    world.settings.worker_queue_max = 4;
    world.settings.batch_max = 1;
    world.settings.workers = 1;
    let server = world.server().await;
    sabotage.fail("create", Fault::Silent);
    sabotage.fail("acquire", Fault::Silent);
    let batch = json!({ "requests": vec![payment(1); 20] });
    let waiting = async {
        let reply = server.post("/api/v1/tx/batch", &batch).await;
        reply.json()["results"].clone()
    };
    // The worker has taken one from its desk meanwhile, so there is room for one more.
    let filling = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        server.post("/api/v1/tx", &payment(1)).await;
    };
    let late = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let began = tokio::time::Instant::now();
        let reply = server.post("/api/v1/tx", &payment(1)).await;
        assert_eq!((reply.status, reply.code().as_str()), (503, "overloaded"));
        assert!(began.elapsed() < Duration::from_millis(10));
    };
    let (results, (), ()) = tokio::join!(waiting, filling, late);
    let overloaded = |n: &usize| results[n]["problem"]["code"] == "overloaded";
    assert!((0..20).filter(overloaded).count() >= 15, "{results}");
}

#[tokio::test(start_paused = true)]
async fn readiness_follows_the_store_and_the_stop() {
    let (world, sabotage) = Sabotage::world();
    let server = world.server().await;
    let expected = |paused: Value| {
        json!({
            "status": "ready", "node": "n1", "leading": 0, "paused": paused, "held": paused,
            "draining": false, "chains": [],
        })
    };
    let reply = server.get("/readyz").await;
    // Before lanes were counted for the first time, or after.
    let counted = reply.json()["paused"].clone();
    assert!([Value::Null, json!(0)].contains(&counted), "{counted}");
    assert_eq!((reply.status, reply.json()), (200, expected(counted)));
    server.create(&payment(1)).await;
    assert_eq!(server.get("/readyz").await.json()["leading"], 1);
    let a_moment = Duration::from_millis(600);
    for fault in [Fault::Away, Fault::Silent] {
        sabotage.fail("ping", fault);
        tokio::time::advance(a_moment).await;
        let reply = server.get("/readyz").await;
        assert_eq!(
            (reply.status, reply.code().as_str()),
            (503, "store_unavailable")
        );
        assert_eq!(reply.json()["node"], "n1");
        assert_eq!(reply.json()["leading"], 1);
        // The process lives all the same.
        assert_eq!(
            server.get("/livez").await.json(),
            json!({ "status": "alive" })
        );
        sabotage.repair();
    }
    tokio::time::advance(a_moment).await;
    server.node.drain();
    let reply = server.get("/readyz").await;
    assert_eq!((reply.status, reply.code().as_str()), (503, "stopping"));
    assert_eq!(reply.json()["draining"], true);
    assert_eq!(
        server.post("/api/v1/tx", &payment(1)).await.code(),
        "overloaded"
    );
}

/// Anyone may ask whether the node is ready: a crowd costs the store one question.
#[tokio::test(start_paused = true)]
async fn a_crowd_that_asks_for_readiness_costs_one_question() {
    let (world, sabotage) = Sabotage::world();
    let server = world.server().await;
    sabotage.slow("ping", Duration::from_millis(100));
    let before = sabotage.count("ping");
    let crowd = (0..200).map(|_| server.get("/readyz"));
    for reply in futures::future::join_all(crowd).await {
        assert_eq!(reply.status, 200);
    }
    // The node asks by itself too, once in a while.
    let asked = sabotage.count("ping") - before;
    assert!((1..=3).contains(&asked), "{asked} questions");
}

/// The first request stands before the store while its time passes; its repetition must not be told
/// that nothing was stored, for then it is.
#[tokio::test(start_paused = true)]
async fn a_request_that_is_repeated_past_its_time_while_it_is_being_stored_is_the_same_one() {
    let (world, sabotage) = Sabotage::world();
    let server = world.server().await;
    server.create(&payment(1)).await;
    sabotage.slow("create", Duration::from_secs(5));
    let mut body = named("a", 2);
    body["notAfter"] = json!(world.in_seconds(2));
    let first = server.post("/api/v1/tx", &body);
    let again = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        server.post("/api/v1/tx", &body).await
    };
    let (first, again) = tokio::join!(first, again);
    assert_eq!((first.status, again.status), (202, 200), "{}", again.text());
    assert_eq!(first.json()["txId"], again.json()["txId"]);
    assert_eq!(server.rows().await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_pause_that_cannot_even_look_changes_nothing_and_says_so() {
    let (mut world, sabotage) = Sabotage::world();
    world.limits.request_timeout = Duration::from_secs(3);
    let server = world.server().await;
    sabotage.fail("lane", Fault::Silent);
    let began = tokio::time::Instant::now();
    let path = format!("/api/v1/signers/{ALICE}/pause");
    let reply = server.post(&path, &json!({ "reason": "x" })).await;
    assert_eq!((reply.status, reply.code().as_str()), (503, "timed_out"));
    assert_eq!(began.elapsed().as_secs(), 3);
    let lane = server.store.lane(lane_on(1, ALICE)).await.unwrap().unwrap();
    assert_eq!(lane.paused, None);
}

/// One signer of a batch stands still: what is known of the others is told all the same.
#[tokio::test(start_paused = true)]
async fn a_batch_whose_time_is_over_tells_what_it_knows() {
    let (mut world, sabotage) = Sabotage::world();
    world.limits.request_timeout = Duration::from_secs(3);
    world.settings.workers = 64;
    let server = world.server().await;
    let mut bob = payment(1);
    bob["signer"] = json!(BOB);
    server.create(&payment(1)).await;
    // Alice is led and stored for; Bob's worker never hears whether it leads.
    sabotage.fail("acquire", Fault::Silent);
    let batch = json!({ "requests": [payment(2), bob, payment(3)] });
    let results = server.post("/api/v1/tx/batch", &batch).await.json()["results"].clone();
    assert_eq!(results[0]["transaction"]["nonce"], 1, "{results}");
    assert_eq!(results[1]["problem"]["code"], "outcome_unknown");
    assert_eq!(results[2]["transaction"]["nonce"], 2);
    assert!(results[1]["problem"].get("retryAfterSeconds").is_none());
}

/// A panic of a handler is told as a 500 and the node lives on; one in the worker must end it. The
/// process tells them apart by this.
#[tokio::test(start_paused = true)]
async fn a_handler_is_known_from_what_works_on_by_itself() {
    let (world, sabotage) = Sabotage::world();
    let server = world.server().await;
    let sent = server.create(&payment(1)).await;
    let path = format!("/api/v1/tx/{}", sent["txId"].as_str().unwrap());
    server.get(&path).await;
    assert!(sabotage.was_answering("find"));
    assert!(!sabotage.was_answering("create"));
    assert!(!fencepost_http::is_answering());
}
