//! Nonces that nobody holds, as operators see them.

use std::sync::Arc;

use fencepost_app::ports::Chain;
use serde_json::{Value, json};

use super::chain_steps::id;
use super::counting::{Counting, Says};
use super::reserving::reserved;
use super::world::{ALICE, Server, World, payment};

async fn signer(server: &Server) -> Value {
    let reply = server.get(&format!("/api/v1/signers/{ALICE}")).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json()
}

/// So many transactions, of which these have given their nonces back.
async fn with(server: &Server, count: u64, given_back: &[usize]) -> Vec<Value> {
    let mut sent = Vec::new();
    for n in 0..count {
        sent.push(server.create(&payment(n)).await);
    }
    for nonce in given_back {
        server.reject(id(&sent[*nonce])).await;
    }
    sent
}

#[tokio::test(start_paused = true)]
async fn a_nonce_that_was_given_back_is_a_gap_while_someone_above_it_waits() {
    let server = World::new().server().await;
    with(&server, 6, &[0, 2, 5]).await;
    let told = signer(&server).await;
    assert_eq!(told["freeNonces"], json!([0, 2, 5]));
    // Nothing waits for the last one.
    assert_eq!(told["gaps"], json!([0, 2]));
    assert_eq!(told["head"]["nonce"], 1);
    let why = "not signed yet; nonce 0 below it is held by nobody";
    assert_eq!(told["head"]["why"], why);
    let listed = server.get("/api/v1/signers").await.json()["signers"][0].clone();
    assert_eq!(
        (&listed["gaps"], &listed["head"]["why"]),
        (&json!([0, 2]), &json!(why))
    );
}

#[tokio::test(start_paused = true)]
async fn without_anything_that_waits_there_are_no_gaps() {
    let server = World::new().server().await;
    with(&server, 3, &[0, 1, 2]).await;
    let told = signer(&server).await;
    assert_eq!((&told["gaps"], &told["head"]), (&json!([]), &Value::Null));
    assert_eq!(told["freeNonces"], json!([0, 1, 2]));
}

#[tokio::test(start_paused = true)]
async fn the_last_gap_that_someone_waits_for_is_found_among_many() {
    for last in [0, 1, 7, 20, 39] {
        let server = World::new().server().await;
        let given_back: Vec<usize> = (0..40).filter(|nonce| *nonce != last).collect();
        with(&server, 40, &given_back).await;
        let expected: Vec<usize> = (0..last).collect();
        assert_eq!(
            signer(&server).await["gaps"],
            json!(expected),
            "below {last}"
        );
    }
}

/// The cursor went past nonces that nobody was ever given: only the chain's count tells that they miss.
#[tokio::test(start_paused = true)]
async fn nonces_that_were_never_given_are_gaps_once_the_chain_is_asked() {
    let counting = Counting::that(Says::Counts(1, 4));
    let mut world = World::new();
    world.chain = Some(Arc::clone(&counting) as Arc<dyn Chain>);
    let server = world.server().await;
    server.create(&payment(0)).await;
    let path = format!("/api/v1/signers/{ALICE}/reconcile");
    let reply = server.post(&path, &json!({ "reason": "x" })).await;
    assert_eq!(reply.json()["nextNonce"]["after"], 4);
    assert_eq!(server.create(&payment(1)).await["nonce"], 4);
    let told = signer(&server).await;
    assert_eq!(
        (&told["chainLatest"], &told["gaps"]),
        (&json!(1), &json!([1, 2, 3]))
    );
    // What the chain has used is no gap.
    counting.now(Says::Counts(3, 4));
    assert_eq!(signer(&server).await["gaps"], json!([3]));
    counting.now(Says::Counts(4, 4));
    assert_eq!(signer(&server).await["gaps"], json!([]));
    // A chain that cannot be asked is no reason to tell nothing.
    counting.now(Says::Nothing);
    assert_eq!(signer(&server).await["gaps"], json!([1, 2, 3]));
}

#[tokio::test(start_paused = true)]
async fn a_head_that_is_lent_says_until_when() {
    let server = World::new().server().await;
    let lent = reserved(&server, &json!({})).await;
    server.create(&payment(1)).await;
    let why = format!("lent out until {}", lent["expiresAt"].as_str().unwrap());
    assert_eq!(signer(&server).await["head"]["why"], why);
}
