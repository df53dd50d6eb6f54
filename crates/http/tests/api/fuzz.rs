//! Bodies that nobody sane would send: whatever they are, the answer is a 4xx problem, nothing panics
//! and nothing is stored; where a change happens to leave a body valid, just that one is. Generated from a seed, which a failure prints.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use axum::http::Method;
use fencepost_app::ports::Store;
use proptest::prelude::*;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Value, json};

use super::counting::{Counting, Says};
use super::world::{ALICE, BOB, Server, TO, World, lane_on};

/// At least this many bodies.
const BODIES: usize = 12_000;
/// The first failing body can be found again with it.
const SEED: [u8; 32] = *b"fenceposts are one more than gap";

/// Any JSON, some of it deep and some of it out of range.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        Just(json!(u64::MAX)),
        any::<String>().prop_map(Value::from),
        "0x[0-9a-zA-Z]{0,80}".prop_map(Value::from),
        "[0-9]{0,90}".prop_map(Value::from),
        Just(json!(ALICE)),
        Just(json!(TO)),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map(".{0,8}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// A body that would be valid but for one change, which may be none that matters.
fn nearly_valid() -> impl Strategy<Value = Value> {
    let fields = prop::sample::select(vec![
        "signer",
        "chain",
        "requestId",
        "notAfter",
        "payload",
        "payload.to",
        "payload.value",
        "payload.data",
        "payload.gas",
        "payload.gasPrice",
        "payload.maxFeePerGas",
        "payload.maxPriorityFeePerGas",
        "payload.accessList",
        "unknown",
        "payload.unknown",
    ]);
    (fields, any_json()).prop_map(|(field, value)| {
        let mut body =
            json!({ "signer": ALICE, "payload": { "to": TO, "value": "1", "gas": "21000" } });
        match field.strip_prefix("payload.") {
            Some(inner) => body["payload"][inner] = value,
            None => body[field] = value,
        }
        body
    })
}

/// A body of an operator or of a holder that would be valid but for one field.
fn nearly_valid_of(base: &Value) -> impl Strategy<Value = Value> + use<> {
    let mut fields: Vec<String> = base.as_object().unwrap().keys().cloned().collect();
    fields.push("unknown".to_owned());
    let base = base.clone();
    (prop::sample::select(fields), any_json()).prop_map(move |(field, value)| {
        let mut body = base.clone();
        body[&field] = value;
        body
    })
}

/// What is done to the text of a body.
#[derive(Debug, Clone)]
enum Damage {
    None,
    Cut(prop::sample::Index),
    Flip(prop::sample::Index, u8),
    Deep(usize),
    Large,
    Repeat,
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        8 => Just(Damage::None),
        3 => any::<prop::sample::Index>().prop_map(Damage::Cut),
        3 => (any::<prop::sample::Index>(), 1..=255u8).prop_map(|(at, by)| Damage::Flip(at, by)),
        1 => (100..5_000usize).prop_map(Damage::Deep),
        1 => Just(Damage::Large),
        1 => Just(Damage::Repeat),
    ]
}

fn damaged(text: String, damage: Damage) -> Vec<u8> {
    let mut bytes = text.into_bytes();
    match damage {
        Damage::None => {}
        Damage::Cut(at) => bytes.truncate(at.index(bytes.len())),
        Damage::Flip(at, by) => {
            let at = at.index(bytes.len());
            bytes[at] ^= by;
        }
        Damage::Deep(levels) => {
            let mut deep = b"{\"payload\":".to_vec();
            deep.extend(std::iter::repeat_n(b'[', levels));
            bytes = deep;
        }
        Damage::Large => bytes.extend(std::iter::repeat_n(b' ', 256 * 1024)),
        Damage::Repeat => bytes.extend(bytes.clone()),
    }
    bytes
}

/// Notes what was stored by its id.
async fn check(server: &Server, path: &str, bytes: Vec<u8>, stored: &mut BTreeSet<String>) {
    let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(2_000)]).into_owned();
    let reply = server.call(Method::POST, path, bytes).await;
    let (status, text) = (reply.status, reply.text());
    // A batch is answered with 200 when it is one; then each of its results is a problem.
    if status == 200 && path.ends_with("batch") {
        for result in reply.json()["results"].as_array().unwrap() {
            let status = result["status"].as_u64().unwrap();
            if let Some(id) = result["transaction"]["txId"].as_str() {
                stored.insert(id.to_owned());
                continue;
            }
            assert!((400..500).contains(&status), "{shown}\n{text}");
        }
        return;
    }
    if matches!(status, 200 | 202) && path.ends_with("tx") {
        stored.insert(reply.json()["txId"].as_str().unwrap().to_owned());
        return;
    }
    if matches!(status, 200 | 201) && path.ends_with("reserve") {
        let told = reply.json();
        let list = told["reservations"].as_array();
        let list = list.cloned().unwrap_or_else(|| vec![told.clone()]);
        let id = |each: &Value| each["reservationId"].as_str().unwrap().to_owned();
        stored.extend(list.iter().map(id));
        return;
    }
    let changes = ["submitted", "extend", "reconcile"];
    if status == 200 && changes.iter().any(|verb| path.ends_with(verb)) {
        return;
    }
    assert!((400..500).contains(&status), "{status} {shown}\n{text}");
}

#[tokio::test]
async fn a_body_is_refused_and_leaves_nothing_or_is_stored_and_told() {
    let server = World::new().server().await;
    let bodies = (prop_oneof![2 => nearly_valid(), 1 => any_json()], damage());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &SEED);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let pause = format!("/api/v1/signers/{ALICE}/pause");
    let began = Instant::now();
    let mut stored = BTreeSet::new();
    for n in 0..BODIES {
        let (body, damage) = bodies.new_tree(&mut runner).unwrap().current();
        let (path, body) = match n % 4 {
            0 | 1 => ("/api/v1/tx", body),
            2 => (
                "/api/v1/tx/batch",
                json!({ "requests": [body.clone(), body] }),
            ),
            _ => (&*pause, body),
        };
        check(
            &server,
            path,
            damaged(body.to_string(), damage),
            &mut stored,
        )
        .await;
    }
    let alice = server.store.lane(lane_on(1, ALICE)).await.unwrap().unwrap();
    let spent = usize::try_from(alice.next_nonce.get()).unwrap();
    assert_eq!(spent, stored.len(), "what was refused has left something");
    assert_eq!(alice.queued, 0);
    assert!(
        stored.len() < BODIES / 4,
        "most of them are no requests: {}",
        stored.len()
    );
    assert!(
        began.elapsed() < Duration::from_secs(300),
        "{:?}",
        began.elapsed()
    );
}

/// Bob's key is nobody's, so that whatever is valid for him is lent or refused; what Alice lends is counted.
#[tokio::test]
async fn what_operators_and_holders_send_is_refused_and_leaves_nothing_or_is_done() {
    let mut world = World::new();
    world.watch_only = vec![BOB];
    world.chain = Some(Counting::that(Says::Counts(0, 0)));
    let server = world.server().await;
    let lent = server
        .post("/api/v1/nonces/reserve", &json!({ "signer": BOB }))
        .await;
    let (lent, bob) = (lent.json(), format!("/api/v1/signers/{BOB}"));
    let (id, lock) = (lent["reservationId"].as_str().unwrap(), &lent["lockToken"]);
    let hash = format!("0x{}", "ab".repeat(32));
    let fees = json!({ "maxFeePerGas": "110", "maxPriorityFeePerGas": "11" });
    let (nonces, audit) = (format!("/api/v1/nonces/{id}"), json!({ "ticket": 5 }));
    let routes = [
        (
            "/api/v1/nonces/reserve".to_owned(),
            json!({ "signer": ALICE, "ttlSeconds": 60, "count": 1, "chain": "main", "requestId": null }),
        ),
        (
            format!("{nonces}/submitted"),
            json!({ "lockToken": lock, "txHash": hash }),
        ),
        (
            format!("{nonces}/extend"),
            json!({ "lockToken": lock, "ttlSeconds": 60 }),
        ),
        (
            format!("/api/v1/tx/{id}/remedy"),
            json!({ "action": "REPLACE", "reason": "x", "fees": fees, "audit": audit }),
        ),
        (
            format!("{bob}/placeholder"),
            json!({ "nonce": 0, "reason": "x", "audit": audit, "chain": "main", "requestId": "a" }),
        ),
        (
            format!("/api/v1/signers/{ALICE}/reconcile"),
            json!({ "reason": "x", "dryRun": false, "audit": audit, "chain": "main" }),
        ),
    ];
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &SEED);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let mut stored = BTreeSet::new();
    for (path, base) in &routes {
        let bodies = prop_oneof![3 => nearly_valid_of(base), 1 => any_json()];
        let bodies = (bodies, damage());
        for _ in 0..BODIES / 12 {
            let (body, damage) = bodies.new_tree(&mut runner).unwrap().current();
            let bytes = damaged(body.to_string(), damage);
            check(&server, path, bytes, &mut stored).await;
        }
    }
    let alice = server.store.lane(lane_on(1, ALICE)).await.unwrap().unwrap();
    let spent = usize::try_from(alice.next_nonce.get()).unwrap();
    assert_eq!(spent, stored.len(), "what was refused has left something");
    assert!(!stored.is_empty(), "some of them are valid");
    let bob = server.store.lane(lane_on(1, BOB)).await.unwrap().unwrap();
    assert_eq!(bob.next_nonce.get(), 1);
}

#[tokio::test]
async fn no_query_does_anything_but_be_answered() {
    let server = World::new().server().await;
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &SEED);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let parts = "[a-z0-9=&%+/?.~-]{0,30}";
    let routes = prop::sample::select(vec![
        "/api/v1/tx",
        "/api/v1/tx/by-request",
        "/api/v1/tx/by-nonce",
        "/api/v1/tx/completions",
        "/api/v1/signers",
        "/api/v1/tx/by-hash/",
        "/api/v1/signers/",
        "/api/v1/tx/",
        "/api/v1/nonces/",
        "/api/v1/signers/0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed/audit",
        "/docs/",
    ]);
    let keys = prop::sample::select(vec![
        "signer",
        "chain",
        "limit",
        "cursor",
        "after",
        "nonce",
        "state",
        "requestId",
    ]);
    let queries = (routes, parts, keys, parts);
    for _ in 0..3_000 {
        let (route, rest, key, value) = queries.new_tree(&mut runner).unwrap().current();
        let tail = if route.ends_with('/') {
            rest
        } else {
            format!("?{rest}")
        };
        let mark = if tail.contains('?') { '&' } else { '?' };
        let path = format!("{route}{tail}{mark}{key}={value}");
        if path.parse::<axum::http::Uri>().is_err() {
            continue;
        }
        let reply = server.get(&path).await;
        assert!(reply.status < 500, "{path}: {}", reply.text());
    }
}
