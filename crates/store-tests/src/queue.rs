//! The queue: transactions that wait for a nonce, in order of arrival.

use std::time::Duration;

use fencepost_app::ports::{
    Backlog, Enqueued, Key, LaneBatch, LanePromotion, LaneRefusal, NewTx, Record,
};
use fencepost_domain::flat::Name;
use fencepost_domain::ids::{LaneId, TxId};
use fencepost_domain::state::{Failed, State, Wait, Why};
use fencepost_domain::transition::Input;

use crate::Harness;
use crate::bench::{Bench, Seat, done, known, new_nonce, only, refused};
use crate::builders::{
    chain_id, id, lane, lane_on, lane_seq, nonce, nonces, placeholder, request, sign, token, tx,
    txs, version,
};

const PLENTY: usize = 1_000;

async fn enqueue(seat: &Seat, txs: Vec<NewTx>) -> Vec<Enqueued> {
    let lane = seat.held.lane;
    let txs: Vec<_> = txs.into_iter().map(|new| (lane, new)).collect();
    let answers = seat.store.enqueue(&txs, Wait::Leader, PLENTY).await;
    answers.unwrap()
}

async fn waiting(seat: &Seat) -> Vec<TxId> {
    let queue = seat.store.queued(seat.held.lane, PLENTY).await.unwrap();
    queue.iter().map(|record: &Record| record.tx).collect()
}

/// What waits keeps its order of arrival, whatever its ids are, and holds no nonce.
pub async fn queued_transactions_wait_in_order_of_arrival(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    let answers = enqueue(&a, txs([5, 2])).await;
    assert!(
        answers
            .iter()
            .all(|answer| matches!(answer, Enqueued::Queued { .. }))
    );
    enqueue(&a, txs([9, 1])).await;
    assert_eq!(waiting(&a).await, [id(5), id(2), id(9), id(1)]);
    let front = bench.store.queued(a.held.lane, 2).await.unwrap();
    assert_eq!(
        front.iter().map(|r| r.tx).collect::<Vec<_>>(),
        [id(5), id(2)]
    );

    let record = &front[0];
    assert_eq!(record.state.sub(), Some(Wait::Leader.word()));
    assert_eq!((record.state.nonce(), record.version), (None, version(1)));
    assert_eq!(record.token, token(0));
    let view = a.view().await;
    assert_eq!((view.queued, view.in_flight), (4, 0));
    assert_eq!((view.next_nonce, view.lane_seq), (nonce(0), lane_seq(0)));
    assert_eq!(view.oldest_at, Some(record.created_at));
    assert_eq!(a.claim_due(std::time::Duration::ZERO, 10).await.records, []);
}

/// Each lane in which something waits is named once, however much waits in it, and page by page.
pub async fn lanes_with_a_queue_are_listed_by_id(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let lanes = bench.open([lane(1), lane(2), lane(3), lane(4)]).await;
    let store = &bench.store;
    assert_eq!(store.queued_lanes(None, PLENTY).await.unwrap(), []);
    let wait = [(3, 1), (0, 2), (3, 3), (1, 4), (0, 5)].map(|(at, n)| (lanes[at], tx(n)));
    store.enqueue(&wait, Wait::Leader, PLENTY).await.unwrap();
    let mut named = vec![lanes[0], lanes[1], lanes[3]];
    named.sort();
    assert_eq!(store.queued_lanes(None, PLENTY).await.unwrap(), named);
    let (first, rest) = named.split_at(1);
    assert_eq!(store.queued_lanes(None, 1).await.unwrap(), first);
    let after = Some(first[0]);
    assert_eq!(store.queued_lanes(after, PLENTY).await.unwrap(), rest);
    assert_eq!(store.queued_lanes(Some(rest[1]), 5).await.unwrap(), []);
}

/// What has not ended is counted by chain: what holds a nonce and what waits for one, and nothing that has ended.
pub async fn the_backlog_is_told_by_chain(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let store = &bench.store;
    let [idle, far] = bench.open([lane(2), lane_on(7, 1)]).await;
    assert_eq!(store.backlog(None, PLENTY).await.unwrap(), []);
    let a = bench.seat("a", lane(1)).await;
    let oldest =
        |tx: TxId| async move { store.find(&Key::Id(tx)).await.unwrap().unwrap().created_at };
    let backlog = |chain, count, oldest_at, last| Backlog {
        chain: chain_id(chain),
        stuck: None,
        count,
        oldest_at,
        last: id(last),
    };
    done(a.create(txs([5, 3, 4])).await);
    a.mine(id(4), 4).await;
    bench.advance(Duration::from_secs(1)).await;
    let wait = [(idle, tx(7)), (far, tx(9)), (far, tx(8))];
    store.enqueue(&wait, Wait::Leader, PLENTY).await.unwrap();
    let told = store.backlog(None, PLENTY).await.unwrap();
    let here = backlog(1, 4, oldest(id(3)).await, 7);
    let there = backlog(7, 2, oldest(id(8)).await, 9);
    assert_eq!(told, [here, there]);
    // Page by page each is counted once, whichever table it is in.
    let told = store.backlog(None, 4).await.unwrap();
    assert_eq!(told, [here]);
    let told = store.backlog(Some(id(4)), 3).await.unwrap();
    let here = backlog(1, 2, oldest(id(5)).await, 7);
    let there = backlog(7, 1, oldest(id(8)).await, 8);
    assert_eq!(told, [here, there]);
    let told = store.backlog(Some(id(8)), 3).await.unwrap();
    assert_eq!(told, [backlog(7, 1, oldest(id(9)).await, 9)]);
    assert_eq!(store.backlog(Some(id(9)), 3).await.unwrap(), []);
    for n in [3, 5] {
        a.confirm(id(n), n).await;
    }
    let b = bench.seat("b", lane_on(7, 1)).await;
    for n in [8, 9] {
        b.step(id(n), Input::Cancel).await;
    }
    let told = store.backlog(None, PLENTY).await.unwrap();
    assert_eq!(told, [backlog(1, 2, oldest(id(4)).await, 7)]);
}

/// What is STUCK is counted apart, by its reason.
pub async fn the_backlog_tells_what_is_stuck_and_why(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(txs([1, 2, 3, 4])).await;
    for (n, why) in [(2, Why::NoFunds), (3, Why::Gap), (4, Why::NoFunds)] {
        a.step(id(n), sign(n)).await;
        a.step(id(n), Input::Stick(why)).await;
    }
    let told = bench.store.backlog(None, PLENTY).await.unwrap();
    let told: Vec<_> = told.iter().map(|each| (each.stuck, each.count)).collect();
    let expected = [(None, 1), (Some(Why::Gap), 1), (Some(Why::NoFunds), 2)];
    assert_eq!(told, expected);
}

/// Any node may queue, for lanes it does not lead and for lanes that nobody leads.
pub async fn queueing_needs_no_leadership(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let [free] = bench.open([lane(2)]).await;
    let a = bench.seat("a", lane(1)).await;
    let both = [(free, tx(1)), (a.held.lane, tx(2)), (free, tx(3))];
    let answers = bench.store.enqueue(&both, Wait::Window, PLENTY).await;
    assert_eq!(answers.unwrap().len(), 3);
    let queue = bench.store.queued(free, PLENTY).await.unwrap();
    assert_eq!(
        queue.iter().map(|r| r.tx).collect::<Vec<_>>(),
        [id(1), id(3)]
    );
    assert_eq!(queue[0].state.sub(), Some(Wait::Window.word()));
}

/// A request is one request, whether it waits or has its nonce; and a duplicate waits only once.
pub async fn duplicates_are_met_in_the_queue_and_beyond(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(vec![request(1, "given", 10)]).await;
    let batch = vec![
        request(2, "given", 10),
        request(3, "given", 11),
        request(4, "waits", 20),
        request(5, "waits", 20),
        request(6, "waits", 21),
        request(4, "waits", 20),
    ];
    let answers = enqueue(&a, batch).await;
    let met = |answer: &Enqueued| match answer {
        Enqueued::Queued { .. } => "queued".to_owned(),
        Enqueued::Known(record) => format!("known {}", record.tx),
        Enqueued::Conflict(record) => format!("conflict {}", record.tx),
        Enqueued::Full | Enqueued::UnknownLane => panic!("{answer:?}"),
    };
    let expected = [
        format!("known {}", id(1)),
        format!("conflict {}", id(1)),
        "queued".to_owned(),
        format!("known {}", id(4)),
        format!("conflict {}", id(4)),
        format!("known {}", id(4)),
    ];
    assert_eq!(answers.iter().map(met).collect::<Vec<_>>(), expected);
    assert_eq!(waiting(&a).await, [id(4)]);
    // A leader that is asked to create what waits answers with what waits.
    let (stored, ..) = done(a.create(vec![request(7, "waits", 20)]).await);
    assert_eq!(crate::bench::known(&stored[0]).tx, id(4));
}

/// A full queue takes no more, but knows what it has; other lanes are not concerned.
pub async fn a_full_queue_takes_no_more(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let [first, second] = bench.open([lane(1), lane(2)]).await;
    let txs = [
        (first, request(1, "one", 1)),
        (first, tx(2)),
        (first, tx(3)),
        (second, tx(4)),
        (first, request(5, "one", 1)),
        (first, tx(6)),
    ];
    let answers = bench.store.enqueue(&txs, Wait::Leader, 2).await.unwrap();
    assert!(matches!(answers[1], Enqueued::Queued { .. }));
    assert_eq!(answers[2], Enqueued::Full);
    assert!(matches!(answers[3], Enqueued::Queued { .. }));
    assert!(matches!(&answers[4], Enqueued::Known(record) if record.tx == id(1)));
    assert_eq!(answers[5], Enqueued::Full);
    let again = [(first, tx(7))];
    let answers = bench.store.enqueue(&again, Wait::Leader, 2).await.unwrap();
    assert_eq!(answers, [Enqueued::Full]);
    // A retry of what waits is no more, and a duplicate takes no room from the next.
    let retries = [(first, request(8, "one", 1)), (first, tx(2))];
    let answers = bench
        .store
        .enqueue(&retries, Wait::Leader, 2)
        .await
        .unwrap();
    assert!(matches!(&answers[0], Enqueued::Known(record) if record.tx == id(1)));
    assert!(matches!(&answers[1], Enqueued::Known(record) if record.tx == id(2)));
    let last = [
        (first, request(8, "one", 1)),
        (first, tx(9)),
        (first, tx(10)),
    ];
    let answers = bench.store.enqueue(&last, Wait::Leader, 3).await.unwrap();
    assert!(matches!(&answers[0], Enqueued::Known(_)));
    assert!(matches!(&answers[1], Enqueued::Queued { .. }));
    assert_eq!(answers[2], Enqueued::Full);
    let answers = bench.store.enqueue(&again, Wait::Leader, 4).await.unwrap();
    assert!(matches!(answers[0], Enqueued::Queued { .. }));
    let found = bench
        .store
        .find_many(&[id(3), id(6), id(8), id(10)])
        .await
        .unwrap();
    assert_eq!(found, []);
}

/// A lane that does not exist has no queue.
pub async fn an_unknown_lane_queues_nothing(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let [known] = bench.open([lane(1)]).await;
    let txs = [(LaneId(1_000_000), tx(1)), (known, tx(2))];
    let answers = bench.store.enqueue(&txs, Wait::Leader, PLENTY).await;
    let answers = answers.unwrap();
    assert_eq!(answers[0], Enqueued::UnknownLane);
    assert!(matches!(answers[1], Enqueued::Queued { .. }));
    assert_eq!(bench.dump().await.records.len(), 1);
}

/// While others wait, nobody overtakes them; a placeholder takes no turn and may.
pub async fn what_waits_goes_before_what_is_new(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(txs(0..3)).await;
    a.step(id(1), Input::Reject).await;
    enqueue(&a, txs([5])).await;
    let before = bench.dump().await;
    assert_eq!(refused(a.create(txs([6])).await), LaneRefusal::QueueFirst);
    let mixed = vec![placeholder(7, 1), tx(6)];
    assert_eq!(refused(a.create(mixed).await), LaneRefusal::QueueFirst);
    bench.dump().await.assert_same(&before, "an overtaker");

    let batch = LaneBatch {
        free: Vec::new(),
        ..a.batch(vec![placeholder(7, 1)]).await
    };
    let (stored, ..) = done(a.create_batch(batch).await);
    assert_eq!(new_nonce(&stored[0]), 1);
    let (stored, ..) = done(a.promote(vec![id(5)]).await);
    assert_eq!(new_nonce(&stored[0]), 3);
    assert_eq!(a.accept(txs([6])).await, [4]);
    bench.dump().await.assert_sound();
}

/// What is known takes no turn either: beside it a placeholder passes the queue as it would alone.
pub async fn a_known_request_holds_no_placeholder_back(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(txs(0..3)).await;
    a.step(id(1), Input::Reject).await;
    enqueue(&a, txs([5])).await;
    let before = bench.dump().await;
    let beside = |at| LaneBatch {
        held: a.held,
        cursor: nonce(3),
        free: Vec::new(),
        txs: vec![placeholder(7, at), tx(0), tx(5)],
    };
    let answer = a.create_batch(beside(2)).await;
    assert_eq!(refused(answer), LaneRefusal::NonceHeld(nonce(2)));
    bench.dump().await.assert_same(&before, "a held nonce");
    let (stored, ..) = done(a.create_batch(beside(1)).await);
    assert_eq!(new_nonce(&stored[0]), 1);
    assert_eq!((known(&stored[1]).tx, known(&stored[2]).tx), (id(0), id(5)));
    assert_eq!(waiting(&a).await, [id(5)]);
    bench.dump().await.assert_sound();
}

/// Promotion gives nonces in order of arrival, free ones first, and makes the work due.
pub async fn promotion_gives_nonces_to_the_front_of_the_queue(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(txs(0..2)).await;
    a.step(id(0), Input::Reject).await;
    enqueue(&a, txs([9, 5, 7])).await;
    let (stored, next, more_free) = done(a.promote(vec![id(9), id(5)]).await);
    let given: Vec<_> = stored.iter().map(new_nonce).collect();
    assert_eq!((given, next, more_free), (vec![0, 2], nonce(3), false));
    assert_eq!(waiting(&a).await, [id(7)]);
    assert_eq!(a.view().await.free, []);

    let record = a.read(id(9)).await;
    assert_eq!(record.state.name(), Name::Allocated);
    assert_eq!((record.version, record.token), (version(2), token(1)));
    let fencepost_app::ports::Stored::New { at, .. } = stored[0] else {
        unreachable!("it was new");
    };
    assert_eq!(at, record.updated_at);
    let event = only(bench.store.history(id(9), lane_seq(0), 10).await.unwrap());
    assert_eq!(event.event.kind, fencepost_domain::event::Kind::Accepted);
    let from = (
        Name::Queued.word().to_owned(),
        Some(Wait::Leader.word().to_owned()),
    );
    assert_eq!(event.from, Some(from));
    let due = a.claim_due(crate::builders::TTL, 10).await.records;
    let due: Vec<_> = due.iter().map(|record| record.tx).collect();
    assert_eq!(due, [id(9), id(1), id(5)]);
    bench.dump().await.assert_sound();
}

/// Only the front of the queue, in its order, can be promoted.
pub async fn promoting_anything_but_the_front_is_stale(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    let b = bench.seat_of(&a.holder, lane(2)).await;
    enqueue(&a, txs([1, 2, 3])).await;
    enqueue(&b, txs([4])).await;
    let before = bench.dump().await;
    for not_the_front in [
        vec![id(2)],
        vec![id(2), id(1)],
        vec![id(1), id(3)],
        vec![id(1), id(1)],
        vec![id(4)],
        vec![id(99)],
        vec![id(1), id(2), id(3), id(99)],
    ] {
        let answer = a.promote(not_the_front.clone()).await;
        assert_eq!(refused(answer), LaneRefusal::Stale, "{not_the_front:?}");
    }
    bench.dump().await.assert_same(&before, "a stale promotion");
    done(a.promote(vec![id(1)]).await);
    // A statement that is sent again after it was written finds the queue moved on.
    let answer = a.promote(vec![id(1)]).await;
    assert_eq!(refused(answer), LaneRefusal::Stale);
}

/// A promotion is refused for the same reasons as a create, and then everything still waits.
pub async fn a_refused_promotion_leaves_the_queue_alone(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(txs([0])).await;
    enqueue(&a, txs([1])).await;
    let right = a.promotion(vec![id(1)]).await;
    let before = bench.dump().await;
    let moved = LanePromotion {
        cursor: nonce(0),
        ..right.clone()
    };
    let no_longer_free = LanePromotion {
        free: nonces([0]),
        ..right.clone()
    };
    let mut fenced = right.clone();
    fenced.held.token = token(9);
    let mut unknown = right.clone();
    unknown.held.lane = LaneId(1_000_000);
    for (promotion, why) in [
        (moved, LaneRefusal::CursorMoved(nonce(1))),
        (no_longer_free, LaneRefusal::FreeMoved),
        (fenced, LaneRefusal::Fenced),
        (unknown, LaneRefusal::UnknownLane),
    ] {
        assert_eq!(refused(a.promote_batch(promotion).await), why);
    }
    bench
        .dump()
        .await
        .assert_same(&before, "a refused promotion");
    done(a.promote_batch(right).await);
}

/// Lanes of one promotion succeed and fail on their own.
pub async fn promotions_of_many_lanes_answer_lane_by_lane(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    let b = bench.seat_of(&a.holder, lane(2)).await;
    enqueue(&a, txs([1, 2])).await;
    enqueue(&b, txs([3])).await;
    let promotions = [
        a.promotion(vec![id(2)]).await,
        b.promotion(vec![id(3)]).await,
    ];
    let answers = bench.store.promote(&a.holder, &promotions).await.unwrap();
    assert_eq!(refused(answers[0].clone()), LaneRefusal::Stale);
    assert_eq!(new_nonce(&done(answers[1].clone()).0[0]), 0);
    assert_eq!(waiting(&a).await, [id(1), id(2)]);
    let (stored, ..) = done(a.promote(Vec::new()).await);
    assert_eq!(stored, []);
}

/// What ends while it waits leaves the queue without ever having had a nonce.
pub async fn an_expired_or_cancelled_transaction_leaves_the_queue(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    enqueue(&a, txs([1, 2, 3])).await;
    let expired = a.step(id(1), Input::Expire).await;
    assert_eq!(expired.state, State::Failed(Failed::Expired));
    let cancelled = a.step(id(3), Input::Cancel).await;
    assert_eq!(cancelled.state, State::Failed(Failed::Cancelled(None)));
    assert_eq!(waiting(&a).await, [id(2)]);
    let view = a.view().await;
    assert_eq!((view.queued, view.in_flight), (1, 0));
    assert_eq!((view.next_nonce, view.free), (nonce(0), Vec::new()));
    let (stored, ..) = done(a.promote(vec![id(2)]).await);
    assert_eq!(new_nonce(&stored[0]), 0);
    bench.dump().await.assert_sound();
}
