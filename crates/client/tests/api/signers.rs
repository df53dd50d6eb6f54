//! Signers: seen, paused and resumed.

use fencepost_client::{Act, Code, PauseReason, SignerFilter};

use super::world::{ALICE, BOB, World, payment};

#[tokio::test]
async fn a_signer_is_seen_with_its_leader_and_its_head() {
    let world = World::new().await;
    let client = world.client();
    let sent = client.send(&payment(1)).await.unwrap().transaction;
    let told = client.signer(ALICE, Some("main")).await.unwrap();
    assert_eq!((told.signer, &*told.chain), (ALICE, "main"));
    let leader = told.leader.unwrap();
    assert_eq!(
        (&*leader.node, &leader.url, leader.token),
        ("n1", &world.url, 1)
    );
    let counts = (told.next_nonce, told.in_flight, told.stuck);
    assert_eq!(counts, (Some(1), 1, 0));
    assert_eq!(told.head.unwrap().tx_id, sent.tx_id);
    let mut filter = SignerFilter {
        limit: Some(1),
        ..SignerFilter::default()
    };
    let first = client.signers(&filter).await.unwrap();
    filter.cursor = first.next_cursor;
    let second = client.signers(&filter).await.unwrap();
    assert_eq!(
        [first.signers[0].signer, second.signers[0].signer],
        [ALICE, BOB]
    );
}

#[tokio::test]
async fn a_paused_signer_takes_nothing_until_it_is_resumed() {
    let world = World::new().await;
    let client = world.client();
    let act = Act::because("the key is being moved").chain("main");
    for _ in 0..2 {
        let paused = client.pause(ALICE, &act).await.unwrap();
        assert_eq!(paused.paused, Some(PauseReason::Operator));
    }
    let request = payment(1);
    let error = client.send(&request).await.unwrap_err();
    assert_eq!(error.code(), Some(&Code::SignerPaused));
    assert!(!error.outcome_unknown());
    assert_eq!(client.resume(ALICE, &act).await.unwrap().paused, None);
    assert!(!client.send(&request).await.unwrap().was_known);
}
