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
