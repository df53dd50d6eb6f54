//! What nodes say to each other beside payments: nonces to lend or to use up, and that something was
//! written for a lane.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fencepost_app::lifecycle::accept::Verdict;
use fencepost_app::ports::{
    Body, Key, Loan, NewTx, Peers, Record, Settle, SettleAct, Settled, Store, Unforwarded,
};
use fencepost_domain::ids::{LockToken, Nonce, RequestId, TxId};
use fencepost_domain::request::Meta;
use fencepost_http::{ClusterSecret, Forwarder, Secret};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::timeout;
use uuid::Uuid;

use super::chain_steps::id;
use super::forwarding::{listening, replay_at, secret, taken_down, unreachable, world};
use super::world::{ALICE, Server, TO, World, lane_on, payment};

const WITHIN: Duration = Duration::from_secs(5);

fn forwarder(world: &World) -> Forwarder {
    Forwarder::new(Some(secret()), Arc::clone(&world.store) as Arc<dyn Store>)
}

fn new_tx(name: &str, body: Body) -> NewTx {
    NewTx {
        tx: TxId(Uuid::now_v7()),
        seal: None,
        request_id: Some(RequestId::new(name).unwrap()),
        body,
        not_after: None,
        meta: Some(Meta::new(r#"{"count":2}"#).unwrap()),
        created_by: None,
    }
}

fn loan() -> Body {
    Body::Reserved(Loan {
        lock: LockToken(Uuid::new_v4()),
        ttl: Duration::from_secs(60),
        grace: Duration::from_secs(30),
    })
}

async fn stored(server: &Server, tx: TxId) -> Record {
    server.store.find(&Key::Id(tx)).await.unwrap().unwrap()
}

#[tokio::test]
async fn a_nonce_is_lent_through_another_node_and_told_as_it_is_stored() {
    let world = world();
    let (leader, url) = listening(&world, "n1").await;
    leader.create(&payment(1)).await;
    let (lane, forwarder) = (lane_on(1, ALICE), forwarder(&world));
    let tx = new_tx("a", loan());
    let answer = forwarder.forward(&url, lane, &tx, WITHIN).await.unwrap();
    let Verdict::New(told) = answer else {
        panic!("{answer:?}");
    };
    // What was told without reading it is what is stored, the lock of the accepting node in it.
    assert_eq!(*told, stored(&leader, tx.tx).await);
    assert_eq!(told.state.nonce(), Some(Nonce::new(1).unwrap()));
    let Body::Reserved(loan) = tx.body else {
        unreachable!("it was made of a loan")
    };
    assert_eq!(told.reservation.map(|held| held.lock), Some(loan.lock));
    // The same name with another lock is the same reservation, with the first lock.
    let again = NewTx {
        tx: TxId(Uuid::now_v7()),
        ..new_tx("a", self::loan())
    };
    let answer = forwarder.forward(&url, lane, &again, WITHIN).await;
    assert_eq!(answer.unwrap(), Verdict::Known(told));
}

#[tokio::test]
async fn a_nonce_is_used_up_through_another_node() {
    let world = world();
    let (leader, url) = listening(&world, "n1").await;
    let first = leader.create(&payment(1)).await;
    leader.create(&payment(2)).await;
    leader.reject(id(&first)).await;
    let tx = new_tx("fill", Body::Placeholder(Nonce::ZERO));
    let forwarding = forwarder(&world);
    let answer = forwarding.forward(&url, lane_on(1, ALICE), &tx, WITHIN);
    let answer = answer.await.unwrap();
    let Verdict::New(told) = answer else {
        panic!("{answer:?}");
    };
    assert_eq!(*told, stored(&leader, tx.tx).await);
    assert_eq!(told.state.nonce(), Some(Nonce::ZERO));
}

/// The leader's memory says that no nonce was given back. Only one that was told looks again.
#[tokio::test]
async fn a_leader_that_is_told_sees_at_once_what_another_node_has_written() {
    let world = world();
    let (leader, url) = listening(&world, "n1").await;
    let (lane, forwarder) = (lane_on(1, ALICE), forwarder(&world));
    let tx = new_tx("a", loan());
    forwarder.forward(&url, lane, &tx, WITHIN).await.unwrap();
    assert_eq!(leader.create(&payment(1)).await["nonce"], 1);
    let lock = stored(&leader, tx.tx).await.reservation.unwrap().lock;
    let call = Settle {
        reservation: tx.tx,
        lock,
        act: SettleAct::Recycle,
    };
    let (follower, _) = listening(&world, "n2").await;
    let settled = follower.node.settle_loan(lane, &call).await.unwrap();
    assert!(matches!(settled, Settled::Done(_)), "{settled:?}");
    assert_eq!(leader.create(&payment(2)).await["nonce"], 0);
}

#[tokio::test]
async fn a_nudge_is_taken_once_from_a_node_of_this_cluster_for_this_node() {
    let world = world();
    let url = unreachable().await;
    let us = world.server_at("n1", &url).await;
    let other = world.server_at("n2", "http://127.0.0.1:1").await;
    let forwarder = forwarder(&world);
    let recorded = async || {
        let within = Duration::from_millis(300);
        let calling = forwarder.nudge(&url, lane_on(1, ALICE), within);
        let failed = async {
            let answer = calling.await;
            assert!(
                matches!(answer, Err(Unforwarded::Unanswered(_))),
                "{answer:?}"
            );
        };
        taken_down(&url, "\"}", failed).await
    };
    let nudge = "/internal/v1/nudge";
    let (headers, body) = recorded().await;
    assert_eq!(replay_at(&other, nudge, &headers, &body).await, 401);
    // A seal is good for what it was made for.
    let elsewhere = replay_at(&us, "/internal/v1/tx", &headers, &body).await;
    assert_eq!(elsewhere, 401);
    assert_eq!(replay_at(&us, nudge, &headers, &body).await, 200);
    assert_eq!(replay_at(&us, nudge, &headers, &body).await, 401, "again");
    let (headers, body) = recorded().await;
    let changed = body.replace("\"chainId\":1", "\"chainId\":2");
    assert_ne!(changed, body);
    assert_eq!(replay_at(&us, nudge, &headers, &changed).await, 401);
    for n in 0..headers.len() {
        let mut without = headers.clone();
        let (name, _) = without.remove(n);
        if name.starts_with("x-fencepost") {
            assert_eq!(replay_at(&us, nudge, &without, &body).await, 401, "{name}");
        }
    }
    let long = format!("{}{body}", " ".repeat(1024));
    let (headers, _) = recorded().await;
    assert_eq!(replay_at(&us, nudge, &headers, &long).await, 413);
    assert_eq!(us.post(nudge, &serde_json::json!({})).await.status, 401);
    let alone = World::new().server().await;
    assert_eq!(alone.post(nudge, &serde_json::json!({})).await.status, 404);
}

#[tokio::test]
async fn a_node_without_that_lane_is_nudged_in_vain_and_says_nothing() {
    let world = world();
    let (_leader, url) = listening(&world, "n1").await;
    let forwarder = forwarder(&world);
    forwarder.nudge(&url, lane_on(1, TO), WITHIN).await.unwrap();
    forwarder
        .nudge(&url, lane_on(7, ALICE), WITHIN)
        .await
        .unwrap();
    let stranger = ClusterSecret::new(Secret::new("another secret entirely".to_owned()), None);
    let store = Arc::clone(&world.store) as Arc<dyn Store>;
    let stranger = Forwarder::new(Some(stranger), Arc::clone(&store));
    let answer = stranger.nudge(&url, lane_on(1, ALICE), WITHIN).await;
    assert!(
        matches!(answer, Err(Unforwarded::Unanswered(_))),
        "{answer:?}"
    );
    let alone = Forwarder::new(None, store);
    let answer = alone.nudge(&url, lane_on(1, ALICE), WITHIN).await;
    assert!(matches!(answer, Err(Unforwarded::NotSent(_))), "{answer:?}");
}

/// A leader that hangs is called once, and once more for all that came meanwhile; its own lane's callers
/// do not wait behind it.
#[tokio::test]
async fn a_crowd_of_nudges_for_one_lane_costs_two_calls() {
    let world = world();
    let wire = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", wire.local_addr().unwrap());
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let (release, held) = tokio::sync::watch::channel(false);
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = wire.accept().await.unwrap();
            let (counted, mut held) = (Arc::clone(&counted), held.clone());
            tokio::spawn(async move {
                let mut bytes = Vec::new();
                while !bytes.ends_with(b"\"}") {
                    stream.read_buf(&mut bytes).await.unwrap();
                }
                counted.fetch_add(1, Ordering::SeqCst);
                held.wait_for(|free| *free).await.unwrap();
                let no = b"HTTP/1.1 503 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
                stream.write_all(no).await.unwrap();
            });
        }
    });
    let forwarder = Arc::new(forwarder(&world));
    let lane = lane_on(1, ALICE);
    let first = tokio::spawn({
        let (forwarder, url) = (Arc::clone(&forwarder), url.clone());
        async move { forwarder.nudge(&url, lane, WITHIN).await }
    });
    let until = async |count| {
        let reached = async {
            while calls.load(Ordering::SeqCst) < count {
                tokio::task::yield_now().await;
            }
        };
        timeout(WITHIN, reached).await.unwrap();
    };
    until(1).await;
    for _ in 0..100 {
        forwarder.nudge(&url, lane, WITHIN).await.unwrap();
    }
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    release.send(true).unwrap();
    assert!(first.await.unwrap().is_err());
    until(2).await;
    // Another one is told too, by a call of its own or by one more of the task that is about to end.
    let _ = forwarder.nudge(&url, lane, WITHIN).await;
    until(3).await;
    assert_eq!(calls.load(Ordering::SeqCst), 3);
}
