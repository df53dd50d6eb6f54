//! The feed: how transactions ended, numbered without holes, corrected and never rewritten.

use fencepost_app::ports::{LaneMoved, LaneMoves, StoreError};
use fencepost_domain::attempt::Outcome;
use fencepost_domain::flat::Name;
use fencepost_domain::ids::Height;
use fencepost_domain::state::{Kind, Why};
use fencepost_domain::transition::Input;

use crate::Harness;
use crate::bench::{Bench, only, written};
use crate::builders::{
    accepted, feed_seq, hash, id, included, lane, loan, mined, nonce, request, request_id, tx, txs,
    version,
};

/// A completion tells all that a reader needs, as it was at that moment.
pub async fn a_completion_tells_how_it_ended(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(vec![request(1, "order", 10), tx(2)]).await;
    let confirmed = a.confirm(id(1), 11).await;
    assert!(confirmed.confirmed_at.is_some());
    assert!(confirmed.receipt.is_some(), "the receipt stays");
    a.step(id(2), Input::Reject).await;

    let feed = bench.store.completions(feed_seq(0), 10).await.unwrap();
    assert_eq!((feed.head, feed.epoch), (feed_seq(2), 1));
    let told = &feed.completions[0];
    assert_eq!(
        (told.seq, told.tx, told.kind),
        (feed_seq(1), id(1), Kind::Managed)
    );
    assert_eq!(told.lane, lane(1));
    assert_eq!(told.request_id, Some(request_id("order")));
    assert_eq!((told.nonce, told.state), (Some(nonce(0)), Name::Confirmed));
    assert_eq!(told.sub_state, None);
    assert_eq!(told.tx_hash, Some(hash(11)));
    assert_eq!(told.block_number, Some(Height::new(100).unwrap()));
    assert_eq!(told.corrects, None);
    let told = &feed.completions[1];
    assert_eq!(
        (told.nonce, told.tx_hash, told.block_number),
        (None, None, None)
    );
    assert_eq!(
        (told.state, told.sub_state.as_deref()),
        (Name::Failed, Some("REJECTED"))
    );
}

/// What has ended is no longer in flight, unfinished or due.
pub async fn what_has_ended_is_no_longer_due(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(txs([1, 2])).await;
    a.confirm(id(1), 11).await;
    let view = a.view().await;
    assert_eq!((view.in_flight, view.head.unwrap().tx), (1, id(2)));
    let open = bench.store.unfinished(a.held.lane, None, 10).await.unwrap();
    assert_eq!(open.iter().map(|r| r.tx).collect::<Vec<_>>(), [id(2)]);
    let due = a.claim_due(crate::builders::TTL, 10).await.records;
    assert_eq!(due.iter().map(|r| r.tx).collect::<Vec<_>>(), [id(2)]);
}

/// A statement over many lanes numbers its completions in its own order, and only those written.
pub async fn completions_are_numbered_in_order_across_lanes(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    let b = bench.seat_of(&a.holder, lane(2)).await;
    let c = bench.seat_of(&a.holder, lane(3)).await;
    a.accept(txs([1, 2])).await;
    b.accept(txs([3])).await;
    c.accept(txs([4, 5])).await;
    let mut batches = Vec::new();
    for (seat, numbers) in [(&c, vec![5, 4]), (&b, vec![3]), (&a, vec![1, 2])] {
        let mut moves = Vec::new();
        for n in numbers {
            moves.push(seat.plan(id(n), Input::Reject).await);
        }
        batches.push(LaneMoves {
            held: seat.held,
            moves,
        });
    }
    batches[1].moves[0].version = version(9);
    let answers = bench.store.complete(&a.holder, &batches).await.unwrap();
    let expected = [
        LaneMoved::Done(vec![feed_seq(1), feed_seq(2)]),
        LaneMoved::Stale(vec![id(3)]),
        LaneMoved::Done(vec![feed_seq(3), feed_seq(4)]),
    ];
    assert_eq!(answers, expected);
    let feed = bench.store.completions(feed_seq(0), 10).await.unwrap();
    let told: Vec<_> = feed.completions.iter().map(|each| each.tx).collect();
    assert_eq!(told, [5, 4, 1, 2].map(id));
    assert_eq!(feed.head, feed_seq(4));
    bench.dump().await.assert_sound();
}

/// A reader that goes on from what it has seen finds everything once.
pub async fn a_reader_goes_on_from_where_it_stopped(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    let empty = bench.store.completions(feed_seq(0), 10).await.unwrap();
    assert_eq!((empty.completions, empty.head), (Vec::new(), feed_seq(0)));
    a.accept(txs(1..=5)).await;
    let mut seen = Vec::new();
    for n in 1..=5 {
        a.step(id(n), Input::Reject).await;
        let after = feed_seq(u64::try_from(seen.len()).unwrap());
        if n % 2 == 1 {
            let feed = bench.store.completions(after, 1).await.unwrap();
            assert_eq!(feed.head, feed_seq(n));
            seen.extend(feed.completions);
        }
    }
    let rest = bench.store.completions(feed_seq(3), 10).await.unwrap();
    seen.extend(rest.completions);
    let numbers: Vec<_> = seen.iter().map(|each| each.seq.get()).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5]);
    let beyond = bench.store.completions(feed_seq(99), 10).await.unwrap();
    assert_eq!((beyond.completions, beyond.head), (Vec::new(), feed_seq(5)));
}

/// STUCK is told, but ends nothing: what follows is no correction.
pub async fn a_stuck_transaction_is_told_and_goes_on(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(txs([1])).await;
    a.step(id(1), crate::builders::sign(11)).await;
    a.step(id(1), accepted()).await;
    let stuck = a.step(id(1), Input::Stick(Why::NoReceipt)).await;
    assert_eq!(stuck.confirmed_at, None);
    let view = a.view().await;
    assert_eq!((view.stuck, view.in_flight), (1, 1));
    a.step(id(1), mined(11, 100)).await;
    a.step(id(1), Input::Final).await;
    let feed = bench.store.completions(feed_seq(0), 10).await.unwrap();
    let told: Vec<_> = feed
        .completions
        .iter()
        .map(|each| (each.state, each.sub_state.as_deref(), each.corrects))
        .collect();
    let expected = [
        (Name::Stuck, Some("NO_RECEIPT"), None),
        (Name::Confirmed, None, None),
    ];
    assert_eq!(told, expected);
    assert_eq!(a.view().await.stuck, 0);
}

/// What happens to a stuck transaction without changing why it is stuck is history, and no news.
pub async fn a_send_of_stuck_bytes_is_not_told(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(txs([1])).await;
    a.step(id(1), crate::builders::sign(11)).await;
    a.step(id(1), Input::Stick(Why::NoReceipt)).await;
    let sent = a.plan(id(1), Input::Sent(Outcome::Ambiguous)).await;
    assert_eq!(sent.to.name(), Name::Stuck);
    let batch = [LaneMoves {
        held: a.held,
        moves: vec![sent],
    }];
    let told = bench.store.complete(&a.holder, &batch).await;
    assert!(matches!(told, Err(StoreError::Invalid(_))), "{told:?}");
    let answers = bench.store.apply(&a.holder, &batch).await.unwrap();
    assert_eq!(answers, [LaneMoved::Done(vec![])]);
    assert_eq!(a.read(id(1)).await.version, version(4));
    // Another reason is news.
    a.step(id(1), Input::Stick(Why::NoFunds)).await;
    let feed = bench.store.completions(feed_seq(0), 10).await.unwrap();
    let told = feed
        .completions
        .iter()
        .map(|each| each.sub_state.as_deref());
    let told: Vec<_> = told.collect();
    assert_eq!(told, [Some("NO_RECEIPT"), Some("NO_FUNDS")]);
    bench.dump().await.assert_sound();
}

/// A final block that is replaced is told as a correction of the last end, each time again, and the
/// transaction is due once more.
pub async fn a_reorg_after_the_end_is_a_correction(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(txs([1, 2])).await;
    a.confirm(id(1), 11).await;
    a.confirm(id(2), 21).await;
    let undone = a.plan(id(1), Input::Reorged).await;
    assert_eq!(written(a.write(vec![undone]).await), [feed_seq(3)]);
    let record = a.read(id(1)).await;
    assert_eq!((record.confirmed_at, &record.receipt), (None, &None));
    assert_eq!(record.state.nonce(), Some(nonce(0)));
    let due = a.claim_due(crate::builders::TTL, 10).await.records;
    assert_eq!(only(due).tx, id(1));
    a.step(id(1), Input::Mined(included(11, 101, 1))).await;
    a.step(id(1), Input::Final).await;
    a.step(id(1), Input::Reorged).await;

    let feed = bench.store.completions(feed_seq(0), 10).await.unwrap();
    let told: Vec<_> = feed
        .completions
        .iter()
        .map(|each| (each.tx, each.state, each.corrects.map(|seq| seq.get())))
        .collect();
    let expected = [
        (id(1), Name::Confirmed, None),
        (id(2), Name::Confirmed, None),
        (id(1), Name::Stuck, Some(1)),
        (id(1), Name::Confirmed, Some(1)),
        (id(1), Name::Stuck, Some(4)),
    ];
    assert_eq!(told, expected);
    bench.dump().await.assert_sound();
}

/// Giving a reservation back is nobody's end, and is not told; its use is.
pub async fn the_feed_tells_the_use_of_a_reservation(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(vec![loan(1), loan(2)]).await;
    a.step(id(1), Input::Recycle).await;
    a.step(id(2), Input::TakenFinal(Some(hash(66)))).await;
    let feed = bench.store.completions(feed_seq(0), 10).await.unwrap();
    let told = only(feed.completions);
    assert_eq!(
        (told.tx, told.kind, told.state),
        (id(2), Kind::Reserved, Name::Used)
    );
    assert_eq!((told.nonce, told.tx_hash), (Some(nonce(1)), None));
}
