//! Answers of something that is not a node, or of a node of another version.

use fencepost_client::{Client, Code, Error, State, SubState};
use serde_json::json;
use uuid::Uuid;

use super::server::{Server, Step, payment, problem_json, quick, stored, transaction};

fn html(status: u16) -> Step {
    Step::Bare(
        status,
        ("content-type", "text/html".into()),
        "<html>\u{1b}[2J".into(),
    )
}

#[tokio::test]
async fn a_proxys_page_is_told_for_what_it_is() {
    let server = Server::start(|_| html(404)).await;
    let error = server.client().send(&payment()).await.unwrap_err();
    assert_eq!(server.count(), 1);
    assert!(
        matches!(error, Error::Garbled { status: 404, .. }),
        "{error}"
    );
    // Nothing in it reaches a terminal as a command, and nothing is proven by it.
    assert!(!error.to_string().contains('\u{1b}'), "{error}");
    assert!(error.outcome_unknown());
}

#[tokio::test]
async fn a_proxy_that_says_not_now_is_asked_again() {
    for status in [429, 502, 503, 504] {
        let server = Server::steps([html(status), stored(202)]).await;
        server.client().send(&payment()).await.unwrap();
        assert_eq!(server.count(), 2);
    }
}

#[tokio::test]
async fn an_answer_that_cannot_be_read_may_be_of_what_was_done() {
    let server = Server::start(|_| Step::Say(202, json!({ "txId": 7 }))).await;
    let error = server.client().send(&payment()).await.unwrap_err();
    assert!(
        matches!(error, Error::Garbled { status: 202, .. }),
        "{error}"
    );
    assert!(error.outcome_unknown() && !error.is_retryable());
    assert_eq!(server.count(), 1);
}

#[tokio::test]
async fn an_answer_beyond_the_bound_is_not_kept() {
    let server = Server::start(|_| stored(200)).await;
    let client = Client::builder().node(&server.url).answer_bytes_max(100);
    let client = client.retry(quick()).build().unwrap();
    let error = client.transaction(Uuid::nil()).await.unwrap_err();
    assert!(matches!(error, Error::Garbled { .. }), "{error}");
}

#[tokio::test]
async fn words_and_fields_of_a_newer_server_break_nothing() {
    let server = Server::start(|_| {
        let mut told = transaction("PARKED");
        told["subState"] = json!("BY_MOONLIGHT");
        told["phaseOfTheMoon"] = json!({ "full": true });
        Step::Say(200, told)
    })
    .await;
    let told = server.client().transaction(Uuid::nil()).await.unwrap();
    assert_eq!(told.state, State::Other("PARKED".into()));
    assert_eq!(told.state.to_string(), "PARKED");
    assert_eq!(told.sub_state, Some(SubState::Other("BY_MOONLIGHT".into())));
    assert!(!told.is_final());
    let server = Server::start(|_| Step::Say(409, problem_json(409, "eclipsed"))).await;
    let error = server.client().transaction(Uuid::nil()).await.unwrap_err();
    assert_eq!(error.code(), Some(&Code::Other("eclipsed".into())));
}

#[tokio::test]
async fn a_refusal_is_told_whole() {
    let server = Server::start(|_| {
        let mut problem = problem_json(422, "invalid_request");
        problem["errors"] = json!([{ "field": "payload.to", "detail": "is not an address" }]);
        problem["requestId"] = json!("a");
        problem["txId"] = json!(Uuid::max());
        Step::Bare(422, ("x-request-id", "log-1".into()), problem.to_string())
    })
    .await;
    let error = server.client().send(&payment()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "422 invalid_request: No.; payload.to is not an address"
    );
    let problem = error.problem().unwrap();
    assert_eq!(problem.errors[0].field, "payload.to");
    assert_eq!(problem.tx_id, Some(Uuid::max()));
    assert_eq!(problem.request_id.as_deref(), Some("a"));
    assert_eq!(problem.log_id.as_deref(), Some("log-1"));
}
