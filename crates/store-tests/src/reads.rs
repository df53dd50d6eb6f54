//! Reads: one by any of its names, many by page; and what a page promises while others write.

use fencepost_app::ports::{CursorMove, CursorMoved, Key, PageQuery, Record};
use fencepost_domain::attempt::{self, Outcome};
use fencepost_domain::flat::Name;
use fencepost_domain::ids::{ChainId, Height, Nonce, TxId};
use fencepost_domain::state::{Execution, Inclusion, Wait, Why};
use fencepost_domain::transition::Input;

use crate::Harness;
use crate::bench::{Bench, written};
use crate::builders::{
    accepted, audit, hash, id, included, lane, lane_on, lane_seq, loan, mined, nonce, request,
    request_id, sign, tx, txs,
};

fn ids(records: &[Record]) -> Vec<TxId> {
    records.iter().map(|record| record.tx).collect()
}

/// A store that answers says so.
pub async fn a_usable_store_answers_a_ping(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    bench.store.ping().await.unwrap();
}

/// A transaction is found by its id, its client's name for it, any of its hashes, and its nonce.
pub async fn a_transaction_is_found_by_any_of_its_names(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(vec![tx(1), request(2, "order", 10), tx(3)]).await;
    a.step(id(2), sign(21)).await;
    let bump = Input::Sign(attempt::Kind::Replacement, hash(22));
    a.step(id(2), bump).await;
    let record = a.read(id(2)).await;
    let find = async |key: Key| bench.store.find(&key).await.unwrap();
    let chain = lane(1).chain;
    for key in [
        Key::Id(id(2)),
        Key::Request(lane(1), request_id("order")),
        Key::Hash(chain, hash(21)),
        Key::Hash(chain, hash(22)),
        Key::Nonce(lane(1), nonce(1)),
    ] {
        assert_eq!(find(key.clone()).await.as_ref(), Some(&record), "{key:?}");
    }
    for key in [
        Key::Id(id(99)),
        Key::Request(lane(1), request_id("Order")),
        Key::Request(lane(2), request_id("order")),
        Key::Hash(chain, hash(99)),
        Key::Hash(lane_on(2, 1).chain, hash(21)),
        Key::Nonce(lane(1), nonce(3)),
        Key::Nonce(lane_on(2, 1), nonce(1)),
    ] {
        assert_eq!(find(key.clone()).await, None, "{key:?}");
    }
}

/// A nonce names who holds it now: nobody after it was given back, its new holder after that, and
/// its last one for ever once a block has used it.
pub async fn a_nonce_names_its_holder_of_the_moment(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(vec![loan(1)]).await;
    let holder = async || {
        let key = Key::Nonce(lane(1), nonce(0));
        let found = bench.store.find(&key).await.unwrap();
        found.map(|record| record.tx)
    };
    assert_eq!(holder().await, Some(id(1)));
    a.step(id(1), Input::Recycle).await;
    assert_eq!(holder().await, None);
    a.accept(txs([2])).await;
    assert_eq!(holder().await, Some(id(2)));
    a.confirm(id(2), 22).await;
    assert_eq!(holder().await, Some(id(2)));
}

/// Many are found at once: those that exist, each once.
pub async fn many_are_found_by_id(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(txs(1..=3)).await;
    let wanted = [id(3), id(99), id(1), id(3)];
    let mut found = bench.store.find_many(&wanted).await.unwrap();
    found.sort_by_key(|record| record.tx);
    assert_eq!(found, [a.read(id(1)).await, a.read(id(3)).await]);
    assert_eq!(bench.store.find_many(&[]).await.unwrap(), []);
    assert_eq!(bench.store.attempts(&[]).await.unwrap(), []);
}

/// Pages run from the newest id down, over one lane or all, one state or all.
pub async fn pages_run_from_the_newest_down(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    let b = bench.seat_of(&a.holder, lane(2)).await;
    a.accept(txs([4, 1, 6])).await;
    b.accept(txs([3, 5])).await;
    let waiting = [(b.held.lane, tx(2))];
    bench
        .store
        .enqueue(&waiting, Wait::Leader, 10)
        .await
        .unwrap();
    a.step(id(4), Input::Reject).await;
    let page = async |lane, state, before: Option<u64>, limit| {
        let query = PageQuery {
            lane,
            state,
            before: before.map(id),
            limit,
        };
        let page = bench.store.page(&query).await.unwrap();
        ids(&page)
    };
    assert_eq!(page(None, None, None, 10).await, [6, 5, 4, 3, 2, 1].map(id));
    assert_eq!(page(None, None, Some(5), 2).await, [4, 3].map(id));
    assert_eq!(page(None, None, Some(1), 2).await, []);
    let (one, two) = (Some(lane(1)), Some(lane(2)));
    assert_eq!(page(one, None, None, 10).await, [6, 4, 1].map(id));
    let allocated = Some(Name::Allocated);
    assert_eq!(page(None, allocated, None, 3).await, [6, 5, 3].map(id));
    assert_eq!(page(one, allocated, Some(6), 10).await, [id(1)]);
    assert_eq!(page(two, Some(Name::Queued), None, 10).await, [id(2)]);
    assert_eq!(page(two, Some(Name::Failed), None, 10).await, []);
    assert_eq!(page(Some(lane(9)), None, None, 10).await, []);
}

/// Whoever turns pages while others write sees each row that was there at the start exactly once.
pub async fn pages_miss_and_repeat_nothing_while_others_write(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    // Ids by tens, so that new ones can come to lie between, above and below.
    a.accept((1..=25).map(|n| tx(1_000 + 10 * n)).collect())
        .await;
    let at_the_start: Vec<_> = (1..=25).rev().map(|n| id(1_000 + 10 * n)).collect();
    let mut seen: Vec<TxId> = Vec::new();
    for round in 0.. {
        let query = PageQuery {
            lane: Some(lane(1)),
            before: seen.last().copied(),
            limit: 4,
            ..PageQuery::default()
        };
        let page = bench.store.page(&query).await.unwrap();
        if page.is_empty() {
            break;
        }
        seen.extend(ids(&page));
        let among = 1_000 + 30 * round + 5;
        a.accept(vec![tx(5_000 + round), tx(among), tx(round)])
            .await;
        a.step(page[0].tx, Input::Reject).await;
    }
    let mut once = seen.clone();
    once.dedup();
    assert_eq!(once, seen, "nothing twice");
    assert!(seen.is_sorted_by(|a, b| a > b), "newest first");
    seen.retain(|tx| at_the_start.contains(tx));
    assert_eq!(seen, at_the_start, "nothing missed");
}

/// What is unfinished is listed by nonce, above the one given, and without what has no nonce.
pub async fn the_unfinished_are_listed_by_nonce(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(vec![tx(9), tx(8), loan(7), tx(6), tx(5)]).await;
    a.confirm(id(8), 18).await;
    a.mine(id(6), 16).await;
    let waiting = [(a.held.lane, tx(1))];
    bench
        .store
        .enqueue(&waiting, Wait::Leader, 10)
        .await
        .unwrap();
    let unfinished = async |after: Option<u64>, limit| {
        let after = after.map(nonce);
        let found = bench.store.unfinished(a.held.lane, after, limit).await;
        ids(&found.unwrap())
    };
    assert_eq!(unfinished(None, 10).await, [9, 7, 6, 5].map(id));
    assert_eq!(unfinished(None, 2).await, [9, 7].map(id));
    assert_eq!(unfinished(Some(0), 2).await, [7, 6].map(id));
    assert_eq!(unfinished(Some(2), 10).await, [6, 5].map(id));
    assert_eq!(unfinished(Some(4), 10).await, []);
}

/// A history is read from any point on, and only its own transaction's.
pub async fn a_history_is_read_from_any_point_on(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(txs([1, 2])).await;
    a.confirm(id(2), 22).await;
    a.step(id(1), sign(11)).await;
    let seqs = async |tx, after, limit| {
        let events = bench.store.history(tx, lane_seq(after), limit).await;
        let events = events.unwrap();
        events
            .iter()
            .map(|event| event.seq.get())
            .collect::<Vec<_>>()
    };
    assert_eq!(seqs(id(2), 0, 10).await, [2, 3, 4, 5, 6]);
    assert_eq!(seqs(id(2), 0, 2).await, [2, 3]);
    assert_eq!(seqs(id(2), 3, 2).await, [4, 5]);
    assert_eq!(seqs(id(1), 0, 10).await, [1, 7]);
    assert_eq!(seqs(id(1), 7, 10).await, [0_u64; 0]);
    assert_eq!(seqs(id(99), 0, 10).await, [0_u64; 0]);
}

/// Lives that lead through every state and sub-state of our own transactions; the n-th hash stands
/// for all their bytes.
fn lives(n: u64) -> [Vec<Input>; 9] {
    let at = |by, execution| {
        Input::Mined(Inclusion {
            by,
            execution,
            ..included(n, 7, 0)
        })
    };
    let by = |kind| at(kind, Execution::Success);
    let reverted = at(attempt::Kind::Original, Execution::Reverted);
    let sent = Input::Sent;
    let taken = Input::Taken(Some(hash(n + 70)));
    [
        vec![Input::Stick(Why::NoFunds), Input::Clear, Input::Reject],
        vec![sign(n), Input::Stick(Why::Gap), Input::Clear, accepted()],
        vec![sign(n), sent(Outcome::Refused)],
        vec![sign(n), sent(Outcome::Ambiguous), reverted, Input::Final],
        vec![sign(n), by(attempt::Kind::Cancel), Input::Final],
        vec![sign(n), by(attempt::Kind::Placeholder), Input::Final],
        vec![sign(n), taken.clone(), Input::TakenFinal(None)],
        vec![Input::Taken(None), taken],
        vec![sign(n), mined(n, 7), Input::Final, Input::Reorged],
    ]
}

/// The state that a move carries is the one that is read back, wherever a life leads.
pub async fn every_state_is_read_back_as_it_was_written(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    for life in 0..lives(0).len() {
        let n = u64::try_from(life).unwrap();
        a.accept(vec![tx(n)]).await;
        for (step, input) in lives(n)[life].iter().enumerate() {
            let plan = a.plan(id(n), input.clone()).await;
            let expected = plan.to.clone();
            written(a.write(vec![plan]).await);
            let found = a.read(id(n)).await.state;
            assert_eq!(found, expected, "life {life}, step {step}");
        }
    }
    bench.dump().await.assert_sound();
}

/// The greatest numbers that the types allow fit the columns.
pub async fn the_greatest_numbers_are_read_back(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let far = lane_on(ChainId::MAX.get(), 1);
    let a = bench.seat("a", far).await;
    let raise = CursorMove::Raise {
        holder: a.holder.clone(),
        held: a.held,
        to: nonce(Nonce::MAX.get() - 1),
    };
    let moved = bench.store.move_cursor(a.held.lane, &raise, &audit()).await;
    assert!(matches!(moved.unwrap(), CursorMoved::Now { .. }));
    a.accept(txs([1])).await;
    a.step(id(1), sign(1)).await;
    let record = a.step(id(1), mined(1, Height::MAX.get())).await;
    assert_eq!(record.lane, far);
    assert_eq!(record.state.nonce().unwrap().get(), Nonce::MAX.get() - 1);
    assert_eq!(record.state.inclusion().unwrap().block.number, Height::MAX);
    let found = bench.store.find(&Key::Hash(far.chain, hash(1))).await;
    assert_eq!(found.unwrap(), Some(record));
}
