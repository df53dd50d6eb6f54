//! Batches: each request has its own result, and only those that can still go well are sent again.

use fencepost_client::{BATCH_MAX, Code, Error};
use serde_json::{Value, json};

use super::server::{Seen, Server, Step, payment, problem, problem_json, transaction};

fn results(all: &[Value]) -> Step {
    Step::Say(200, json!({ "results": all }))
}

fn stored(status: u16) -> Value {
    json!({ "status": status, "transaction": transaction("ALLOCATED") })
}

fn refused(status: u16, code: &str) -> Value {
    json!({ "status": status, "problem": problem_json(status, code) })
}

fn ids(seen: &Seen) -> Vec<String> {
    let body = seen.json();
    let requests = body["requests"].as_array().unwrap();
    let id = |request: &Value| request["requestId"].as_str().unwrap().to_owned();
    requests.iter().map(id).collect()
}

#[tokio::test]
async fn only_what_was_refused_for_a_passing_cause_is_sent_again_in_order() {
    let server = Server::steps([
        Step::Cut,
        results(&[
            refused(503, "overloaded"),
            stored(202),
            refused(422, "invalid_request"),
            refused(504, "outcome_unknown"),
        ]),
        results(&[stored(202), refused(503, "overloaded")]),
        results(&[stored(200)]),
    ])
    .await;
    let requests: Vec<_> = (0..4).map(|_| payment()).collect();
    let all = server.client().send_batch(&requests).await.unwrap();
    let id = |at: usize| requests[at].request_id().to_owned();
    let seen = server.seen();
    assert_eq!(ids(&seen[0]), [id(0), id(1), id(2), id(3)]);
    assert_eq!(seen[0].text, seen[1].text);
    assert_eq!(ids(&seen[2]), [id(0), id(3)]);
    assert_eq!(ids(&seen[3]), [id(3)]);
    let known: Vec<_> = all
        .iter()
        .map(|each| each.as_ref().ok().map(|accepted| accepted.was_known))
        .collect();
    assert_eq!(known, [Some(false), Some(false), None, Some(true)]);
    let invalid = all[2].as_ref().unwrap_err();
    assert_eq!(invalid.code(), Some(&Code::InvalidRequest));
}

#[tokio::test]
async fn a_request_that_was_once_open_stays_open_until_it_is_answered() {
    let mut asked = 0;
    let server = Server::start(move |seen| {
        asked += 1;
        let first = ["outcome_unknown", "overloaded"];
        let code = if asked == 1 { first[0] } else { first[1] };
        let status = if asked == 1 { 504 } else { 503 };
        let mut all = vec![refused(status, code)];
        if ids(seen).len() == 2 {
            all.push(refused(503, "overloaded"));
        }
        results(&all)
    })
    .await;
    let all = server
        .client()
        .send_batch(&[payment(), payment()])
        .await
        .unwrap();
    let (open, closed) = (all[0].as_ref().unwrap_err(), all[1].as_ref().unwrap_err());
    assert_eq!(open.code(), Some(&Code::Overloaded));
    assert!(open.outcome_unknown() && !closed.outcome_unknown());
    assert_eq!(server.count(), 5);
}

#[tokio::test]
async fn what_is_known_is_told_even_if_the_rest_cannot_be_asked_again() {
    let first = results(&[stored(202), refused(503, "overloaded")]);
    let mut steps = vec![Step::Cut, Step::Cut, Step::Cut, Step::Cut, Step::Cut, first];
    let server = Server::start(move |_| steps.pop().unwrap_or(problem(422, "too_many"))).await;
    let all = server
        .client()
        .send_batch(&[payment(), payment()])
        .await
        .unwrap();
    assert!(all[0].is_ok());
    let error = all[1].as_ref().unwrap_err();
    assert_eq!(error.code(), Some(&Code::Overloaded));
    assert!(error.outcome_unknown());
    assert_eq!(error.tries().made, 6);
}

#[tokio::test]
async fn an_answer_with_another_number_of_results_is_none() {
    let server = Server::start(|_| results(&[stored(202)])).await;
    let error = server
        .client()
        .send_batch(&[payment(), payment()])
        .await
        .unwrap_err();
    assert!(
        matches!(error, Error::Garbled { status: 200, .. }),
        "{error}"
    );
    assert!(error.outcome_unknown());
}

#[tokio::test]
async fn too_many_and_none_are_not_sent() {
    let server = Server::steps([]).await;
    let many = vec![payment(); BATCH_MAX + 1];
    let error = server.client().send_batch(&many).await.unwrap_err();
    assert!(matches!(error, Error::Unsendable(_)), "{error}");
    assert!(server.client().send_batch(&[]).await.unwrap().is_empty());
    assert_eq!(server.count(), 0);
}
