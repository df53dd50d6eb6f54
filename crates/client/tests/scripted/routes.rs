//! Routes as the API's table has them: paths, bodies, and what is read of the answers.

use std::time::Duration;

use alloy_primitives::B256;
use fencepost_client::{
    Act, Action, Fees, LockToken, NewPlaceholder, NewReservation, PauseReason, RemedyState, State,
};
use serde_json::{Value, json};
use uuid::Uuid;

use super::server::{ALICE, Server, Step, problem_json, stored};

async fn says(body: Value) -> Server {
    Server::start(move |_| Step::Say(200, body.clone())).await
}

fn reservation() -> Value {
    json!({
        "reservationId": Uuid::max(), "signer": ALICE, "chain": "main", "requestId": "r", "nonce": 7,
        "lockToken": "secret", "state": "RESERVED", "txHash": null, "expiresAt": "2026-01-01T00:01:00Z",
    })
}

#[tokio::test]
async fn a_reservation_is_asked_for_read_and_settled() {
    let server = says(reservation()).await;
    let client = server.client();
    let wanted = NewReservation::new(ALICE).named("r").chain("main");
    let wanted = wanted.ttl(Duration::from_secs(90));
    let lent = client.reserve(&wanted).await.unwrap();
    assert_eq!((lent.nonce, lent.state), (Some(7), State::Reserved));
    let (id, lock) = (lent.reservation_id, lent.lock_token.unwrap());
    assert_eq!(lock.expose(), "secret");
    assert!(!format!("{lock:?}").contains("secret"));
    client
        .submitted(id, &lock, B256::repeat_byte(1))
        .await
        .unwrap();
    client.recycle(id, &LockToken::new("secret")).await.unwrap();
    client
        .extend(id, &lock, Duration::from_secs(30))
        .await
        .unwrap();
    client.reservation(id).await.unwrap();
    let seen = server.seen();
    let expected = json!({ "signer": ALICE.to_string().to_lowercase(), "chain": "main", "requestId": "r", "ttlSeconds": 90 });
    assert_eq!(
        (&*seen[0].what, seen[0].json()),
        ("POST /api/v1/nonces/reserve", expected)
    );
    let settled = [
        (
            "submitted",
            json!({ "lockToken": "secret", "txHash": B256::repeat_byte(1) }),
        ),
        ("recycle", json!({ "lockToken": "secret" })),
        ("extend", json!({ "lockToken": "secret", "ttlSeconds": 30 })),
    ];
    for (seen, (verb, body)) in seen[1..].iter().zip(settled) {
        assert_eq!(seen.what, format!("POST /api/v1/nonces/{id}/{verb}"));
        assert_eq!(seen.json(), body);
    }
    assert_eq!(seen[4].what, format!("GET /api/v1/nonces/{id}"));
}

#[tokio::test]
async fn several_nonces_are_lent_at_once() {
    let server = says(json!({ "reservations": [reservation(), reservation()] })).await;
    let wanted = NewReservation::new(ALICE);
    assert_eq!(
        server
            .client()
            .reserve_many(&wanted, 2)
            .await
            .unwrap()
            .len(),
        2
    );
    assert_eq!(server.seen()[0].json()["count"], 2);
    assert_eq!(server.seen()[0].json()["requestId"], wanted.request_id());
}

#[tokio::test]
async fn a_signer_is_reconciled_or_only_compared() {
    let server = says(json!({
        "signer": ALICE, "chain": "main", "dryRun": true, "nextNonce": { "before": 3, "after": 5 },
        "chainLatest": 4, "chainPending": 5, "droppedFreeNonces": [1], "gaps": [4],
        "paused": { "before": "FAILOVER", "after": null },
    }))
    .await;
    let act = Act::because("after a failover").audit(json!({ "ticket": 7 }));
    let told = server.client().reconcile_dry(ALICE, &act).await.unwrap();
    assert_eq!((told.next_nonce.before, told.next_nonce.after), (3, 5));
    assert_eq!(
        (told.paused.before, told.paused.after),
        (Some(PauseReason::Failover), None)
    );
    server.client().reconcile(ALICE, &act).await.unwrap();
    for (seen, dry) in server.seen().iter().zip([true, false]) {
        assert_eq!(seen.what, format!("POST /api/v1/signers/{ALICE}/reconcile"));
        let expected =
            json!({ "reason": "after a failover", "audit": { "ticket": 7 }, "dryRun": dry });
        assert_eq!(seen.json(), expected);
    }
}

#[tokio::test]
async fn a_placeholder_is_one_request_however_often_it_is_tried() {
    let server = Server::steps([Step::Cut, stored(202)]).await;
    let placeholder = NewPlaceholder::new(4, Act::because("a gap").chain("main"));
    let accepted = server
        .client()
        .placeholder(ALICE, &placeholder)
        .await
        .unwrap();
    assert!(!accepted.was_known);
    let expected = json!({ "chain": "main", "reason": "a gap", "nonce": 4, "requestId": placeholder.request_id() });
    for seen in server.seen() {
        assert_eq!(
            seen.what,
            format!("POST /api/v1/signers/{ALICE}/placeholder")
        );
        assert_eq!(seen.json(), expected);
    }
}

#[tokio::test]
async fn what_was_done_is_read() {
    let server = says(json!({
        "remedies": [
            { "remedyId": 1, "round": 1, "action": "REPLACE", "fees": { "gasPrice": "9" }, "by": "ops", "reason": "slow",
              "audit": null, "state": "DONE", "node": "n1", "result": "sent", "askedAt": "2026-01-01T00:00:00Z",
              "closedAt": "2026-01-01T00:00:01Z" },
            { "remedyId": 2, "round": 2, "action": "CANCEL", "fees": null, "by": "ops", "reason": "slow",
              "audit": { "ticket": 7 }, "state": "ASKED", "node": null, "result": null,
              "askedAt": "2026-01-01T00:00:02Z", "closedAt": null },
        ],
        "acts": [{ "id": 9, "action": "PAUSE", "by": "ops", "reason": "slow", "audit": null,
                   "beforeAfter": { "paused": [null, "OPERATOR"] }, "at": "2026-01-01T00:00:00Z" }],
        "nextCursor": "a1-9",
    }))
    .await;
    let client = server.client();
    let remedies = client.remedies(Uuid::nil()).await.unwrap();
    assert_eq!(remedies[0].fees, Some(Fees::Legacy { gas_price: 9 }));
    assert_eq!(
        (&remedies[1].action, &remedies[1].state),
        (&Action::Cancel, &RemedyState::Asked)
    );
    let page = client
        .signer_audit(ALICE, Some("main"), Some("a1-8"))
        .await
        .unwrap();
    assert_eq!((page.acts[0].id, &*page.acts[0].action), (9, "PAUSE"));
    assert_eq!(page.next_cursor.as_deref(), Some("a1-9"));
    let seen = server.seen();
    assert_eq!(
        seen[0].what,
        format!("GET /api/v1/tx/{}/remedies", Uuid::nil())
    );
    assert_eq!(
        seen[1].what,
        format!("GET /api/v1/signers/{ALICE}/audit?chain=main&cursor=a1-8")
    );
}

#[tokio::test]
async fn a_node_that_cannot_work_is_told_apart_from_one_that_can() {
    let ready = says(json!({
        "status": "ready", "node": "n1", "leading": 2, "draining": false,
        "chains": [{ "name": "main", "endpoints": [{ "position": 0, "state": "ok", "head": 5, "client": null }] }],
    }))
    .await;
    let stopping = Server::start(|_| Step::Say(503, problem_json(503, "stopping"))).await;
    let nodes = [ready.url.clone(), stopping.url.clone()];
    let client = fencepost_client::Client::builder()
        .nodes(nodes)
        .build()
        .unwrap();
    let told = client.readiness().await;
    assert_eq!(
        told[0].answer.as_ref().unwrap().chains[0].endpoints[0].state,
        "ok"
    );
    let refused = told[1].answer.as_ref().unwrap_err();
    assert_eq!(refused.code().unwrap().word(), "stopping");
    // A look is one look.
    assert_eq!((ready.count(), stopping.count()), (1, 1));
}
