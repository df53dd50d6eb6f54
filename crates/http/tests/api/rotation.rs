//! Replacing API keys and cluster secrets while nodes run.

use std::sync::Arc;
use std::time::Duration;

use fencepost_app::ports::Store;
use fencepost_http::{Access, ClusterSecret, Forwarder, Secret};
use sha2::{Digest, Sha256};

use super::access::as_key;
use super::forwarding::listening;
use super::world::{World, payment};

/// A key of the name `app` that is the word's secret (see `as_key`).
fn key(word: &str, more: &str) -> String {
    let digest = Sha256::digest(format!("secret of {word}"));
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("[[key]]\nname = \"app\"\nsha256 = \"{hex}\"\nscopes = [\"read\"]\n{more}\n")
}

#[tokio::test(start_paused = true)]
async fn an_expired_key_is_refused_and_its_holder_reads_why() {
    let mut world = World::new();
    let expires = format!("expires = {}", world.in_seconds(60));
    let text = key("old", &expires) + &key("new", "");
    world.access = Access::from_toml(&text).unwrap();
    let server = world.server().await;
    let read = async |word: &str| as_key(&server, word, "GET", "/api/v1/tx", "").await;
    assert_eq!(read("old").await.status, 200);
    assert_eq!(read("new").await.status, 200);
    assert!(world.access.expired(world.now()).is_empty());
    tokio::time::advance(Duration::from_secs(61)).await;
    let refused = read("old").await;
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (401, "unauthorized")
    );
    assert_eq!(refused.json()["detail"], "The key app has expired.");
    assert_eq!(read("new").await.status, 200);
    assert_eq!(world.access.expired(world.now()), ["app"]);
}

#[tokio::test(start_paused = true)]
async fn new_keys_are_used_at_once_and_broken_ones_never() {
    let mut world = World::new();
    world.access = Access::from_toml(&key("old", "")).unwrap();
    let server = world.server().await;
    let statuses = async || {
        let read = async |word: &str| as_key(&server, word, "GET", "/api/v1/tx", "").await;
        (read("old").await.status, read("new").await.status)
    };
    assert_eq!(statuses().await, (200, 401));
    let both = key("old", "") + &key("new", "");
    assert_eq!(world.access.reload(&both), Ok(2));
    assert_eq!(statuses().await, (200, 200));
    for broken in [
        "",
        "key = 1",
        &key("new", "scopes = 1"),
        &key("new", "x = 1"),
    ] {
        assert!(world.access.reload(broken).is_err());
        assert_eq!(statuses().await, (200, 200), "{broken}");
    }
    assert_eq!(world.access.reload(&key("new", "")), Ok(1));
    assert_eq!(statuses().await, (401, 200));
}

/// The rate belongs to the name, so that rotating a key does not double it.
#[tokio::test(start_paused = true)]
async fn keys_of_one_name_share_one_rate() {
    let mut world = World::new();
    let rate = "rate_per_second = 2";
    let text = key("old", rate) + &key("new", rate);
    world.access = Access::from_toml(&text).unwrap();
    let server = world.server().await;
    let read = async |word: &str| as_key(&server, word, "GET", "/api/v1/tx", "").await.status;
    assert_eq!(read("old").await, 200);
    assert_eq!(read("new").await, 200);
    assert_eq!(read("new").await, 429);
    assert_eq!(read("old").await, 429);
}

/// The three steps of a rotation: at each of them nodes of two steps forward to each other.
#[tokio::test]
async fn nodes_forward_to_each_other_at_every_step_of_a_new_secret() {
    let secret = |word: &str| Secret::new(format!("the {word} secret of this cluster"));
    let steps = [
        ("old", None),
        ("old", Some("new")),
        ("new", Some("old")),
        ("new", None),
    ];
    let cluster = |(seals, accepted): (&str, Option<&str>)| {
        ClusterSecret::new(secret(seals), accepted.map(secret))
    };
    let forwards = async |leader: usize, follower: usize| {
        let mut world = World::new();
        world.cluster = Some(cluster(steps[leader]));
        let (leader, _) = listening(&world, "n1").await;
        let store = Arc::clone(&world.store) as Arc<dyn Store>;
        world.peers = Arc::new(Forwarder::new(Some(cluster(steps[follower])), store));
        let follower = world.server_at("n2", "http://127.0.0.1:1").await;
        leader.create(&payment(1)).await;
        follower.create(&payment(2)).await["state"] == "ALLOCATED"
    };
    for step in 0..3 {
        assert!(forwards(step, step + 1).await, "{step} leads");
        assert!(forwards(step + 1, step).await, "{step} follows");
    }
    assert!(!forwards(0, 2).await, "a step was left out");
    assert!(!forwards(0, 3).await);
    assert!(!forwards(3, 0).await);
}
