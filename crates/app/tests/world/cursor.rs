//! The cursor and the chain: `max(chain, cache, db)`, and when a person must look.

use std::sync::Arc;
use std::time::Duration;

use fencepost_app::directory::Start;
use fencepost_app::lifecycle::accept::Verdict;
use fencepost_app::ports::{
    Audit, Chain, CountMode, CursorMove, LaneView, PauseChange, PauseReason, Store,
};
use fencepost_app::query::Unbegun;
use fencepost_domain::ids::Nonce;
use fencepost_domain::nonce::ChainCount;

use super::chain::{Told, counted};
use super::loans::{lend, loan, recycle};
use super::nodes::{World, accepted, lane, nonce_of, pass, unnamed};

fn audit() -> Audit {
    Audit {
        by: "ops".to_owned(),
        reason: "is it right?".to_owned(),
        details: None,
        node: None,
    }
}

async fn view(world: &World) -> LaneView {
    world.store.lane(lane(1)).await.unwrap().unwrap()
}

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

/// Neither the highest count nor the lowest may be believed: one leaves a gap, the other gives a nonce twice.
#[tokio::test(start_paused = true)]
async fn a_new_lane_whose_endpoints_disagree_waits_until_they_agree() {
    let (world, chain) = world();
    *chain.count.lock().unwrap() = Some(ChainCount {
        lowest: Nonce::new(4).unwrap(),
        highest: Nonce::new(9).unwrap(),
    });
    let a = world.node("a").await;
    let early = accepted(a.ask(lane(1), unnamed()).await);
    assert_eq!(early.state.nonce(), None, "it is accepted and waits");
    pass(Duration::from_secs(20)).await;
    let later = accepted(a.ask(lane(1), unnamed()).await);
    assert_eq!(later.state.nonce(), None);
    let view = view(&world).await;
    assert_eq!((view.next_nonce.get(), view.queued), (0, 2));
    let counts = a.node.counts(lane(1)).await;
    assert!(
        matches!(a.node.unbegun(&view, counts), Some(Unbegun::Disagreed(_))),
        "every node can say why"
    );
    let metric = "fencepost_lane_start_waits_total{reason=\"disagreed\"}";
    assert_eq!(a.meter(metric), 1, "once, not for each look");
    chain.say(6, true);
    world.until_allocated(lane(1)).await;
    assert_eq!(world.record(early.tx).await.state.nonce().unwrap().get(), 6);
    assert_eq!(nonce_of(a.ask(lane(1), unnamed()).await), Some(8));
}

#[tokio::test(start_paused = true)]
async fn an_operators_cursor_begins_a_lane_whose_endpoints_disagree() {
    let (world, chain) = world();
    chain.say(9, false);
    let a = world.node("a").await;
    let early = accepted(a.ask(lane(1), unnamed()).await);
    let id = a.node.directory().seat(lane(1)).unwrap().id;
    let store = &world.store;
    let pause = PauseChange::Pause(PauseReason::Operator);
    store.pause(id, pause, &audit()).await.unwrap();
    let set = CursorMove::Set {
        to: Nonce::new(7).unwrap(),
    };
    store.move_cursor(id, &set, &audit()).await.unwrap();
    let resume = PauseChange::Resume;
    store.pause(id, resume, &audit()).await.unwrap();
    world.until_allocated(lane(1)).await;
    assert_eq!(world.record(early.tx).await.state.nonce().unwrap().get(), 7);
}

#[tokio::test(start_paused = true)]
async fn a_new_lane_begins_where_its_start_says() {
    // What is asked for, what is in blocks, what is in pools, where it begins.
    for (start, latest, pending, first) in [
        (Start::Chain(CountMode::Latest), 3, 5, 3),
        (Start::Chain(CountMode::Pending), 3, 5, 5),
        (Start::At(Nonce::new(8).unwrap()), 3, 5, 8),
        (Start::At(Nonce::new(3).unwrap()), 3, 5, 3),
        (Start::At(Nonce::ZERO), 0, 0, 0),
    ] {
        let (mut world, chain) = world();
        world.start = start;
        chain.say(latest, true);
        *chain.pending.lock().unwrap() = counted(pending, true);
        let a = world.node("a").await;
        let nonce = nonce_of(a.ask(lane(1), unnamed()).await);
        assert_eq!(nonce, Some(first), "{start:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_start_that_the_chain_has_used_gives_no_nonce() {
    let (mut world, chain) = world();
    world.start = Start::At(Nonce::new(8).unwrap());
    // One endpoint that has seen it used is enough.
    chain.say(9, false);
    let a = world.node("a").await;
    let early = accepted(a.ask(lane(1), unnamed()).await);
    assert_eq!(early.state.nonce(), None);
    let lent = a.ask(lane(1), loan(60)).await;
    assert_eq!(lent, Verdict::ChainUnavailable, "it cannot wait");
    let counts = a.node.counts(lane(1)).await;
    let view = view(&world).await;
    let used = Unbegun::Used {
        start: Nonce::new(8).unwrap(),
        latest: Nonce::new(9).unwrap(),
    };
    assert_eq!(a.node.unbegun(&view, counts), Some(used));
}

#[tokio::test(start_paused = true)]
async fn a_start_holds_without_a_chain_and_only_for_the_first_nonce() {
    let mut world = World::new();
    world.start = Start::At(Nonce::new(8).unwrap());
    let a = world.node("a").await;
    assert_eq!(nonce_of(a.ask(lane(1), unnamed()).await), Some(8));
    assert_eq!(nonce_of(a.ask(lane(1), unnamed()).await), Some(9));
    world.start = Start::At(Nonce::new(2).unwrap());
    let b = world.node("a").await;
    assert_eq!(nonce_of(b.ask(lane(1), unnamed()).await), Some(10));
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

/// One endpoint alone claims that its pool is far ahead: that moves no cursor, whoever asks.
#[tokio::test(start_paused = true)]
async fn reconciling_believes_no_single_endpoints_pool() {
    let (world, chain) = world();
    chain.say(0, true);
    let a = world.node("a").await;
    assert_eq!(nonce_of(a.ask(lane(1), unnamed()).await), Some(0));
    *chain.pending.lock().unwrap() = counted(900, false);
    let seat = a.node.directory().seat(lane(1)).unwrap();
    let _ = a.node.reconcile(seat, false, &audit()).await;
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
