//! Several nodes: whichever can be reached is asked.

use fencepost_client::{BuildError, Client, Error};

use super::server::{NOBODY, Server, Step, payment, problem, quick, stored};

fn client(urls: &[&str]) -> Client {
    let builder = Client::builder().nodes(urls.iter().copied());
    builder.retry(quick()).build().unwrap()
}

#[tokio::test]
async fn a_node_that_cannot_be_reached_is_passed_over_at_once() {
    let server = Server::start(|_| stored(202)).await;
    let retry = fencepost_client::Retry::none();
    let builder = Client::builder().nodes([NOBODY, NOBODY, &server.url]);
    let client = builder.retry(retry).build().unwrap();
    // One attempt is enough: passing over is no try again.
    client.send(&payment()).await.unwrap();
    client.send(&payment()).await.unwrap();
    assert_eq!(server.count(), 2);
}

#[tokio::test]
async fn a_node_that_fails_is_left_for_the_next_with_the_same_request() {
    for step in [
        Step::Cut,
        problem(503, "stopping"),
        problem(409, "not_leader"),
    ] {
        let said = format!("{step:?}");
        let bad = Server::start(move |_| step.clone()).await;
        let good = Server::start(|_| stored(202)).await;
        let client = client(&[&bad.url, &good.url]);
        client.send(&payment()).await.unwrap();
        assert_eq!(bad.seen()[0].text, good.seen()[0].text, "{said}");
        // And it is not asked again while the other does well.
        client.send(&payment()).await.unwrap();
        assert_eq!((bad.count(), good.count()), (1, 2), "{said}");
    }
}

#[tokio::test]
async fn a_key_that_asks_too_often_does_not_ask_elsewhere() {
    let busy = Server::steps([problem(429, "rate_limited"), stored(202)]).await;
    let other = Server::start(|_| stored(202)).await;
    client(&[&busy.url, &other.url])
        .send(&payment())
        .await
        .unwrap();
    assert_eq!((busy.count(), other.count()), (2, 0));
}

#[tokio::test]
async fn where_no_node_can_be_reached_nothing_was_sent() {
    let error = client(&[NOBODY, NOBODY])
        .send(&payment())
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
    assert!(error.is_retryable() && !error.outcome_unknown());
    // Five rounds over two nodes.
    assert_eq!(error.tries().made, 10);
}

#[tokio::test]
async fn the_key_is_sent_and_never_shown() {
    let server = Server::start(|_| stored(202)).await;
    let builder = Client::builder().node(&server.url).api_key("hunter2");
    assert!(!format!("{builder:?}").contains("hunter2"));
    let client = builder.build().unwrap();
    assert!(!format!("{client:?}").contains("hunter2"), "{client:?}");
    client.send(&payment()).await.unwrap();
    assert_eq!(server.seen()[0].key.as_deref(), Some("Bearer hunter2"));
    let bad = Client::builder().node(&server.url).api_key("a\nb").build();
    assert!(matches!(bad, Err(BuildError::Key)));
}

#[tokio::test]
async fn a_redirect_is_not_followed_with_the_key() {
    let elsewhere = Server::start(|_| stored(202)).await;
    let to = elsewhere.url.clone();
    let server =
        Server::start(move |_| Step::Bare(307, ("location", to.clone()), String::new())).await;
    let builder = Client::builder().node(&server.url).api_key("hunter2");
    let error = builder.build().unwrap().send(&payment()).await.unwrap_err();
    assert!(
        matches!(error, Error::Garbled { status: 307, .. }),
        "{error}"
    );
    assert_eq!((server.count(), elsewhere.count()), (1, 0));
}
