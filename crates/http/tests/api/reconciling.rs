//! Comparing signers with their chains.

use std::sync::Arc;
use std::time::Duration;

use fencepost_app::ports::{Chain, Store};
use serde_json::{Value, json};

use super::access::{KEYS, as_key};
use super::chain_steps::id;
use super::counting::{Counting, Says};
use super::sabotage::{Fault, Sabotage};
use super::world::{ALICE, BOB, Reply, Server, TO, World, lane_on, payment};

fn path(signer: &str) -> String {
    format!("/api/v1/signers/{signer}/reconcile")
}

async fn reconcile(server: &Server, body: &Value) -> Reply {
    server.post(&path(ALICE), body).await
}

/// A world whose chain says this.
fn world(says: Says) -> (World, Arc<Counting>) {
    let counting = Counting::that(says);
    let mut world = World::new();
    world.chain = Some(Arc::clone(&counting) as Arc<dyn Chain>);
    (world, counting)
}

async fn cursor(server: &Server) -> u64 {
    let lane = server.store.lane(lane_on(1, ALICE)).await.unwrap().unwrap();
    lane.next_nonce.get()
}

#[tokio::test(start_paused = true)]
async fn a_cursor_is_raised_to_the_chain_and_what_it_has_used_is_dropped() {
    let (world, _counting) = world(Says::Counts(2, 5));
    let server = world.server().await;
    let first = server.create(&payment(1)).await;
    server.create(&payment(2)).await;
    server.create(&payment(3)).await;
    server.reject(id(&first)).await;
    let expected = |is_dry| {
        json!({
            "signer": ALICE, "chain": "main", "dryRun": is_dry, "nextNonce": { "before": 3, "after": 5 },
            "chainLatest": 2, "chainPending": 5, "droppedFreeNonces": [0], "gaps": [],
            "paused": { "before": null, "after": null },
        })
    };
    let dry = json!({ "reason": "look", "dryRun": true });
    for _ in 0..2 {
        let reply = reconcile(&server, &dry).await;
        assert_eq!((reply.status, reply.json()), (200, expected(true)));
        assert_eq!(cursor(&server).await, 3, "nothing was changed");
    }
    let wet = json!({ "reason": "do", "audit": { "ticket": 5 }, "chain": "main" });
    let reply = reconcile(&server, &wet).await;
    assert_eq!((reply.status, reply.json()), (200, expected(false)));
    assert_eq!(cursor(&server).await, 5);
    let again = reconcile(&server, &json!({ "reason": "again", "dryRun": null }))
        .await
        .json();
    assert_eq!(again["nextNonce"], json!({ "before": 5, "after": 5 }));
    assert_eq!(
        (&again["droppedFreeNonces"], &again["gaps"]),
        (&json!([]), &json!([3, 4]))
    );
    // The next transaction is above what others have sent.
    assert_eq!(server.create(&payment(4)).await["nonce"], 5);
}

#[tokio::test(start_paused = true)]
async fn a_chain_that_is_behind_lowers_nothing() {
    let (world, _counting) = world(Says::Counts(0, 0));
    let server = world.server().await;
    server.create(&payment(1)).await;
    let reply = reconcile(&server, &json!({ "reason": "x" })).await.json();
    assert_eq!(reply["nextNonce"], json!({ "before": 1, "after": 1 }));
    assert_eq!(cursor(&server).await, 1);
}

#[tokio::test(start_paused = true)]
async fn a_chain_that_cannot_be_asked_or_disagrees_changes_nothing() {
    let (mut world, counting) = world(Says::Nothing);
    world.limits.request_timeout = Duration::from_secs(3);
    let server = world.server().await;
    let (wet, dry) = (
        json!({ "reason": "x" }),
        json!({ "reason": "x", "dryRun": true }),
    );
    for body in [&wet, &dry] {
        let reply = reconcile(&server, body).await;
        assert_eq!(
            (reply.status, reply.code().as_str()),
            (503, "chain_unavailable")
        );
    }
    counting.now(Says::Quarrels);
    for body in [&wet, &dry] {
        let reply = reconcile(&server, body).await;
        assert_eq!(
            (reply.status, reply.code().as_str()),
            (409, "chain_disagrees")
        );
    }
    counting.now(Says::Silence);
    let reply = reconcile(&server, &wet).await;
    assert_eq!(
        (reply.status, reply.code().as_str()),
        (504, "outcome_unknown")
    );
    let reply = reconcile(&server, &dry).await;
    assert_eq!((reply.status, reply.code().as_str()), (503, "timed_out"));
    assert_eq!(cursor(&server).await, 0);
    let bare = World::new().server().await;
    assert_eq!(reconcile(&bare, &wet).await.code(), "chain_unavailable");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_is_told_as_what_it_was_asked_for() {
    let (mut world, sabotage) = Sabotage::world();
    world.chain = Some(Counting::that(Says::Counts(7, 7)));
    let server = world.server().await;
    let (wet, dry) = (
        json!({ "reason": "x" }),
        json!({ "reason": "x", "dryRun": true }),
    );
    sabotage.fail("pause", Fault::Lost);
    let reply = reconcile(&server, &wet).await;
    assert_eq!(
        (reply.status, reply.code().as_str()),
        (504, "outcome_unknown")
    );
    assert_eq!(reconcile(&server, &dry).await.status, 200);
    assert!(
        !sabotage.was_answering("pause"),
        "a client that goes away stops nothing"
    );
    sabotage.repair();
    sabotage.fail("pause", Fault::Away);
    assert_eq!(reconcile(&server, &wet).await.code(), "store_unavailable");
    sabotage.repair();
    sabotage.fail("gaps", Fault::Away);
    assert_eq!(reconcile(&server, &dry).await.code(), "store_unavailable");
}

#[tokio::test(start_paused = true)]
async fn each_wrong_field_of_a_reconciliation_is_told_by_its_name() {
    let (world, _counting) = world(Says::Counts(7, 7));
    let server = world.server().await;
    let check = async |body: Value, expected: &[&str]| {
        assert_eq!(reconcile(&server, &body).await.fields(), expected, "{body}");
    };
    check(json!({}), &["reason"]).await;
    check(json!(true), &["body", "reason"]).await;
    check(json!({ "reason": "x", "dryRun": "yes" }), &["dryRun"]).await;
    check(json!({ "reason": "x", "dryRun": 1 }), &["dryRun"]).await;
    check(
        json!({ "reason": "x", "audit": 1, "dry": true }),
        &["dry", "audit"],
    )
    .await;
    let reason = json!({ "reason": "x" });
    assert_eq!(
        server.post(&path("bob"), &reason).await.fields(),
        ["signer"]
    );
    assert_eq!(
        server.post(&path(TO), &reason).await.code(),
        "unknown_signer"
    );
    let moon = json!({ "reason": "x", "chain": "moon" });
    assert_eq!(reconcile(&server, &moon).await.code(), "unknown_chain");
    assert_eq!(cursor(&server).await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_key_reconciles_its_own_signers_only() {
    let (mut world, _counting) = world(Says::Counts(7, 7));
    world.access = KEYS.access();
    let server = world.server().await;
    let body = r#"{"reason":"x"}"#;
    let reply = as_key(&server, "alice", "POST", &path(BOB), body).await;
    assert_eq!(reply.code(), "forbidden");
    assert_eq!(
        as_key(&server, "alice", "POST", &path(ALICE), body)
            .await
            .status,
        200
    );
}
