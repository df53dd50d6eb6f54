//! Whether something may have been done although the call came to nothing. Wrong here means paying twice.

use fencepost_client::{Code, Error};
use uuid::Uuid;

use super::server::{Server, Step, payment, problem};

async fn refused(steps: impl IntoIterator<Item = Step>) -> Error {
    let server = Server::steps(steps).await;
    server.client().send(&payment()).await.unwrap_err()
}

#[tokio::test]
async fn a_refusal_after_a_try_that_was_not_answered_leaves_it_open() {
    let unanswered = [
        Step::Cut,
        problem(504, "outcome_unknown"),
        Step::Bare(502, ("via", "a proxy".into()), "<html>".into()),
        Step::Bare(503, ("via", "a proxy".into()), "<html>".into()),
    ];
    for first in unanswered {
        let said = format!("{first:?}");
        let error = refused([first, problem(423, "signer_paused")]).await;
        assert_eq!(error.code(), Some(&Code::SignerPaused), "{said}");
        assert!(error.outcome_unknown(), "{said}");
        assert_eq!((error.tries().made, error.tries().unanswered), (2, 1));
    }
}

#[tokio::test]
async fn a_refusal_after_refusals_is_the_truth() {
    let error = refused([
        problem(503, "overloaded"),
        problem(429, "rate_limited"),
        problem(409, "not_leader"),
        problem(423, "signer_paused"),
    ])
    .await;
    assert!(!error.outcome_unknown());
    assert_eq!(error.tries().made, 4);
}

#[tokio::test]
async fn an_id_that_is_another_requests_cannot_be_ours_as_well() {
    let error = refused([Step::Cut, problem(409, "idempotency_conflict")]).await;
    assert!(!error.outcome_unknown());
}

#[tokio::test]
async fn a_mistake_of_the_server_leaves_it_open_and_is_not_repeated() {
    let error = refused([problem(500, "internal_error")]).await;
    assert!(error.outcome_unknown() && !error.is_retryable());
}

#[tokio::test]
async fn a_read_leaves_nothing_open() {
    let server = Server::start(|_| Step::Cut).await;
    let error = server.client().transaction(Uuid::nil()).await.unwrap_err();
    assert!(matches!(error, Error::Cut { .. }), "{error}");
    assert_eq!(server.count(), 5);
    assert!(!error.outcome_unknown());
}
