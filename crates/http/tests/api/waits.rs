//! Answers that wait until transactions have come to a point. The moves are made on the store by hand, as another node
//! would make them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use fencepost_app::ports::{StoreError, Watcher};
use fencepost_domain::attempt::SignedFees;
use fencepost_domain::ids::TxId;
use futures::future::join_all;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::chain_steps::{hash, id};
use super::sabotage::{Fault, Sabotage};
use super::world::{Server, World, named, payment};

const FEES: SignedFees = SignedFees {
    max_fee: 70,
    max_priority_fee: Some(7),
};

async fn after(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

/// The id of the one row there is, once it is there.
async fn only(server: &Server) -> TxId {
    server.until_stored(1).await;
    server.rows().await[0].tx
}

fn states(reply: &Value) -> Vec<(u64, &str)> {
    let results = reply["results"].as_array().unwrap();
    results
        .iter()
        .map(|result| {
            let state = result["transaction"]["state"].as_str();
            (result["status"].as_u64().unwrap(), state.unwrap_or("none"))
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn each_wrong_value_is_told_and_nothing_is_stored() {
    let server = World::new().server().await;
    let known = id(&server.create(&payment(1)).await);
    for (query, field) in [
        ("wait=sent", "wait"),
        ("wait=SIGNED", "wait"),
        ("wait=", "wait"),
        ("wait=10", "wait"),
        ("wait=signed&wait=mined", "wait"),
        ("waitSeconds=5", "waitSeconds"),
        ("wait=signed&waitSeconds=31", "waitSeconds"),
        ("wait=signed&waitSeconds=-1", "waitSeconds"),
        ("wait=signed&waitSeconds=1.5", "waitSeconds"),
        ("wait=signed&waitSeconds=", "waitSeconds"),
        ("wait=signed&waitSeconds=ten", "waitSeconds"),
        ("wait=signed&waitSeconds=1&waitSeconds=2", "waitSeconds"),
        ("wait=signed&until=1", "until"),
    ] {
        let batch = json!({ "requests": [payment(2)] });
        for reply in [
            server
                .post(&format!("/api/v1/tx?{query}"), &payment(2))
                .await,
            server
                .post(&format!("/api/v1/tx/batch?{query}"), &batch)
                .await,
            server.get(&format!("/api/v1/tx/{known}?{query}")).await,
        ] {
            assert_eq!(reply.status, 422, "{query}: {}", reply.text());
            assert_eq!(reply.fields(), [field], "{query}: {}", reply.text());
        }
    }
    assert_eq!(server.rows().await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_create_is_answered_as_soon_as_it_is_signed() {
    let server = World::new().server().await;
    let began = Instant::now();
    let body = payment(1);
    let create = server.post("/api/v1/tx?wait=signed&waitSeconds=30", &body);
    let signing = async {
        after(3).await;
        server.sign(only(&server).await, 7, FEES).await;
    };
    let (reply, ()) = tokio::join!(create, signing);
    let told = reply.json();
    assert_eq!(reply.status, 202);
    assert_eq!(told["subState"], "SIGNED", "{told}");
    assert_eq!(told["txHash"], hash(7).to_string());
    assert_eq!(began.elapsed().as_secs(), 3);
}

#[tokio::test(start_paused = true)]
async fn what_has_reached_the_point_already_is_answered_at_once() {
    let server = World::new().server().await;
    let began = Instant::now();
    let reply = server.post("/api/v1/tx?wait=allocated", &payment(1)).await;
    let told = reply.json();
    assert_eq!((reply.status, &told["nonce"]), (202, &json!(0)));
    let tx = id(&told);
    server.confirm(tx, 7).await;
    for point in ["allocated", "signed", "submitted", "mined", "final"] {
        let told = server.get(&format!("/api/v1/tx/{tx}?wait={point}")).await;
        assert_eq!(told.json()["state"], "CONFIRMED", "{point}");
    }
    assert!(began.elapsed() < Duration::from_millis(100));
}

#[tokio::test(start_paused = true)]
async fn a_slow_one_is_answered_as_it_stands_when_the_time_is_over() {
    let mut world = World::new();
    // A wait may be longer than any other answer may take.
    world.limits.request_timeout = Duration::from_secs(5);
    let server = world.server().await;
    for (query, seconds) in [
        ("wait=signed", 10),
        // A load balancer gives up after 30 s.
        ("wait=final&waitSeconds=30", 28),
        ("wait=mined&waitSeconds=0", 0),
    ] {
        let began = Instant::now();
        let reply = server
            .post(&format!("/api/v1/tx?{query}"), &payment(1))
            .await;
        let told = reply.json();
        assert_eq!((reply.status, &told["state"]), (202, &json!("ALLOCATED")));
        assert_eq!(began.elapsed().as_secs(), seconds, "{query}");
        let began = Instant::now();
        let reply = server
            .get(&format!("/api/v1/tx/{}?{query}", id(&told)))
            .await;
        assert_eq!((reply.status, reply.json()), (200, told));
        assert_eq!(began.elapsed().as_secs(), seconds, "{query}");
    }
}

/// Between two looks of the poller: the answer is how it stands, not how it was last seen.
#[tokio::test(start_paused = true)]
async fn the_last_look_is_taken_when_the_time_is_over() {
    let server = World::new().server().await;
    let tx = id(&server.create(&payment(1)).await);
    let path = format!("/api/v1/tx/{tx}?wait=final&waitSeconds=20");
    let signing = async {
        tokio::time::sleep(Duration::from_millis(19_999)).await;
        server.sign(tx, 7, FEES).await;
    };
    let (reply, ()) = tokio::join!(server.get(&path), signing);
    assert_eq!(reply.json()["subState"], "SIGNED");
}

#[tokio::test(start_paused = true)]
async fn a_known_request_waits_like_a_new_one() {
    let server = World::new().server().await;
    let tx = id(&server.create(&named("a", 1)).await);
    let began = Instant::now();
    let body = named("a", 1);
    let again = server.post("/api/v1/tx?wait=signed", &body);
    let signing = async {
        after(2).await;
        server.sign(tx, 7, FEES).await;
    };
    let (reply, ()) = tokio::join!(again, signing);
    assert_eq!((reply.status, id(&reply.json())), (200, tx));
    assert_eq!(reply.json()["txHash"], hash(7).to_string());
    assert_eq!(began.elapsed().as_secs(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_batch_waits_for_every_one_that_is_stored() {
    let server = World::new().server().await;
    let first = id(&server.create(&named("a", 1)).await);
    let began = Instant::now();
    let batch = json!({ "requests": [named("a", 1), { "signer": 7 }, payment(2), named("a", 9)] });
    let sent = server.post("/api/v1/tx/batch?wait=signed&waitSeconds=30", &batch);
    let signing = async {
        after(1).await;
        server.sign(first, 7, FEES).await;
        after(4).await;
        let second = server.rows().await[1].tx;
        server.sign(second, 8, FEES).await;
    };
    let (reply, ()) = tokio::join!(sent, signing);
    let told = reply.json();
    assert_eq!(reply.status, 200);
    let expected = [
        (200, "ALLOCATED"),
        (422, "none"),
        (202, "ALLOCATED"),
        (409, "none"),
    ];
    assert_eq!(states(&told), expected);
    assert_eq!(told["results"][0]["transaction"]["subState"], "SIGNED");
    assert_eq!(told["results"][2]["transaction"]["subState"], "SIGNED");
    assert_eq!(began.elapsed().as_secs(), 5);
    let began = Instant::now();
    let reply = server
        .post("/api/v1/tx/batch?wait=final&waitSeconds=7", &batch)
        .await;
    assert_eq!(states(&reply.json())[2].0, 202);
    assert_eq!(began.elapsed().as_secs(), 7);
}

#[tokio::test(start_paused = true)]
async fn one_that_ends_otherwise_is_waited_for_no_longer() {
    let server = World::new().server().await;
    let tx = id(&server.create(&payment(1)).await);
    let began = Instant::now();
    let path = format!("/api/v1/tx/{tx}?wait=mined&waitSeconds=30");
    let ending = async {
        after(1).await;
        server.reject(tx).await;
    };
    let (reply, ()) = tokio::join!(server.get(&path), ending);
    assert_eq!(reply.json()["subState"], "REJECTED");
    assert_eq!(began.elapsed().as_secs(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_found_is_not_waited_for() {
    let server = World::new().server().await;
    let began = Instant::now();
    let path = "/api/v1/tx/01890a5d-ac96-774b-bcce-b302099a8057?wait=final";
    assert_eq!(server.get(path).await.status, 404);
    assert!(began.elapsed() < Duration::from_millis(100));
}

#[tokio::test(start_paused = true)]
async fn those_who_wait_are_answered_at_once_when_the_node_stops() {
    let server = World::new().server().await;
    let tx = id(&server.create(&payment(1)).await);
    let began = Instant::now();
    let stopping = async {
        after(2).await;
        server.sign(tx, 7, FEES).await;
        server.node.drain();
    };
    let path = format!("/api/v1/tx/{tx}?wait=final&waitSeconds=30");
    let (reply, ()) = tokio::join!(server.get(&path), stopping);
    assert_eq!(
        (reply.status, &reply.json()["subState"]),
        (200, &json!("SIGNED"))
    );
    assert_eq!(began.elapsed().as_secs(), 2);
    let late = server.get(&path).await;
    assert_eq!(late.status, 200);
    assert_eq!(began.elapsed().as_secs(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_goes_away_meanwhile_is_no_error() {
    let (world, sabotage) = Sabotage::world();
    let server = world.server().await;
    let tx = id(&server.create(&payment(1)).await);
    sabotage.fail("find_many", Fault::Away);
    let began = Instant::now();
    let path = format!("/api/v1/tx/{tx}?wait=signed&waitSeconds=5");
    let reply = server.get(&path).await;
    assert_eq!(
        (reply.status, &reply.json()["state"]),
        (200, &json!("ALLOCATED"))
    );
    assert!(began.elapsed() < Duration::from_secs(6));
    // With its last look in vain too, the longest wait is over before a load balancer gives up.
    let began = Instant::now();
    let longest = format!("/api/v1/tx/{tx}?wait=signed&waitSeconds=30");
    assert_eq!(server.get(&longest).await.status, 200);
    let took = began.elapsed();
    assert!(took < Duration::from_millis(29_500), "{took:?}");
    sabotage.repair();
    server.sign(tx, 7, FEES).await;
    assert_eq!(server.get(&path).await.json()["subState"], "SIGNED");
}

/// How many reads for waiting clients run, and ran at once at most.
#[derive(Default)]
struct Reads {
    running: AtomicUsize,
    most: AtomicUsize,
    all: AtomicUsize,
}

#[async_trait]
impl Watcher for Reads {
    async fn before(&self, op: &'static str) -> Result<(), StoreError> {
        if op == "find_many" {
            let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
            self.most.fetch_max(running, Ordering::SeqCst);
            self.all.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        Ok(())
    }

    async fn after(&self, op: &'static str, _: Duration) -> Result<(), StoreError> {
        if op == "find_many" {
            self.running.fetch_sub(1, Ordering::SeqCst);
        }
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_thousand_who_wait_are_read_for_one_statement_at_a_time() {
    let reads = Arc::new(Reads::default());
    let mut world = World::new();
    world.watcher = Some(Arc::clone(&reads) as Arc<dyn Watcher>);
    let server = world.server().await;
    let requests: Vec<Value> = (0..1_000).map(payment).collect();
    let batch = json!({ "requests": requests });
    let told = server.post("/api/v1/tx/batch", &batch).await.json();
    let results = told["results"].as_array().unwrap();
    let ids: Vec<TxId> = results
        .iter()
        .map(|result| id(&result["transaction"]))
        .collect();
    let paths: Vec<String> = ids
        .iter()
        .map(|tx| format!("/api/v1/tx/{tx}?wait=signed&waitSeconds=20"))
        .collect();
    let waiting = join_all(paths.iter().map(|path| server.get(path)));
    let signing = async {
        after(5).await;
        let last = *ids.last().unwrap();
        server.sign(last, 7, FEES).await;
    };
    let began = Instant::now();
    let (replies, ()) = tokio::join!(waiting, signing);
    let signed = replies
        .iter()
        .filter(|reply| reply.json()["subState"] == "SIGNED");
    assert_eq!(signed.count(), 1);
    assert!(replies.iter().all(|reply| reply.status == 200));
    assert!(
        began.elapsed() < Duration::from_secs(21),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(reads.most.load(Ordering::SeqCst), 1);
    // Five statements for all of them, no more often than twice a second once they wait for long.
    let all = reads.all.load(Ordering::SeqCst);
    assert!((50..600).contains(&all), "{all} statements");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_goes_away_changes_nothing() {
    let world = World::new();
    let server = Arc::new(world.server().await);
    let asking = {
        let server = Arc::clone(&server);
        tokio::spawn(async move { server.post("/api/v1/tx?wait=final", &named("a", 1)).await })
    };
    let tx = only(&server).await;
    asking.abort();
    assert!(asking.await.is_err());
    server.confirm(tx, 7).await;
    let again = server.post("/api/v1/tx?wait=final", &named("a", 1)).await;
    assert_eq!((again.status, id(&again.json())), (200, tx));
    assert_eq!(server.rows().await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_waits_in_the_queue_is_waited_for_until_it_has_a_nonce_or_expires() {
    let mut world = World::new();
    world.max_in_flight = Some(1);
    let server = world.server().await;
    let first = id(&server.create(&payment(1)).await);
    let mut body = payment(2);
    body["notAfter"] = json!(world.in_seconds(3));
    let late = server.post("/api/v1/tx?wait=allocated&waitSeconds=30", &body);
    let (late, next) = tokio::join!(late, async {
        after(5).await;
        let body = payment(3);
        let next = server.post("/api/v1/tx?wait=allocated&waitSeconds=30", &body);
        let (next, ()) = tokio::join!(next, async {
            after(1).await;
            server.reject(first).await;
        });
        next
    });
    assert_eq!(late.json()["subState"], "EXPIRED");
    assert_eq!(next.status, 202);
    assert!(next.json()["nonce"].is_u64(), "{}", next.text());
}
