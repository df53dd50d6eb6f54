//! A network that loses answers between the client and a real node: however often a request has to be tried, it
//! is stored once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use fencepost_client::{Client, Filter, Retry};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::world::{ALICE, World, payment};

/// Passes requests on, and closes every connection but each third one when the answer comes. Returns where, and
/// how many answers were lost.
async fn lossy(to: &World) -> (String, Arc<AtomicU32>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let target = to.url.trim_start_matches("http://").to_owned();
    let lost = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&lost);
    tokio::spawn(async move {
        for n in 1_u32.. {
            let (mut client, _) = listener.accept().await.unwrap();
            let (target, counter) = (target.clone(), Arc::clone(&counter));
            tokio::spawn(async move {
                let mut node = TcpStream::connect(target).await.unwrap();
                if n.is_multiple_of(3) {
                    let _ = tokio::io::copy_bidirectional(&mut client, &mut node).await;
                    return;
                }
                let (mut reading, _writing) = client.split();
                let (mut answers, mut requests) = node.split();
                let mut first = [0];
                tokio::select! {
                    _ = tokio::io::copy(&mut reading, &mut requests) => {}
                    // The node has answered, so the request is stored; nobody will hear it.
                    _ = answers.read(&mut first) => { counter.fetch_add(1, Ordering::Relaxed); }
                }
                let _ = client.shutdown().await;
            });
        }
    });
    (url, lost)
}

#[tokio::test]
async fn requests_whose_answers_were_lost_are_stored_once() {
    const COUNT: usize = 40;
    let world = World::new().await;
    let (url, lost) = lossy(&world).await;
    let retry = Retry {
        attempts: 200,
        total: Duration::from_secs(60),
        pause_first: Duration::from_millis(1),
        pause_max: Duration::from_millis(10),
    };
    let client = Client::builder().node(url).retry(retry).build().unwrap();
    let mut sending = JoinSet::new();
    for wei in 1..=20 {
        let client = client.clone();
        sending.spawn(async move { client.send(&payment(wei)).await.unwrap().was_known });
    }
    let batch: Vec<_> = (21..=40).map(payment).collect();
    for result in client.send_batch(&batch).await.unwrap() {
        result.unwrap();
    }
    let known = sending.join_all().await;
    assert!(lost.load(Ordering::Relaxed) > 0);
    assert!(known.contains(&true), "no answer of a create was lost");
    let filter = Filter {
        signer: Some(ALICE),
        limit: Some(1_000),
        ..Filter::default()
    };
    let stored = world
        .client()
        .transactions(&filter)
        .await
        .unwrap()
        .transactions;
    assert_eq!(stored.len(), COUNT);
    let mut nonces: Vec<u64> = stored.iter().filter_map(|tx| tx.nonce).collect();
    nonces.sort_unstable();
    assert_eq!(nonces, (0..40).collect::<Vec<_>>());
}
