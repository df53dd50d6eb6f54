//! Which key asked for a transaction or a reservation: kept with the row, and told to operators only. And what a node with
//! keys tells callers that have none.

use std::sync::Arc;

use axum::body::Body;
use axum::http::Request;
use fencepost_http::Forwarder;
use serde_json::{Value, json};

use super::access::{KEYS, as_key};
use super::forwarding::{listening, world};
use super::world::{ALICE, Reply, Server, World, named, payment};

async fn get(server: &Server, key: &str, path: &str) -> Value {
    let reply = as_key(server, key, "GET", path, "").await;
    assert_eq!(reply.status, 200, "{key} {path}: {}", reply.text());
    reply.json()
}

#[tokio::test(start_paused = true)]
async fn operators_are_told_which_key_asked_and_others_are_not() {
    let mut world = World::new();
    world.access = KEYS.access();
    let server = world.server().await;
    let post = async |key: &str, path: &str, body: Value| {
        as_key(&server, key, "POST", path, &body.to_string())
            .await
            .json()
    };
    let sent = post("submit", "/api/v1/tx", named("a", 1)).await;
    assert_eq!(sent["createdBy"], Value::Null, "{sent}");
    let lent = post(
        "submit",
        "/api/v1/nonces/reserve",
        json!({ "signer": ALICE, "count": 2 }),
    )
    .await;
    let lent = &lent["reservations"][1]["reservationId"];
    for id in [&sent["txId"], lent] {
        let path = format!("/api/v1/tx/{}", id.as_str().unwrap());
        assert_eq!(get(&server, "all", &path).await["createdBy"], "submit");
        assert_eq!(get(&server, "read", &path).await["createdBy"], Value::Null);
        let history = format!("{path}/history");
        let accepted = &get(&server, "all", &history).await["events"][0];
        assert_eq!(
            (&accepted["kind"], &accepted["createdBy"]),
            (&json!("accepted"), &json!("submit"))
        );
        let accepted = &get(&server, "read", &history).await["events"][0];
        assert_eq!(accepted["createdBy"], Value::Null);
    }
    // Who repeats a request has not created it.
    let again = post("all", "/api/v1/tx", named("a", 1)).await;
    assert_eq!(
        (&again["txId"], &again["createdBy"]),
        (&sent["txId"], &json!("submit"))
    );
    let batch = json!({ "requests": [payment(2)] });
    let batch = post("all", "/api/v1/tx/batch", batch).await;
    assert_eq!(
        batch["results"][0]["transaction"]["createdBy"], "all",
        "{batch}"
    );
}

#[tokio::test(start_paused = true)]
async fn without_keys_no_name_is_kept() {
    let server = World::new().server().await;
    assert_eq!(server.create(&payment(1)).await["createdBy"], Value::Null);
    assert_eq!(server.rows().await[0].created_by, None);
}

#[tokio::test]
async fn the_leader_stores_the_name_that_another_node_has_seen() {
    let mut world = world();
    world.access = KEYS.access();
    let (leader, _) = listening(&world, "n1").await;
    let (follower, _) = listening(&world, "n2").await;
    let path = "/api/v1/tx";
    as_key(&leader, "all", "POST", path, &payment(1).to_string()).await;
    let body = payment(2).to_string();
    let told = as_key(&follower, "submit", "POST", path, &body)
        .await
        .json();
    assert_eq!(told["state"], "ALLOCATED", "{told}");
    // Where the leader cannot be reached, it waits in the queue with its name.
    world.peers = Arc::new(Forwarder::new(None, Arc::clone(&world.store) as _));
    let alone = world.server_at("n3", "http://127.0.0.1:1").await;
    let queued = as_key(&alone, "submit", "POST", path, &payment(3).to_string())
        .await
        .json();
    assert_eq!(queued["state"], "QUEUED", "{queued}");
    let names: Vec<Option<String>> = leader
        .rows()
        .await
        .iter()
        .map(|row| row.created_by.as_deref().map(str::to_owned))
        .collect();
    let names: Vec<&str> = names.iter().map(|name| name.as_deref().unwrap()).collect();
    assert_eq!(names, ["all", "submit", "submit"]);
}

async fn with_key(server: &Server, key: &str, path: &str) -> Reply {
    as_key(server, key, "GET", path, "").await
}

#[tokio::test(start_paused = true)]
async fn a_node_with_keys_tells_callers_without_one_only_whether_it_is_ready() {
    let mut world = World::new();
    world.access = KEYS.access();
    let server = world.server().await;
    assert_eq!(
        server.get("/readyz").await.json(),
        json!({ "status": "ready" })
    );
    let whole = with_key(&server, "read", "/readyz").await.json();
    assert_eq!(
        (&whole["node"], &whole["leading"]),
        (&json!("n1"), &json!(0))
    );
    let other = with_key(&server, "submit", "/readyz").await;
    assert_eq!(
        (other.status, other.json()),
        (200, json!({ "status": "ready" }))
    );
    let metrics = |reply: &Reply| (reply.status, reply.text().ends_with("# EOF\n"));
    for reply in [
        server.get("/metrics").await,
        with_key(&server, "read", "/metrics").await,
    ] {
        assert_eq!(metrics(&reply), (200, true));
    }
    let wrong = async |path: &str| {
        let wrong = Request::get(path).header("Authorization", "Bearer nonsense");
        server.send(wrong.body(Body::empty()).unwrap()).await
    };
    assert_eq!(wrong("/metrics").await.code(), "unauthorized");
    let reply = wrong("/readyz").await;
    assert_eq!(reply.json(), json!({ "status": "ready" }), "never refused");
    server.node.drain();
    let reply = server.get("/readyz").await;
    assert_eq!((reply.status, reply.code().as_str()), (503, "stopping"));
    assert!(reply.json().get("node").is_none(), "{}", reply.text());
    assert_eq!(
        with_key(&server, "read", "/readyz").await.json()["draining"],
        true
    );
}
