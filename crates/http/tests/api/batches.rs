//! Having many transactions sent at once.

use std::future::poll_fn;
use std::pin::pin;

use axum::body::Body;
use axum::http::{Method, Request};
use serde_json::{Value, json};

use super::world::{BOB, Reply, Server, TO, World, named, payment};

async fn batch(server: &Server, requests: Vec<Value>) -> Reply {
    server
        .post("/api/v1/tx/batch", &json!({ "requests": requests }))
        .await
}

fn statuses(reply: &Reply) -> Vec<u64> {
    assert_eq!(reply.status, 200, "{}", reply.text());
    let results = reply.json()["results"].as_array().unwrap().clone();
    results
        .iter()
        .map(|result| result["status"].as_u64().unwrap())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn nonces_follow_the_order_of_the_requests() {
    let server = World::new().server().await;
    let reply = batch(&server, (0..1_000).map(payment).collect()).await;
    assert_eq!(statuses(&reply), vec![202; 1_000]);
    for (n, result) in reply.json()["results"]
        .as_array()
        .unwrap()
        .iter()
        .enumerate()
    {
        assert_eq!(result["transaction"]["nonce"], n);
        assert_eq!(result["transaction"]["payload"]["value"], n.to_string());
        assert_eq!(result.as_object().unwrap().len(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn each_request_has_its_own_answer_in_its_place() {
    let world = World::new();
    let server = world.server().await;
    let known = server.create(&named("known", 1)).await;
    let mut bob = payment(1);
    bob["signer"] = json!(BOB);
    let mut nobody = payment(1);
    nobody["signer"] = json!(TO);
    let mut late = payment(1);
    late["notAfter"] = json!("2001-01-01T00:00:00Z");
    let mut large = payment(1);
    large["payload"]["data"] = json!(format!("0x{}", "00".repeat(200_000)));
    let requests = vec![
        payment(2),
        named("known", 1),
        named("known", 2),
        json!({ "signer": 1 }),
        json!(7),
        nobody,
        bob,
        late,
        large,
        named("twice", 1),
        named("twice", 1),
        named("twice", 2),
    ];
    let reply = batch(&server, requests).await;
    let expected = [202, 200, 409, 422, 422, 404, 202, 422, 413, 202, 200, 409];
    assert_eq!(statuses(&reply), expected);
    let results = reply.json()["results"].clone();
    assert_eq!(results[1]["transaction"]["txId"], known["txId"]);
    assert_eq!(results[2]["problem"]["code"], "idempotency_conflict");
    assert_eq!(results[2]["problem"]["requestId"], "known");
    assert_eq!(results[3]["problem"]["errors"][0]["field"], "signer");
    assert_eq!(results[5]["problem"]["code"], "unknown_signer");
    assert_eq!(results[10]["transaction"], results[9]["transaction"]);
    // Alice has given: known 0, the first 1, twice 2.
    assert_eq!(results[9]["transaction"]["nonce"], 2);
    assert_eq!(server.rows().await.len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_bounded_and_may_be_empty() {
    let server = World::new().server().await;
    assert_eq!(statuses(&batch(&server, vec![]).await), [0u64; 0]);
    let reply = batch(&server, vec![payment(1); 1_001]).await;
    assert_eq!(reply.fields(), ["requests"]);
    // Very many small things are not kept while they are counted.
    let many = format!("{{\"requests\":[{}1]}}", "1,".repeat(3_000_000));
    let reply = server.call(Method::POST, "/api/v1/tx/batch", many).await;
    assert_eq!(reply.fields(), ["requests"]);
    let large = " ".repeat(8 * 1024 * 1024 + 1);
    let reply = server.call(Method::POST, "/api/v1/tx/batch", large).await;
    assert_eq!(reply.code(), "too_large");
    assert!(server.rows().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_is_none_is_refused_whole() {
    let server = World::new().server().await;
    let post = async |body: Value| server.post("/api/v1/tx/batch", &body).await;
    assert_eq!(post(json!({})).await.fields(), ["requests"]);
    assert_eq!(post(json!({ "requests": {} })).await.fields(), ["requests"]);
    assert_eq!(
        post(json!({ "requests": [], "more": 1 })).await.fields(),
        ["more"]
    );
    assert_eq!(post(json!([payment(1)])).await.fields(), ["body"]);
    let reply = server
        .call(Method::POST, "/api/v1/tx/batch", "{\"requests\":[")
        .await;
    assert_eq!(reply.code(), "malformed");
    let request = Request::post("/api/v1/tx/batch")
        .header("Idempotency-Key", "k")
        .body(Body::from(json!({ "requests": [payment(1)] }).to_string()));
    assert_eq!(
        server.send(request.unwrap()).await.fields(),
        ["Idempotency-Key"]
    );
    assert!(server.rows().await.is_empty());
}

/// Goal: a large batch does not keep its thread for all of its requests. Method: of a batch that has nothing to wait
/// for, because nothing in it can be stored, it is counted how often it gives its thread away.
#[tokio::test(start_paused = true)]
async fn a_large_batch_lets_others_have_their_turn() {
    let server = World::new().server().await;
    let mut turns = 0;
    let mut answer = pin!(batch(&server, vec![json!(7); 1_000]));
    let reply = poll_fn(|context| {
        turns += 1;
        answer.as_mut().poll(context)
    });
    assert_eq!(statuses(&reply.await), vec![422; 1_000]);
    // Once for every hundred that are read, and once for every hundred that are answered.
    assert!(turns >= 18, "only {turns} turns");
}
