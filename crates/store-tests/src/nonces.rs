//! Which nonce: the cursor, nonces that were given back, placeholders, and the end of a lane.

use fencepost_app::ports::{
    CursorMove, CursorMoved, LaneBatch, LanePromotion, LaneRefusal, StoreError,
};
use fencepost_domain::ids::Nonce;
use fencepost_domain::state::{Allocated, Kind, Signing, State, Wait};
use fencepost_domain::transition::Input;

use crate::Harness;
use crate::bench::{Bench, Seat, done, known, new_nonce, refused};
use crate::builders::{audit, id, lane, loan, nonce, nonces, placeholder, tx, txs};

async fn raise(seat: &Seat, to: Nonce) {
    let raise = CursorMove::Raise {
        holder: seat.holder.clone(),
        held: seat.held,
        to,
    };
    let moved = seat
        .store
        .move_cursor(seat.held.lane, &raise, &audit())
        .await;
    assert!(matches!(moved.unwrap(), CursorMoved::Now { to: now, .. } if now == to));
}

/// A leader with an old idea of the cursor writes nothing and learns where it stands.
pub async fn a_wrong_cursor_is_refused_with_the_right_one(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(txs([1, 2])).await;
    let before = bench.dump().await;
    for guess in [0, 1, 3, 1_000] {
        let batch = LaneBatch {
            cursor: nonce(guess),
            ..a.batch(txs([3])).await
        };
        let moved = LaneRefusal::CursorMoved(nonce(2));
        assert_eq!(refused(a.create_batch(batch).await), moved, "{guess}");
    }
    bench.dump().await.assert_same(&before, "a wrong cursor");
}

/// What was given back is given out again before the cursor moves, lowest first, each once.
pub async fn free_nonces_go_first_and_lowest_first(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(txs(0..6)).await;
    for given_back in [4, 1, 3] {
        a.step(id(given_back), Input::Reject).await;
    }
    assert_eq!(a.view().await.free, nonces([1, 3, 4]));

    let (stored, next, more_free) = done(a.create(txs([10])).await);
    assert_eq!((new_nonce(&stored[0]), next), (1, nonce(6)));
    assert!(more_free, "3 and 4 are left");
    assert_eq!(a.view().await.free, nonces([3, 4]));
    let (stored, next, more_free) = done(a.create(txs([11, 12, 13])).await);
    let given: Vec<_> = stored.iter().map(new_nonce).collect();
    assert_eq!((given, next), (vec![3, 4, 6], nonce(7)));
    assert!(!more_free, "none is left");
    assert_eq!(a.view().await.free, []);
    bench.dump().await.assert_sound();
}

/// Of the free nonces that a batch names, only those it needs must be free, and only those go.
pub async fn only_the_free_nonces_that_are_used_must_be_free(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(txs(0..4)).await;
    a.step(id(1), Input::Reject).await;
    let batch = |free: &[u64], txs| LaneBatch {
        held: a.held,
        cursor: nonce(4),
        free: nonces(free.iter().copied()),
        txs,
    };
    let before = bench.dump().await;
    for free in [&[0, 1][..], &[2], &[7]] {
        let answer = a.create_batch(batch(free, txs([10]))).await;
        assert_eq!(refused(answer), LaneRefusal::FreeMoved, "{free:?}");
    }
    let answer = a.create_batch(batch(&[1, 2], txs([10, 11]))).await;
    assert_eq!(refused(answer), LaneRefusal::FreeMoved);
    bench
        .dump()
        .await
        .assert_same(&before, "a free nonce that is none");

    let (stored, ..) = done(a.create_batch(batch(&[3, 1], txs([10]))).await);
    assert_eq!(new_nonce(&stored[0]), 1);
    // Used once, it is free no longer.
    let answer = a.create_batch(batch(&[1], txs([12]))).await;
    assert_eq!(refused(answer), LaneRefusal::FreeMoved);
}

/// A leader that knows of no free nonce may still create, and hears that there are some.
pub async fn free_nonces_that_are_not_named_stay_free(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(txs(0..2)).await;
    a.step(id(0), Input::Reject).await;
    let batch = LaneBatch {
        free: Vec::new(),
        ..a.batch(txs([10])).await
    };
    let (stored, next, more_free) = done(a.create_batch(batch).await);
    assert_eq!((new_nonce(&stored[0]), next), (2, nonce(3)));
    assert!(more_free, "0 is free");
    assert_eq!(a.view().await.free, nonces([0]));
}

/// At the end of the numbers a lane gives no nonce and says why.
pub async fn a_lane_at_its_end_is_exhausted(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(txs([0])).await;
    raise(&a, nonce(Nonce::MAX.get() - 1)).await;
    a.step(id(0), Input::Reject).await;
    let batch = |free: Vec<Nonce>, cursor, txs| LaneBatch {
        held: a.held,
        cursor,
        free,
        txs,
    };
    let last = nonce(Nonce::MAX.get() - 1);
    let answer = a.create_batch(batch(Vec::new(), last, txs([1, 2]))).await;
    assert_eq!(refused(answer), LaneRefusal::Exhausted);
    let (stored, next, _) = done(a.create_batch(batch(Vec::new(), last, txs([1]))).await);
    assert_eq!((new_nonce(&stored[0]), next), (last.get(), Nonce::MAX));
    let answer = a
        .create_batch(batch(Vec::new(), Nonce::MAX, txs([2])))
        .await;
    assert_eq!(refused(answer), LaneRefusal::Exhausted);
    let waiting = [(a.held.lane, tx(3))];
    bench
        .store
        .enqueue(&waiting, Wait::Leader, 10)
        .await
        .unwrap();
    let promotion = LanePromotion {
        held: a.held,
        cursor: Nonce::MAX,
        free: Vec::new(),
        txs: vec![id(3)],
    };
    let answer = a.promote_batch(promotion).await;
    assert_eq!(refused(answer), LaneRefusal::Exhausted);
    a.step(id(3), Input::Cancel).await;
    // What was given back can still be given.
    let free = nonces([0]);
    let (stored, ..) = done(a.create_batch(batch(free, Nonce::MAX, txs([2]))).await);
    assert_eq!(new_nonce(&stored[0]), 0);
}

/// A placeholder takes exactly the nonce it names, where nobody holds it.
pub async fn a_placeholder_fills_a_gap(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(txs([0])).await;
    raise(&a, nonce(5)).await;
    let (stored, next, _) = done(a.create(vec![placeholder(10, 3), tx(11)]).await);
    assert_eq!((new_nonce(&stored[0]), new_nonce(&stored[1])), (3, 5));
    assert_eq!(next, nonce(6));
    let record = a.read(id(10)).await;
    let state = Allocated {
        nonce: nonce(3),
        bytes: Signing::Unsigned,
    };
    assert_eq!(record.state, State::Allocated(state));
    assert_eq!((record.kind, &record.payload), (Kind::Placeholder, &None));
    let gaps = bench.store.gaps(a.held.lane, nonce(0), 10).await.unwrap();
    assert_eq!(gaps, nonces([1, 2, 4]));

    let (stored, ..) = done(a.create(vec![placeholder(10, 3)]).await);
    assert_eq!(*known(&stored[0]), record);
    bench.dump().await.assert_sound();
}

/// A placeholder on a nonce that was given back takes it out of the free ones.
pub async fn a_placeholder_takes_a_free_nonce_away(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(txs(0..3)).await;
    a.step(id(1), Input::Reject).await;
    let batch = LaneBatch {
        free: Vec::new(),
        ..a.batch(vec![placeholder(10, 1)]).await
    };
    let (_, next, more_free) = done(a.create_batch(batch).await);
    assert_eq!((next, more_free), (nonce(3), false));
    assert_eq!(a.view().await.free, []);
    assert_eq!(a.accept(txs([11])).await, [3]);
    bench.dump().await.assert_sound();
}

/// A nonce that is held stays with its holder, whatever has become of it since.
pub async fn a_placeholder_never_takes_a_held_nonce(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(vec![tx(0), tx(1), loan(2)]).await;
    a.confirm(id(0), 100).await;
    let before = bench.dump().await;
    for held in [0, 1, 2] {
        let answer = a.create(vec![placeholder(10, held)]).await;
        assert_eq!(refused(answer), LaneRefusal::NonceHeld(nonce(held)));
        // One bad placeholder stops all that was sent with it.
        let answer = a.create(vec![tx(11), placeholder(10, held)]).await;
        assert_eq!(refused(answer), LaneRefusal::NonceHeld(nonce(held)));
    }
    bench.dump().await.assert_same(&before, "a held nonce");
}

/// Within one batch, too, a nonce goes to one transaction.
pub async fn no_batch_gives_one_nonce_twice(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(txs(0..3)).await;
    a.step(id(1), Input::Reject).await;
    let before = bench.dump().await;
    let twice = vec![placeholder(10, 1), placeholder(11, 1)];
    let answer = a.create(twice).await;
    assert_eq!(refused(answer), LaneRefusal::NonceHeld(nonce(1)));
    // The free nonce 1 is planned for the transaction, and named by the placeholder.
    for both in [
        vec![tx(10), placeholder(11, 1)],
        vec![placeholder(11, 1), tx(10)],
    ] {
        let answer = a.create(both).await;
        assert_eq!(refused(answer), LaneRefusal::NonceHeld(nonce(1)));
    }
    bench.dump().await.assert_same(&before, "one nonce for two");
}

/// Above the cursor there is nothing to fill.
pub async fn a_placeholder_above_the_cursor_is_impossible(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(txs(0..3)).await;
    let before = bench.dump().await;
    for above in [3, 4] {
        let batch = a.batch(vec![placeholder(10, above)]).await;
        let answer = bench.store.create(&a.holder, &[batch]).await;
        assert!(matches!(answer, Err(StoreError::Invalid(_))), "{answer:?}");
    }
    bench
        .dump()
        .await
        .assert_same(&before, "an impossible placeholder");
}
