//! The feed, read to its end and waited for.

use std::time::Duration;

use fencepost_client::{FeedError, State, SubState};

use super::chain_steps::hash;
use super::world::{World, payment};

#[tokio::test]
async fn completions_come_in_order_and_the_next_is_waited_for() {
    let world = World::new().await;
    let client = world.client();
    let mut ids = vec![];
    for wei in 1..=4 {
        ids.push(client.send(&payment(wei)).await.unwrap().transaction.tx_id);
    }
    world.confirm(ids[0], 1).await;
    world.stick(ids[1], 2).await;
    world.confirm(ids[2], 3).await;
    let mut feed = client
        .completions(0)
        .sees_all()
        .limit(2)
        .wait(Duration::ZERO);
    let first = feed.next().await.unwrap();
    let seqs: Vec<u64> = first.completions.iter().map(|each| each.seq).collect();
    assert_eq!(seqs, [1, 2]);
    assert_eq!(
        (first.completions[0].tx_id, &first.completions[0].state),
        (ids[0], &State::Confirmed)
    );
    assert_eq!(first.completions[0].tx_hash, Some(hash(1)));
    assert_eq!(first.completions[1].sub_state, Some(SubState::NoReceipt));
    assert_eq!(first.position.after, 2);
    assert_eq!(feed.next().await.unwrap().completions[0].tx_id, ids[2]);
    assert!(feed.next().await.unwrap().completions.is_empty());
    let mut feed = client.completions(feed.position()).sees_all();
    let (next, ()) = tokio::join!(feed.next(), world.confirm(ids[3], 4));
    assert_eq!(next.unwrap().completions[0].tx_id, ids[3]);
    // Who stored a number that is gone is told.
    let error = client.completions(99).next().await.unwrap_err();
    assert!(matches!(error, FeedError::Reset { .. }), "{error}");
}
