//! Many at once, through every handle there is. The store alone keeps them apart.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fencepost_app::ports::{
    Acquired, Bid, Enqueued, LaneBatch, LaneCreated, LaneMoved, LaneMoves, LaneRefusal, NewTx,
    Store, StoreError, Stored,
};
use fencepost_domain::flat::Name;
use fencepost_domain::state::Wait;
use fencepost_domain::transition::Input;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::Harness;
use crate::bench::{Bench, Seat, only, url};
use crate::builders::{
    accepted, feed_seq, id, lane, mined, nonce, request, request_id, sign, tx, txs,
};

/// Statements that wait for each other at once. More only makes all of them wait longer.
const IN_FLIGHT: usize = 16;
/// A create that meets this many moved cursors will never get through.
const TRIES_MAX: usize = 10_000;

/// All handles that the harness has, in turns.
async fn handles(bench: &Bench<'_>, harness: &dyn Harness) -> [Arc<dyn Store>; 2] {
    let first = Arc::clone(&bench.store);
    let second = harness.second_handle().await;
    [second.unwrap_or_else(|| Arc::clone(&first)), first]
}

/// Creates one transaction, with a guess of the cursor that all share, until it is answered.
async fn create_one(seat: Seat, guess: Arc<AtomicU64>, new: NewTx) -> Stored {
    for _ in 0..TRIES_MAX {
        let batch = LaneBatch {
            held: seat.held,
            cursor: nonce(guess.load(Ordering::SeqCst)),
            free: Vec::new(),
            txs: vec![new.clone()],
        };
        let answer = match seat.store.create(&seat.holder, &[batch]).await {
            Ok(answers) => only(answers),
            // Nothing was written; others held what we need for too long.
            Err(StoreError::Busy(_)) => continue,
            Err(error) => panic!("{error:?}"),
        };
        match answer {
            LaneCreated::Done {
                txs, next_nonce, ..
            } => {
                guess.fetch_max(next_nonce.get(), Ordering::SeqCst);
                return only(txs);
            }
            LaneCreated::Refused(LaneRefusal::CursorMoved(cursor)) => {
                guess.fetch_max(cursor.get(), Ordering::SeqCst);
            }
            LaneCreated::Refused(why) => panic!("{why:?}"),
        }
    }
    panic!("never got through");
}

/// Runs creates at once, a bounded number in flight, through all handles in turns.
async fn create_all(
    bench: &Bench<'_>,
    harness: &dyn Harness,
    seat: &Seat,
    txs: Vec<NewTx>,
) -> Vec<Stored> {
    let handles = handles(bench, harness).await;
    let guess = Arc::new(AtomicU64::new(0));
    let gate = Arc::new(Semaphore::new(IN_FLIGHT));
    let mut running = JoinSet::new();
    for (new, store) in txs.into_iter().zip(handles.iter().cycle()) {
        let store = Arc::clone(store);
        let seat = Seat {
            store,
            ..seat.clone()
        };
        let (gate, guess) = (Arc::clone(&gate), Arc::clone(&guess));
        running.spawn(async move {
            let _turn = gate.acquire().await.unwrap();
            create_one(seat, guess, new).await
        });
    }
    running.join_all().await
}

/// A hundred retries of one request, each under an id of its own: one row, one nonce, and a hundred
/// answers that say the same.
pub async fn a_hundred_creates_of_one_request_are_one_transaction(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    let same = (0..100).map(|n| request(n, "order", 10)).collect();
    let answers = create_all(&bench, harness, &a, same).await;
    let key = fencepost_app::ports::Key::Request(lane(1), request_id("order"));
    let record = bench.store.find(&key).await.unwrap().unwrap();
    let mut new = 0;
    for answer in &answers {
        match answer {
            Stored::New { nonce, at } => {
                assert_eq!(
                    (Some(*nonce), *at),
                    (record.state.nonce(), record.created_at)
                );
                new += 1;
            }
            Stored::Known(known) => assert_eq!(**known, record),
            Stored::Conflict(_) => panic!("{answer:?}"),
        }
    }
    assert_eq!((answers.len(), new), (100, 1));
    let dump = bench.dump().await;
    assert_eq!(dump.records, [record]);
    assert_eq!(dump.lanes[0].next_nonce, nonce(1));
    dump.assert_sound();
}

/// A thousand creates at once on one lane get the nonces 0 to 999, each once.
pub async fn a_thousand_creates_on_one_lane_get_consecutive_nonces(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    let answers = create_all(&bench, harness, &a, txs(0..1_000)).await;
    let given: BTreeSet<_> = answers.iter().map(crate::bench::new_nonce).collect();
    assert!(given.into_iter().eq(0..1_000));
    let dump = bench.dump().await;
    assert_eq!(dump.records.len(), 1_000);
    assert_eq!(dump.lanes[0].next_nonce, nonce(1_000));
    dump.assert_sound();
}

/// Many nodes that bid for one free lane at once: one leads, and the others learn who.
pub async fn of_many_bids_one_wins(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let [id] = bench.open([lane(1)]).await;
    let handles = handles(&bench, harness).await;
    let mut running = JoinSet::new();
    for n in 0..16_usize {
        let holder = bench.node(&format!("node-{n}")).await;
        let store = Arc::clone(&handles[n % 2]);
        running.spawn(async move {
            let bid = [Bid {
                lane: id,
                fresh: false,
            }];
            let url = url(holder.node.as_str());
            loop {
                let answer = only(store.acquire(&holder, &url, &bid).await.unwrap());
                if answer != Acquired::Busy {
                    return answer;
                }
            }
        });
    }
    let mut leading = 0;
    let view = async || bench.store.lane(lane(1)).await.unwrap().unwrap();
    for answer in running.join_all().await {
        match answer {
            Acquired::Leading(lead) => {
                assert_eq!(lead.token.get(), 1);
                leading += 1;
            }
            Acquired::Led(leader) => assert_eq!(Some(leader), view().await.leader),
            Acquired::Ghost(_) | Acquired::Busy | Acquired::UnknownLane => panic!("{answer:?}"),
        }
    }
    assert_eq!((leading, view().await.token.get()), (1, 1));
}

/// Requests that are queued at once, some of them twice, wait once each, in some order.
pub async fn concurrent_requests_are_queued_once_each(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let [lane_id] = bench.open([lane(1)]).await;
    let handles = handles(&bench, harness).await;
    let mut running = JoinSet::new();
    for n in 0..60_u64 {
        let store = Arc::clone(&handles[usize::try_from(n % 2).unwrap()]);
        let new = request(n, &format!("order-{}", n / 3), n / 3);
        running.spawn(async move {
            let txs = [(lane_id, new)];
            only(store.enqueue(&txs, Wait::Leader, 1_000).await.unwrap())
        });
    }
    let answers = running.join_all().await;
    let queued = answers
        .iter()
        .filter(|answer| matches!(answer, Enqueued::Queued { .. }));
    assert_eq!(queued.count(), 20);
    assert!(
        answers
            .iter()
            .all(|answer| matches!(answer, Enqueued::Queued { .. } | Enqueued::Known(_)))
    );
    let waiting = bench.store.queued(lane_id, 100).await.unwrap();
    let names: BTreeSet<_> = waiting.iter().map(|record| &record.request_id).collect();
    assert_eq!((waiting.len(), names.len()), (20, 20));
}

/// Lanes that complete at once share one feed: numbered without holes, each end once, and a reader
/// that follows sees them in that order.
pub async fn concurrent_ends_leave_no_hole_in_the_feed(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.node("a").await;
    let handles = handles(&bench, harness).await;
    let mut running = JoinSet::new();
    for n in 0..8_u8 {
        let seat = bench.seat_of(&a, lane(n + 1)).await;
        let first = u64::from(n) * 100;
        seat.accept((first..first + 10).map(tx).collect()).await;
        let store = Arc::clone(&handles[usize::from(n % 2)]);
        let seat = Seat { store, ..seat };
        running.spawn(async move {
            for n in first..first + 10 {
                seat.step(id(n), Input::Reject).await;
            }
        });
    }
    let mut seen = Vec::new();
    while seen.len() < 80 {
        let after = feed_seq(seen.len().try_into().unwrap());
        let feed = bench.store.completions(after, 7).await.unwrap();
        for completion in feed.completions {
            seen.push(completion.tx);
            let expected = u64::try_from(seen.len()).unwrap();
            assert_eq!(completion.seq.get(), expected, "no hole, no return");
        }
        tokio::task::yield_now().await;
    }
    running.join_all().await;
    let once: BTreeSet<_> = seen.iter().collect();
    assert_eq!(once.len(), 80);
    bench.dump().await.assert_sound();
}

/// Two decisions on one version: one is written, the other is stale, whichever is first.
pub async fn of_two_moves_on_one_version_one_is_written(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    let handles = handles(&bench, harness).await;
    a.accept(txs(0..20)).await;
    for n in 0..20 {
        let sign = a.plan(id(n), sign(n)).await;
        let reject = a.plan(id(n), Input::Reject).await;
        let batch = |plan| {
            [LaneMoves {
                held: a.held,
                moves: vec![plan],
            }]
        };
        let (signing, rejecting) = (batch(sign), batch(reject));
        let (signed, rejected) = tokio::join!(
            handles[0].apply(&a.holder, &signing),
            handles[1].complete(&a.holder, &rejecting),
        );
        let (signed, rejected) = (only(signed.unwrap()), only(rejected.unwrap()));
        let record = a.read(id(n)).await;
        let stale = LaneMoved::Stale(vec![id(n)]);
        if record.state.name() == Name::Failed {
            assert_eq!(signed, stale);
            assert!(matches!(rejected, LaneMoved::Done(_)));
        } else {
            assert_eq!((signed, rejected), (LaneMoved::Done(vec![]), stale));
        }
        assert_eq!(record.version.get(), 2);
    }
    bench.dump().await.assert_sound();
}

/// A takeover while the old leader works: nothing is lost, written twice, or out of order.
pub async fn a_takeover_amid_writes_leaves_a_sound_lane(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let old = bench.seat("a", lane(1)).await;
    let b = bench.node("b").await;
    let [store, _] = handles(&bench, harness).await;
    old.accept(txs(0..10)).await;
    let worker = Seat {
        store,
        ..old.clone()
    };
    let work = tokio::spawn(async move {
        let mut written = 0;
        for n in 10.. {
            let view = worker.view().await;
            let batch = LaneBatch {
                held: worker.held,
                cursor: view.next_nonce,
                free: view.free,
                txs: vec![tx(n)],
            };
            match worker.create_batch(batch).await {
                LaneCreated::Done { .. } => written += 1,
                LaneCreated::Refused(LaneRefusal::Fenced) => return written,
                // The new leader was in between our reading and our writing.
                LaneCreated::Refused(LaneRefusal::CursorMoved(_)) => {}
                LaneCreated::Refused(why) => panic!("{why:?}"),
            }
        }
        written
    });
    let new = loop {
        tokio::task::yield_now().await;
        bench.lapse().await;
        if let Acquired::Leading(lead) = bench.bid(&b, old.held.lane, false).await {
            let mut seat = Seat {
                holder: b,
                ..old.clone()
            };
            seat.held.token = lead.token;
            break seat;
        }
    };
    let written = work.await.unwrap();
    let cursor = new.view().await.next_nonce.get();
    assert_eq!(cursor, 10 + written);
    assert_eq!(new.accept(vec![tx(1_000_000)]).await, [cursor]);
    new.step(id(0), sign(1)).await;
    new.step(id(0), accepted()).await;
    new.step(id(0), mined(1, 100)).await;
    bench.dump().await.assert_sound();
}
