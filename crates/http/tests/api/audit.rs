//! The whole audit: what was done and what was refused, in order and bounded.

use serde_json::{Value, json};

use super::access::{KEYS, as_key};
use super::sabotage::{Fault, Sabotage};
use super::world::{ALICE, BOB, Server, World, payment};

const AUDIT: &str = "/api/v1/audit";

async fn guarded(refusals_per_minute: u32) -> Server {
    let mut world = World::new();
    world.access = KEYS.access();
    world.limits.audited_refusals_per_minute = refusals_per_minute;
    world.server().await
}

async fn entries(server: &Server, key: &str, query: &str) -> (Vec<Value>, u64) {
    let reply = as_key(server, key, "GET", &format!("{AUDIT}{query}"), "").await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    let told = reply.json();
    (
        told["entries"].as_array().unwrap().clone(),
        told["next"].as_u64().unwrap(),
    )
}

fn of_signer(signer: &str, act: &str) -> String {
    format!("/api/v1/signers/{signer}/{act}")
}

fn why() -> Value {
    json!({ "reason": "key is moved", "audit": { "ticket": "OPS-7" } })
}

/// A pause that is done, and calls that are refused; the last of them is to this path.
async fn acts_and_refusals(server: &Server) -> String {
    let post = async |key: &str, path: &str, body: Value| {
        as_key(server, key, "POST", path, &body.to_string()).await
    };
    let sent = post("all", "/api/v1/tx", payment(1)).await.json();
    let remedy = format!("/api/v1/tx/{}/remedy", sent["txId"].as_str().unwrap());
    let wish = json!({ "action": "ASK", "reason": "now" });
    for (key, path, body, status) in [
        ("operate", &*of_signer(ALICE, "pause"), why(), 200),
        // Without the scope, on a route for operators and on another one.
        ("read", &of_signer(ALICE, "resume"), why(), 403),
        ("read", "/api/v1/tx", payment(2), 403),
        // With the scope, and in vain.
        ("operate", &of_signer(ALICE, "pause"), json!({}), 422),
        ("alice", &of_signer(BOB, "pause"), why(), 403),
        ("operate", &remedy, wish, 409),
    ] {
        assert_eq!(post(key, path, body).await.status, status, "{key} {path}");
    }
    remedy
}

#[tokio::test(start_paused = true)]
async fn what_was_done_and_refused_is_told_in_order_with_who_and_where() {
    let server = guarded(60).await;
    assert_eq!(entries(&server, "all", "").await, (vec![], 0));
    let remedy = acts_and_refusals(&server).await;
    let (all, _) = entries(&server, "all", "").await;
    let told = all.iter().map(|entry| {
        let path = &entry["audit"]["path"];
        json!([entry["action"], entry["by"], entry["result"], path])
    });
    let (pause, resume) = (of_signer(ALICE, "pause"), of_signer(ALICE, "resume"));
    let expected = [
        json!(["PAUSE", "operate", null, null]),
        json!(["CALL", "read", "403 forbidden", resume]),
        json!(["CALL", "read", "403 forbidden", "/api/v1/tx"]),
        json!(["CALL", "operate", "422 invalid_request", pause]),
        json!(["CALL", "alice", "403 forbidden", of_signer(BOB, "pause")]),
        json!(["CALL", "operate", "409 no_policy", remedy]),
    ];
    assert_eq!(told.collect::<Vec<_>>(), expected);
    assert!(all.iter().all(|entry| entry["node"] == "n1"), "{all:?}");
    assert!(all[1..].iter().all(|entry| entry["state"] == "REFUSED"));
    assert_eq!(all[1]["audit"]["method"], "POST");
    let expected = [
        ("state", json!("DONE")),
        ("signer", json!(ALICE)),
        ("chain", json!("main")),
        ("token", json!(1)),
        ("reason", why()["reason"].clone()),
        ("audit", why()["audit"].clone()),
        ("before", json!("paused=none next_nonce=1")),
        ("after", json!("paused=OPERATOR next_nonce=1")),
    ];
    for (field, expected) in expected {
        assert_eq!(all[0][field], expected, "{field}");
    }
}

/// Page by page it is the same, and a reader that has all stays where it is.
#[tokio::test(start_paused = true)]
async fn the_audit_is_read_page_by_page() {
    let server = guarded(60).await;
    acts_and_refusals(&server).await;
    let (mut pages, mut after) = (Vec::new(), 0);
    loop {
        let (page, next) = entries(&server, "all", &format!("?after={after}&limit=2")).await;
        if next == after {
            break;
        }
        pages.extend(page);
        after = next;
    }
    assert_eq!((pages, after), entries(&server, "all", "").await);
}

#[tokio::test(start_paused = true)]
async fn a_key_of_some_signers_reads_of_them_and_of_itself() {
    let server = guarded(60).await;
    let why = json!({ "reason": "x" }).to_string();
    for (key, signer) in [
        ("all", ALICE),
        ("all", BOB),
        ("read", ALICE),
        ("alice", BOB),
    ] {
        as_key(&server, key, "POST", &of_signer(signer, "pause"), &why).await;
    }
    let (seen, next) = entries(&server, "alice", "").await;
    let seen: Vec<Value> = seen
        .iter()
        .map(|entry| json!([entry["by"], entry["action"]]))
        .collect();
    assert_eq!(json!(seen), json!([["all", "PAUSE"], ["alice", "CALL"]]));
    let (all, last) = entries(&server, "all", "").await;
    assert_eq!((all.len(), last), (4, next));
    for key in ["read", "submit"] {
        let reply = as_key(&server, key, "GET", AUDIT, "").await;
        assert_eq!(reply.status, 403, "{key}");
    }
    for (query, field) in [
        ("after=-1", "after"),
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("x=1", "x"),
    ] {
        let reply = as_key(&server, "all", "GET", &format!("{AUDIT}?{query}"), "").await;
        assert_eq!(reply.fields(), [field], "{query}");
    }
}

/// A key that may do nothing cannot fill the disk, nor hide what operators did in vain.
#[tokio::test(start_paused = true)]
async fn refused_calls_are_stored_up_to_a_rate_and_counted_above_it() {
    let server = guarded(3).await;
    let why = json!({ "reason": "x" }).to_string();
    let pause = of_signer(ALICE, "pause");
    for _ in 0..50 {
        assert_eq!(
            as_key(&server, "read", "POST", &pause, &why).await.status,
            403
        );
    }
    assert_eq!(
        as_key(&server, "operate", "POST", &pause, "{}")
            .await
            .status,
        422
    );
    let (all, _) = entries(&server, "all", "").await;
    let told: Vec<Value> = all
        .iter()
        .map(|entry| json!([entry["by"], entry["audit"]["leftOut"]]))
        .collect();
    assert_eq!(
        json!(told),
        json!([["read", 0], ["read", 0], ["read", 0], ["operate", 47]])
    );

    let server = guarded(0).await;
    assert_eq!(
        as_key(&server, "read", "POST", &pause, &why).await.status,
        403
    );
    assert_eq!(entries(&server, "all", "").await.0, [json!(null); 0]);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_answered_without_the_store() {
    let (mut world, sabotage) = Sabotage::world();
    world.access = KEYS.access();
    let server = world.server().await;
    for fault in [Fault::Away, Fault::Silent] {
        sabotage.fail("record_refusal", fault);
        let reply = as_key(&server, "read", "POST", &of_signer(ALICE, "pause"), "{}").await;
        assert_eq!((reply.status, reply.code().as_str()), (403, "forbidden"));
        sabotage.repair();
    }
    let reply = as_key(&server, "read", "POST", &of_signer(ALICE, "pause"), "{}").await;
    assert_eq!(reply.status, 403);
    let (all, _) = entries(&server, "all", "").await;
    assert_eq!(all.last().unwrap()["audit"]["leftOut"], 2);
}
