//! Following one transaction.

use std::time::Duration;

use fencepost_client::{State, Until, WaitError};
use uuid::Uuid;

use super::server::{Server, Step, problem, transaction};

const LONG: Duration = Duration::from_secs(30);

fn at(state: &str) -> Step {
    Step::Say(200, transaction(state))
}

#[tokio::test]
async fn a_transaction_is_followed_to_its_end_through_outages() {
    let mut steps = vec![
        at("CONFIRMED"),
        at("TRACKING"),
        at("STUCK"),
        at("ALLOCATED"),
    ];
    steps.extend([problem(503, "overloaded"), Step::Cut, at("QUEUED")]);
    let server = Server::start(move |_| steps.pop().unwrap()).await;
    let ended = server
        .client()
        .wait(Uuid::nil(), Until::Final, LONG)
        .await
        .unwrap();
    assert_eq!(ended.state, State::Confirmed);
    assert!(ended.has_succeeded());
    assert_eq!(server.count(), 7);
}

#[tokio::test]
async fn one_that_is_stuck_ends_the_wait_of_those_who_ask_for_it() {
    let server = Server::steps([at("TRACKING"), at("STUCK")]).await;
    let client = server.client();
    let waited = client.wait(Uuid::nil(), Until::FinalOrStuck, LONG).await;
    assert_eq!(waited.unwrap().state, State::Stuck);
}

#[tokio::test]
async fn a_wait_ends_with_its_time_and_tells_what_it_saw() {
    let server = Server::start(|_| at("TRACKING")).await;
    let within = Duration::from_millis(300);
    let error = server
        .client()
        .wait(Uuid::nil(), Until::InBlock, within)
        .await
        .unwrap_err();
    match error {
        WaitError::TooLong { last, .. } => assert_eq!(last.unwrap().state, State::Tracking),
        WaitError::Unread(error) => panic!("{error}"),
    }
    let server = Server::start(|_| Step::Hang).await;
    let error = server
        .client()
        .wait(Uuid::nil(), Until::Final, within)
        .await
        .unwrap_err();
    assert!(
        matches!(error, WaitError::TooLong { last: None, .. }),
        "{error}"
    );
}

#[tokio::test]
async fn what_is_not_there_is_not_waited_for() {
    let server = Server::start(|_| problem(404, "not_found")).await;
    let error = server
        .client()
        .wait(Uuid::nil(), Until::Final, LONG)
        .await
        .unwrap_err();
    match error {
        WaitError::Unread(error) => assert!(error.is_not_found()),
        WaitError::TooLong { .. } => panic!("{error}"),
    }
    assert_eq!(server.count(), 1);
}
