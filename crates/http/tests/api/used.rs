//! A lent nonce that the chain has used: by what, and whether its holder had named that.

use fencepost_domain::ids::TxId;
use serde_json::{Value, json};
use uuid::Uuid;

use super::chain_steps::hash;
use super::reserving::reserved;
use super::world::{Server, World};

fn tx(lent: &Value) -> TxId {
    TxId(Uuid::try_parse(lent["reservationId"].as_str().unwrap()).unwrap())
}

/// The reservation, which is a transaction too.
async fn read(server: &Server, lent: &Value) -> (Value, Value) {
    let id = lent["reservationId"].as_str().unwrap();
    let reservation = server.get(&format!("/api/v1/nonces/{id}")).await.json();
    let transaction = server.get(&format!("/api/v1/tx/{id}")).await.json();
    (reservation, transaction)
}

#[tokio::test(start_paused = true)]
async fn what_has_used_a_lent_nonce_is_told_of_both_that_it_is() {
    let server = World::new().server().await;
    let lent = reserved(&server, &json!({})).await;
    let stranger = hash(0xee);
    server.used_by(tx(&lent), stranger).await;
    let (reservation, transaction) = read(&server, &lent).await;
    for told in [&reservation, &transaction] {
        assert_eq!(told["state"], "USED");
        assert_eq!(told["txHash"], stranger.to_string());
    }
    // It is in no block that we have seen for its holder.
    assert_eq!(transaction["blockNumber"], Value::Null);
}

/// Whoever asks what became of its nonce must see whether it was its own doing.
#[tokio::test(start_paused = true)]
async fn what_a_holder_has_named_is_told_apart_from_what_has_used_its_nonce() {
    let server = World::new().server().await;
    let lent = reserved(&server, &json!({})).await;
    assert_eq!(lent["namedHash"], Value::Null);
    server.used_by(tx(&lent), hash(0xee)).await;
    assert_eq!(read(&server, &lent).await.0["namedHash"], Value::Null);
    // It was away while that happened, and names now what it had sent.
    let id = lent["reservationId"].as_str().unwrap();
    let body = json!({ "lockToken": lent["lockToken"], "txHash": hash(1).to_string() });
    let path = format!("/api/v1/nonces/{id}/submitted");
    let named = server.post(&path, &body).await;
    assert_eq!(named.status, 200, "{}", named.text());
    for told in [named.json(), read(&server, &lent).await.0] {
        assert_eq!(told["namedHash"], hash(1).to_string());
        assert_eq!(told["txHash"], hash(0xee).to_string());
    }
    // One whose holder has named what used it has both alike.
    let lent = reserved(&server, &json!({})).await;
    let id = lent["reservationId"].as_str().unwrap();
    let body = json!({ "lockToken": lent["lockToken"], "txHash": hash(2).to_string() });
    let path = format!("/api/v1/nonces/{id}/submitted");
    server.post(&path, &body).await;
    server.used_by(tx(&lent), hash(2)).await;
    let told = read(&server, &lent).await.0;
    assert_eq!(
        (&told["state"], &told["namedHash"]),
        (&json!("USED"), &told["txHash"])
    );
}
