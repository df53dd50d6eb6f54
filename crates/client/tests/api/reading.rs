//! Transactions as they are read: by every name, page by page, with their history.

use std::time::Duration;

use fencepost_client::{
    AttemptKind, EventKind, Filter, SendOutcome, State, SubState, Until, WaitError,
};
use serde_json::json;
use uuid::Uuid;

use super::chain_steps::hash;
use super::world::{ALICE, BOB, World, payment};

#[tokio::test]
async fn a_transaction_is_found_by_every_name_it_has() {
    let world = World::new().await;
    let client = world.client();
    let name = "a b&c=d/é";
    let sent = client.send(&payment(1).named(name)).await.unwrap();
    let id = sent.transaction.tx_id;
    world.confirm(id, 7).await;
    let told = client.transaction(id).await.unwrap();
    assert_eq!(told.state, State::Confirmed);
    assert!(told.has_succeeded());
    assert_eq!(
        (told.tx_hash, told.block_number),
        (Some(hash(7)), Some(500))
    );
    assert_eq!(told.receipt, Some(json!({ "status": "0x1", "logs": [] })));
    assert!(told.confirmed_at.is_some());
    let found = [
        client.transaction_by_request(ALICE, None, name).await,
        client.transaction_by_hash(hash(7), None).await,
        client.transaction_by_hash(hash(7), Some("main")).await,
        client.transaction_by_nonce(ALICE, Some("main"), 0).await,
    ];
    for found in found {
        assert_eq!(found.unwrap(), told);
    }
    let missing = [
        client.transaction(Uuid::nil()).await,
        client.transaction_by_request(BOB, None, name).await,
        client.transaction_by_hash(hash(8), None).await,
        client.transaction_by_nonce(ALICE, None, 1).await,
    ];
    for missing in missing {
        assert!(missing.unwrap_err().is_not_found());
    }
}

#[tokio::test]
async fn all_that_happened_to_it_is_told() {
    let world = World::new().await;
    let client = world.client();
    let id = client.send(&payment(1)).await.unwrap().transaction.tx_id;
    world.confirm(id, 7).await;
    let events = client.history(id, 0).await.unwrap();
    let kinds: Vec<&EventKind> = events.iter().map(|event| &event.kind).collect();
    let expected = [
        EventKind::Accepted,
        EventKind::Signed,
        EventKind::Submitted,
        EventKind::Receipt,
        EventKind::Confirmed,
    ];
    assert_eq!(kinds, expected.iter().collect::<Vec<_>>());
    assert!(events[0].from.is_none());
    assert_eq!(events[4].to.state, State::Confirmed);
    assert_eq!(events[3].to.sub_state, Some(SubState::Mined));
    assert_eq!(
        client.history(id, events[3].seq).await.unwrap(),
        events[4..]
    );
    let attempts = client.attempts(id).await.unwrap();
    assert_eq!((attempts.len(), attempts[0].n), (1, 1));
    assert_eq!(
        (&attempts[0].kind, attempts[0].tx_hash),
        (&AttemptKind::Original, hash(7))
    );
    assert_eq!(
        (
            attempts[0].max_fee_per_gas,
            attempts[0].max_priority_fee_per_gas
        ),
        (Some(70), Some(7))
    );
    assert_eq!(attempts[0].outcome, Some(SendOutcome::Accepted));
    assert!(client.confirmations(id).await.unwrap().is_empty());
}

#[tokio::test]
async fn pages_follow_on_each_other() {
    let world = World::new().await;
    let client = world.client();
    for wei in 1..=5 {
        client.send(&payment(wei)).await.unwrap();
    }
    let mut filter = Filter {
        signer: Some(ALICE),
        chain: Some("main".to_owned()),
        limit: Some(2),
        ..Filter::default()
    };
    let mut nonces = vec![];
    loop {
        let page = client.transactions(&filter).await.unwrap();
        nonces.extend(page.transactions.iter().filter_map(|tx| tx.nonce));
        filter.cursor = page.next_cursor;
        if filter.cursor.is_none() {
            break;
        }
    }
    assert_eq!(nonces, [4, 3, 2, 1, 0]);
}

#[tokio::test]
async fn what_is_stuck_is_listed_with_its_reason() {
    let world = World::new().await;
    let client = world.client();
    let id = client.send(&payment(1)).await.unwrap().transaction.tx_id;
    client.send(&payment(2)).await.unwrap();
    world.stick(id, 7).await;
    let stuck = Filter {
        state: Some(State::Stuck),
        ..Filter::default()
    };
    let page = client.transactions(&stuck).await.unwrap();
    assert_eq!(page.transactions.len(), 1);
    let told = &page.transactions[0];
    assert_eq!(
        (told.tx_id, &told.sub_state),
        (id, &Some(SubState::NoReceipt))
    );
    assert_eq!(told.last_error.as_deref(), Some("nobody mines it"));
    let until = Until::FinalOrStuck;
    let waited = client
        .wait(id, until, Duration::from_secs(30))
        .await
        .unwrap();
    assert_eq!(waited.state, State::Stuck);
    let signer = client.signer(ALICE, None).await.unwrap();
    assert_eq!((signer.stuck, signer.head.unwrap().tx_id), (1, id));
}

#[tokio::test]
async fn a_wait_ends_when_the_transaction_does() {
    let world = World::new().await;
    let client = world.client();
    let id = client.send(&payment(1)).await.unwrap().transaction.tx_id;
    let short = Duration::from_millis(50);
    let early = client.wait(id, Until::Final, short).await.unwrap_err();
    assert!(
        matches!(early, WaitError::TooLong { last: Some(_), .. }),
        "{early}"
    );
    let waiting = client.wait(id, Until::Final, Duration::from_secs(30));
    let ((), ended) = tokio::join!(world.confirm(id, 7), waiting);
    assert_eq!(ended.unwrap().state, State::Confirmed);
}
