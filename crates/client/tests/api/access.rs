//! Keys: what they allow, and what a limited one sees of the feed.

use std::time::Duration;

use alloy_primitives::U256;
use fencepost_client::{Act, Code, NewTransaction, Payload};
use fencepost_http::Access;

use super::world::{ALICE, BOB, TO, World, payment};

/// The keys of these tests, by SHA-256: the secret of each is `secret of <name>`.
const KEYS: &str = r#"
[[key]]
name = "all"
sha256 = "ca2a0bf0a1ae29cd85c2e32b0ec730173677cd95a7e38ee11f69a326a354bc3a"
scopes = ["submit", "read", "operate"]

[[key]]
name = "alice"
sha256 = "857aae772cfda1899196904daf972bc0093674a9396a2358a44018c85d009c9a"
scopes = ["submit", "read"]
signers = ["0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"]
"#;

async fn world() -> World {
    World::with(Access::from_toml(KEYS).unwrap()).await
}

fn of_bob(wei: u64) -> NewTransaction {
    NewTransaction::new(BOB, Payload::transfer(TO, U256::from(wei)))
}

#[tokio::test]
async fn a_key_is_shown_and_a_missing_or_limited_one_is_told_what_it_lacks() {
    let world = world().await;
    let error = world.client().send(&payment(1)).await.unwrap_err();
    assert_eq!(error.code(), Some(&Code::Unauthorized));
    let wrong = world.client_with("secret of nobody");
    let error = wrong.send(&payment(1)).await.unwrap_err();
    assert_eq!(error.code(), Some(&Code::Unauthorized));
    let alice = world.client_with("secret of alice");
    alice.send(&payment(1)).await.unwrap();
    let error = alice.send(&of_bob(1)).await.unwrap_err();
    assert_eq!(error.code(), Some(&Code::Forbidden));
    let error = alice
        .pause(ALICE, &Act::because("no scope"))
        .await
        .unwrap_err();
    assert_eq!(error.code(), Some(&Code::Forbidden));
}

#[tokio::test]
async fn a_limited_key_gets_on_in_the_feed_past_what_it_may_not_see() {
    let world = world().await;
    let all = world.client_with("secret of all");
    let hers = all.send(&payment(1)).await.unwrap().transaction.tx_id;
    let his = all.send(&of_bob(1)).await.unwrap().transaction.tx_id;
    let his_second = all.send(&of_bob(2)).await.unwrap().transaction.tx_id;
    world.confirm(his, 1).await;
    world.confirm(hers, 2).await;
    world.confirm(his_second, 3).await;
    let alice = world.client_with("secret of alice");
    let mut feed = alice.completions(0).wait(Duration::ZERO);
    let batch = feed.next().await.unwrap();
    let seen: Vec<_> = batch
        .completions
        .iter()
        .map(|each| (each.seq, each.tx_id))
        .collect();
    assert_eq!(seen, [(2, hers)]);
    assert_eq!(batch.position.after, 3);
    let mut feed = all.completions(0).wait(Duration::ZERO).sees_all();
    assert_eq!(feed.next().await.unwrap().completions.len(), 3);
}
