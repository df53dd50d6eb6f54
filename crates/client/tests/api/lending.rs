//! Borrowed nonces against the real routes: what the node says of them is what the client does about them.

use std::time::Duration;

use alloy_primitives::{Address, B256};
use fencepost_client::{
    Client, Code, Lent, Loan, LockToken, NewReservation, NonceError, State, WithNonceError,
};
use fencepost_domain::state::Execution;

use super::chain_steps::hash;
use super::world::{ALICE, World, payment};

const HASH: B256 = B256::repeat_byte(0xaa);

type Spoken = Result<B256, NonceError<&'static str>>;

async fn next_nonce(client: &Client, signer: Address) -> (u64, Vec<u64>) {
    let told = client.signer(signer, None).await.unwrap();
    (told.next_nonce.unwrap(), told.free_nonces)
}

#[tokio::test]
async fn a_borrowed_nonce_is_named_and_the_next_transaction_has_the_next() {
    let world = World::new().await;
    let client = world.client();
    client.send(&payment(1)).await.unwrap();
    let run = async |lent: Lent| -> Spoken {
        assert_eq!((lent.nonce, lent.signer, &*lent.chain), (1, ALICE, "main"));
        assert!(lent.remaining() > Duration::from_secs(30) && lent.expires_at.is_some());
        Ok(HASH)
    };
    let named = Loan::default().named("invoice-7").chain("main");
    let spent = client.with_nonce(ALICE, &named, run).await.unwrap();
    assert!(spent.hash == HASH && !spent.was_known);
    assert_eq!(spent.reservation.state, State::Submitted);
    let id = spent.reservation.reservation_id;
    let told = client.reservation(id).await.unwrap();
    assert_eq!((told.tx_hash, told.lock_token), (Some(HASH), None));
    assert_eq!(client.transaction(id).await.unwrap().nonce, Some(1));
    // The same name gives what came of it, and runs nothing.
    let run = async |_: Lent| -> Spoken { panic!("it was sent before") };
    let again = client.with_nonce(ALICE, &named, run).await.unwrap();
    assert!(again.was_known && again.hash == HASH);
    let sent = client.send(&payment(2)).await.unwrap();
    assert_eq!(sent.transaction.nonce, Some(2));
}

#[tokio::test]
async fn a_nonce_that_was_not_used_is_given_to_the_next() {
    let world = World::new().await;
    let client = world.client();
    let named = Loan::default().named("a");
    let run = async |_: Lent| -> Spoken { Err(NonceError::Permanent("no funds")) };
    let error = client.with_nonce(ALICE, &named, run).await.unwrap_err();
    let WithNonceError::GivenUp { unreturned, .. } = error else {
        panic!("{error}");
    };
    assert!(unreturned.is_none());
    assert_eq!(next_nonce(&client, ALICE).await, (1, vec![0]));
    let sent = client.send(&payment(1)).await.unwrap();
    assert_eq!(sent.transaction.nonce, Some(0));
    // The name is used up with it.
    let run = async |_: Lent| -> Spoken { panic!("it is someone else's") };
    let error = client.with_nonce(ALICE, &named, run).await.unwrap_err();
    assert!(matches!(error, WithNonceError::Ended { .. }), "{error}");
}

/// The process before this one may have sent and died. Its successor cannot know, and fails before it sends: that
/// proves nothing about the earlier process.
#[tokio::test]
async fn a_nonce_that_an_earlier_process_may_have_used_is_not_given_back() {
    let world = World::new().await;
    let client = world.client();
    let named = Loan::default().named("invoice-7");
    let (running, mut runs) = tokio::sync::mpsc::channel(1);
    let before = tokio::spawn({
        let (client, named) = (client.clone(), named.clone());
        async move {
            let run = async |lent: Lent| -> Spoken {
                assert!(!lent.was_known);
                // The bytes leave here, and then the process is killed.
                running.send(()).await.unwrap();
                std::future::pending().await
            };
            client.with_nonce(ALICE, &named, run).await.is_ok()
        }
    });
    runs.recv().await.unwrap();
    before.abort();
    assert!(before.await.unwrap_err().is_cancelled());
    let after = async |lent: Lent| -> Spoken {
        assert!((lent.run, lent.was_known) == (1, true), "{lent:?}");
        Err(NonceError::Permanent("the key cannot be read"))
    };
    let error = client.with_nonce(ALICE, &named, after).await.unwrap_err();
    let WithNonceError::LeftToExpire { error, lent } = error else {
        panic!("{error}");
    };
    assert_eq!((error, lent.nonce), ("the key cannot be read", 0));
    assert_eq!(next_nonce(&client, ALICE).await, (1, vec![]));
    let told = client.reservation(lent.reservation_id).await.unwrap();
    assert_eq!(told.state, State::Reserved);
}

/// A run said that it may have sent. What a later run says of itself does not undo that.
#[tokio::test]
async fn a_nonce_whose_bytes_may_be_out_is_not_given_back() {
    let world = World::new().await;
    let client = world.client();
    let run = async |lent: Lent| -> Spoken {
        if lent.run == 1 {
            Err(NonceError::Retryable("no answer from the chain's node"))
        } else {
            Err(NonceError::Permanent("insufficient funds"))
        }
    };
    let told = client.with_nonce(ALICE, &Loan::default(), run).await;
    let error = told.unwrap_err();
    assert!(
        error.to_string().ends_with("is left to expire") && error.lent().is_some(),
        "{error}"
    );
    assert_eq!(next_nonce(&client, ALICE).await, (1, vec![]));
}

/// The process died before it sent; another system has used the nonce. Nothing of this invoice was ever sent, so a
/// repeated call must not say that it was.
#[tokio::test]
async fn a_nonce_that_a_stranger_has_used_is_not_told_as_sent() {
    let world = World::new().await;
    let client = world.client();
    let wanted = NewReservation::new(ALICE).named("invoice-7");
    let lent = client.reserve(&wanted).await.unwrap();
    world.used_by(lent.reservation_id, hash(0xee)).await;
    let named = Loan::default().named("invoice-7");
    let run = async |_: Lent| -> Spoken { panic!("the nonce is used") };
    let error = client.with_nonce(ALICE, &named, run).await.unwrap_err();
    let WithNonceError::Ended { reservation } = error else {
        panic!("{error}");
    };
    assert_eq!(
        (reservation.tx_hash, reservation.named_hash),
        (Some(hash(0xee)), None)
    );
    // Once the holder has named what it had sent, it is known that this is not what has used the nonce.
    let lock = lent.lock_token.unwrap();
    let told = client.submitted(lent.reservation_id, &lock, HASH).await;
    assert_eq!(told.unwrap().named_hash, Some(HASH));
    let run = async |_: Lent| -> Spoken { panic!("the nonce is used") };
    let error = client.with_nonce(ALICE, &named, run).await.unwrap_err();
    let WithNonceError::UsedByAnother { named, reservation } = error else {
        panic!("{error}");
    };
    assert_eq!((named, reservation.tx_hash), (HASH, Some(hash(0xee))));
}

/// The nonce is used, and by a stranger: what the holder wanted has not happened.
#[tokio::test]
async fn a_lent_nonce_that_a_stranger_has_used_has_not_ended_as_asked() {
    let world = World::new().await;
    let client = world.client();
    let lent = client.reserve(&NewReservation::new(ALICE)).await.unwrap();
    world.used_by(lent.reservation_id, hash(0xee)).await;
    let ended = client.transaction(lent.reservation_id).await.unwrap();
    assert!(ended.is_final() && !ended.has_succeeded(), "{ended:?}");
}

#[tokio::test]
async fn what_a_holder_has_sent_ends_as_asked_only_if_it_was_executed() {
    for execution in [Execution::Success, Execution::Reverted] {
        let world = World::new().await;
        let client = world.client();
        let run = async |_: Lent| -> Spoken { Ok(HASH) };
        let spent = client.with_nonce(ALICE, &Loan::default(), run).await;
        let id = spent.unwrap().reservation.reservation_id;
        world.used(id, 0xaa, execution).await;
        let ended = client.transaction(id).await.unwrap();
        assert_eq!(ended.state, State::Used);
        let told = client.reservation(id).await.unwrap();
        assert_eq!((told.tx_hash, told.named_hash), (Some(HASH), Some(HASH)));
        let succeeded = execution == Execution::Success;
        assert_eq!(ended.has_succeeded(), succeeded, "{ended:?}");
    }
}

#[tokio::test]
async fn a_reservation_that_is_known_is_extended_and_run() {
    let world = World::new().await;
    let client = world.client();
    let minute = Duration::from_secs(60);
    let wanted = NewReservation::new(ALICE).named("a").ttl(minute);
    let first = client.reserve(&wanted).await.unwrap();
    let hour = Loan::default().named("a").ttl(60 * minute);
    let run = async |lent: Lent| -> Spoken {
        assert_eq!(Some(lent.nonce), first.nonce);
        assert!(lent.remaining() > minute);
        assert!(lent.expires_at > first.expires_at);
        Ok(HASH)
    };
    client.with_nonce(ALICE, &hour, run).await.unwrap();
    let lock = first.lock_token.unwrap();
    let id = first.reservation_id;
    // Named once, it stays so: the same hash again is fine, another is not, and nothing is given back.
    client.submitted(id, &lock, HASH).await.unwrap();
    let codes = [
        client.submitted(id, &lock, B256::ZERO).await,
        client.recycle(id, &lock).await,
        client.extend(id, &lock, minute).await,
        client
            .submitted(id, &LockToken::new(uuid::Uuid::nil().to_string()), HASH)
            .await,
    ]
    .map(|refused| refused.unwrap_err().code().cloned().unwrap());
    let expected = [
        Code::HashDiffers,
        Code::AlreadySubmitted,
        Code::AlreadySubmitted,
        Code::LockLost,
    ];
    assert_eq!(codes, expected);
}

#[tokio::test]
async fn several_are_lent_together_and_told_again() {
    let world = World::new().await;
    let client = world.client();
    let wanted = NewReservation::new(ALICE);
    let first = client.reserve_many(&wanted, 3).await.unwrap();
    let nonces: Vec<_> = first.iter().filter_map(|each| each.nonce).collect();
    assert_eq!(nonces, [0, 1, 2]);
    assert_eq!(client.reserve_many(&wanted, 3).await.unwrap(), first);
    assert_eq!(next_nonce(&client, ALICE).await, (3, vec![]));
}
