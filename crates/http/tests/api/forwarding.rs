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
use fencepost_http::{ClusterSecret, Forwarder, Secret, serve};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::timeout;
use uuid::Uuid;

use super::world::{ALICE, BOB, Server, TO, World, lane_on, named, payment};

pub(crate) fn secret() -> ClusterSecret {
    ClusterSecret::new(Secret::new("the secret of this cluster".to_owned()), None)
}

/// A world with a secret whose nodes reach each other.
pub(crate) fn world() -> World {
    let mut world = World::new();
    world.cluster = Some(secret());
    let store = Arc::clone(&world.store) as Arc<dyn Store>;
    world.peers = Arc::new(Forwarder::new(Some(secret()), store));
    world
}

/// A node that others reach over the network.
pub(crate) async fn listening(world: &World, name: &str) -> (Server, String) {
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
        seal: None,
        request_id: None,
        body: TxBody::Managed(Payload::parse(&draft, ceilings).unwrap()),
        not_after: None,
        meta: None,
        created_by: None,
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
    let mut bob = payment(1);
    bob["signer"] = json!(BOB);
    // Bob's leader is at an address where nobody listens.
    let gone = world.server_at("gone", &unreachable().await).await;
    gone.create(&bob).await;
    let store = Arc::clone(&world.store) as Arc<dyn Store>;
    let other = ClusterSecret::new(Secret::new("another secret entirely".to_owned()), None);
    for (stranger, same) in [(None, false), (Some(other), false), (Some(secret()), true)] {
        world.peers = Arc::new(Forwarder::new(stranger, Arc::clone(&store)));
        let follower = world.server_at("n2", "http://127.0.0.1:1").await;
        let told = follower.create(&payment(2)).await;
        assert_eq!(told["state"] == "ALLOCATED", same, "{told}");
        assert_eq!(follower.create(&bob).await["state"], "QUEUED");
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
    // A refusal that the cluster's secret has not sealed proves nothing.
    let stranger = Some(ClusterSecret::new(
        Secret::new("another secret entirely".to_owned()),
        None,
    ));
    let stranger = Forwarder::new(stranger, Arc::clone(&world.store) as Arc<dyn Store>);
    let answer = stranger.forward(&url, lane, &new_tx(), within).await;
    assert!(
        matches!(answer, Err(Unforwarded::Unanswered(_))),
        "{answer:?}"
    );
    let unsigned = Forwarder::new(None, Arc::clone(&world.store) as Arc<dyn Store>);
    let answer = unsigned.forward(&url, lane, &new_tx(), within).await;
    assert!(matches!(answer, Err(Unforwarded::NotSent(_))), "{answer:?}");
}

/// What a node sends to another, taken down on its way.
async fn recorded(forwarder: &Forwarder, to: &str) -> (Vec<(String, String)>, String) {
    let tx = new_tx();
    let within = Duration::from_millis(500);
    let calling = forwarder.forward(to, lane_on(1, ALICE), &tx, within);
    taken_down(to, "]}", async { assert!(calling.await.is_err()) }).await
}

/// What a call sends to an address, up to the end of its body; nobody answers it.
pub(crate) async fn taken_down(
    to: &str,
    end: &str,
    calling: impl Future<Output = ()>,
) -> (Vec<(String, String)>, String) {
    let at = to.trim_start_matches("http://");
    let wire = TcpListener::bind(at).await.unwrap();
    let taking = async {
        let (mut stream, _) = wire.accept().await.unwrap();
        let mut bytes = Vec::new();
        loop {
            stream.read_buf(&mut bytes).await.unwrap();
            let text = String::from_utf8(bytes.clone()).unwrap();
            if let Some((head, body)) = text.split_once("\r\n\r\n")
                && body.ends_with(end)
            {
                return (head.to_owned(), body.to_owned());
            }
        }
    };
    let ((), (head, body)) = tokio::join!(calling, taking);
    let lines = head
        .lines()
        .skip(1)
        .filter_map(|line| line.split_once(": "));
    let headers = lines
        .filter(|(name, _)| name.starts_with("x-fencepost") || *name == "content-type")
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
    (headers.collect(), body)
}

async fn replay(server: &Server, headers: &[(String, String)], body: &str) -> u16 {
    replay_at(server, "/internal/v1/tx", headers, body).await
}

pub(crate) async fn replay_at(
    server: &Server,
    path: &str,
    headers: &[(String, String)],
    body: &str,
) -> u16 {
    let mut request = Request::post(path);
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let request = request.body(Body::from(body.to_owned())).unwrap();
    server.send(request).await.status
}

/// An address at which nobody listens.
pub(crate) async fn unreachable() -> String {
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap();
    format!("http://{}", closed.local_addr().unwrap())
}

/// The door takes each call once, from a node of this cluster, for this node, as it was sealed.
#[tokio::test]
async fn a_call_is_taken_once_by_the_node_it_was_made_for() {
    let world = world();
    let store = Arc::clone(&world.store) as Arc<dyn Store>;
    let forwarder = Forwarder::new(Some(secret()), store);
    let url = unreachable().await;
    let (us, other) = (
        world.server_at("n1", &url).await,
        world.server_at("n2", "http://127.0.0.1:1").await,
    );
    let (headers, body) = recorded(&forwarder, &url).await;
    assert_eq!(replay(&other, &headers, &body).await, 401, "not for it");
    let changed = body.replace("42c0", "43c0");
    assert_ne!(changed, body);
    assert_eq!(replay(&us, &headers, &changed).await, 401, "not its body");
    assert!(us.rows().await.is_empty());
    assert_eq!(
        replay(&us, &headers, &body).await,
        401,
        "its number has been used up"
    );
    let (headers, body) = recorded(&forwarder, &url).await;
    for n in 0..headers.len() {
        let mut without = headers.clone();
        let (name, _) = without.remove(n);
        if name.starts_with("x-fencepost") {
            assert_eq!(replay(&us, &without, &body).await, 401, "without {name}");
        }
    }
    let mut wrong = headers.clone();
    let signature = wrong
        .iter_mut()
        .find(|(name, _)| name.ends_with("signature"));
    signature.unwrap().1 = format!("0x{}", "00".repeat(32));
    assert_eq!(replay(&us, &wrong, &body).await, 401, "not signed");
    assert!(us.rows().await.is_empty());
    assert_eq!(replay(&us, &headers, &body).await, 200);
    assert_eq!(replay(&us, &headers, &body).await, 401, "a second time");
    assert_eq!(us.rows().await.len(), 1);
    let unsigned = us.post("/internal/v1/tx", &json!({})).await;
    assert_eq!(
        (unsigned.status, unsigned.code().as_str()),
        (401, "unauthorized")
    );
}

/// Whoever sits at the leader's address cannot answer for it.
#[tokio::test]
async fn an_answer_without_the_seal_is_none() {
    let world = world();
    let store = Arc::clone(&world.store) as Arc<dyn Store>;
    let forwarder = Forwarder::new(Some(secret()), store);
    let wire = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", wire.local_addr().unwrap());
    let row = r#"[{"verdict":"new","laneId":1,"nonce":7,"wait":null,"at":"2030-01-01T00:00:00Z","token":1}]"#;
    for status in ["200 OK", "401 Unauthorized", "422 Unprocessable Content"] {
        let lie = format!(
            "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nx-fencepost-signature: 0x{}\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{row}",
            "11".repeat(32),
            row.len()
        );
        let tx = new_tx();
        let within = Duration::from_secs(5);
        let calling = forwarder.forward(&url, lane_on(1, ALICE), &tx, within);
        let lying = async {
            let (mut stream, _) = wire.accept().await.unwrap();
            let mut bytes = Vec::new();
            while !bytes.ends_with(b"]}") {
                stream.read_buf(&mut bytes).await.unwrap();
            }
            stream.write_all(lie.as_bytes()).await.unwrap();
            stream
        };
        let (answer, _stream) = tokio::join!(calling, lying);
        assert!(
            matches!(answer, Err(Unforwarded::Unanswered(_))),
            "{status}: {answer:?}"
        );
    }
}

fn batch(count: u64) -> Value {
    json!({ "requests": (0..count).map(payment).collect::<Vec<_>>() })
}

async fn told(server: &Server, batch: &Value) -> Vec<Value> {
    let reply = server.post("/api/v1/tx/batch", batch).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    let results = reply.json()["results"].as_array().unwrap().clone();
    let transaction = |result: Value| result["transaction"].clone();
    results.into_iter().map(transaction).collect()
}

#[tokio::test]
async fn a_batch_through_a_node_that_does_not_lead_keeps_its_order() {
    let world = world();
    let (leader, _) = listening(&world, "n1").await;
    let (follower, _) = listening(&world, "n2").await;
    leader.create(&payment(0)).await;
    for round in 0..3 {
        for (n, tx) in told(&follower, &batch(100)).await.into_iter().enumerate() {
            assert_eq!(tx["payload"]["value"], n.to_string());
            assert_eq!(tx["nonce"], 1 + round * 100 + n, "{tx}");
        }
    }
}

#[tokio::test]
async fn a_batch_for_a_leader_that_is_gone_keeps_its_order_in_the_queue() {
    let mut world = world();
    world.settings.lease.duration = Duration::from_secs(3);
    world.settings.renew_interval = Duration::from_millis(500);
    let gone = world.server_at("n1", &unreachable().await).await;
    gone.create(&payment(0)).await;
    let (follower, _) = listening(&world, "n2").await;
    // It cannot be reached and leads on, so what waits is given its nonces by it, from the queue.
    let waiting = told(&follower, &batch(100)).await;
    assert!(
        waiting.iter().all(|tx| tx["state"] == "QUEUED"),
        "{waiting:?}"
    );
    for (n, tx) in waiting.iter().enumerate() {
        let path = format!("/api/v1/tx/{}", tx["txId"].as_str().unwrap());
        let nonce = async {
            loop {
                let now = follower.get(&path).await.json();
                if let Some(nonce) = now["nonce"].as_u64() {
                    return nonce;
                }
                tokio::task::yield_now().await;
            }
        };
        let nonce = timeout(Duration::from_secs(30), nonce).await.unwrap();
        assert_eq!(usize::try_from(nonce).unwrap(), 1 + n);
    }
}
