//! Blocks that are announced wake the follower up, once for many.

use fencepost_app::ports::Chain;
use fencepost_domain::ids::ChainId;
use fencepost_evm::{ChainConfig, Chains, Meters, WsLimits};
use tokio::sync::Notify;

use super::server::{Server, Watched, limits, soon};

#[tokio::test]
async fn each_announced_block_is_a_wake_up() {
    let server = Server::start().await;
    let watched = Watched::start(server.endpoint(limits()));
    assert_eq!(watched.meter("connected"), "0");
    let mut peer = server.subscriber().await;
    assert_eq!(peer.path, "/v3/SECRET?key=SECRET");
    // Blocks may have come before the subscription.
    watched.until_woken().await;
    for number in 1..=3 {
        assert!(watched.sleeps());
        peer.announce(number).await;
        watched.until_woken().await;
    }
    assert_eq!(watched.meter("connected"), "1");
    assert_eq!(watched.meter("heads_total"), "3");
}

/// Goal: all announcements that come while the follower is busy are one wake-up. `follow/pace.rs` bounds how often it looks.
#[tokio::test]
async fn a_flood_is_one_wake_up() {
    let server = Server::start().await;
    let watched = Watched::start(server.endpoint(WsLimits {
        bytes_per_second_max: usize::MAX,
        ..limits()
    }));
    let mut peer = server.subscriber().await;
    watched.until_woken().await;
    for number in 0..10_000 {
        peer.announce(number).await;
    }
    peer.until_read().await;
    assert_eq!(watched.meter("heads_total"), "10000");
    watched.until_woken().await;
    assert!(watched.sleeps());
}

#[tokio::test]
async fn dropping_the_watch_closes_its_connection() {
    let server = Server::start().await;
    let watched = Watched::start(server.endpoint(limits()));
    let peer = server.subscriber().await;
    watched.until_woken().await;
    watched.stop();
    peer.until_left().await;
}

#[tokio::test]
async fn a_chain_without_such_an_endpoint_announces_nothing() {
    let id = ChainId::new(1).unwrap();
    let config = ChainConfig::new(id, "main", vec![]);
    let chains = Chains::new(vec![config], &Meters::default());
    soon("it returns", chains.watch_heads(id, &Notify::new())).await;
}
