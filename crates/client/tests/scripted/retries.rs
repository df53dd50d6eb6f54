//! What is tried again, and for how long.

use std::time::Duration;

use fencepost_client::{Client, Code, Error, Retry};
use tokio::time::{Instant, timeout};

use super::server::{Server, Step, later, payment, problem, quick, stored};

#[tokio::test]
async fn every_try_of_a_create_is_the_same_request_under_the_id_it_had_before() {
    let steps = [
        problem(504, "outcome_unknown"),
        problem(503, "overloaded"),
        Step::Cut,
        problem(503, "store_unavailable"),
        stored(200),
    ];
    let server = Server::steps(steps).await;
    let request = payment();
    let accepted = server.client().send(&request).await.unwrap();
    assert!(accepted.was_known);
    let seen = server.seen();
    assert_eq!(seen.len(), 5);
    for one in &seen {
        assert_eq!(one.what, "POST /api/v1/tx");
        assert_eq!(one.json()["requestId"], request.request_id());
        assert_eq!(one.text, seen[0].text);
    }
}

#[tokio::test]
async fn a_value_that_is_sent_again_is_the_same_request_and_another_is_not() {
    let server = Server::start(|_| stored(202)).await;
    let (client, request) = (server.client(), payment());
    client.send(&request).await.unwrap();
    client.send(&request.clone()).await.unwrap();
    client.send(&request.another()).await.unwrap();
    let ids: Vec<_> = server
        .seen()
        .iter()
        .map(|one| one.json()["requestId"].clone())
        .collect();
    assert_eq!(ids[0], ids[1]);
    assert_ne!(ids[0], ids[2]);
}

#[tokio::test]
async fn what_does_not_pass_by_itself_is_asked_once() {
    for (status, code) in [
        (400, "malformed"),
        (401, "unauthorized"),
        (403, "forbidden"),
        (404, "unknown_signer"),
        (408, "request_timeout"),
        (409, "idempotency_conflict"),
        (409, "nonces_exhausted"),
        (413, "too_large"),
        (415, "unsupported_media_type"),
        (422, "invalid_request"),
        (422, "preflight_reverted"),
        (423, "signer_paused"),
        (409, "a_code_of_tomorrow"),
    ] {
        let server = Server::start(move |_| problem(status, code)).await;
        let error = server.client().send(&payment()).await.unwrap_err();
        assert_eq!(server.count(), 1, "{code}");
        assert_eq!(error.code(), Some(&Code::from(code)));
        assert!(!error.is_retryable() && !error.outcome_unknown(), "{code}");
    }
}

#[tokio::test]
async fn what_passes_is_asked_as_often_as_the_bounds_say() {
    for (status, code) in [
        (409, "not_leader"),
        (429, "rate_limited"),
        (503, "overloaded"),
        (503, "timed_out"),
        (504, "outcome_unknown"),
        (502, "a_code_of_tomorrow"),
    ] {
        let server = Server::start(move |_| problem(status, code)).await;
        let error = server.client().send(&payment()).await.unwrap_err();
        assert_eq!(server.count(), 5, "{code}");
        assert_eq!(error.tries().made, 5, "{code}");
        assert!(error.is_retryable(), "{code}");
        let client = Client::builder().node(&server.url).retry(Retry::none());
        client.build().unwrap().send(&payment()).await.unwrap_err();
        assert_eq!(server.count(), 6, "{code}");
    }
}

#[tokio::test]
async fn a_node_that_names_a_time_is_not_asked_before_it() {
    let server = Server::steps([later(429, "rate_limited", 1), stored(202)]).await;
    server.client().send(&payment()).await.unwrap();
    let seen = server.seen();
    let between = seen[1].at - seen[0].at;
    assert!(between >= Duration::from_secs(1), "{between:?}");
}

#[tokio::test]
async fn a_time_beyond_the_bound_is_not_waited_for() {
    let server = Server::steps([later(503, "overloaded", 31), stored(202)]).await;
    let began = Instant::now();
    let error = server.client().send(&payment()).await.unwrap_err();
    assert!(began.elapsed() < Duration::from_secs(30));
    assert_eq!(server.count(), 1);
    assert_eq!(error.problem().unwrap().retry_after_seconds, Some(31));
}

#[tokio::test]
async fn all_tries_together_end_with_the_total() {
    let server = Server::start(|_| problem(503, "overloaded")).await;
    let retry = Retry {
        attempts: u32::MAX,
        total: Duration::from_millis(400),
        pause_first: Duration::from_millis(20),
        pause_max: Duration::from_millis(20),
    };
    let client = Client::builder().node(&server.url).retry(retry).build();
    let began = Instant::now();
    let (client, request) = (client.unwrap(), payment());
    let sending = timeout(Duration::from_secs(20), client.send(&request));
    let error = sending.await.unwrap().unwrap_err();
    // The total may also end in the middle of a try.
    assert!(error.is_retryable(), "{error}");
    // No pause begins that would end after the total.
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "{:?}",
        began.elapsed()
    );
    assert!(server.count() > 1);
}

#[tokio::test]
async fn a_try_ends_with_the_total_even_if_its_own_time_is_longer() {
    let server = Server::start(|_| Step::Hang).await;
    let retry = Retry {
        total: Duration::from_millis(300),
        ..quick()
    };
    let client = Client::builder().node(&server.url).retry(retry).build();
    let began = Instant::now();
    let error = client.unwrap().send(&payment()).await.unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "{:?}",
        began.elapsed()
    );
    assert!(error.outcome_unknown());
}

#[tokio::test]
async fn a_try_that_is_not_answered_in_time_is_made_again() {
    let server = Server::steps([Step::Hang, stored(200)]).await;
    let client = Client::builder()
        .node(&server.url)
        .retry(quick())
        .request_timeout(Duration::from_millis(200));
    let accepted = client.build().unwrap().send(&payment()).await.unwrap();
    assert!(accepted.was_known);
    assert_eq!(server.seen()[0].text, server.seen()[1].text);
}
