//! The cursor and the chain: `max(chain, cache, db)`, and when a person must look.

use std::sync::Arc;
use std::time::Duration;

use fencepost_app::lifecycle::accept::Verdict;
use fencepost_app::ports::{Audit, Chain, CountMode, PauseReason};
use fencepost_domain::ids::Nonce;
use fencepost_domain::nonce::ChainCount;

use super::chain::Told;
use super::loans::{lend, recycle};
use super::nodes::{World, accepted, lane, nonce_of, pass, unnamed};

fn world() -> (World, Arc<Told>) {
    let mut world = World::new();
    let chain = Arc::new(Told::default());
    world.settings.chain_query = Some(CountMode::Pending);
    world.chain = Some(Arc::clone(&chain) as Arc<dyn Chain>);
    (world, chain)
}

#[tokio::test(start_paused = true)]
async fn a_new_lane_begins_where_the_chain_stands() {
    let (world, chain) = world();
    chain.say(5_000, true);
    let a = world.node("a").await;
    assert_eq!(nonce_of(a.ask(lane(1), unnamed()).await), Some(5_000));
    assert_eq!(nonce_of(a.ask(lane(1), unnamed()).await), Some(5_001));
    assert_eq!(*chain.asked.lock().unwrap(), 1, "once, not for each");
}

#[tokio::test(start_paused = true)]
async fn a_chain_behind_us_takes_nothing_back() {
    let (world, chain) = world();
    chain.say(7, true);
    let a = world.node("a").await;
    assert_eq!(nonce_of(a.ask(lane(1), unnamed()).await), Some(7));
    chain.say(3, true);
    pass(Duration::from_mins(1)).await;
    assert_eq!(nonce_of(a.ask(lane(1), unnamed()).await), Some(8));
    assert_eq!(*chain.asked.lock().unwrap(), 2, "the memory was old");
}

#[tokio::test(start_paused = true)]
async fn a_chain_a_little_ahead_is_believed_when_all_endpoints_agree() {
    let (world, chain) = world();
    chain.say(0, true);
    let a = world.node("a").await;
    assert_eq!(nonce_of(a.ask(lane(1), unnamed()).await), Some(0));
    chain.say(10, false);
    pass(Duration::from_mins(1)).await;
    assert_eq!(
        nonce_of(a.ask(lane(1), unnamed()).await),
        Some(1),
        "one of them alone is not believed"
    );
    chain.say(10, true);
    pass(Duration::from_mins(1)).await;
    assert_eq!(nonce_of(a.ask(lane(1), unnamed()).await), Some(10));
}

#[tokio::test(start_paused = true)]
async fn an_absurd_count_pauses_the_lane_and_changes_nothing() {
    let (world, chain) = world();
    chain.say(0, true);
    let a = world.node("a").await;
    assert_eq!(nonce_of(a.ask(lane(1), unnamed()).await), Some(0));
    chain.say(1_000_000, true);
    pass(Duration::from_mins(1)).await;
    let paused = Verdict::Paused(PauseReason::CursorJump);
    assert_eq!(a.ask(lane(1), unnamed()).await, paused);
    let view = fencepost_app::ports::Store::lane(&*world.store, lane(1))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (view.next_nonce.get(), view.paused),
        (1, Some(PauseReason::CursorJump))
    );
    chain.say(1, true);
    assert_eq!(
        a.ask(lane(1), unnamed()).await,
        paused,
        "a person must look"
    );
}

#[tokio::test(start_paused = true)]
async fn without_the_chain_a_new_lane_waits_and_an_old_one_goes_on() {
    let (world, chain) = world();
    let a = world.node("a").await;
    let early = accepted(a.ask(lane(1), unnamed()).await);
    assert_eq!(early.state.nonce(), None, "nobody knows where it stands");
    chain.say(4, true);
    world.until_allocated(lane(1)).await;
    let nonce = world.record(early.tx).await.state.nonce();
    assert_eq!(nonce.map(fencepost_domain::ids::Nonce::get), Some(4));
    *chain.count.lock().unwrap() = None;
    pass(Duration::from_mins(1)).await;
    assert_eq!(nonce_of(a.ask(lane(1), unnamed()).await), Some(5));
}

/// A lane that has a free nonce is no easier to lead astray than another.
#[tokio::test(start_paused = true)]
async fn an_absurd_count_pauses_a_lane_with_a_free_nonce_too() {
    let (world, chain) = world();
    chain.say(0, true);
    let a = world.node("a").await;
    let lent = lend(&a, lane(1), 1_000).await;
    assert_eq!(nonce_of(a.ask(lane(1), unnamed()).await), Some(1));
    recycle(&a, lane(1), &lent).await;
    pass(Duration::from_secs(3)).await;
    assert_eq!(nonce_of(a.ask(lane(1), unnamed()).await), Some(0));
    let lent = lend(&a, lane(1), 1_000).await;
    recycle(&a, lane(1), &lent).await;
    pass(Duration::from_mins(1)).await;
    chain.say(1_000_000, true);
    pass(Duration::from_mins(1)).await;
    let told = a.ask(lane(1), unnamed()).await;
    let view = fencepost_app::ports::Store::lane(&*world.store, lane(1));
    let view = view.await.unwrap().unwrap();
    assert_eq!(
        (view.next_nonce.get(), view.paused),
        (3, Some(PauseReason::CursorJump)),
        "{told:?}"
    );
}

fn counted(highest: u64, unanimous: bool) -> Option<ChainCount> {
    Some(ChainCount {
        highest: Nonce::new(highest).unwrap(),
        unanimous,
    })
}

/// One endpoint alone claims that its pool is far ahead: that moves no cursor, whoever asks.
#[tokio::test(start_paused = true)]
async fn reconciling_believes_no_single_endpoints_pool() {
    let (world, chain) = world();
    chain.say(0, true);
    let a = world.node("a").await;
    assert_eq!(nonce_of(a.ask(lane(1), unnamed()).await), Some(0));
    *chain.pending.lock().unwrap() = counted(900, false);
    let seat = a.node.directory().seat(lane(1)).unwrap();
    let audit = Audit {
        by: "ops".to_owned(),
        reason: "is it right?".to_owned(),
        details: None,
    };
    let _ = a.node.reconcile(seat, false, &audit).await;
    let view = fencepost_app::ports::Store::lane(&*world.store, lane(1));
    let view = view.await.unwrap().unwrap();
    assert_eq!(view.next_nonce.get(), 1, "899 nonces that nobody holds");
}

/// What is only in a pool may never be mined: a free nonce is dropped for a block alone.
#[tokio::test(start_paused = true)]
async fn a_free_nonce_that_is_used_in_a_pool_alone_is_not_forgotten() {
    let (world, chain) = world();
    chain.say(0, true);
    let a = world.node("a").await;
    let lent = lend(&a, lane(1), 1_000).await;
    assert_eq!(nonce_of(a.ask(lane(1), unnamed()).await), Some(1));
    recycle(&a, lane(1), &lent).await;
    *chain.pending.lock().unwrap() = counted(5, true);
    pass(Duration::from_mins(1)).await;
    assert_ne!(nonce_of(a.ask(lane(1), unnamed()).await), None);
    pass(Duration::from_mins(1)).await;
    let view = fencepost_app::ports::Store::lane(&*world.store, lane(1));
    let view = view.await.unwrap().unwrap();
    let held = world.rows(lane(1)).await;
    let held = held
        .iter()
        .any(|row| row.state.nonce() == Some(Nonce::ZERO));
    assert!(
        held || view.free == [Nonce::ZERO],
        "nonce 0 is nobody's: {view:?}"
    );
}

/// Its holder has sent it all the same, and the chain has taken it: whoever was given it now would lose it.
#[tokio::test(start_paused = true)]
async fn a_nonce_that_is_given_back_after_it_was_used_is_given_to_nobody() {
    let (world, chain) = world();
    chain.say(0, true);
    let a = world.node("a").await;
    let lent = lend(&a, lane(1), 1_000).await;
    assert_eq!(nonce_of(a.ask(lane(1), unnamed()).await), Some(1));
    chain.say(1, true);
    recycle(&a, lane(1), &lent).await;
    assert_eq!(nonce_of(a.ask(lane(1), unnamed()).await), Some(2));
    let view = fencepost_app::ports::Store::lane(&*world.store, lane(1));
    assert_eq!(view.await.unwrap().unwrap().free, []);
    // Nothing is free any more, and nobody is asked for it.
    let asked = *chain.asked.lock().unwrap();
    assert_eq!(nonce_of(a.ask(lane(1), unnamed()).await), Some(3));
    assert_eq!(*chain.asked.lock().unwrap(), asked);
}
