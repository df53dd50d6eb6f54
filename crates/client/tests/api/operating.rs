//! Remedies, placeholders and the audit against the real routes.

use fencepost_client::{
    Act, Action, Client, Code, Fees, Handover, Kind, NewPlaceholder, NewRemedy, NewReservation,
    OpenNonce, OpenState, Retry,
};
use serde_json::json;

use super::world::{ALICE, World, payment};

#[tokio::test]
async fn a_remedy_is_stored_and_told_with_who_asked_and_why() {
    let world = World::new().await;
    let client = world.client();
    let id = client.send(&payment(1)).await.unwrap().transaction.tx_id;
    world.stick(id, 7).await;
    let fees = Fees::Dynamic {
        max_fee_per_gas: 80,
        max_priority_fee_per_gas: 8,
    };
    let wish = NewRemedy::new(Action::Replace, "fees have risen")
        .fees(fees)
        .audit(json!({ "ticket": 7 }));
    let told = client.remedy(id, &wish).await.unwrap();
    assert_eq!(told.tx_id, id);
    let remedies = client.remedies(id).await.unwrap();
    assert_eq!(remedies.len(), 1);
    let stored = &remedies[0];
    assert_eq!(
        (&stored.action, stored.fees),
        (&Action::Replace, Some(fees))
    );
    assert_eq!(
        (&*stored.by, &*stored.reason),
        ("anonymous", "fees have risen")
    );
    assert_eq!(stored.audit, Some(json!({ "ticket": 7 })));
}

#[tokio::test]
async fn a_nonce_that_was_given_back_is_filled_by_a_placeholder_once() {
    let world = World::new().await;
    let client = world.client();
    let lent = client.reserve(&NewReservation::new(ALICE)).await.unwrap();
    let lock = lent.lock_token.unwrap();
    client.recycle(lent.reservation_id, &lock).await.unwrap();
    let act = Act::because("a gap").audit(json!({ "ticket": 7 }));
    let placeholder = NewPlaceholder::new(0, act.clone());
    let placed = client.placeholder(ALICE, &placeholder).await.unwrap();
    assert_eq!(
        (&placed.transaction.kind, placed.transaction.nonce),
        (&Kind::Placeholder, Some(0))
    );
    assert!(
        client
            .placeholder(ALICE, &placeholder)
            .await
            .unwrap()
            .was_known
    );
    let held = NewPlaceholder::new(0, act);
    let error = client.placeholder(ALICE, &held).await.unwrap_err();
    assert_eq!(error.code(), Some(&Code::NonceNotOpen));
}

#[tokio::test]
async fn what_was_done_to_a_signer_is_told_newest_first() {
    let world = World::new().await;
    let client = world.client();
    let act = Act::because("the key is being moved").audit(json!({ "ticket": 7 }));
    client.pause(ALICE, &act).await.unwrap();
    client.resume(ALICE, &act).await.unwrap();
    let page = client
        .signer_audit(ALICE, Some("main"), None)
        .await
        .unwrap();
    let actions: Vec<&str> = page.acts.iter().map(|act| &*act.action).collect();
    assert_eq!(actions, ["RESUME", "PAUSE"]);
    assert_eq!(page.acts[1].audit, Some(json!({ "ticket": 7 })));
    assert_eq!(page.next_cursor, None);
    // Without a chain nothing can be compared with it, which could pass, and is asked once here.
    let once = Client::builder().node(&world.url).retry(Retry::none());
    let once = once.build().unwrap();
    let error = once.reconcile_dry(ALICE, &act).await.unwrap_err();
    assert_eq!(error.code(), Some(&Code::ChainUnavailable));
}

#[tokio::test]
async fn a_signer_is_taken_over_given_away_and_its_cursor_set() {
    let world = World::new().await;
    let client = world.client();
    let act = Act::because("it moves");
    let handover = Handover {
        next_nonce: 9,
        open: vec![OpenNonce {
            nonce: 5,
            request_id: Some("order-5".to_owned()),
            tx_hash: None,
            raw_transaction: None,
            state: OpenState::Reserved,
            ttl_seconds: None,
        }],
    };
    let error = client.import(ALICE, &handover, &act).await.unwrap_err();
    assert_eq!(error.code(), Some(&Code::SignerNotPaused));
    client.pause(ALICE, &act).await.unwrap();
    let dry = client.import_dry(ALICE, &handover, &act).await.unwrap();
    assert_eq!((dry.dry_run, dry.open[0].tx_id), (true, None));
    // Without a chain the lowest open nonce is where gaps begin.
    assert_eq!(dry.gaps, [6, 7, 8]);
    let done = client.import(ALICE, &handover, &act).await.unwrap();
    assert_eq!((done.next_nonce.before, done.next_nonce.after), (0, 9));
    assert!(done.open[0].lock_token.is_some());
    let told = client.export(ALICE, Some("main")).await.unwrap();
    assert_eq!(told, handover);
    let signer = client.set_cursor(ALICE, 12, &act).await.unwrap();
    assert_eq!((signer.next_nonce, signer.waiting), (Some(12), None));
    let error = client.set_cursor(ALICE, 5, &act).await.unwrap_err();
    assert_eq!(error.code(), Some(&Code::NonceHeld));
}
