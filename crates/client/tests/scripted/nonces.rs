//! Borrowing a nonce: who has it afterwards, whatever the closure says and whatever answers are lost.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use alloy_primitives::B256;
use fencepost_client::{Client, Lent, Loan, NonceError, WithNonceError};
use serde_json::{Value, json};
use uuid::Uuid;

use super::server::{ALICE, Seen, Server, Step, problem};

pub(crate) const HASH: B256 = B256::repeat_byte(0xaa);

pub(crate) fn reservation(state: &str, hash: Option<B256>) -> Value {
    json!({
        "reservationId": Uuid::max(), "signer": ALICE, "chain": "main", "requestId": "r", "nonce": 7,
        "lockToken": "secret", "state": state, "txHash": hash, "namedHash": hash, "expiresAt": "2026-01-01T00:01:00Z",
    })
}

/// Which of the routes was asked.
pub(crate) fn verb(seen: &Seen) -> &str {
    seen.what.rsplit('/').next().unwrap()
}

/// A server that lends and settles as it should.
pub(crate) fn good(seen: &Seen) -> Step {
    match verb(seen) {
        "reserve" => Step::Say(201, reservation("RESERVED", None)),
        "submitted" => Step::Say(200, reservation("SUBMITTED", Some(HASH))),
        "recycle" => Step::Say(200, reservation("RECYCLABLE", None)),
        "extend" => Step::Say(200, reservation("RESERVED", None)),
        other => panic!("{other}"),
    }
}

/// The same, but for one route.
pub(crate) fn but(
    wrong: &'static str,
    mut step: impl FnMut() -> Step + Send + 'static,
) -> impl FnMut(&Seen) -> Step + Send + 'static {
    move |seen| {
        if verb(seen) == wrong {
            step()
        } else {
            good(seen)
        }
    }
}

pub(crate) fn verbs(server: &Server) -> Vec<String> {
    server
        .seen()
        .iter()
        .map(|seen| verb(seen).to_owned())
        .collect()
}

/// A loan whose pauses are short.
pub(crate) fn loan() -> Loan {
    Loan::default().pause(Duration::from_millis(1), Duration::from_millis(2))
}

type Spoken = Result<B256, NonceError<&'static str>>;

/// Runs a closure that says these things in turn, and counts its runs.
async fn saying(
    client: &Client,
    loan: &Loan,
    says: &[Spoken],
) -> (Result<B256, WithNonceError<&'static str>>, u32) {
    let runs = AtomicU32::new(0);
    let run = async |lent: Lent| {
        assert_eq!((lent.nonce, lent.signer, &*lent.chain), (7, ALICE, "main"));
        assert_eq!(lent.run, runs.fetch_add(1, Ordering::Relaxed) + 1);
        assert!(lent.remaining() > Duration::ZERO);
        says[usize::try_from(lent.run).unwrap() - 1]
    };
    let result = client.with_nonce(ALICE, loan, run).await;
    (result.map(|spent| spent.hash), runs.into_inner())
}

#[tokio::test]
async fn a_hash_is_named_with_the_lock_token() {
    let server = Server::start(good).await;
    let (result, runs) = saying(&server.client(), &loan(), &[Ok(HASH)]).await;
    assert_eq!((result.unwrap(), runs), (HASH, 1));
    let seen = server.seen();
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[0].json()["ttlSeconds"], 60);
    assert_eq!(
        seen[1].what,
        format!("POST /api/v1/nonces/{}/submitted", Uuid::max())
    );
    assert_eq!(
        seen[1].json(),
        json!({ "lockToken": "secret", "txHash": HASH })
    );
}

#[tokio::test]
async fn a_nonce_whose_answer_was_lost_is_asked_for_under_the_same_id() {
    let mut tries = 0;
    let server = Server::start(but("reserve", move || {
        tries += 1;
        if tries == 1 {
            Step::Cut
        } else {
            Step::Say(200, reservation("RESERVED", None))
        }
    }))
    .await;
    let (result, runs) = saying(&server.client(), &loan(), &[Ok(HASH)]).await;
    assert_eq!((result.unwrap(), runs), (HASH, 1));
    let seen = server.seen();
    assert_eq!(seen[0].text, seen[1].text);
    // The id is this call's own, so the reservation is no older than the call and need not be extended.
    assert_eq!(verbs(&server), ["reserve", "reserve", "submitted"]);
    // And another call has another.
    saying(&server.client(), &loan(), &[Ok(HASH)])
        .await
        .0
        .unwrap();
    assert_ne!(server.seen()[3].text, seen[0].text);
}

#[tokio::test]
async fn a_permanent_error_gives_the_nonce_back_and_is_returned() {
    let server = Server::start(good).await;
    let gone = Err(NonceError::Permanent("no funds"));
    let (result, runs) = saying(&server.client(), &loan(), &[gone]).await;
    let WithNonceError::GivenUp {
        error, unreturned, ..
    } = result.unwrap_err()
    else {
        panic!("another failure");
    };
    assert_eq!(error, "no funds");
    assert!(unreturned.is_none());

    assert_eq!(
        (runs, verbs(&server)),
        (1, vec!["reserve".to_owned(), "recycle".to_owned()])
    );
    assert_eq!(server.seen()[1].json(), json!({ "lockToken": "secret" }));
}

#[tokio::test]
async fn a_nonce_that_cannot_be_given_back_is_left_to_expire() {
    let server = Server::start(but("recycle", || problem(503, "store_unavailable"))).await;
    let gone = Err(NonceError::Permanent("no funds"));
    let (result, _) = saying(&server.client(), &loan(), &[gone]).await;
    let WithNonceError::GivenUp {
        error,
        unreturned,
        lent,
    } = result.unwrap_err()
    else {
        panic!("another failure");
    };
    assert_eq!(error, "no funds");
    assert_eq!(lent.lock_token.expose(), "secret");
    assert!(unreturned.unwrap().is_retryable());
}

/// Only a nonce that is new to this call, and with which no run may have sent, is certainly unused.
#[tokio::test]
async fn a_nonce_that_may_have_been_used_before_is_not_given_back() {
    let again = Err(NonceError::Retryable("timeout"));
    let gone = Err(NonceError::Permanent("no funds"));
    let known = but("reserve", || Step::Say(200, reservation("RESERVED", None)));
    let server = Server::start(known).await;
    // Under an id of the call's own, a known one is its own, whose answer was lost.
    let (result, _) = saying(&server.client(), &loan(), &[gone]).await;
    assert!(matches!(
        result.unwrap_err(),
        WithNonceError::GivenUp { .. }
    ));
    assert_eq!(verbs(&server), ["reserve", "recycle"]);
    for (loan, says) in [(loan().named("n"), [gone, gone]), (loan(), [again, gone])] {
        let before = server.count();
        let (result, _) = saying(&server.client(), &loan, &says).await;
        let WithNonceError::LeftToExpire { error, lent } = result.unwrap_err() else {
            panic!("another failure");
        };
        assert_eq!((error, lent.nonce), ("no funds", 7));
        assert!(!verbs(&server)[before..].contains(&"recycle".to_owned()));
    }
}

#[tokio::test]
async fn a_passing_error_runs_the_closure_again_with_the_same_nonce() {
    let server = Server::start(good).await;
    let again = Err(NonceError::Retryable("timeout"));
    let (result, runs) = saying(&server.client(), &loan(), &[again, again, Ok(HASH)]).await;
    assert_eq!((result.unwrap(), runs), (HASH, 3));
    assert_eq!(verbs(&server), ["reserve", "submitted"]);
}

#[tokio::test]
async fn a_closure_that_fails_too_often_keeps_the_nonce() {
    let server = Server::start(good).await;
    let again = Err(NonceError::Retryable("timeout"));
    let (result, runs) = saying(&server.client(), &loan().runs(2), &[again, again]).await;
    let WithNonceError::Exhausted { error, lent } = result.unwrap_err() else {
        panic!("another failure");
    };
    assert_eq!((error, lent.nonce), ("timeout", 7));

    // It may have sent: nothing is given back.
    assert_eq!((runs, verbs(&server)), (2, vec!["reserve".to_owned()]));
}

#[tokio::test]
async fn a_hash_whose_answer_was_lost_is_named_again() {
    let mut tries = 0;
    let server = Server::start(but("submitted", move || {
        tries += 1;
        if tries < 3 {
            Step::Cut
        } else {
            Step::Say(200, reservation("SUBMITTED", Some(HASH)))
        }
    }))
    .await;
    let (result, runs) = saying(&server.client(), &loan(), &[Ok(HASH)]).await;
    assert_eq!((result.unwrap(), runs), (HASH, 1));
    let seen = server.seen();
    assert_eq!(seen.len(), 4);
    assert!(seen[1].text == seen[2].text && seen[2].text == seen[3].text);
}

#[tokio::test]
async fn a_hash_that_nobody_could_be_told_comes_back_with_all_that_is_needed_to_tell_it() {
    let mut tries = 0;
    let server = Server::start(but("submitted", move || {
        tries += 1;
        if tries <= 5 {
            Step::Cut
        } else {
            Step::Say(200, reservation("SUBMITTED", Some(HASH)))
        }
    }))
    .await;
    let client = server.client();
    let (result, _) = saying(&client, &loan(), &[Ok(HASH)]).await;
    let WithNonceError::Untold { hash, lent, source } = result.unwrap_err() else {
        panic!("another failure");
    };
    assert!(hash == HASH && source.outcome_unknown());
    let told = client.submitted(lent.reservation_id, &lent.lock_token, hash);
    assert_eq!(told.await.unwrap().tx_hash, Some(HASH));

    assert!(!verbs(&server).contains(&"recycle".to_owned()));
}

#[tokio::test]
async fn a_lost_lock_is_told_with_the_hash_that_was_sent() {
    let server = Server::start(but("submitted", || problem(409, "lock_lost"))).await;
    let (result, _) = saying(&server.client(), &loan(), &[Ok(HASH)]).await;
    let WithNonceError::LockLost { hash, lent, .. } = result.unwrap_err() else {
        panic!("another failure");
    };
    assert_eq!((hash, lent.nonce), (Some(HASH), 7));

    assert_eq!(verbs(&server), ["reserve", "submitted"]);
}

#[tokio::test]
async fn a_name_that_was_used_before_gives_what_came_of_it() {
    let sent = Server::start(but("reserve", || {
        Step::Say(200, reservation("SUBMITTED", Some(HASH)))
    }))
    .await;
    let named = loan().named("invoice-7");
    let (result, runs) = saying(&sent.client(), &named, &[]).await;
    assert_eq!((result.unwrap(), runs), (HASH, 0));
    assert_eq!(sent.seen()[0].json()["requestId"], "invoice-7");
    for (state, hash) in [
        ("RECYCLABLE", None),
        ("USED", None),
        ("A_NEW_ONE", Some(HASH)),
    ] {
        let ended = Server::start(but("reserve", move || {
            Step::Say(200, reservation(state, hash))
        }))
        .await;
        let (result, runs) = saying(&ended.client(), &named, &[]).await;
        let WithNonceError::Ended { reservation } = result.unwrap_err() else {
            panic!("another failure");
        };
        assert_eq!(reservation.state.word(), state);
        assert_eq!((runs, ended.count()), (0, 1));
    }
}

/// A nonce that was used by another hash than its holder named, if it named any.
fn used_by_another(named: Option<B256>) -> Step {
    let mut told = reservation("USED", Some(B256::repeat_byte(0xee)));
    told["namedHash"] = json!(named);
    Step::Say(200, told)
}

/// A nonce that is used was used for something; without a name for it nobody knows for what.
#[tokio::test]
async fn a_used_nonce_for_which_nothing_was_named_is_not_told_as_sent() {
    let server = Server::start(but("reserve", || used_by_another(None))).await;
    let (result, runs) = saying(&server.client(), &loan().named("invoice-7"), &[]).await;
    let WithNonceError::Ended { reservation } = result.unwrap_err() else {
        panic!("another failure");
    };
    assert_eq!((reservation.state.word(), runs), ("USED", 0));
    assert!(reservation.tx_hash.is_some() && reservation.named_hash.is_none());
}

#[tokio::test]
async fn a_hash_that_has_lost_its_nonce_to_another_is_not_told_as_sent() {
    // In an earlier call, and in this one.
    for (verb, says) in [("reserve", &[][..]), ("submitted", &[Ok(HASH)])] {
        let server = Server::start(but(verb, || used_by_another(Some(HASH)))).await;
        let (result, _) = saying(&server.client(), &loan().named("invoice-7"), says).await;
        let WithNonceError::UsedByAnother { named, reservation } = result.unwrap_err() else {
            panic!("another failure");
        };
        assert_eq!((named, reservation.state.word()), (HASH, "USED"));
        assert!(!verbs(&server).contains(&"recycle".to_owned()));
    }
    let used = || Step::Say(200, reservation("USED", Some(HASH)));
    let server = Server::start(but("reserve", used)).await;
    let (result, _) = saying(&server.client(), &loan().named("invoice-7"), &[]).await;
    assert_eq!(result.unwrap(), HASH, "the one that was named has used it");
}

#[tokio::test]
async fn a_nonce_that_is_not_lent_runs_nothing() {
    let server = Server::start(but("reserve", || problem(423, "signer_paused"))).await;
    let (result, runs) = saying(&server.client(), &loan().named("n"), &[]).await;
    let WithNonceError::NotLent { request_id, source } = result.unwrap_err() else {
        panic!("another failure");
    };
    assert_eq!((&*request_id, source.outcome_unknown()), ("n", false));

    assert_eq!(runs, 0);
    let hopeless = loan().margin(Duration::from_secs(60));
    let (result, _) = saying(&server.client(), &hopeless, &[]).await;
    assert!(matches!(
        result.unwrap_err(),
        WithNonceError::NotLent { .. }
    ));
    assert_eq!(server.count(), 1);
}

#[tokio::test]
async fn a_closure_that_panics_gives_nothing_back() {
    let server = Server::start(good).await;
    let client = server.client();
    let panicking = tokio::spawn(async move {
        let run = async |_: Lent| -> Spoken { panic!("as the test says") };
        client
            .with_nonce(ALICE, &loan(), run)
            .await
            .map(|spent| spent.hash)
            .is_ok()
    });
    assert!(panicking.await.unwrap_err().is_panic());
    assert_eq!(verbs(&server), ["reserve"]);
}

#[tokio::test]
async fn a_call_that_is_dropped_gives_nothing_back() {
    let server = Server::start(good).await;
    let (client, (running, mut runs)) = (server.client(), tokio::sync::mpsc::channel(1));
    let dropped = tokio::spawn(async move {
        let run = async |_: Lent| -> Spoken {
            running.send(()).await.unwrap();
            std::future::pending().await
        };
        client.with_nonce(ALICE, &loan(), run).await.is_ok()
    });
    runs.recv().await.unwrap();
    dropped.abort();
    assert!(dropped.await.unwrap_err().is_cancelled());
    assert_eq!(verbs(&server), ["reserve"]);
}
