//! Signers that come from another service and go back: cursors, imports, exports.

use std::sync::Arc;

use fencepost_app::ports::{Chain, CountMode, Store};
use serde_json::{Value, json};

use super::counting::{Counting, Says};
use super::world::{ALICE, BOB, Reply, Server, World, lane_on, named, payment};

fn path(verb: &str) -> String {
    format!("/api/v1/signers/{ALICE}/{verb}")
}

async fn paused(server: &Server) {
    let reply = server.post(&path("pause"), &json!({ "reason": "x" })).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
}

async fn resumed(server: &Server) {
    let reply = server
        .post(&path("resume"), &json!({ "reason": "x" }))
        .await;
    assert_eq!(reply.status, 200, "{}", reply.text());
}

async fn import(server: &Server, body: &Value) -> Reply {
    server.post(&path("import"), body).await
}

async fn signer(server: &Server) -> Value {
    server.get(&format!("/api/v1/signers/{ALICE}")).await.json()
}

fn hash(n: u8) -> String {
    format!("0x{}", format!("{n:02x}").repeat(32))
}

/// A world whose chain has this in blocks.
fn world(latest: u64) -> World {
    let mut world = World::new();
    let counting = Counting::that(Says::Counts(latest, latest));
    world.chain = Some(counting as Arc<dyn Chain>);
    world
}

fn file() -> Value {
    json!({
        "signer": ALICE, "chain": "main", "nextNonce": 9, "reason": "from the old service", "open": [
            { "nonce": 5, "requestId": "order-5", "state": "RESERVED" },
            { "nonce": 6, "txHash": hash(6), "state": "SUBMITTED" },
            { "nonce": 3, "txHash": hash(3), "state": "TRACKING" },
        ],
    })
}

#[tokio::test(start_paused = true)]
async fn a_cursor_is_set_on_a_paused_signer_above_what_is_held() {
    let server = World::new().server().await;
    server.create(&payment(1)).await;
    let set = async |next: u64| {
        let body = json!({ "nextNonce": next, "reason": "moved" });
        server.post(&path("cursor"), &body).await
    };
    assert_eq!(set(7).await.code(), "signer_not_paused");
    paused(&server).await;
    let held = set(0).await;
    assert_eq!((held.status, held.code()), (409, "nonce_held".to_owned()));
    assert!(held.text().contains("Nonce 0"), "{}", held.text());
    assert_eq!(set(7).await.json()["nextNonce"], 7);
    assert_eq!(set(4).await.json()["nextNonce"], 4);
    resumed(&server).await;
    assert_eq!(server.create(&payment(2)).await["nonce"], 4);
    let acts = server.get(&path("audit")).await.json();
    let acts = acts["acts"].as_array().unwrap().clone();
    let acts: Vec<&Value> = acts.iter().map(|act| &act["action"]).collect();
    assert_eq!(acts[1..3], ["LOWER_CURSOR", "RAISE_CURSOR"]);
}

/// A nonce below the chain's count is used. Whether the leader would raise the cursor again depends on endpoints that
/// answer and agree at that moment.
#[tokio::test(start_paused = true)]
async fn a_cursor_is_never_set_below_what_any_endpoint_has_seen_used() {
    let mut world = World::new();
    let counting = Counting::that(Says::Counts(5, 7));
    world.chain = Some(Arc::clone(&counting) as Arc<dyn Chain>);
    let server = world.server().await;
    paused(&server).await;
    let set = async |next: u64| {
        let body = json!({ "nextNonce": next, "reason": "moved" });
        server.post(&path("cursor"), &body).await
    };
    let low = set(4).await;
    assert_eq!(
        (low.code().as_str(), low.fields()),
        ("invalid_request", vec!["nextNonce".to_owned()])
    );
    assert!(low.text().contains("below 5"), "{}", low.text());
    assert_eq!(
        set(5).await.json()["nextNonce"],
        5,
        "what is in pools only may be replaced"
    );
    // One endpoint says 5, another 7: the highest counts, as for an import.
    counting.now(Says::Quarrels);
    assert_eq!(set(6).await.code(), "invalid_request");
    assert_eq!(set(7).await.json()["nextNonce"], 7);
    counting.now(Says::Nothing);
    assert_eq!(set(8).await.code(), "chain_unavailable");
    assert_eq!(signer(&server).await["nextNonce"], 7);
}

#[tokio::test(start_paused = true)]
async fn a_cursor_without_a_number_or_a_reason_changes_nothing() {
    let server = World::new().server().await;
    paused(&server).await;
    let wrong = json!({ "nextNonce": "7", "why": 1 });
    let reply = server.post(&path("cursor"), &wrong).await;
    assert_eq!(reply.status, 422);
    assert_eq!(reply.fields(), ["why", "nextNonce", "reason"]);
    assert_eq!(signer(&server).await["nextNonce"], 0);
}

#[tokio::test(start_paused = true)]
async fn what_was_given_elsewhere_is_taken_over_and_exported_as_it_came() {
    let server = world(2).server().await;
    assert_eq!(import(&server, &file()).await.code(), "signer_not_paused");
    paused(&server).await;
    let mut dry = file();
    dry["dryRun"] = json!(true);
    let told = import(&server, &dry).await.json();
    assert_eq!(told["nextNonce"], json!({ "before": 0, "after": 9 }));
    // 2 is not in a block and nobody has it, and so are those between.
    assert_eq!(
        (&told["gaps"], &told["dryRun"]),
        (&json!([2, 4, 7, 8]), &json!(true))
    );
    assert_eq!(told["open"][0]["txId"], Value::Null);
    assert_eq!(signer(&server).await["nextNonce"], 0, "nothing was changed");

    let done = import(&server, &file()).await.json();
    assert_eq!(done["gaps"], told["gaps"]);
    let states: Vec<&Value> = (0..3).map(|n| &done["open"][n]["state"]).collect();
    assert_eq!(states, ["RESERVED", "SUBMITTED", "SUBMITTED"]);
    let lock = done["open"][0]["lockToken"].as_str().unwrap().to_owned();
    let id = done["open"][0]["txId"].as_str().unwrap().to_owned();
    assert_eq!(signer(&server).await["nextNonce"], 9);

    let first = server.get(&path("export")).await.json();
    let expected = json!([
        { "nonce": 3, "txHash": hash(3), "state": "SUBMITTED" },
        { "nonce": 5, "requestId": "order-5", "state": "RESERVED" },
        { "nonce": 6, "txHash": hash(6), "state": "SUBMITTED" },
    ]);
    assert_eq!(
        (&first["nextNonce"], &first["open"]),
        (&json!(9), &expected)
    );
    // On an empty signer the export is the import, and gives itself back.
    let other = world(2).server().await;
    paused(&other).await;
    let took = import(&other, &first).await;
    assert_eq!(took.status, 200, "{}", took.text());
    assert_eq!(other.get(&path("export")).await.json(), first);

    let body = json!({ "lockToken": lock, "txHash": hash(5) });
    let used = server
        .post(&format!("/api/v1/nonces/{id}/submitted"), &body)
        .await;
    assert_eq!(used.json()["state"], "SUBMITTED", "{}", used.text());
    resumed(&server).await;
    assert_eq!(server.create(&payment(1)).await["nonce"], 9);
    // The name is known: the old service has taken that request.
    let again = server.post("/api/v1/tx", &named("order-5", 1)).await;
    assert_eq!(again.code(), "idempotency_conflict");
}

/// The operator passes the lock tokens on by hand: two minutes of `reservation.ttl` and grace would be over before
/// their holders have them.
#[tokio::test(start_paused = true)]
async fn imported_reservations_last_a_day_unless_the_file_says_otherwise() {
    let world = world(2);
    let server = world.server().await;
    paused(&server).await;
    let open = json!([
        { "nonce": 2, "state": "RESERVED" },
        { "nonce": 3, "state": "RESERVED", "ttlSeconds": 3_600 },
    ]);
    let body = json!({ "nextNonce": 4, "open": open, "reason": "x" });
    let done = import(&server, &body).await;
    assert_eq!(done.status, 200, "{}", done.text());
    let now = world.now();
    for (at, seconds) in [(0, 86_400), (1, 3_600)] {
        let id = done.json()["open"][at]["txId"].as_str().unwrap().to_owned();
        let told = server.get(&format!("/api/v1/nonces/{id}")).await.json();
        let until: jiff::Timestamp = told["expiresAt"].as_str().unwrap().parse().unwrap();
        let lasts = until.duration_since(now).as_secs();
        assert!(
            (seconds - 60..=seconds).contains(&lasts),
            "{lasts} s, {told}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_time_to_live_is_a_reservations_and_at_most_a_day() {
    let server = world(2).server().await;
    paused(&server).await;
    let long = json!([{ "nonce": 2, "state": "RESERVED", "ttlSeconds": 86_401 }]);
    check(&server, 4, long, &["open[0].ttlSeconds"]).await;
    let sent = json!([{ "nonce": 2, "state": "SUBMITTED", "txHash": hash(1), "ttlSeconds": 60 }]);
    check(&server, 4, sent, &["open[0].ttlSeconds"]).await;
}

/// Its answer has the lock tokens. Whoever did not get it sends the file again.
#[tokio::test(start_paused = true)]
async fn a_file_that_was_imported_is_answered_with_what_is_there() {
    let server = world(2).server().await;
    paused(&server).await;
    let first = import(&server, &file()).await.json();
    let rows = server.rows().await;
    let again = import(&server, &file()).await;
    assert_eq!(again.status, 200, "{}", again.text());
    let again = again.json();
    assert_eq!(again["open"], first["open"], "with the same lock tokens");
    assert_eq!(again["nextNonce"], json!({ "before": 9, "after": 9 }));
    assert_eq!(again["gaps"], first["gaps"]);
    assert_eq!(server.rows().await, rows, "nothing was written");
    let acts = server.get(&path("audit")).await.json();
    let imports = acts["acts"].as_array().unwrap().iter();
    let imports = imports.filter(|act| act["action"] == "IMPORT");
    assert_eq!(imports.count(), 1);
    // Its holder has used it meanwhile: what is there is told.
    let id = first["open"][0]["txId"].as_str().unwrap();
    let lock = &first["open"][0]["lockToken"];
    let body = json!({ "lockToken": lock, "txHash": hash(5) });
    let used = format!("/api/v1/nonces/{id}/submitted");
    assert_eq!(server.post(&used, &body).await.status, 200);
    let again = import(&server, &file()).await.json();
    let told = &again["open"][0];
    assert_eq!(
        (&told["state"], &told["lockToken"]),
        (&json!("SUBMITTED"), lock)
    );
    assert_eq!(told["txHash"], hash(5));
}

#[tokio::test(start_paused = true)]
async fn another_file_about_nonces_that_are_held_is_a_conflict() {
    let server = world(2).server().await;
    paused(&server).await;
    assert_eq!(import(&server, &file()).await.status, 200);
    let before = server.rows().await;
    let change = |at: usize, field: &str, value: Value| {
        let mut file = file();
        file["open"][at][field] = value;
        file
    };
    for (what, body) in [
        ("another name", change(0, "requestId", json!("order-6"))),
        ("no name", change(0, "requestId", Value::Null)),
        ("another hash", change(1, "txHash", json!(hash(7)))),
        ("another nonce", change(1, "nonce", json!(7))),
    ] {
        let reply = import(&server, &body).await;
        assert_eq!(reply.code(), "invalid_request", "{what}");
    }
    let mut more = file();
    let new = json!({ "nonce": 8, "state": "RESERVED" });
    more["open"].as_array_mut().unwrap().push(new);
    assert_eq!(import(&server, &more).await.code(), "invalid_request");
    let mut further = file();
    further["nextNonce"] = json!(10);
    assert_eq!(import(&server, &further).await.code(), "invalid_request");
    assert_eq!(server.rows().await, before);
    resumed(&server).await;
    assert_eq!(import(&server, &file()).await.code(), "signer_not_paused");
}

/// Both sides have given the nonce away: the file must not be answered with the lock token of the one here.
#[tokio::test(start_paused = true)]
async fn a_nonce_that_was_lent_here_is_not_taken_for_an_imported_one() {
    let server = world(0).server().await;
    let body = json!({ "signer": ALICE, "requestId": "order-0" });
    let lent = server.post("/api/v1/nonces/reserve", &body).await;
    assert_eq!(lent.json()["nonce"], 0, "{}", lent.text());
    paused(&server).await;
    let open = json!([{ "nonce": 0, "requestId": "order-0", "state": "RESERVED" }]);
    check(&server, 1, open, &["open[0].nonce"]).await;
}

/// Imports these, and looks which fields are wrong.
async fn check(server: &Server, next: u64, open: Value, fields: &[&str]) {
    let body = json!({ "nextNonce": next, "open": open, "reason": "x" });
    let reply = import(server, &body).await;
    assert_eq!(
        (reply.status, reply.code()),
        (422, "invalid_request".to_owned())
    );
    assert_eq!(reply.fields(), fields, "{}", reply.text());
}

/// Nonce 9, signed by another key: the example of EIP-155.
const FOREIGN: &str = "0xf86c098504a817c800825208943535353535353535353535353535353535353535880de0b6b3a76400008025a028ef61340bd939bc2195fe537567866003e1a15d3c71ff63e1590620aa636276a067cbe9d8997f761aecb703304b3800ccf555c9f3dc64214b297fb1966a3b6d83";

#[tokio::test(start_paused = true)]
async fn every_item_that_cannot_be_taken_is_named_and_nothing_is_changed() {
    let server = world(2).server().await;
    server.create(&named("known", 1)).await;
    paused(&server).await;
    let before = server.rows().await;
    let (one, two) = (hash(1), hash(2));
    for (item, fields) in [
        (
            json!({ "nonce": 9, "state": "RESERVED" }),
            ["nonce"].as_slice(),
        ),
        (json!({ "nonce": 1, "state": "RESERVED" }), &["nonce"]),
        (
            json!({ "nonce": 0, "state": "SUBMITTED", "txHash": one }),
            &["nonce"],
        ),
        (json!({ "nonce": 2, "state": "SUBMITTED" }), &["txHash"]),
        (
            json!({ "nonce": 2, "state": "TRACKING" }),
            &["rawTransaction"],
        ),
        (
            json!({ "nonce": 8, "state": "TRACKING", "rawTransaction": FOREIGN }),
            &["rawTransaction"],
        ),
        (
            json!({ "nonce": 2, "state": "TRACKING", "rawTransaction": "0x00" }),
            &["rawTransaction"],
        ),
        (
            json!({ "nonce": 2, "state": "RESERVED", "txHash": two }),
            &["state"],
        ),
        (
            json!({ "nonce": 2, "state": "SUBMITTED", "rawTransaction": FOREIGN }),
            &["state"],
        ),
        (
            json!({ "nonce": 2, "state": "DONE", "extra": 1 }),
            &["extra", "state"],
        ),
        (
            json!({ "nonce": 5, "state": "RESERVED", "requestId": "known" }),
            &["requestId"],
        ),
    ] {
        let fields: Vec<String> = fields
            .iter()
            .map(|field| format!("open[0].{field}"))
            .collect();
        let fields: Vec<&str> = fields.iter().map(|field| &**field).collect();
        check(&server, 9, json!([item]), &fields).await;
    }
    assert_eq!(server.rows().await, before);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_cannot_be_right_changes_nothing() {
    let server = world(2).server().await;
    paused(&server).await;
    let twice = json!([
        { "nonce": 2, "state": "RESERVED", "requestId": "a" },
        { "nonce": 2, "state": "RESERVED" },
        { "nonce": 3, "state": "RESERVED", "requestId": "a" },
        { "nonce": 4, "state": "SUBMITTED", "txHash": hash(1) },
        { "nonce": 5, "state": "SUBMITTED", "txHash": hash(1) },
    ]);
    let wrong = ["open[1].nonce", "open[2].requestId", "open[4].txHash"];
    check(&server, 9, twice, &wrong).await;
    let many = (2..1_003).map(|n| json!({ "nonce": n, "state": "RESERVED" }));
    check(&server, 5_000, many.collect(), &["open"]).await;
    check(&server, 9, json!({ "nonce": 2 }), &["open"]).await;
    // The chain has used nonces 0 and 1: whoever wrote the file did not know that.
    check(&server, 1, json!([]), &["nextNonce"]).await;
    let foreign = json!({ "signer": BOB, "nextNonce": 9, "open": [], "reason": "x" });
    assert_eq!(import(&server, &foreign).await.fields(), ["signer"]);
    assert_eq!(signer(&server).await["nextNonce"], 0);
    assert!(server.rows().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_nonce_that_is_held_here_is_not_taken_over_again() {
    let server = World::new().server().await;
    server.create(&payment(1)).await;
    paused(&server).await;
    let body = json!({ "nextNonce": 0, "open": [], "reason": "x" });
    assert_eq!(import(&server, &body).await.code(), "nonce_held");
    let open = json!([{ "nonce": 0, "state": "RESERVED" }]);
    let body = json!({ "nextNonce": 3, "open": open, "reason": "x" });
    assert_eq!(import(&server, &body).await.fields(), ["open[0].nonce"]);
}

#[tokio::test(start_paused = true)]
async fn a_chain_that_cannot_be_asked_lets_nothing_in() {
    let mut world = World::new();
    let counting = Counting::that(Says::Nothing);
    world.chain = Some(counting as Arc<dyn Chain>);
    let server = world.server().await;
    paused(&server).await;
    assert_eq!(import(&server, &file()).await.code(), "chain_unavailable");
    assert_eq!(signer(&server).await["nextNonce"], 0);
}

#[tokio::test(start_paused = true)]
async fn a_signer_whose_endpoints_disagree_says_why_it_waits() {
    let mut world = World::new();
    let counting = Counting::that(Says::Quarrels);
    world.chain = Some(Arc::clone(&counting) as Arc<dyn Chain>);
    world.settings.chain_query = Some(CountMode::Pending);
    let server = world.server().await;
    let early = server.create(&payment(1)).await;
    assert_eq!(
        (&early["state"], &early["nonce"]),
        (&json!("QUEUED"), &Value::Null)
    );
    let told = signer(&server).await;
    assert_eq!(told["waiting"]["reason"], "ENDPOINTS_DISAGREE", "{told}");
    let why = told["waiting"]["why"].as_str().unwrap();
    assert!(why.contains('5') && why.contains('7'), "{why}");
    counting.now(Says::Counts(6, 6));
    assert_eq!(signer(&server).await["waiting"], Value::Null);
    let stored = async || server.store.lane(lane_on(1, ALICE)).await.unwrap().unwrap();
    while stored().await.queued > 0 {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    let id = early["txId"].as_str().unwrap();
    let told = server.get(&format!("/api/v1/tx/{id}")).await.json();
    assert_eq!(told["nonce"], 6);
}
