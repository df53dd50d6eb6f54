//! What ended long ago goes, a little at a time, while the node goes on; and no sooner than a reorg is out of the question.

use std::time::Duration;

use fencepost_app::lifecycle::accept::Verdict;
use fencepost_app::ports::{Body, NewTx, Store};
use fencepost_app::settings::Retention;
use fencepost_domain::ids::{FeedSeq, Nonce, RequestId};

use super::life::{Life, seconds, transfer};
use super::nodes::{accepted, nonce_of, unnamed};

const RETENTION: Retention = Retention {
    keep: Duration::from_secs(60),
    request_ids: Duration::from_secs(600),
    batch: 4,
    interval: Duration::from_secs(1),
};

fn named(name: &str, wei: u64) -> NewTx {
    NewTx {
        request_id: Some(RequestId::new(name).unwrap()),
        ..transfer(wei)
    }
}

#[tokio::test(start_paused = true)]
async fn what_ended_long_ago_goes_in_small_batches() {
    let mut life = Life::new(1, 1).await;
    life.world.settings.retention = Some(RETENTION);
    let node = life.world.node("a").await;
    let lane = life.lanes[0];
    for n in 0..10_u64 {
        accepted(node.ask(lane, named(&n.to_string(), n + 1)).await);
    }
    life.until_ended().await;
    // Old enough, but every block is still among those that are watched.
    seconds(140).await;
    let rows = life.world.rows(lane).await;
    assert!(rows.iter().all(|row| row.payload.is_some()));

    // Once it is deep, each pass takes no more than a batch, and all of it takes three.
    life.mine(300);
    let whole = async || {
        let rows = life.world.rows(lane).await;
        rows.iter().filter(|row| row.payload.is_some()).count()
    };
    let mut seen = vec![10];
    for _ in 0..70 {
        let left = whole().await;
        if seen.last() != Some(&left) {
            seen.push(left);
        }
        seconds(1).await;
    }
    assert_eq!(seen.last(), Some(&0), "{seen:?}");
    assert!(seen.windows(2).all(|two| two[0] - two[1] <= 4), "{seen:?}");
    assert_eq!(
        life.world.rows(lane).await.len(),
        10,
        "request ids are honoured"
    );
    let Verdict::Known(known) = node.ask(lane, named("3", 4)).await else {
        panic!("not known");
    };
    assert_eq!(known.state.nonce(), Some(Nonce::new(3).unwrap()));
    let other = node.ask(lane, named("3", 5)).await;
    assert!(matches!(other, Verdict::Conflict(_)), "{other:?}");

    seconds(700).await;
    assert_eq!(life.world.rows(lane).await.len(), 0);
    let feed = life
        .world
        .store
        .completions(FeedSeq::ZERO, 10)
        .await
        .unwrap();
    assert_eq!((feed.floor.get(), feed.head.get()), (10, 10));
    assert_eq!(node.meter("fencepost_retired_total{stage=\"thinned\"}"), 10);
    assert_eq!(node.meter("fencepost_retired_total{stage=\"deleted\"}"), 10);

    // A nonce that was used is not open, and the next one is the next.
    let placeholder = NewTx {
        body: Body::Placeholder(Nonce::new(3).unwrap()),
        ..unnamed()
    };
    let verdict = node.ask(lane, placeholder).await;
    assert!(matches!(verdict, Verdict::NotOpen), "{verdict:?}");
    assert_eq!(nonce_of(node.ask(lane, transfer(7)).await), Some(10));
    life.until_ended().await;
    let feed = life
        .world
        .store
        .completions(FeedSeq::new(10).unwrap(), 10)
        .await;
    assert_eq!(feed.unwrap().completions.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn without_a_time_everything_is_kept() {
    let life = Life::new(1, 1).await;
    let node = life.world.node("a").await;
    life.send(&node, life.lanes[0], 3).await;
    life.until_ended().await;
    life.mine(300);
    seconds(600).await;
    life.check().await;
    life.check_feed().await;
}
