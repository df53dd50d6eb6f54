//! Creates and batches.

use std::time::{Duration, Instant};

use alloy_primitives::{Address, B256, Bytes, U256};
use fencepost_client::{Access, Code, Kind, NewTransaction, Payload, Point, State, Wait};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::world::{ALICE, BOB, TO, World, payment};

#[tokio::test]
async fn a_transaction_is_stored_as_it_was_sent() {
    let world = World::new().await;
    let payload = Payload {
        value: Some(U256::MAX >> 8),
        gas: Some(100_000),
        max_fee_per_gas: Some(900),
        max_priority_fee_per_gas: Some(90),
        access_list: Some(vec![Access {
            address: TO,
            storage_keys: vec![B256::repeat_byte(1)],
        }]),
        ..Payload::call(TO, Bytes::from_static(&[1, 2, 3]))
    };
    let not_after = Timestamp::from_second(Timestamp::now().as_second()).unwrap();
    let not_after = not_after + SignedDuration::from_hours(1);
    let request = NewTransaction::new(ALICE, payload.clone())
        .named("invoice 7")
        .chain("main")
        .not_after(not_after)
        .meta(json!({ "order": [7, null] }));
    let client = world.client();
    let accepted = client.send(&request).await.unwrap();
    assert!(!accepted.was_known);
    let told = accepted.transaction;
    assert_eq!(
        (&told.kind, &told.state),
        (&Kind::Managed, &State::Allocated)
    );
    assert_eq!(
        (told.signer, &*told.chain, told.nonce),
        (ALICE, "main", Some(0))
    );
    assert_eq!(told.payload, Some(payload));
    assert_eq!(told.not_after, Some(not_after));
    assert_eq!(told.meta, Some(json!({ "order": [7, null] })));
    assert_eq!(told.request_id.as_deref(), Some("invoice 7"));
    let again = client.send(&request).await.unwrap();
    assert!(again.was_known);
    assert_eq!(again.transaction.tx_id, told.tx_id);
}

#[tokio::test]
async fn the_same_name_for_another_payload_is_a_conflict() {
    let world = World::new().await;
    let first = world.client().send(&payment(1).named("a")).await.unwrap();
    let error = world
        .client()
        .send(&payment(2).named("a"))
        .await
        .unwrap_err();
    assert_eq!(error.code(), Some(&Code::IdempotencyConflict));
    let problem = error.problem().unwrap();
    assert_eq!(problem.tx_id, Some(first.transaction.tx_id));
    assert_eq!(problem.request_id.as_deref(), Some("a"));
    assert!(problem.log_id.is_some());
}

#[tokio::test]
async fn every_wrong_field_is_named() {
    let world = World::new().await;
    let payload = Payload {
        max_fee_per_gas: Some(1),
        max_priority_fee_per_gas: Some(2),
        ..Payload::transfer(TO, U256::ZERO)
    };
    let request = NewTransaction::new(ALICE, payload).named(" ");
    let error = world.client().send(&request).await.unwrap_err();
    let problem = error.problem().unwrap();
    assert_eq!(
        (problem.status, &problem.code),
        (422, &Code::InvalidRequest)
    );
    let fields: Vec<&str> = problem.errors.iter().map(|error| &*error.field).collect();
    assert!(
        fields.contains(&"requestId") && fields.len() == 2,
        "{fields:?}"
    );
}

#[tokio::test]
async fn an_unknown_signer_and_chain_are_told_apart() {
    let world = World::new().await;
    let stranger = NewTransaction::new(Address::ZERO, Payload::transfer(TO, U256::from(1)));
    let error = world.client().send(&stranger).await.unwrap_err();
    assert_eq!(error.code(), Some(&Code::UnknownSigner));
    let error = world
        .client()
        .send(&payment(1).chain("moon"))
        .await
        .unwrap_err();
    assert_eq!(error.code(), Some(&Code::UnknownChain));
}

#[tokio::test]
async fn a_batch_has_one_result_for_each_in_order() {
    let world = World::new().await;
    let other = NewTransaction::new(BOB, Payload::deploy(Bytes::from_static(&[0])));
    let requests = [
        payment(1),
        payment(2).named(""),
        payment(3),
        other,
        payment(4).named("b"),
        payment(5).named("b"),
    ];
    let all = world.client().send_batch(&requests).await.unwrap();
    let nonce = |at: usize| all[at].as_ref().unwrap().transaction.nonce;
    assert_eq!(
        [nonce(0), nonce(2), nonce(3), nonce(4)],
        [Some(0), Some(1), Some(0), Some(2)]
    );
    let code = |at: usize| all[at].as_ref().unwrap_err().code().cloned();
    assert_eq!(code(1), Some(Code::InvalidRequest));
    assert_eq!(code(5), Some(Code::IdempotencyConflict));
    let again = world.client().send_batch(&requests[..1]).await.unwrap();
    assert!(again[0].as_ref().unwrap().was_known);
}

#[tokio::test]
async fn an_answer_waits_for_a_point_and_no_longer_than_it_may() {
    let world = World::new().await;
    let client = world.client();
    let wait = Wait::until(Point::Allocated);
    let sent = client.send_and_wait(&payment(1), wait).await.unwrap();
    assert_eq!(sent.transaction.nonce, Some(0));
    // Nobody signs in this world.
    let wait = Wait::until(Point::Signed).within(Duration::from_secs(1));
    let began = Instant::now();
    let told = client.transaction_after(sent.transaction.tx_id, wait);
    assert_eq!(told.await.unwrap().state, State::Allocated);
    assert!(began.elapsed() >= Duration::from_secs(1));
    let began = Instant::now();
    let all = client
        .send_batch_and_wait(&[payment(2), payment(3)], wait)
        .await
        .unwrap();
    assert_eq!(all.len(), 2);
    assert!(all.iter().all(Result::is_ok), "{all:?}");
    assert!(began.elapsed() >= Duration::from_secs(1));
}
