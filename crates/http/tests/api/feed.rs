//! The feed of completions.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::access::{KEYS, as_key};
use super::chain_steps::{hash, id};
use super::world::{ALICE, BOB, World, named, payment};

#[tokio::test(start_paused = true)]
async fn completions_are_numbered_and_read_from_any_number() {
    let server = World::new().server().await;
    let empty = server.get("/api/v1/tx/completions").await.json();
    assert_eq!(
        empty,
        json!({ "completions": [], "next": 0, "epoch": empty["epoch"] })
    );
    let first = id(&server.create(&named("a", 1)).await);
    let second = id(&server.create(&payment(2)).await);
    server.confirm(first, 7).await;
    server.reject(second).await;
    let all = server.get("/api/v1/tx/completions").await.json();
    let expected = json!({
        "seq": 1, "txId": first.to_string(), "kind": "managed", "chain": "main", "signer": ALICE,
        "requestId": "a", "nonce": 0, "state": "CONFIRMED", "subState": null,
        "txHash": hash(7).to_string(), "blockNumber": 500, "at": all["completions"][0]["at"],
        "corrects": null,
    });
    assert_eq!(all["completions"][0], expected);
    assert_eq!(all["completions"][1]["seq"], 2);
    assert_eq!(all["completions"][1]["subState"], "REJECTED");
    assert_eq!(all["next"], 2);
    let rest = server
        .get("/api/v1/tx/completions?after=1&limit=5")
        .await
        .json();
    assert_eq!(rest["completions"], json!([all["completions"][1]]));
    let one = server.get("/api/v1/tx/completions?limit=1").await.json();
    assert_eq!(
        (&one["completions"], &one["next"]),
        (&json!([all["completions"][0]]), &json!(1))
    );
    let none = server.get("/api/v1/tx/completions?after=2").await.json();
    assert_eq!(
        (&none["completions"], &none["next"]),
        (&json!([]), &json!(2))
    );
}

#[tokio::test(start_paused = true)]
async fn a_reader_ahead_of_the_feed_hears_that_it_was_reset() {
    let server = World::new().server().await;
    let reply = server.get("/api/v1/tx/completions?after=1&wait=30").await;
    assert_eq!((reply.status, reply.code().as_str()), (410, "feed_reset"));
}

#[tokio::test(start_paused = true)]
async fn a_long_poll_ends_with_the_first_completion() {
    let server = World::new().server().await;
    let tx = id(&server.create(&payment(1)).await);
    let began = Instant::now();
    let poll = server.get("/api/v1/tx/completions?wait=30");
    let ending = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        server.reject(tx).await;
    };
    let (reply, ()) = tokio::join!(poll, ending);
    assert_eq!(reply.json()["completions"][0]["txId"], tx.to_string());
    assert!(
        began.elapsed() < Duration::from_secs(4),
        "{:?}",
        began.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn a_long_poll_ends_empty_when_its_time_is_over() {
    let server = World::new().server().await;
    let began = Instant::now();
    let reply = server.get("/api/v1/tx/completions?wait=20").await;
    assert_eq!(
        (reply.status, &reply.json()["completions"]),
        (200, &json!([]))
    );
    assert_eq!(began.elapsed().as_secs(), 20);
}

/// Load balancers give up after 30 s.
#[tokio::test(start_paused = true)]
async fn the_longest_poll_is_answered_before_30_s() {
    let server = World::new().server().await;
    let began = Instant::now();
    let reply = server.get("/api/v1/tx/completions?wait=30").await;
    assert_eq!(reply.status, 200);
    let took = began.elapsed();
    assert!(took > Duration::from_secs(28), "{took:?}");
    assert!(took < Duration::from_millis(29_500), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn long_polls_end_at_once_when_the_node_stops() {
    let server = World::new().server().await;
    let began = Instant::now();
    let stopping = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        server.node.drain();
    };
    let (reply, ()) = tokio::join!(server.get("/api/v1/tx/completions?wait=30"), stopping);
    assert_eq!(reply.status, 200);
    assert_eq!(began.elapsed().as_secs(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_expired_transaction_is_told() {
    let mut world = World::new();
    world.max_in_flight = Some(1);
    let server = world.server().await;
    server.create(&payment(1)).await;
    let mut body = payment(2);
    body["notAfter"] = json!(world.in_seconds(2));
    let waiting = server.create(&body).await;
    assert_eq!(
        (&waiting["subState"], &waiting["nonce"]),
        (&json!("WAITING_WINDOW"), &Value::Null)
    );
    let told = server.get("/api/v1/tx/completions?wait=30").await.json();
    assert_eq!(told["completions"][0]["txId"], waiting["txId"]);
    assert_eq!(told["completions"][0]["subState"], "EXPIRED");
}

#[tokio::test(start_paused = true)]
async fn a_key_of_some_signers_sees_theirs_and_the_numbers_go_on() {
    let mut world = World::new();
    world.access = KEYS.access();
    let server = world.server().await;
    let mut ids = Vec::new();
    for signer in [ALICE, BOB, BOB] {
        let mut body = payment(1);
        body["signer"] = json!(signer);
        let reply = as_key(&server, "all", "POST", "/api/v1/tx", &body.to_string()).await;
        ids.push(id(&reply.json()));
    }
    for tx in ids {
        server.reject(tx).await;
    }
    let read = async |path: &str| as_key(&server, "alice", "GET", path, "").await.json();
    let told = read("/api/v1/tx/completions").await;
    let seqs: Vec<_> = told["completions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["seq"].clone())
        .collect();
    assert_eq!((seqs, &told["next"]), (vec![json!(1)], &json!(3)));
    let told = read("/api/v1/tx/completions?after=1").await;
    assert_eq!(
        (&told["completions"], &told["next"]),
        (&json!([]), &json!(3))
    );
}

#[tokio::test(start_paused = true)]
async fn parameters_out_of_range_are_refused() {
    let server = World::new().server().await;
    for (query, field) in [
        ("wait=31", "wait"),
        ("wait=1.5", "wait"),
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("after=-1", "after"),
        ("after=9223372036854775808", "after"),
        ("from=1", "from"),
    ] {
        let reply = server.get(&format!("/api/v1/tx/completions?{query}")).await;
        assert_eq!(reply.fields(), [field], "{query}");
    }
}
