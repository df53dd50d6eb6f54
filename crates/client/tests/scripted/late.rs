//! The end of a loan: the closure is never begun or left running where the nonce may soon be another's.

use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use alloy_primitives::B256;
use fencepost_client::{Client, Lent, Loan, NonceError, Retry, WithNonceError};
use tokio::time::{Instant, sleep};

use super::nonces::{HASH, but, good, loan, reservation, verb, verbs};
use super::server::{ALICE, Server, Step, problem, quick};

const SECOND: Duration = Duration::from_secs(1);

type Spoken = Result<B256, NonceError<&'static str>>;

/// Lent for a second, of which a quarter is kept free.
fn short() -> Loan {
    loan().ttl(SECOND)
}

/// A client that gives up soon.
fn hasty(server: &Server) -> Client {
    let retry = Retry {
        attempts: 2,
        ..quick()
    };
    let client = Client::builder().node(&server.url).retry(retry);
    client.build().unwrap()
}

#[tokio::test]
async fn a_loan_is_extended_before_the_next_run_once_half_of_it_is_over() {
    let server = Server::start(good).await;
    let loan = loan().ttl(4 * SECOND);
    let lasts = Mutex::new(vec![]);
    let run = async |lent: Lent| -> Spoken {
        lasts.lock().unwrap().push(lent.remaining());
        if lent.run == 1 {
            // More than half of the 3 s that are usable.
            sleep(2 * SECOND).await;
            return Err(NonceError::Retryable("slow"));
        }
        Ok(HASH)
    };
    server.client().with_nonce(ALICE, &loan, run).await.unwrap();
    assert_eq!(verbs(&server), ["reserve", "extend", "submitted"]);
    assert_eq!(server.seen()[1].json()["ttlSeconds"], 4);
    // After the extension there is more time than there would have been without.
    assert!(lasts.lock().unwrap()[1] > SECOND, "{lasts:?}");
}

#[tokio::test]
async fn a_closure_is_not_run_again_past_the_margin() {
    let server = Server::start(but("extend", || problem(503, "store_unavailable"))).await;
    let began = Instant::now();
    let starts = Mutex::new(vec![]);
    let run = async |_: Lent| -> Spoken {
        starts.lock().unwrap().push(began.elapsed());
        sleep(SECOND).await;
        Err(NonceError::Retryable("slow"))
    };
    let loan = loan().ttl(2 * SECOND).pause(2 * SECOND, 2 * SECOND).runs(9);
    let result = hasty(&server).with_nonce(ALICE, &loan, run).await;
    let WithNonceError::TooLate {
        error,
        source,
        lent,
    } = result.unwrap_err()
    else {
        panic!("another failure");
    };
    assert_eq!((error, lent.run), (Some("slow"), 1));
    assert!(source.unwrap().is_retryable());

    let starts = starts.lock().unwrap();
    assert!(
        starts.len() == 1 && starts[0] < SECOND * 3 / 2,
        "{starts:?}"
    );
    // It may have sent: nothing is given back.
    assert!(
        verbs(&server)
            .iter()
            .all(|verb| verb == "reserve" || verb == "extend")
    );
}

#[tokio::test]
async fn a_loan_that_is_over_but_still_ours_goes_on_once_it_is_extended() {
    let server = Server::start(good).await;
    let run = async |lent: Lent| -> Spoken {
        assert!(lent.remaining() > Duration::ZERO);
        if lent.run == 1 {
            Err(NonceError::Retryable("slow"))
        } else {
            Ok(HASH)
        }
    };
    // The pause is longer than the loan.
    let loan = loan().ttl(2 * SECOND).pause(4 * SECOND, 4 * SECOND);
    server.client().with_nonce(ALICE, &loan, run).await.unwrap();
    assert_eq!(verbs(&server), ["reserve", "extend", "submitted"]);
}

#[tokio::test]
async fn time_counts_from_before_the_nonce_was_asked_for() {
    // The answer takes longer than the loan: whatever its clock says, it may be over when it arrives.
    let server = Server::start(|seen| match verb(seen) {
        "reserve" => Step::Late(SECOND, Box::new(good(seen))),
        "extend" => problem(503, "store_unavailable"),
        other => panic!("{other}"),
    })
    .await;
    let run = async |_: Lent| -> Spoken { panic!("it is too late") };
    let result = hasty(&server).with_nonce(ALICE, &short(), run).await;
    assert!(matches!(
        result.unwrap_err(),
        WithNonceError::TooLate { error: None, .. }
    ));
}

#[tokio::test]
async fn time_counts_from_before_the_extension_was_asked_for() {
    let server = Server::start(|seen| match verb(seen) {
        "reserve" => Step::Say(200, reservation("RESERVED", None)),
        "extend" => Step::Late(SECOND, Box::new(good(seen))),
        other => panic!("{other}"),
    })
    .await;
    let run = async |_: Lent| -> Spoken { panic!("it is too late") };
    let result = hasty(&server)
        .with_nonce(ALICE, &short().named("n"), run)
        .await;
    assert!(matches!(
        result.unwrap_err(),
        WithNonceError::TooLate { source: None, .. }
    ));
}

#[tokio::test]
async fn a_reservation_of_an_unknown_age_is_extended_before_the_closure_runs() {
    let known = || Step::Say(200, reservation("RESERVED", None));
    let server = Server::start(but("reserve", known)).await;
    let run = async |_: Lent| -> Spoken { Ok(HASH) };
    let client = server.client();
    client
        .with_nonce(ALICE, &loan().named("n"), run)
        .await
        .unwrap();
    assert_eq!(verbs(&server), ["reserve", "extend", "submitted"]);
    let server = Server::start(|seen| match verb(seen) {
        "reserve" => Step::Say(200, reservation("RESERVED", None)),
        "extend" => problem(503, "store_unavailable"),
        other => panic!("{other}"),
    })
    .await;
    let run = async |_: Lent| -> Spoken { panic!("nobody knows for how long") };
    let result = hasty(&server)
        .with_nonce(ALICE, &loan().named("n"), run)
        .await;
    assert!(matches!(
        result.unwrap_err(),
        WithNonceError::TooLate { .. }
    ));
}

#[tokio::test]
async fn a_closure_is_not_run_again_once_the_nonce_is_not_ours() {
    let check = async |code: &'static str| {
        let server = Server::start(but("extend", move || problem(409, code))).await;
        let run = async |lent: Lent| -> Spoken {
            assert_eq!(lent.run, 1);
            // More than half of it is over, not all.
            sleep(2 * SECOND).await;
            Err(NonceError::Retryable("slow"))
        };
        let client = server.client();
        let result = client.with_nonce(ALICE, &loan().ttl(4 * SECOND), run).await;
        let error = result.unwrap_err();
        assert!(
            matches!(error, WithNonceError::LockLost { hash: None, .. }),
            "{error}"
        );
        assert_eq!(verbs(&server), ["reserve", "extend"]);
    };
    let codes = [
        "lock_lost",
        "already_submitted",
        "already_final",
        "not_found",
    ];
    let [a, b, c, d] = codes.map(check);
    tokio::join!(a, b, c, d);
}

#[tokio::test]
async fn a_closure_that_does_not_end_is_cut_off_at_the_margin() {
    let server = Server::start(good).await;
    let alive = Arc::new(());
    let inside = Arc::clone(&alive);
    let began = Instant::now();
    let run = async |_: Lent| -> Spoken {
        let _held = Arc::clone(&inside);
        pending().await
    };
    let result = server.client().with_nonce(ALICE, &short(), run).await;
    assert!(matches!(result.unwrap_err(), WithNonceError::CutOff { .. }));
    assert!(began.elapsed() >= SECOND / 2, "{:?}", began.elapsed());
    // Nothing of it goes on, and nothing was given back.
    drop(inside);
    assert_eq!(Arc::strong_count(&alive), 1);
    assert_eq!(verbs(&server), ["reserve"]);
}
