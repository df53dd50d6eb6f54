//! Retiring: what ended long ago is made small and later deleted, and nothing that was promised goes with it.

use std::time::Duration;

use fencepost_app::ports::{
    Action, Acts, Body, CursorMove, CursorMoved, Import, Imported, Key, Loan, NewRemedy, OpenBody,
    OpenTx, PauseChange, PauseReason, Retire, Retired, Stage, StoreError, Unimportable,
};
use fencepost_domain::ids::{Height, Nonce};
use fencepost_domain::state::Why;
use fencepost_domain::transition::Input;

use crate::Harness;
use crate::bench::{Bench, conflicting, done, known};
use crate::builders::{
    GRACE, TTL, accepted, audit, chain_id, feed_seq, hash, id, included, lane, lane_seq, loan,
    lock, mined, nonce, nonces, request, request_id, sign, tx, txs,
};

/// How long ago something ended that is retired here.
const AGE: Duration = Duration::from_hours(1);

fn batch(stage: Stage, limit: usize) -> Retire {
    Retire {
        stage,
        older_than: AGE,
        limit,
        beneath: vec![(chain_id(1), Height::MAX)],
    }
}

async fn retire(bench: &Bench<'_>, stage: Stage) -> usize {
    let answer = bench.store.retire(&batch(stage, 100)).await.unwrap();
    answer.retired
}

/// Details go; what names a transaction, and how it ended, stays.
pub async fn what_ended_long_ago_is_made_small(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(vec![request(1, "order", 10), tx(2)]).await;
    let before = a.confirm(id(1), 11).await;
    a.step(id(2), sign(21)).await;
    assert_eq!(retire(&bench, Stage::Thin).await, 0, "it is young");
    bench.advance(AGE * 2).await;
    assert_eq!(retire(&bench, Stage::Thin).await, 1);
    assert_eq!(retire(&bench, Stage::Thin).await, 0, "it is done");

    let thin = a.read(id(1)).await;
    let Body::Managed(payload) = request(1, "order", 10).body else {
        panic!("a payload");
    };
    assert_eq!((&thin.payload, thin.retired), (&None, Some(payload.hash())));
    assert_eq!((&thin.receipt, &thin.meta), (&None, &None));
    assert_eq!(
        (thin.state, thin.request_id),
        (before.state, before.request_id)
    );
    assert_eq!(thin.version, before.version.plus(1).unwrap());
    let store = &bench.store;
    assert_eq!(store.attempts(&[id(1)]).await.unwrap(), []);
    assert_eq!(store.history(id(1), lane_seq(0), 10).await.unwrap(), []);
    let by_nonce = store.find(&Key::Nonce(lane(1), nonce(0))).await.unwrap();
    assert_eq!(by_nonce.unwrap().tx, id(1));
    let feed = store.completions(feed_seq(0), 10).await.unwrap();
    assert_eq!((feed.completions.len(), feed.floor), (1, feed_seq(0)));
    // The other one goes on, and the lane tells on without a hole.
    assert_eq!(store.attempts(&[id(2)]).await.unwrap().len(), 1);
    let told = a.view().await.lane_seq;
    bench.lapse().await;
    let b = bench.seat("b", lane(1)).await;
    b.step(id(2), accepted()).await;
    assert_eq!(b.view().await.lane_seq, told.plus(1).unwrap());
}

/// A lane whose history is all gone still numbers its events from where it was.
pub async fn a_lane_without_its_history_tells_on(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(txs([1])).await;
    a.confirm(id(1), 11).await;
    let told = a.view().await.lane_seq;
    bench.advance(AGE * 2).await;
    assert_eq!(retire(&bench, Stage::Delete).await, 1);
    let b = bench.seat("b", lane(1)).await;
    assert_eq!(
        b.accept(txs([2])).await,
        [1],
        "its nonce is not given again"
    );
    let events = bench.store.history(id(2), lane_seq(0), 10).await.unwrap();
    assert_eq!(events[0].seq, told.plus(1).unwrap());
    assert_eq!(b.view().await.lane_seq, told.plus(1).unwrap());
}

/// A request id is honoured while its transaction is there, however thin; then it is forgotten.
pub async fn a_request_id_outlives_the_payload(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(vec![request(1, "order", 10)]).await;
    a.confirm(id(1), 11).await;
    bench.advance(AGE * 2).await;
    assert_eq!(retire(&bench, Stage::Thin).await, 1);

    let b = bench.seat("b", lane(1)).await;
    let (again, next, _) = done(b.create(vec![request(2, "order", 10)]).await);
    assert_eq!((known(&again[0]).tx, next), (id(1), nonce(1)));
    let (other, next, _) = done(b.create(vec![request(3, "order", 11)]).await);
    assert_eq!((conflicting(&other[0]).tx, next), (id(1), nonce(1)));

    assert_eq!(retire(&bench, Stage::Delete).await, 1);
    let key = Key::Request(lane(1), request_id("order"));
    assert_eq!(bench.store.find(&key).await.unwrap(), None);
    assert_eq!(b.accept(vec![request(4, "order", 12)]).await, [1]);
    assert_eq!(bench.store.find(&key).await.unwrap().unwrap().tx, id(4));
}

/// The feed loses its oldest rows alone, and says where it begins.
pub async fn the_feed_begins_after_what_is_deleted(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(txs(1..=4)).await;
    for n in 1..=2 {
        a.confirm(id(n), 10 * n).await;
    }
    bench.advance(AGE * 2).await;
    let b = bench.seat("b", lane(1)).await;
    for n in 3..=4 {
        b.confirm(id(n), 10 * n).await;
    }
    assert_eq!(retire(&bench, Stage::Delete).await, 2);
    let store = &bench.store;
    for below in 0..=1 {
        let feed = store.completions(feed_seq(below), 10).await.unwrap();
        assert_eq!((feed.floor, feed.head), (feed_seq(2), feed_seq(4)));
        assert_eq!(feed.completions, [], "a hole would be silent");
    }
    let feed = store.completions(feed_seq(2), 10).await.unwrap();
    let told: Vec<_> = feed.completions.iter().map(|c| (c.seq, c.tx)).collect();
    assert_eq!(told, [(feed_seq(3), id(3)), (feed_seq(4), id(4))]);
    assert_eq!(store.find(&Key::Id(id(1))).await.unwrap(), None);
    // All of it may go; the next number is still the next.
    bench.advance(AGE * 2).await;
    assert_eq!(retire(&bench, Stage::Delete).await, 2);
    let c = bench.seat("c", lane(1)).await;
    c.accept(txs([5])).await;
    c.step(id(5), Input::Reject).await;
    let feed = store.completions(feed_seq(4), 10).await.unwrap();
    assert_eq!((feed.floor, feed.head), (feed_seq(4), feed_seq(5)));
    assert_eq!(feed.completions[0].seq, feed_seq(5));
}

/// Nonces of what is deleted are used: they are no gaps, and no cursor goes below them.
pub async fn nonces_of_what_is_deleted_stay_used(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(txs(1..=4)).await;
    for n in 1..=3 {
        a.confirm(id(n), 10 * n).await;
    }
    a.step(id(4), Input::Reject).await;
    bench.advance(AGE * 2).await;
    assert_eq!(retire(&bench, Stage::Delete).await, 4);
    let (store, lane_id) = (&bench.store, a.held.lane);
    let gaps = store.gaps(lane_id, Nonce::ZERO, 10).await.unwrap();
    assert_eq!(gaps, nonces([3]), "the one that was given back");
    let pause = PauseChange::Pause(PauseReason::Operator);
    store.pause(lane_id, pause, &audit()).await.unwrap();
    for (to, expected) in [
        (1, CursorMoved::Holds(nonce(2))),
        (
            3,
            CursorMoved::Now {
                from: nonce(4),
                to: nonce(3),
            },
        ),
    ] {
        let lower = CursorMove::Set { to: nonce(to) };
        let moved = store.move_cursor(lane_id, &lower, &audit()).await.unwrap();
        assert_eq!(moved, expected);
    }
    // Another service that says it has given such a nonce is wrong.
    let given = OpenTx {
        tx: id(90),
        seal: None,
        nonce: nonce(1),
        request_id: None,
        body: OpenBody::Submitted(
            Loan {
                lock: lock(90),
                ttl: TTL,
                grace: GRACE,
            },
            hash(90),
        ),
    };
    let import = Import {
        next_nonce: nonce(9),
        open: vec![given],
        dry_run: false,
    };
    let imported = store.import(lane_id, &import, &audit()).await.unwrap();
    let used = Imported::Refused(vec![(0, Unimportable::NonceUsed)]);
    assert_eq!(imported, used);
}

/// What a reorg brought back is no longer final: it keeps everything, and its old ending stays in the feed
/// until a new one has said that it corrects it.
pub async fn what_was_reopened_is_left_alone(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(txs([1, 2])).await;
    a.confirm(id(1), 11).await;
    a.confirm(id(2), 21).await;
    a.step(id(1), Input::Reorged).await;
    bench.advance(AGE * 2).await;
    assert_eq!(retire(&bench, Stage::Thin).await, 1);
    assert!(a.read(id(1)).await.payload.is_some());
    assert_eq!(bench.store.attempts(&[id(1)]).await.unwrap().len(), 1);
    assert_eq!(retire(&bench, Stage::Delete).await, 0);
    let feed = bench.store.completions(feed_seq(0), 10).await.unwrap();
    assert_eq!((feed.completions.len(), feed.floor), (3, feed_seq(0)));

    let b = bench.seat("b", lane(1)).await;
    b.step(id(1), Input::Mined(included(11, 101, 1))).await;
    b.step(id(1), Input::Final).await;
    let feed = bench.store.completions(feed_seq(3), 10).await.unwrap();
    assert_eq!(feed.completions[0].corrects, Some(feed_seq(1)));
    // The old endings go, but not what ended anew a moment ago.
    assert_eq!(retire(&bench, Stage::Delete).await, 1);
    assert!(b.read(id(1)).await.payload.is_some());
    let feed = bench.store.completions(feed_seq(3), 10).await.unwrap();
    assert_eq!((feed.floor, feed.completions.len()), (feed_seq(3), 1));
    bench.advance(AGE * 2).await;
    assert_eq!(retire(&bench, Stage::Delete).await, 1);
}

/// What is stuck has not ended, however old: the feed may forget that it was told, and the transaction stays.
pub async fn what_is_stuck_is_left_alone(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(txs([1, 2])).await;
    a.step(id(1), sign(11)).await;
    a.step(id(1), Input::Stick(Why::NoReceipt)).await;
    a.step(id(2), Input::Reject).await;
    bench.advance(AGE * 2).await;
    assert_eq!(retire(&bench, Stage::Thin).await, 1);
    assert_eq!(retire(&bench, Stage::Delete).await, 1);
    let feed = bench.store.completions(feed_seq(2), 10).await.unwrap();
    assert_eq!(feed.floor, feed_seq(2));
    assert!(a.read(id(1)).await.payload.is_some());
    let b = bench.seat("b", lane(1)).await;
    b.step(id(1), mined(11, 100)).await;
    b.step(id(1), Input::Final).await;
    let feed = bench.store.completions(feed_seq(2), 10).await.unwrap();
    assert_eq!(feed.completions[0].tx, id(1));
    bench.advance(AGE * 2).await;
    assert_eq!(retire(&bench, Stage::Delete).await, 1);
}

/// A block that may still be replaced keeps its transactions whole.
pub async fn what_is_not_deep_enough_is_left_alone(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(txs([1, 2])).await;
    // At height 100.
    a.confirm(id(1), 11).await;
    a.step(id(2), Input::Reject).await;
    bench.advance(AGE * 2).await;
    let at = |stage, height| Retire {
        beneath: vec![(chain_id(1), Height::new(height).unwrap())],
        ..batch(stage, 10)
    };
    let store = &bench.store;
    for stage in [Stage::Thin, Stage::Delete] {
        let none = store.retire(&at(stage, 100)).await.unwrap();
        assert_eq!(none, Retired::default(), "it is waited for");
    }
    assert!(a.read(id(1)).await.payload.is_some());
    let elsewhere = Retire {
        beneath: vec![(chain_id(2), Height::new(1).unwrap())],
        ..batch(Stage::Thin, 10)
    };
    let none = store.retire(&elsewhere).await.unwrap();
    assert_eq!(none, Retired::default(), "nobody says how deep it is");
    let thinned = store.retire(&at(Stage::Thin, 101)).await.unwrap();
    assert_eq!((thinned.passed, thinned.retired), (2, 2));
    let all = store.retire(&at(Stage::Delete, 101)).await.unwrap();
    assert_eq!((all.passed, all.retired), (2, 2));
    assert_eq!(store.attempts(&[id(1)]).await.unwrap(), []);
}

/// A batch is as small as it is asked to be, and the next one goes on where it stopped.
pub async fn batches_are_small_and_go_on(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(txs(1..=5)).await;
    for n in 1..=5 {
        a.step(id(n), Input::Reject).await;
    }
    bench.advance(AGE * 2).await;
    for stage in [Stage::Thin, Stage::Delete] {
        for expected in [2, 2, 1, 0] {
            let answer = bench.store.retire(&batch(stage, 2)).await.unwrap();
            assert_eq!((answer.passed, answer.retired), (expected, expected));
        }
    }
    for limit in [0, 1_001] {
        let answer = bench.store.retire(&batch(Stage::Thin, limit)).await;
        assert!(matches!(answer, Err(StoreError::Invalid(_))), "{answer:?}");
    }
}

/// The audit of what operators and policies did is never deleted, nor what it is about.
pub async fn what_is_audited_stays_small(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(txs([1, 2])).await;
    let remedy = NewRemedy {
        tx: id(1),
        round: 1,
        action: Action::Resubmit,
        fees: None,
        audit: audit(),
    };
    bench.store.ask_remedy(&remedy).await.unwrap();
    a.confirm(id(1), 11).await;
    a.step(id(2), Input::Reject).await;
    bench.advance(AGE * 2).await;
    assert_eq!(retire(&bench, Stage::Thin).await, 2);
    assert_eq!(retire(&bench, Stage::Delete).await, 1);
    assert_eq!(a.read(id(1)).await.payload, None);
    let acts = bench.store.acts(Acts::Tx(id(1)), None, 10).await.unwrap();
    assert_eq!(acts.len(), 1);
    let feed = bench.store.completions(feed_seq(2), 10).await.unwrap();
    assert_eq!(feed.floor, feed_seq(2));
}

/// A reservation that was given back is told to nobody; it goes all the same, and one that was used as any other.
pub async fn reservations_are_retired(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(vec![loan(1), loan(2), tx(3)]).await;
    a.step(id(1), Input::Recycle).await;
    a.step(id(2), Input::TakenFinal(Some(hash(66)))).await;
    assert_eq!(retire(&bench, Stage::Sweep).await, 0, "it is young");
    bench.advance(AGE * 2).await;
    let mut swept = 0;
    for _ in 0..4 {
        let answer = bench.store.retire(&batch(Stage::Sweep, 1)).await.unwrap();
        swept += answer.retired;
    }
    assert_eq!(swept, 1);
    assert_eq!(bench.store.find(&Key::Id(id(1))).await.unwrap(), None);
    assert_eq!(retire(&bench, Stage::Delete).await, 1);
    assert_eq!(bench.store.find(&Key::Id(id(2))).await.unwrap(), None);
    assert!(a.read(id(3)).await.payload.is_some());
    let free = a.view().await.free;
    assert_eq!(free, nonces([0]), "its nonce is still free");
}

/// While requests are created again and again and deleted, each is stored once or known, and a nonce is given once.
pub async fn creates_and_deletions_do_not_meet(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    for n in 1..=20 {
        let name = format!("order {n}");
        assert_eq!(a.accept(vec![request(n, &name, n)]).await, [n - 1]);
        a.confirm(id(n), n).await;
    }
    let delete = Retire {
        older_than: Duration::ZERO,
        ..batch(Stage::Delete, 3)
    };
    let deleting = async {
        for _ in 0..10 {
            bench.store.retire(&delete).await.unwrap();
        }
    };
    let creating = async {
        let mut given = Vec::new();
        for n in 1..=20 {
            let name = format!("order {n}");
            let (stored, ..) = done(a.create(vec![request(100 + n, &name, n)]).await);
            if let fencepost_app::ports::Stored::New { nonce, .. } = &stored[0] {
                given.push(nonce.get());
            } else {
                assert_eq!(known(&stored[0]).tx, id(n));
            }
        }
        given
    };
    let ((), given) = tokio::join!(deleting, creating);
    let expected: Vec<u64> = (20..).take(given.len()).collect();
    assert_eq!(given, expected, "no nonce is given again");
}
