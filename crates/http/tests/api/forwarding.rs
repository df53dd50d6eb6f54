//! Two nodes on one store, with a real connection between them.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use fencepost_app::lifecycle::accept::Verdict;
use fencepost_app::ports::{Body as TxBody, NewTx, Peers, Store, Unforwarded};
use fencepost_domain::ids::TxId;
use fencepost_domain::request::{Ceilings, Draft, Payload};
use fencepost_http::{Forwarder, Secret, serve};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use uuid::Uuid;

use super::world::{ALICE, Server, TO, World, lane_on, named, payment};

fn secret() -> Secret {
    Secret::new("the secret of this cluster".to_owned())
}

/// A world with a secret whose nodes reach each other.
fn world() -> World {
    let mut world = World::new();
    world.cluster = Some(secret());
    let store = Arc::clone(&world.store) as Arc<dyn Store>;
    world.peers = Arc::new(Forwarder::new(Some(secret()), store));
    world
}

/// A node that others reach over the network.
async fn listening(world: &World, name: &str) -> (Server, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = world.server_at(name, &url).await;
    tokio::spawn(serve(world.api(&server), listener, pending()));
    (server, url)
}

fn new_tx() -> NewTx {
    let draft = Draft {
        to: Some(TO.to_owned()),
        ..Draft::default()
    };
    let ceilings = Ceilings {
        max_fee: 1,
        max_priority_fee: 1,
    };
    NewTx {
        tx: TxId(Uuid::now_v7()),
        request_id: None,
        body: TxBody::Managed(Payload::parse(&draft, ceilings).unwrap()),
        not_after: None,
        meta: None,
    }
}

#[tokio::test]
async fn a_request_at_any_node_gets_its_nonce_from_the_leader() {
    let world = world();
    let (leader, url) = listening(&world, "n1").await;
    let (follower, _) = listening(&world, "n2").await;
    assert_eq!(leader.create(&payment(1)).await["nonce"], 0);
    let mut body = named("a", 2);
    body["meta"] = json!({ "k": "v" });
    body["notAfter"] = json!(world.in_seconds(60));
    let told = follower.create(&body).await;
    assert_eq!(
        (&told["nonce"], &told["state"]),
        (&json!(1), &json!("ALLOCATED"))
    );
    // What was told without reading it is what is stored.
    let path = format!("/api/v1/tx/{}", told["txId"].as_str().unwrap());
    assert_eq!(leader.get(&path).await.json(), told);
    let again = follower.post("/api/v1/tx", &body).await;
    assert_eq!((again.status, again.json()), (200, told.clone()));
    let other = follower.post("/api/v1/tx", &named("a", 3)).await;
    assert_eq!(other.code(), "idempotency_conflict");
    assert_eq!(other.json()["txId"], told["txId"]);
    let signer = follower
        .get(&format!("/api/v1/signers/{ALICE}"))
        .await
        .json();
    assert_eq!(
        (&signer["leader"]["node"], &signer["leader"]["url"]),
        (&json!("n1"), &json!(url))
    );
    assert_eq!(follower.rows().await.len(), 2);
}

#[tokio::test]
async fn many_requests_at_both_nodes_get_nonces_without_gaps() {
    let world = world();
    let (leader, _) = listening(&world, "n1").await;
    let (follower, _) = listening(&world, "n2").await;
    leader.create(&payment(0)).await;
    let create = async |n: u64| {
        let server = if n.is_multiple_of(2) {
            &leader
        } else {
            &follower
        };
        server.create(&payment(n)).await["nonce"].as_u64().unwrap()
    };
    let mut nonces = futures::future::join_all((1..200).map(create)).await;
    nonces.sort_unstable();
    assert_eq!(nonces, (1..200).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_pause_is_told_through_another_node() {
    let world = world();
    let (leader, _) = listening(&world, "n1").await;
    let (follower, _) = listening(&world, "n2").await;
    leader.create(&payment(1)).await;
    let path = format!("/api/v1/signers/{ALICE}/pause");
    assert_eq!(
        follower.post(&path, &json!({ "reason": "x" })).await.status,
        200
    );
    assert_eq!(
        follower.post("/api/v1/tx", &payment(2)).await.code(),
        "signer_paused"
    );
}

#[tokio::test]
async fn a_leader_that_is_gone_or_of_another_cluster_leaves_requests_in_the_queue() {
    let mut world = world();
    let (leader, _) = listening(&world, "n1").await;
    leader.create(&payment(1)).await;
    let store = Arc::clone(&world.store) as Arc<dyn Store>;
    for stranger in [
        None,
        Some(Secret::new("another secret entirely".to_owned())),
    ] {
        world.peers = Arc::new(Forwarder::new(stranger, Arc::clone(&store)));
        let follower = world.server_at("n2", "http://127.0.0.1:1").await;
        assert_eq!(follower.create(&payment(2)).await["state"], "QUEUED");
    }
}

#[tokio::test]
async fn what_was_not_sent_and_what_was_not_answered_are_told_apart() {
    let world = world();
    let store = Arc::clone(&world.store) as Arc<dyn Store>;
    let forwarder = Forwarder::new(Some(secret()), store);
    let lane = lane_on(1, ALICE);
    let within = Duration::from_millis(300);
    let forward = async |url: &str| forwarder.forward(url, lane, &new_tx(), within).await;

    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let refused = format!("http://{}", closed.local_addr().unwrap());
    drop(closed);
    for url in [&*refused, "http://no-such-host.invalid:1", "not a url", ""] {
        let answer = forward(url).await;
        assert!(
            matches!(answer, Err(Unforwarded::NotSent(_))),
            "{url}: {answer:?}"
        );
    }
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let answer = forward(&format!("http://{}/", silent.local_addr().unwrap())).await;
    assert!(
        matches!(answer, Err(Unforwarded::Unanswered(_))),
        "{answer:?}"
    );

    let (_leader, url) = listening(&world, "n1").await;
    let answer = forward(&url).await;
    assert!(matches!(answer, Ok(Verdict::New(_))), "{answer:?}");
    let stranger = Some(Secret::new("another secret entirely".to_owned()));
    let stranger = Forwarder::new(stranger, Arc::clone(&world.store) as Arc<dyn Store>);
    let answer = stranger.forward(&url, lane, &new_tx(), within).await;
    assert!(matches!(answer, Err(Unforwarded::NotSent(_))), "{answer:?}");
    let unsigned = Forwarder::new(None, Arc::clone(&world.store) as Arc<dyn Store>);
    let answer = unsigned.forward(&url, lane, &new_tx(), within).await;
    assert!(matches!(answer, Err(Unforwarded::NotSent(_))), "{answer:?}");
}

#[tokio::test]
async fn a_call_that_no_node_has_signed_is_refused() {
    let world = world();
    let server = world.server().await;
    let reply = server.post("/internal/v1/tx", &json!({})).await;
    assert_eq!((reply.status, reply.code().as_str()), (401, "unauthorized"));
    let request = Request::post("/internal/v1/tx")
        .header("x-fencepost-timestamp", world.in_seconds(0))
        .header("x-fencepost-signature", format!("0x{}", "00".repeat(32)))
        .body(Body::from("{}"));
    assert_eq!(server.send(request.unwrap()).await.status, 401);
    assert_eq!(Value::from(server.rows().await.len()), 0);
}
