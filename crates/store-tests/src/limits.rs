//! What no store may be asked for: it is refused as invalid, and nothing is written.

use std::fmt::Debug;
use std::time::Duration;

use fencepost_app::ports::{
    Acts, AskedRemedy, Audit, Bid, Body, CursorMove, Decided, LaneBatch, LaneMoves, LanePromotion,
    Loan, NewRemedy, NewTx, PageQuery, PauseChange, PauseReason, READ_LIMIT_MAX, RemedyId, Settle,
    SettleAct, StoreError, WRITE_LIMIT_MAX,
};
use fencepost_domain::ids::NodeId;
use fencepost_domain::state::{Wait, Why};
use fencepost_domain::transition::Input;

use crate::Harness;
use crate::bench::{Bench, url};
use crate::builders::{
    GRACE, TTL, audit, feed_seq, id, lane, lane_seq, loan, lock, nonce, placeholder, sign, tx, txs,
};

/// More than ten years.
const AGES: Duration = Duration::from_secs(11 * 366 * 24 * 60 * 60);

fn invalid<T: Debug>(answer: Result<T, StoreError>, what: &str) {
    assert!(
        matches!(answer, Err(StoreError::Invalid(_))),
        "{what}: {answer:?}"
    );
}

/// A read returns between one and a thousand rows.
pub async fn reads_are_bounded(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    let (store, lane_id) = (&bench.store, a.held.lane);
    for limit in [0, READ_LIMIT_MAX + 1, usize::MAX] {
        let page = PageQuery {
            limit,
            ..PageQuery::default()
        };
        invalid(store.page(&page).await, "page");
        invalid(store.lanes(None, limit).await, "lanes");
        invalid(store.orphans(None, limit).await, "orphans");
        let unwatched = store.unwatched(Duration::from_secs(1), None, limit);
        invalid(unwatched.await, "unwatched");
        invalid(store.gaps(lane_id, nonce(0), limit).await, "gaps");
        invalid(store.queued(lane_id, limit).await, "queued");
        invalid(store.queued_lanes(None, limit).await, "queued lanes");
        invalid(store.remedy_lanes(None, limit).await, "remedy lanes");
        for of in [Acts::Tx(id(1)), Acts::Lane(lane_id)] {
            invalid(store.acts(of, None, limit).await, "acts");
        }
        invalid(store.unfinished(lane_id, None, limit).await, "unfinished");
        invalid(store.history(id(1), lane_seq(0), limit).await, "history");
        invalid(store.completions(feed_seq(0), limit).await, "completions");
        let held = [a.held];
        invalid(store.claim_due(&a.holder, &held, 0, limit).await, "due");
        let claimed = store.claim_remedies(&a.holder, &held, limit).await;
        invalid(claimed, "remedies");
    }
    let many: Vec<_> = (0..=READ_LIMIT_MAX)
        .map(|n| id(n.try_into().unwrap()))
        .collect();
    invalid(store.find_many(&many).await, "find_many");
    invalid(store.attempts(&many).await, "attempts");
    assert_eq!(store.find_many(&many[1..]).await.unwrap(), []);
    assert_eq!(store.attempts(&many[1..]).await.unwrap(), []);
}

/// A write takes no more than its statement can carry.
pub async fn writes_are_bounded(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    let b = bench.seat_of(&a.holder, lane(2)).await;
    let store = &bench.store;
    let max = u64::try_from(WRITE_LIMIT_MAX).unwrap();
    let before = bench.dump().await;
    let half = max / 2;
    // The bound is on the call, not on the lane.
    let batches = [a.batch(txs(0..half)).await, b.batch(txs(half..=max)).await];
    invalid(store.create(&a.holder, &batches).await, "create");
    let queued: Vec<_> = (0..=max).map(|n| (a.held.lane, tx(n))).collect();
    let answer = store.enqueue(&queued, Wait::Leader, usize::MAX).await;
    invalid(answer, "enqueue");
    let promotion = LanePromotion {
        held: a.held,
        cursor: nonce(0),
        free: vec![],
        txs: (0..=max).map(id).collect(),
    };
    invalid(store.promote(&a.holder, &[promotion]).await, "promote");
    let lanes = vec![lane(1); WRITE_LIMIT_MAX + 1];
    invalid(store.open_lanes(&lanes).await, "open_lanes");
    bench.dump().await.assert_same(&before, "too much");
}

/// The greatest batch that may be sent is written whole.
pub async fn the_greatest_batch_is_written(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    let max = u64::try_from(WRITE_LIMIT_MAX).unwrap();
    let given = a.accept(txs(0..max)).await;
    assert!(given.into_iter().eq(0..max));
    assert_eq!(a.view().await.in_flight, max);
    assert_eq!(a.view().await.lane_seq, lane_seq(max));
}

/// One call names a lane once, and a transaction once.
pub async fn nothing_is_named_twice_in_one_call(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    let b = bench.seat_of(&a.holder, lane(2)).await;
    a.accept(txs([1, 2])).await;
    let store = &bench.store;
    let before = bench.dump().await;
    let twice = [a.batch(txs([3])).await, a.batch(txs([4])).await];
    invalid(store.create(&a.holder, &twice).await, "create");
    let twice = [a.promotion(vec![]).await, a.promotion(vec![]).await];
    invalid(store.promote(&a.holder, &twice).await, "promote");
    let moves = |held, moves| LaneMoves { held, moves };
    let (one, two) = (a.plan(id(1), sign(1)).await, a.plan(id(2), sign(2)).await);
    let twice = [moves(a.held, vec![one.clone()]), moves(a.held, vec![two])];
    invalid(store.apply(&a.holder, &twice).await, "two batches");
    let twice = [moves(a.held, vec![one.clone(), one.clone()])];
    invalid(store.apply(&a.holder, &twice).await, "two moves");
    let twice = [moves(a.held, vec![one.clone()]), moves(b.held, vec![one])];
    invalid(store.apply(&a.holder, &twice).await, "two lanes' moves");
    let end = a.plan(id(1), Input::Reject).await;
    let twice = [moves(a.held, vec![end.clone(), end])];
    invalid(store.complete(&a.holder, &twice).await, "two ends");
    let bid = Bid {
        lane: a.held.lane,
        fresh: true,
    };
    let twice = store.acquire(&a.holder, &url("a"), &[bid, bid]).await;
    invalid(twice, "two bids");
    let twice = [a.held, a.held];
    invalid(store.renew(&a.holder, &twice).await, "two renewals");
    invalid(store.claim_due(&a.holder, &twice, 0, 9).await, "two claims");
    bench
        .dump()
        .await
        .assert_same(&before, "a lane named twice");
}

/// What the feed tells is completed, and only that: else the feed would lack an end, or tell none.
pub async fn what_the_feed_tells_is_completed_and_only_that(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(vec![tx(1), loan(2)]).await;
    let before = bench.dump().await;
    let one = async |tx, input| {
        let moves = vec![a.plan(tx, input).await];
        [LaneMoves {
            held: a.held,
            moves,
        }]
    };
    for told in [Input::Reject, Input::Stick(Why::NoFunds)] {
        let batch = one(id(1), told).await;
        invalid(bench.store.apply(&a.holder, &batch).await, "apply");
    }
    let batch = one(id(2), Input::TakenFinal(None)).await;
    invalid(bench.store.apply(&a.holder, &batch).await, "apply");
    let batch = one(id(1), sign(1)).await;
    invalid(bench.store.complete(&a.holder, &batch).await, "complete");
    let batch = one(id(2), Input::Recycle).await;
    invalid(bench.store.complete(&a.holder, &batch).await, "complete");
    bench.dump().await.assert_same(&before, "the wrong method");
}

/// Only what we sign ourselves can wait for a nonce.
pub async fn only_managed_transactions_can_wait(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    let before = bench.dump().await;
    for other in [loan(2), placeholder(2, 0)] {
        let txs = [(a.held.lane, tx(1)), (a.held.lane, other)];
        invalid(bench.store.enqueue(&txs, Wait::Leader, 10).await, "enqueue");
    }
    bench.dump().await.assert_same(&before, "what cannot wait");
}

/// A hold after a failover is the store's own finding, and no operator's.
pub async fn nobody_pauses_a_lane_for_a_failover(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    let failover = PauseChange::Pause(PauseReason::Failover);
    invalid(
        bench.store.pause(a.held.lane, failover, &audit()).await,
        "pause",
    );
    assert_eq!(a.view().await.paused, None);
}

/// Texts that are too long for their columns are refused, up to there they are kept.
pub async fn long_texts_are_refused(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(txs([1])).await;
    a.mine(id(1), 11).await;
    let (store, lane_id) = (&bench.store, a.held.lane);
    let before = bench.dump().await;
    let bid = [Bid {
        lane: lane_id,
        fresh: true,
    }];
    let node = NodeId::new("b").unwrap();
    invalid(store.join(&node, &"u".repeat(501)).await, "join");
    let answer = store.acquire(&a.holder, &"u".repeat(501), &bid).await;
    invalid(answer, "acquire");
    for long in [
        Audit {
            by: "x".repeat(1_001),
            ..audit()
        },
        Audit {
            reason: "x".repeat(1_001),
            ..audit()
        },
        Audit {
            details: Some("x".repeat(16 * 1024 + 1)),
            ..audit()
        },
    ] {
        let pause = PauseChange::Pause(PauseReason::Operator);
        invalid(store.pause(lane_id, pause, &long).await, "pause");
        let lower = CursorMove::Set { to: nonce(0) };
        invalid(store.move_cursor(lane_id, &lower, &long).await, "cursor");
        let decided = Decided {
            remedy: RemedyId(1),
            action: None,
            fees: None,
            raw: None,
            severity: None,
            after: None,
            audit: long.clone(),
        };
        let decided = store.decide_remedy(&a.holder, a.held, &decided).await;
        invalid(decided, "decision");
        let remedy = NewRemedy {
            tx: id(1),
            round: 1,
            action: fencepost_app::ports::Action::Cancel,
            fees: None,
            audit: long,
        };
        invalid(store.ask_remedy(&remedy).await, "remedy");
    }
    let end = a.plan(id(1), Input::Final).await;
    let long = end.clone().receipt("x".repeat(1024 * 1024 + 1));
    let moves = |plan| {
        [LaneMoves {
            held: a.held,
            moves: vec![plan],
        }]
    };
    invalid(store.complete(&a.holder, &moves(long)).await, "receipt");
    bench.dump().await.assert_same(&before, "too long a text");

    let receipt = "x".repeat(1024 * 1024);
    let longest = end.receipt(receipt.clone());
    crate::bench::written(a.write(vec![longest]).await);
    assert_eq!(a.read(id(1)).await.receipt, Some(receipt));
    let longest = "u".repeat(500);
    store.join(&node, &longest).await.unwrap();
}

/// A time beyond ten years is a mistake in units.
pub async fn long_times_are_refused(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(vec![tx(1), loan(2)]).await;
    let store = &bench.store;
    let before = bench.dump().await;
    for (ttl, grace) in [(AGES, GRACE), (TTL, AGES), (Duration::MAX, GRACE)] {
        let lock = lock(3);
        let loan = NewTx {
            body: Body::Reserved(Loan { lock, ttl, grace }),
            ..tx(3)
        };
        let batch: LaneBatch = a.batch(vec![loan]).await;
        invalid(store.create(&a.holder, &[batch]).await, "create");
    }
    for wait in [AGES, Duration::MAX] {
        let moves = vec![a.plan(id(1), sign(1)).await.due_in(wait)];
        let batch = [LaneMoves {
            held: a.held,
            moves,
        }];
        invalid(store.apply(&a.holder, &batch).await, "apply");
        let call = Settle {
            reservation: id(2),
            lock: lock(2),
            act: SettleAct::Extend(wait),
        };
        invalid(store.settle(&call).await, "settle");
    }
    let held = [a.held];
    invalid(store.claim_due(&a.holder, &held, u64::MAX, 9).await, "due");
    bench.dump().await.assert_same(&before, "too long a time");
}

/// Rounds are counted from one, and fit their column.
pub async fn rounds_are_counted_from_one(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(txs([1])).await;
    let remedy = |round| NewRemedy {
        tx: id(1),
        round,
        action: fencepost_app::ports::Action::Cancel,
        fees: None,
        audit: audit(),
    };
    for round in [0, u32::MAX] {
        invalid(bench.store.ask_remedy(&remedy(round)).await, "a round");
    }
    let greatest = u32::try_from(i32::MAX).unwrap();
    let asked = bench.store.ask_remedy(&remedy(greatest)).await.unwrap();
    assert!(matches!(asked, AskedRemedy::Asked(_)), "{asked:?}");
}

/// A cursor is raised under the token of its own lane.
pub async fn a_cursor_is_not_raised_under_another_lanes_token(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    let b = bench.seat_of(&a.holder, lane(2)).await;
    let before = bench.dump().await;
    let raise = CursorMove::Raise {
        holder: a.holder.clone(),
        held: a.held,
        to: nonce(5),
    };
    let moved = bench.store.move_cursor(b.held.lane, &raise, &audit()).await;
    invalid(moved, "raise");
    bench.dump().await.assert_same(&before, "the wrong token");
}
