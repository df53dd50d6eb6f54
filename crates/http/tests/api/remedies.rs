//! What operators ask for: what is refused at once, and what is stored.

use std::time::Duration;

use fencepost_app::ports::{Action, ClaimedRemedy, Store};
use fencepost_domain::attempt::SignedFees;
use fencepost_domain::ids::TxId;
use serde_json::{Value, json};

use super::access::{KEYS, as_key};
use super::chain_steps::id;
use super::reserving::reserved;
use super::sabotage::{Fault, Sabotage};
use super::world::{BOB, Reply, Server, World, payment};

async fn ask(server: &Server, tx: &Value, body: &Value) -> Reply {
    let path = format!("/api/v1/tx/{}/remedy", tx["txId"].as_str().unwrap());
    server.post(&path, body).await
}

fn wish(action: &str) -> Value {
    json!({ "action": action, "reason": "it hangs" })
}

fn replace(fees: &Value) -> Value {
    let mut body = wish("REPLACE");
    body["fees"] = fees.clone();
    body
}

/// A world whose nodes store what is asked for and do not carry it out: that is not what is tested here.
fn world() -> World {
    let (world, sabotage) = Sabotage::world();
    sabotage.fail("claim_remedies", Fault::Away);
    world
}

/// What is stored for a transaction's lane, as its leader would find it.
async fn claimed(server: &Server, tx: TxId) -> Vec<ClaimedRemedy> {
    let held = server.held(tx).await;
    let holder = server.node.holder();
    let claimed = server.store.claim_remedies(holder, &[held], 10).await;
    claimed.unwrap().remedies
}

const DYNAMIC: SignedFees = SignedFees {
    max_fee: 100,
    max_priority_fee: Some(10),
};
const LEGACY: SignedFees = SignedFees {
    max_fee: 100,
    max_priority_fee: None,
};

#[tokio::test(start_paused = true)]
async fn a_remedy_is_stored_with_who_and_why_and_the_transaction_is_told() {
    let server = world().server().await;
    let sent = server.create(&payment(1)).await;
    server.sign(id(&sent), 1, DYNAMIC).await;
    let mut body = replace(&json!({ "maxFeePerGas": "0x6e", "maxPriorityFeePerGas": "11" }));
    body["audit"] = json!({ "ticket": 5, "by": { "phone": true } });
    let reply = ask(&server, &sent, &body).await;
    assert_eq!(reply.status, 202, "{}", reply.text());
    assert_eq!(reply.json()["txId"], sent["txId"]);
    assert_eq!(reply.json()["subState"], "SIGNED");
    let claimed = claimed(&server, id(&sent)).await;
    let [remedy] = &claimed[..] else {
        panic!("{claimed:?}");
    };
    let fees = SignedFees {
        max_fee: 110,
        max_priority_fee: Some(11),
    };
    assert_eq!((remedy.action, remedy.fees), (Action::Replace, Some(fees)));
    assert_eq!(
        (&*remedy.audit.by, &*remedy.audit.reason),
        ("anonymous", "it hangs")
    );
    let details: Value = serde_json::from_str(remedy.audit.details.as_ref().unwrap()).unwrap();
    assert_eq!(details, body["audit"]);
}

#[tokio::test(start_paused = true)]
async fn every_action_but_doing_nothing_can_be_asked_for() {
    let server = world().server().await;
    for action in ["RESUBMIT", "REPLACE", "CANCEL", "PLACEHOLDER"] {
        let sent = server.create(&payment(1)).await;
        let n = u8::try_from(sent["nonce"].as_u64().unwrap()).unwrap();
        server.sign(id(&sent), n + 1, DYNAMIC).await;
        let reply = ask(&server, &sent, &wish(action)).await;
        assert_eq!(reply.status, 202, "{}", reply.text());
        let claimed = claimed(&server, id(&sent)).await;
        let actions: Vec<_> = claimed.iter().map(|each| each.action.word()).collect();
        assert_eq!(actions, [action]);
        assert_eq!(claimed[0].fees, None);
    }
    let sent = server.create(&payment(1)).await;
    for action in ["NOOP", "DECIDE", "replace", "", "PANIC"] {
        let reply = ask(&server, &sent, &wish(action)).await;
        assert_eq!(reply.fields(), ["action"], "{action}");
        let expected = "is not one of RESUBMIT, REPLACE, CANCEL, PLACEHOLDER, FILL";
        assert!(reply.text().contains(expected), "{}", reply.text());
    }
    let reply = ask(&server, &sent, &wish("FILL")).await;
    assert_eq!(reply.fields(), ["action"], "it waits for no gap");
    assert!(reply.text().contains("not STUCK/GAP"), "{}", reply.text());
    assert!(claimed(&server, id(&sent)).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn one_remedy_runs_at_a_time_and_none_for_what_has_ended() {
    let server = world().server().await;
    let sent = server.create(&payment(1)).await;
    assert_eq!(ask(&server, &sent, &wish("CANCEL")).await.status, 202);
    let reply = ask(&server, &sent, &wish("RESUBMIT")).await;
    assert_eq!(
        (reply.status, reply.code().as_str()),
        (409, "remedy_running")
    );
    assert_eq!(reply.json()["txId"], sent["txId"]);
    server.reject(id(&sent)).await;
    let reply = ask(&server, &sent, &wish("RESUBMIT")).await;
    assert_eq!(
        (reply.status, reply.code().as_str()),
        (409, "already_final")
    );
    let nobody = json!({ "txId": "01890a5d-ac96-774b-bcce-b302099a8057" });
    let reply = ask(&server, &nobody, &wish("CANCEL")).await;
    assert_eq!((reply.status, reply.code().as_str()), (404, "not_found"));
}

#[tokio::test(start_paused = true)]
async fn each_wrong_field_of_a_remedy_is_told_by_its_name() {
    let server = world().server().await;
    let sent = server.create(&payment(1)).await;
    server.sign(id(&sent), 1, DYNAMIC).await;
    let check = async |body: Value, expected: &[&str]| {
        assert_eq!(
            ask(&server, &sent, &body).await.fields(),
            expected,
            "{body}"
        );
    };
    let with = |field: &str, value: Value| {
        let mut body = wish("REPLACE");
        body[field] = value;
        body
    };
    check(json!({}), &["action", "reason"]).await;
    check(json!([]), &["body", "action", "reason"]).await;
    check(with("action", json!(1)), &["action"]).await;
    check(with("reason", json!(" ")), &["reason"]).await;
    check(with("reason", json!("x".repeat(1_001))), &["reason"]).await;
    check(with("ticket", json!(5)), &["ticket"]).await;
    for audit in [json!(5), json!("x"), json!([{}]), json!(true)] {
        check(with("audit", audit), &["audit"]).await;
    }
    check(
        with("audit", json!({ "a": "x".repeat(16 * 1024) })),
        &["audit"],
    )
    .await;
    check(with("fees", json!("110")), &["fees"]).await;
    check(with("fees", json!({})), &["fees"]).await;
    check(with("fees", json!({ "tip": "1" })), &["fees.tip", "fees"]).await;
    check(
        with("fees", json!({ "maxFeePerGas": "110" })),
        &["fees.maxPriorityFeePerGas"],
    )
    .await;
    check(
        with(
            "fees",
            json!({ "maxFeePerGas": 1e18, "maxPriorityFeePerGas": "-1" }),
        ),
        &["fees.maxFeePerGas", "fees.maxPriorityFeePerGas"],
    )
    .await;
    check(
        with(
            "fees",
            json!({ "maxFeePerGas": "110", "maxPriorityFeePerGas": "111" }),
        ),
        &["fees.maxPriorityFeePerGas"],
    )
    .await;
    check(
        with("fees", json!({ "gasPrice": "200", "maxFeePerGas": "200" })),
        &["fees.gasPrice"],
    )
    .await;
    for action in ["RESUBMIT", "CANCEL", "PLACEHOLDER", "FILL"] {
        let mut body = replace(&json!({ "maxFeePerGas": "110", "maxPriorityFeePerGas": "11" }));
        body["action"] = json!(action);
        check(body, &["fees"]).await;
    }
    let reply = server.post("/api/v1/tx/7/remedy", &wish("CANCEL")).await;
    assert_eq!(reply.fields(), ["txId"]);
    assert!(
        claimed(&server, id(&sent)).await.is_empty(),
        "nothing was stored"
    );
}

/// That these fees are refused for these fields, in these words.
async fn refused(server: &Server, sent: &Value, fees: &Value, expected: &[(&str, &str)]) {
    let reply = ask(server, sent, &replace(fees)).await;
    let fields: Vec<_> = expected.iter().map(|(field, _)| *field).collect();
    assert_eq!(reply.fields(), fields, "{fees}");
    for (_, words) in expected {
        assert!(reply.text().contains(words), "{words}: {}", reply.text());
    }
}

#[tokio::test(start_paused = true)]
async fn fees_that_no_node_would_take_or_that_are_above_our_ceilings_are_refused() {
    let server = world().server().await;
    let (dynamic, legacy) = (
        server.create(&payment(1)).await,
        server.create(&payment(2)).await,
    );
    server.sign(id(&dynamic), 1, DYNAMIC).await;
    server.sign(id(&legacy), 2, LEGACY).await;
    let check = async |sent: &Value, fees: Value, expected: &[(&str, &str)]| {
        refused(&server, sent, &fees, expected).await;
    };
    let (cap, tip, price) = (
        "fees.maxFeePerGas",
        "fees.maxPriorityFeePerGas",
        "fees.gasPrice",
    );
    check(
        &dynamic,
        json!({ "maxFeePerGas": "1001", "maxPriorityFeePerGas": "101" }),
        &[
            (cap, "is above the ceiling of 1000 wei per gas"),
            (tip, "is above the ceiling of 100 wei per gas"),
        ],
    )
    .await;
    check(
        &dynamic,
        json!({ "maxFeePerGas": "109", "maxPriorityFeePerGas": "10" }),
        &[
            (cap, "must be at least 110: what it replaces pays 100"),
            (tip, "must be at least 11: what it replaces pays 10"),
        ],
    )
    .await;
    check(
        &dynamic,
        json!({ "gasPrice": "200" }),
        &[(
            price,
            "maxFeePerGas (at least 110) and maxPriorityFeePerGas (at least 11)",
        )],
    )
    .await;
    check(
        &legacy,
        json!({ "maxFeePerGas": "200", "maxPriorityFeePerGas": "20" }),
        &[(cap, "give gasPrice (at least 110)")],
    )
    .await;
    check(
        &legacy,
        json!({ "gasPrice": "109" }),
        &[(price, "must be at least 110")],
    )
    .await;
    check(
        &legacy,
        json!({ "gasPrice": "1001" }),
        &[(price, "is above the ceiling of 1000 wei per gas")],
    )
    .await;
    assert!(
        claimed(&server, id(&dynamic)).await.is_empty(),
        "nothing was stored"
    );
    let reply = ask(&server, &legacy, &replace(&json!({ "gasPrice": "110" }))).await;
    assert_eq!(reply.status, 202, "{}", reply.text());
}

#[tokio::test(start_paused = true)]
async fn what_we_cannot_sign_for_takes_no_remedy() {
    let mut world = world();
    let server = world.server().await;
    let sent = server.create(&payment(1)).await;
    let reply = ask(&server, &sent, &wish("REPLACE")).await;
    assert_eq!(reply.fields(), ["action"]);
    assert!(
        reply.text().contains("nothing was signed yet"),
        "{}",
        reply.text()
    );
    let lent = reserved(&server, &json!({})).await;
    let lent = json!({ "txId": lent["reservationId"] });
    for action in ["RESUBMIT", "CANCEL"] {
        let reply = ask(&server, &lent, &wish(action)).await;
        assert_eq!(reply.fields(), ["action"]);
        assert!(
            reply.text().contains("its holder signs for it"),
            "{}",
            reply.text()
        );
    }
    let mut bob = payment(1);
    bob["signer"] = json!(BOB);
    let bob = server.create(&bob).await;
    world.watch_only = vec![BOB];
    let watching = world.server_at("n2", "http://127.0.0.1:2").await;
    let reply = ask(&watching, &bob, &wish("CANCEL")).await;
    assert_eq!(reply.fields(), ["action"]);
    assert!(reply.text().contains("watch-only"), "{}", reply.text());
}

#[tokio::test(start_paused = true)]
async fn a_key_mends_its_own_signers_only() {
    let mut world = world();
    world.access = KEYS.access();
    let server = world.server().await;
    let mut bob = payment(1);
    bob["signer"] = json!(BOB);
    let reply = as_key(&server, "all", "POST", "/api/v1/tx", &bob.to_string()).await;
    let path = format!(
        "/api/v1/tx/{}/remedy",
        reply.json()["txId"].as_str().unwrap()
    );
    let body = wish("CANCEL").to_string();
    assert_eq!(
        as_key(&server, "alice", "POST", &path, &body).await.code(),
        "not_found"
    );
    assert_eq!(
        as_key(&server, "operate", "POST", &path, &body)
            .await
            .status,
        202
    );
    let claimed = claimed(&server, id(&reply.json())).await;
    assert_eq!(claimed[0].audit.by, "operate");
}

#[tokio::test(start_paused = true)]
async fn a_remedy_whose_answer_is_lost_or_late_is_unknown() {
    let (mut world, sabotage) = Sabotage::world();
    world.limits.request_timeout = Duration::from_secs(3);
    let server = world.server().await;
    let sent = server.create(&payment(1)).await;
    sabotage.fail("claim_remedies", Fault::Away);
    sabotage.fail("ask_remedy", Fault::Away);
    let reply = ask(&server, &sent, &wish("CANCEL")).await;
    assert_eq!(
        (reply.status, reply.code().as_str()),
        (503, "store_unavailable")
    );
    sabotage.repair();
    sabotage.fail("find", Fault::Silent);
    let reply = ask(&server, &sent, &wish("CANCEL")).await;
    assert_eq!((reply.status, reply.code().as_str()), (503, "timed_out"));
    sabotage.repair();
    sabotage.fail("claim_remedies", Fault::Away);
    for fault in [Fault::Silent, Fault::Lost] {
        sabotage.fail("ask_remedy", fault);
        let reply = ask(&server, &sent, &wish("CANCEL")).await;
        assert_eq!(
            (reply.status, reply.code().as_str()),
            (504, "outcome_unknown")
        );
        assert_eq!(reply.json()["txId"], sent["txId"]);
        sabotage.repair();
        sabotage.fail("claim_remedies", Fault::Away);
    }
    assert_eq!(claimed(&server, id(&sent)).await.len(), 1);
    assert!(
        !sabotage.was_answering("ask_remedy"),
        "a client that goes away stops nothing"
    );
}
