//! The feed: no number is skipped, and a reader that was overtaken by a failover is told.

use std::time::Duration;

use fencepost_client::{Client, FeedError, Position, Retry, State};
use serde_json::{Value, json};

use super::server::{ALICE, Server, Step, problem, quick};

fn completion(seq: u64) -> Value {
    json!({
        "seq": seq, "txId": "01890000-0000-7000-8000-000000000001", "kind": "managed", "chain": "main",
        "signer": ALICE, "requestId": null, "nonce": seq, "state": "CONFIRMED", "subState": null,
        "txHash": null, "blockNumber": 5, "at": "2026-01-01T00:00:00Z", "corrects": null,
    })
}

fn stretch(seqs: &[u64], next: u64, epoch: u64) -> Step {
    let completions: Vec<Value> = seqs.iter().map(|seq| completion(*seq)).collect();
    Step::Say(
        200,
        json!({ "completions": completions, "next": next, "epoch": epoch }),
    )
}

#[tokio::test]
async fn stretches_follow_on_each_other_and_empty_ones_stay() {
    let server = Server::steps([
        stretch(&[1, 2], 2, 1),
        stretch(&[], 2, 1),
        problem(503, "store_unavailable"),
        stretch(&[3], 3, 1),
    ])
    .await;
    let wait = Duration::from_secs(60);
    let mut feed = server
        .client()
        .completions(0)
        .sees_all()
        .limit(9_999)
        .wait(wait);
    let first = feed.next().await.unwrap();
    assert_eq!(first.completions[1].seq, 2);
    assert_eq!(first.completions[1].state, State::Confirmed);
    let position = Position {
        after: 2,
        epoch: Some(1),
    };
    assert_eq!((first.position, feed.position()), (position, position));
    assert!(feed.next().await.unwrap().completions.is_empty());
    assert_eq!(feed.next().await.unwrap().completions[0].seq, 3);
    let asked: Vec<String> = server.seen().into_iter().map(|seen| seen.what).collect();
    let path = |after| format!("GET /api/v1/tx/completions?after={after}&limit=1000&wait=30");
    assert_eq!(asked, [path(0), path(2), path(2), path(2)]);
}

#[tokio::test]
async fn a_missing_number_is_never_passed_over_where_all_are_seen() {
    for (seqs, next) in [
        (&[6, 8][..], 8),
        (&[7], 7),
        (&[5], 5),
        (&[6, 6], 6),
        (&[7, 6], 7),
        (&[6], 7),
        (&[6], 5),
        (&[], 6),
    ] {
        let server = Server::start(move |_| stretch(seqs, next, 1)).await;
        let mut feed = server.client().completions(5).sees_all();
        let error = feed.next().await.unwrap_err();
        assert!(
            matches!(error, FeedError::Broken { .. }),
            "{seqs:?} {error}"
        );
        assert_eq!(feed.position(), Position::from(5));
    }
}

#[tokio::test]
async fn a_key_that_sees_some_gets_on_past_the_others_but_never_back() {
    let server = Server::steps([
        stretch(&[7, 9], 12, 1),
        stretch(&[], 20, 1),
        stretch(&[], 19, 1),
        stretch(&[20], 21, 1),
    ])
    .await;
    let mut feed = server.client().completions(5);
    assert_eq!(feed.next().await.unwrap().position.after, 12);
    assert_eq!(feed.next().await.unwrap().position.after, 20);
    for _ in 0..2 {
        let error = feed.next().await.unwrap_err();
        assert!(
            matches!(
                error,
                FeedError::Broken {
                    expected_after: 20,
                    ..
                }
            ),
            "{error}"
        );
        assert_eq!(feed.position().after, 20);
    }
}

#[tokio::test]
async fn a_feed_that_lost_its_end_is_told_and_the_reader_stays() {
    let server = Server::start(|_| problem(410, "feed_reset")).await;
    let mut feed = server.client().completions(50);
    let error = feed.next().await.unwrap_err();
    assert!(
        matches!(
            error,
            FeedError::Reset {
                problem: Some(_),
                ..
            }
        ),
        "{error}"
    );
    assert_eq!((server.count(), feed.position().after), (1, 50));
}

#[tokio::test]
async fn a_feed_that_lost_its_end_and_grew_again_is_told_by_its_epoch() {
    let server = Server::start(|_| stretch(&[6], 6, 2)).await;
    let stored = Position {
        after: 5,
        epoch: Some(1),
    };
    let mut feed = server.client().completions(stored);
    let error = feed.next().await.unwrap_err();
    assert!(
        matches!(error, FeedError::Reset { epoch: Some(2), .. }),
        "{error}"
    );
    assert_eq!(feed.position(), stored);
    // Whoever begins anew takes the new epoch for granted.
    assert_eq!(
        server
            .client()
            .completions(5)
            .next()
            .await
            .unwrap()
            .position
            .epoch,
        Some(2)
    );
}

#[tokio::test]
async fn a_long_wait_is_not_cut_by_a_short_patience() {
    let late = Box::new(stretch(&[1], 1, 1));
    let server = Server::start(move |_| Step::Late(Duration::from_millis(500), late.clone())).await;
    let retry = Retry {
        total: Duration::from_millis(100),
        ..quick()
    };
    let builder = Client::builder().node(&server.url).retry(retry);
    let builder = builder.request_timeout(Duration::from_millis(100));
    let client = builder.build().unwrap();
    let mut feed = client.completions(0).wait(Duration::from_secs(20));
    assert_eq!(feed.next().await.unwrap().completions.len(), 1);
    assert_eq!(server.count(), 1);
}
