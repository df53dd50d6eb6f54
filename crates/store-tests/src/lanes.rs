//! Lanes as operators see and change them: views, pauses, cursors, gaps.

use fencepost_app::ports::{
    Acts, CursorMove, CursorMoved, LaneMoved, LaneRefusal, PauseChange, PauseReason, Paused,
    PausedLanes,
};
use fencepost_domain::ids::{LaneId, Nonce};
use fencepost_domain::state::{Wait, Why};
use fencepost_domain::transition::Input;

use crate::Harness;
use crate::bench::{Bench, Seat, leading, refused};
use crate::builders::{
    accepted, audit, chain_id, id, lane, lane_on, lane_seq, loan, mined, nonce, nonces,
    placeholder, sign, token, tx, txs,
};

const UNKNOWN: LaneId = LaneId(1_000_000);

async fn change(seat: &Seat, change: PauseChange) -> Paused {
    let answer = seat.store.pause(seat.held.lane, change, &audit()).await;
    answer.unwrap()
}

/// An operator pauses a lane.
pub(crate) async fn pause(seat: &Seat) {
    let answer = change(seat, PauseChange::Pause(PauseReason::Operator)).await;
    assert_eq!(answer, Paused::Now(Some(PauseReason::Operator)));
}

async fn raise(seat: &Seat, to: u64) -> CursorMoved {
    let raise = CursorMove::Raise {
        holder: seat.holder.clone(),
        held: seat.held,
        to: nonce(to),
    };
    let moved = seat
        .store
        .move_cursor(seat.held.lane, &raise, &audit())
        .await;
    moved.unwrap()
}

async fn forget(seat: &Seat, below: u64) -> CursorMoved {
    let forget = CursorMove::Forget {
        holder: seat.holder.clone(),
        held: seat.held,
        below: nonce(below),
    };
    let moved = seat
        .store
        .move_cursor(seat.held.lane, &forget, &audit())
        .await;
    moved.unwrap()
}

async fn set(seat: &Seat, to: u64) -> CursorMoved {
    let set = CursorMove::Set { to: nonce(to) };
    let moved = seat.store.move_cursor(seat.held.lane, &set, &audit()).await;
    moved.unwrap()
}

fn now(from: u64, to: u64) -> CursorMoved {
    CursorMoved::Now {
        from: nonce(from),
        to: nonce(to),
    }
}

/// A lane is made once, whoever asks how often, and a signer on two chains has two.
pub async fn opening_a_lane_twice_gives_the_same_id(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let asked = [lane(1), lane_on(2, 1), lane(1), lane(2)];
    let [one, other_chain, again, two] = bench.open(asked).await;
    assert_eq!(one, again);
    assert!(one != other_chain && one != two && two != other_chain);
    assert_eq!(bench.open([lane(2), lane(1)]).await, [two, one]);
    assert_eq!(bench.store.open_lanes(&[]).await.unwrap(), []);
    let view = bench.store.lane(lane(2)).await.unwrap().unwrap();
    assert_eq!((view.id, view.lane, view.token), (two, lane(2), token(0)));
    assert_eq!((view.next_nonce, view.lane_seq), (Nonce::ZERO, lane_seq(0)));
    assert_eq!((view.leader, view.paused), (None, None));
    assert_eq!((view.in_flight, view.queued, view.stuck), (0, 0, 0));
    assert_eq!((view.oldest_at, view.head, view.free), (None, None, vec![]));
}

/// A lane that was never opened is nothing to anyone.
pub async fn an_unknown_lane_is_answered_as_such(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    let store = &bench.store;
    assert_eq!(store.lane(lane(9)).await.unwrap(), None);
    let paused = store.pause(UNKNOWN, PauseChange::Resume, &audit()).await;
    assert_eq!(paused.unwrap(), Paused::UnknownLane);
    let set = CursorMove::Set { to: nonce(0) };
    let moved = store.move_cursor(UNKNOWN, &set, &audit()).await;
    assert_eq!(moved.unwrap(), CursorMoved::UnknownLane);
    let raise = CursorMove::Raise {
        holder: a.holder.clone(),
        held: fencepost_app::ports::Held {
            lane: UNKNOWN,
            token: token(1),
        },
        to: nonce(5),
    };
    let moved = store.move_cursor(UNKNOWN, &raise, &audit()).await;
    assert_eq!(moved.unwrap(), CursorMoved::UnknownLane);
    assert_eq!(store.gaps(UNKNOWN, nonce(0), 10).await.unwrap(), []);
    assert_eq!(store.queued(UNKNOWN, 10).await.unwrap(), []);
    assert_eq!(store.unfinished(UNKNOWN, None, 10).await.unwrap(), []);
}

/// A view counts what is in flight, what waits and what is stuck, and shows who holds all up.
pub async fn a_view_shows_what_holds_the_lane_up(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(vec![tx(9), tx(8), loan(7), tx(6), tx(5)]).await;
    bench.advance(std::time::Duration::from_secs(1)).await;
    let waiting = [(a.held.lane, tx(1)), (a.held.lane, tx(2))];
    bench
        .store
        .enqueue(&waiting, Wait::Window, 10)
        .await
        .unwrap();
    a.confirm(id(9), 19).await;
    a.mine(id(8), 18).await;
    a.step(id(6), Input::Stick(Why::NoFunds)).await;
    a.step(id(5), Input::Reject).await;
    let view = a.view().await;
    // In flight: the reservation and the stuck one; in a block or ended is not.
    assert_eq!((view.in_flight, view.queued, view.stuck), (2, 2, 1));
    let head = view.head.unwrap();
    assert_eq!(*head, a.read(id(8)).await);
    assert_eq!(view.oldest_at, Some(head.created_at));
    assert_eq!(view.free, nonces([4]));
    let all = bench.store.lanes(None, 10).await.unwrap();
    assert_eq!(all, [a.view().await]);
}

/// Lanes are listed by id, page by page.
pub async fn lanes_are_listed_page_by_page(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let ids = bench.open([lane(3), lane(1), lane(2)]).await;
    let listed = async |after, limit| {
        let views = bench.store.lanes(after, limit).await.unwrap();
        views.iter().map(|view| view.id).collect::<Vec<_>>()
    };
    let mut sorted = ids;
    sorted.sort();
    assert_eq!(listed(None, 10).await, sorted);
    assert_eq!(listed(None, 2).await, sorted[..2]);
    assert_eq!(listed(Some(sorted[1]), 2).await, sorted[2..]);
    assert_eq!(listed(Some(sorted[2]), 2).await, []);
}

/// Paused lanes are counted by chain and reason, whoever leads them; those that go on are not.
pub async fn paused_lanes_are_counted_by_chain_and_reason(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    assert_eq!(bench.store.paused_lanes().await.unwrap(), []);
    let clashed = bench.seat_of(&a.holder, lane(2)).await;
    let second = bench.seat_of(&a.holder, lane(3)).await;
    let far = bench.seat_of(&a.holder, lane_on(7, 1)).await;
    bench.seat_of(&a.holder, lane_on(7, 2)).await;
    for seat in [&a, &second, &far] {
        pause(seat).await;
    }
    change(&clashed, PauseChange::Pause(PauseReason::NonceClash)).await;
    bench
        .store
        .release(&a.holder, &[second.held])
        .await
        .unwrap();
    let counted = |chain, reason, count| PausedLanes {
        chain: chain_id(chain),
        reason,
        count,
    };
    let mut told = bench.store.paused_lanes().await.unwrap();
    told.sort_by_key(|each| (each.chain, each.reason.word()));
    let expected = [
        counted(1, PauseReason::NonceClash, 1),
        counted(1, PauseReason::Operator, 2),
        counted(7, PauseReason::Operator, 1),
    ];
    assert_eq!(told, expected);
    for seat in [&clashed, &far] {
        change(seat, PauseChange::Resume).await;
    }
    let told = bench.store.paused_lanes().await.unwrap();
    assert_eq!(told, [counted(1, PauseReason::Operator, 2)]);
}

/// A paused lane gives no nonces and stores no attempts; what is on its way is followed to its end.
pub async fn a_paused_lane_gives_nothing_but_follows(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(txs([1, 2, 3])).await;
    a.step(id(3), Input::Reject).await;
    a.step(id(1), sign(11)).await;
    let waiting = [(a.held.lane, tx(5))];
    pause(&a).await;
    // Queueing goes on, for it gives nothing.
    bench
        .store
        .enqueue(&waiting, Wait::Leader, 10)
        .await
        .unwrap();
    let before = bench.dump().await;
    let paused = LaneRefusal::Paused(PauseReason::Operator);
    assert_eq!(refused(a.create(txs([9])).await), paused);
    assert_eq!(refused(a.create(vec![loan(9)]).await), paused);
    assert_eq!(refused(a.create(vec![placeholder(9, 2)]).await), paused);
    assert_eq!(refused(a.promote(vec![id(5)]).await), paused);
    let signing = a.plan(id(2), sign(22)).await;
    let following = a.plan(id(1), accepted()).await;
    let answer = a.write(vec![following, signing]).await;
    assert_eq!(answer, LaneMoved::Paused(PauseReason::Operator));
    bench.dump().await.assert_same(&before, "a paused lane");

    a.step(id(1), accepted()).await;
    a.step(id(1), mined(11, 100)).await;
    a.step(id(1), Input::Final).await;
    a.step(id(2), Input::Reject).await;
    assert_eq!(change(&a, PauseChange::Resume).await, Paused::Now(None));
    let (stored, ..) = crate::bench::done(a.promote(vec![id(5)]).await);
    assert_eq!(crate::bench::new_nonce(&stored[0]), 1);
    bench.dump().await.assert_sound();
}

/// A pause holds whoever leads: it survives takeovers, and the next leader learns of it.
pub async fn a_pause_outlives_its_leader(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    pause(&a).await;
    let jump = PauseReason::CursorJump;
    let answer = change(&a, PauseChange::Pause(jump)).await;
    assert_eq!(answer, Paused::Now(Some(jump)), "the newest reason counts");
    bench.lapse().await;
    let b = bench.node("b").await;
    let lead = leading(bench.bid(&b, a.held.lane, false).await);
    assert_eq!((lead.token, lead.paused), (token(2), Some(jump)));
    assert_eq!(a.view().await.paused, Some(jump));
    let b = bench.seat_of(&b, lane(1)).await;
    assert_eq!(refused(b.create(txs([1])).await), LaneRefusal::Paused(jump));
    assert_eq!(change(&b, PauseChange::Resume).await, Paused::Now(None));
    assert_eq!(b.accept(txs([1])).await, [0]);
}

/// Reconciling raises the cursor to the chain and forgets free nonces that the chain has used.
pub async fn reconciling_raises_the_cursor_to_the_chain(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(txs(0..6)).await;
    for given_back in [1, 3, 5] {
        a.step(id(given_back), Input::Reject).await;
    }
    let reconcile = |at_least| PauseChange::Reconcile {
        at_least: nonce(at_least),
    };
    assert_eq!(change(&a, reconcile(3)).await, Paused::Now(None));
    let view = a.view().await;
    assert_eq!((view.next_nonce, view.free), (nonce(6), nonces([3, 5])));
    pause(&a).await;
    let paused = Paused::Now(Some(PauseReason::Operator));
    assert_eq!(change(&a, reconcile(9)).await, paused);
    let view = a.view().await;
    assert_eq!((view.next_nonce, view.free), (nonce(9), vec![]));
    assert_eq!(change(&a, PauseChange::Resume).await, Paused::Now(None));
    assert_eq!(a.accept(txs([10])).await, [9]);
}

/// A leader raises its cursor to the chain's count, paused or not, and never lowers it.
pub async fn a_leader_raises_its_cursor_and_never_lowers_it(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(txs([1, 2])).await;
    assert_eq!(raise(&a, 7).await, now(2, 7));
    assert_eq!(raise(&a, 7).await, now(7, 7));
    assert_eq!(raise(&a, 3).await, now(7, 7));
    pause(&a).await;
    assert_eq!(raise(&a, 8).await, now(7, 8));
    assert_eq!(change(&a, PauseChange::Resume).await, Paused::Now(None));
    assert_eq!(
        a.view().await.free,
        [],
        "what was skipped is not ours to give"
    );
    assert_eq!(a.accept(txs([3])).await, [8]);
}

/// The chain has used what is below its count: of the free nonces those go, and the others stay. The cursor
/// moves for its own reasons alone: what is only in a pool may never be used.
pub async fn what_is_free_is_forgotten_below_the_chains_count_alone(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    let other = bench.seat_of(&a.holder, lane(2)).await;
    a.accept(txs(0..6)).await;
    other.accept(txs(10..12)).await;
    for given_back in [0, 1, 3, 5] {
        a.step(id(given_back), Input::Reject).await;
    }
    other.step(id(10), Input::Reject).await;
    let free = async || a.view().await.free;
    let acts = async || {
        let of = Acts::Lane(a.held.lane);
        let acts = bench.store.acts(of, None, 10).await.unwrap();
        let changed = acts.into_iter().map(|act| act.before_after.unwrap());
        changed.collect::<Vec<_>>()
    };
    let before = bench.dump().await;
    let mut old = a.clone();
    old.held.token = token(9);
    assert_eq!(forget(&old, 9).await, CursorMoved::Fenced);
    bench.dump().await.assert_same(&before, "an old token");

    assert_eq!(raise(&a, 3).await, now(6, 6));
    assert_eq!(forget(&a, 0).await, now(6, 6));
    assert_eq!(free().await, nonces([0, 1, 3, 5]));
    assert_eq!(acts().await, [""; 0], "nothing has happened");
    assert_eq!(forget(&a, 3).await, now(6, 6));
    assert_eq!(free().await, nonces([3, 5]), "the cursor stays");
    let first = "next_nonce=6 -> next_nonce=6 dropped=2 (0 1)";
    assert_eq!(acts().await, [first]);
    assert_eq!(forget(&a, 3).await, now(6, 6));
    assert_eq!(acts().await, [first], "there is nothing left to drop");
    assert_eq!(forget(&a, 8).await, now(6, 6), "it raises nothing");
    assert_eq!(free().await, []);
    let second = "next_nonce=6 -> next_nonce=6 dropped=2 (3 5)";
    assert_eq!(acts().await, [second, first]);
    assert_eq!(raise(&a, 8).await, now(6, 8));
    assert_eq!(other.view().await.free, nonces([0]), "another lane's");
    assert_eq!(a.accept(txs([20])).await, [8]);
    bench.dump().await.assert_sound();
}

/// The audit says how many free nonces were dropped, and lists no more than a person reads.
pub async fn the_audit_of_many_dropped_nonces_is_cut(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept((0..102).map(loan).collect()).await;
    for n in 0..102 {
        a.step(id(n), Input::Recycle).await;
    }
    let reconcile = PauseChange::Reconcile { at_least: nonce(1) };
    change(&a, reconcile).await;
    forget(&a, 102).await;
    let of = Acts::Lane(a.held.lane);
    let acts = bench.store.acts(of, None, 10).await.unwrap();
    let changed = acts.into_iter().map(|act| act.before_after.unwrap());
    let changed: Vec<_> = changed.collect();
    let list: Vec<_> = (1..=100).map(|n: u64| n.to_string()).collect();
    let cut = format!(
        "next_nonce=102 -> next_nonce=102 dropped=101 ({} ...)",
        list.join(" ")
    );
    assert_eq!(changed[0], cut);
    let one = "paused=none next_nonce=102 -> paused=none next_nonce=102 dropped=1 (0)";
    assert_eq!(changed[1], one);
}

/// An operator sets a cursor on a paused lane only, up or down, above everything that is held. Whoever led
/// the lane leads it no longer: what it remembers is void.
pub async fn an_operator_sets_a_cursor_above_what_is_held(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let mut a = bench.seat("a", lane(1)).await;
    a.accept(txs(0..4)).await;
    assert_eq!(raise(&a, 9).await, now(4, 9));
    a.confirm(id(1), 11).await;
    a.step(id(0), Input::Reject).await;
    a.step(id(2), Input::Reject).await;
    a.step(id(3), Input::Reject).await;
    for to in [5, 12] {
        assert_eq!(set(&a, to).await, CursorMoved::NotPaused);
    }
    pause(&a).await;
    let before = bench.dump().await;
    // What has ended in a block holds its nonce for ever.
    for to in [0, 1] {
        assert_eq!(set(&a, to).await, CursorMoved::Holds(nonce(1)));
    }
    assert_eq!(set(&a, 9).await, now(9, 9));
    bench
        .dump()
        .await
        .assert_same(&before, "a cursor that stays");
    assert_eq!(set(&a, 12).await, now(9, 12));
    assert_eq!(a.view().await.leader, None);
    assert_eq!(raise(&a, 13).await, CursorMoved::Fenced, "an old token");
    assert_eq!(set(&a, 3).await, now(12, 3));
    assert_eq!(
        a.view().await.free,
        nonces([0, 2]),
        "3 is the cursor's again"
    );
    assert_eq!(set(&a, 2).await, now(3, 2));
    let of = Acts::Lane(a.held.lane);
    let acts = bench.store.acts(of, None, 3).await.unwrap();
    let acts: Vec<_> = acts.iter().map(|act| act.action.as_str()).collect();
    assert_eq!(acts, ["LOWER_CURSOR", "LOWER_CURSOR", "RAISE_CURSOR"]);
    assert_eq!(change(&a, PauseChange::Resume).await, Paused::Now(None));
    a = bench.seat_of(&a.holder, lane(1)).await;
    assert_eq!(a.accept(txs([10, 11])).await, [0, 2]);
    bench.dump().await.assert_sound();
}

/// Gaps are the nonces below the cursor that nobody holds, whether free, skipped or never given.
pub async fn gaps_are_nonces_that_nobody_holds(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(vec![tx(0), tx(1), loan(2), tx(3)]).await;
    raise(&a, 6).await;
    a.confirm(id(0), 10).await;
    a.step(id(1), Input::Reject).await;
    a.step(id(2), Input::Recycle).await;
    let gaps = async |from, limit| {
        let lane = a.held.lane;
        let gaps = bench.store.gaps(lane, nonce(from), limit).await.unwrap();
        gaps.iter().map(|gap| gap.get()).collect::<Vec<_>>()
    };
    assert_eq!(gaps(0, 10).await, [1, 2, 4, 5]);
    assert_eq!(gaps(2, 2).await, [2, 4]);
    assert_eq!(gaps(6, 10).await, [0_u64; 0]);
    assert_eq!(gaps(100, 10).await, [0_u64; 0]);
    assert_eq!(a.accept(txs([11])).await, [1]);
    assert_eq!(gaps(0, 10).await, [2, 4, 5]);
}
