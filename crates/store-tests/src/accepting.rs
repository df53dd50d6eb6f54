//! Accepting: each new transaction is stored with its nonce, duplicates spend none.

use fencepost_app::ports::{Body, Enqueued, Held, Key, LaneBatch, LaneRefusal, NewTx, Stored};
use fencepost_domain::flat::Name;
use fencepost_domain::ids::LaneId;
use fencepost_domain::request::{Ceilings, Draft, Meta, Payload};
use fencepost_domain::state::{Allocated, Kind, Signing, State, Wait};
use jiff::Timestamp;

use crate::Harness;
use crate::bench::{Bench, conflicting, done, known, new_nonce, only, refused};
use crate::builders::{
    id, lane, lane_on, lane_seq, loan, nonce, payload, request, request_id, token, tx, txs, version,
};

/// A batch gets the nonces from the cursor on, in order, and each row begins as version 1.
pub async fn new_transactions_get_consecutive_nonces_in_order(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    let (stored, next, more_free) = done(a.create(txs([5, 3, 4])).await);
    let given: Vec<_> = stored.iter().map(new_nonce).collect();
    assert_eq!((given, next, more_free), (vec![0, 1, 2], nonce(3), false));
    assert_eq!(a.accept(txs([9])).await, [3]);
    assert_eq!(a.view().await.next_nonce, nonce(4));

    let record = a.read(id(3)).await;
    let state = Allocated {
        nonce: nonce(1),
        bytes: Signing::Unsigned,
    };
    assert_eq!(record.state, State::Allocated(state));
    assert_eq!((record.lane, record.lane_id), (lane(1), a.held.lane));
    assert_eq!((record.kind, record.reservation), (Kind::Managed, None));
    assert_eq!((record.version, record.token), (version(1), token(1)));
    assert_eq!((record.attempts, record.submit_attempts), (0, 0));
    assert_eq!(record.created_at, record.updated_at);
    let Stored::New { at, .. } = stored[1] else {
        unreachable!("it was new");
    };
    assert_eq!(at, record.created_at);
    bench.dump().await.assert_sound();
}

/// Giving a nonce is the first thing that a transaction's history tells.
pub async fn the_first_event_tells_that_a_nonce_was_given(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(txs([1, 2])).await;
    let event = only(bench.store.history(id(2), lane_seq(0), 10).await.unwrap());
    assert_eq!((event.seq, event.tx), (lane_seq(2), id(2)));
    assert_eq!(event.event.kind, fencepost_domain::event::Kind::Accepted);
    assert_eq!(event.from, None);
    assert_eq!(event.to, (Name::Allocated.word().to_owned(), None));
    assert_eq!(event.node, Some(a.holder.node.clone()));
    assert_eq!(event.token, a.held.token);
    assert_eq!(a.view().await.lane_seq, lane_seq(2));
}

fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// Every field comes back as it was given, to the microsecond and to the last byte.
pub async fn what_was_given_is_read_back_unchanged(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    let text = |text: &str| Some(text.to_owned());
    let draft = Draft {
        to: None,
        value: text(&format!("0x{}", "ff".repeat(32))),
        data: text("0x00ff00"),
        gas: text("1000000"),
        gas_price: None,
        max_fee_per_gas: text(&u64::MAX.to_string()),
        max_priority_fee_per_gas: text("0"),
        access_list: Some(vec![(
            format!("0x{}", "11".repeat(20)),
            vec![format!("0x{}", "22".repeat(32))],
        )]),
    };
    let ceilings = Ceilings {
        max_fee: u128::MAX,
        max_priority_fee: u128::MAX,
    };
    let new = NewTx {
        request_id: Some(request_id(&"支".repeat(66))),
        body: Body::Managed(Payload::parse(&draft, ceilings).unwrap()),
        not_after: Some(time("2031-02-03T04:05:06.789123999Z")),
        meta: Some(Meta::new(format!(r#"{{"x":"{}"}}"#, "y".repeat(16_000))).unwrap()),
        ..tx(1)
    };
    a.accept(vec![new.clone()]).await;
    let record = a.read(id(1)).await;
    assert_eq!(record.request_id, new.request_id);
    assert_eq!(Body::Managed(record.payload.unwrap()), new.body);
    assert_eq!(record.not_after, Some(time("2031-02-03T04:05:06.789123Z")));
    assert_eq!(record.meta, new.meta);
}

/// A retry, with an id of its own or with the same one, gets the first answer and spends nothing.
pub async fn a_repeated_request_is_known_and_spends_no_nonce(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(vec![request(1, "order", 10), tx(2)]).await;
    let before = bench.dump().await;
    for again in [request(3, "order", 10), request(1, "order", 10), tx(2)] {
        let (stored, next, _) = done(a.create(vec![again.clone()]).await);
        assert_eq!(next, nonce(2));
        let first = if again.request_id.is_some() { 1 } else { 2 };
        assert_eq!(*known(&stored[0]), a.read(id(first)).await, "{again:?}");
    }
    bench.dump().await.assert_same(&before, "a duplicate");
    // New ones beside a duplicate get the nonces they would have got without it.
    let batch = vec![tx(4), request(5, "order", 10), tx(6)];
    let (stored, next, _) = done(a.create(batch).await);
    assert_eq!((new_nonce(&stored[0]), new_nonce(&stored[2])), (2, 3));
    assert_eq!(known(&stored[1]).tx, id(1));
    assert_eq!(next, nonce(4));
    bench.dump().await.assert_sound();
}

/// The same name or id for something else is refused with what is in the way, and spends nothing.
pub async fn another_request_under_a_used_name_conflicts(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    let other = bench.seat_of(&a.holder, lane(2)).await;
    let lent = NewTx {
        request_id: Some(request_id("loan")),
        ..loan(2)
    };
    a.accept(vec![request(1, "order", 10), lent, tx(3)]).await;
    let nameless = NewTx {
        request_id: None,
        ..request(1, "order", 10)
    };
    let lent_again = NewTx {
        request_id: Some(request_id("order")),
        ..loan(7)
    };
    let before = bench.dump().await;
    for (seat, new, in_the_way) in [
        // Another payload under the same name, and under the same id.
        (&a, request(4, "order", 11), 1),
        (&a, request(1, "order", 11), 1),
        // The same id under another name, and under none.
        (&a, request(1, "else", 10), 1),
        (&a, nameless, 1),
        (&a, request(3, "else", 3), 3),
        // The same id on another lane.
        (&other, request(1, "order", 10), 1),
        (&other, tx(3), 3),
        // A transaction under a reservation's name, and the reverse.
        (&a, request(6, "loan", 6), 2),
        (&a, lent_again, 1),
    ] {
        let (stored, ..) = done(seat.create(vec![new.clone()]).await);
        let expected = a.read(id(in_the_way)).await;
        assert_eq!(*conflicting(&stored[0]), expected, "{new:?}");
    }
    bench.dump().await.assert_same(&before, "a conflict");
}

/// Within one batch the first of a name is stored, and the others meet it.
pub async fn duplicates_within_one_batch_meet_the_first(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    let batch = vec![
        request(1, "order", 10),
        request(2, "order", 10),
        request(3, "order", 11),
        tx(4),
        tx(4),
        NewTx {
            body: Body::Managed(payload(99)),
            ..tx(4)
        },
        tx(5),
    ];
    let (stored, next, _) = done(a.create(batch).await);
    assert_eq!(next, nonce(3));
    assert_eq!(new_nonce(&stored[0]), 0);
    assert_eq!(*known(&stored[1]), a.read(id(1)).await);
    assert_eq!(conflicting(&stored[2]).tx, id(1));
    assert_eq!(new_nonce(&stored[3]), 1);
    assert_eq!(known(&stored[4]).tx, id(4));
    assert_eq!(conflicting(&stored[5]).tx, id(4));
    assert_eq!(new_nonce(&stored[6]), 2);
    assert_eq!(bench.dump().await.records.len(), 3);
    bench.dump().await.assert_sound();
}

/// Where an id is one request's and the name another's, the id counts: it was minted once, and what
/// comes with it again and differs is not a retry.
pub async fn an_id_counts_before_a_name(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(vec![tx(1), request(2, "order", 10)]).await;
    let before = bench.dump().await;
    let (stored, ..) = done(a.create(vec![request(1, "order", 10)]).await);
    assert_eq!(conflicting(&stored[0]).tx, id(1));
    bench.dump().await.assert_same(&before, "a conflict");
    // The same within one batch.
    let batch = vec![tx(3), request(3, "order", 10)];
    let (stored, ..) = done(a.create(batch).await);
    assert_eq!(new_nonce(&stored[0]), 2);
    assert_eq!(conflicting(&stored[1]).tx, id(3));
    // And even where the name came first.
    let batch = vec![request(4, "first", 10), tx(5), request(5, "first", 10)];
    let (stored, ..) = done(a.create(batch).await);
    assert_eq!(conflicting(&stored[2]).tx, id(5));
    bench.dump().await.assert_sound();
}

/// What a batch does not store takes no name: a later item that uses it is the first of that name.
pub async fn a_conflicting_item_takes_no_name(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    let batch = |n: u64, name| vec![tx(n), request(n, name, 10), request(n + 1, name, 10)];
    let (stored, next, _) = done(a.create(batch(1, "order")).await);
    assert_eq!((new_nonce(&stored[0]), new_nonce(&stored[2])), (0, 1));
    assert_eq!((conflicting(&stored[1]).tx, next), (id(1), nonce(2)));
    let batch = batch(3, "other").into_iter().map(|new| (a.held.lane, new));
    let batch: Vec<_> = batch.collect();
    let queued = bench.store.enqueue(&batch, Wait::Leader, 10).await.unwrap();
    assert!(matches!(&queued[1], Enqueued::Conflict(record) if record.tx == id(3)));
    assert!(matches!(&queued[2], Enqueued::Queued { .. }));
    // The same where what it conflicts with was stored before.
    let other = bench.seat_of(&a.holder, lane(2)).await;
    other.accept(txs([5])).await;
    let batch = vec![request(5, "order", 10), request(6, "order", 10)];
    let (stored, ..) = done(other.create(batch).await);
    assert_eq!(conflicting(&stored[0]).tx, id(5));
    assert_eq!(new_nonce(&stored[1]), 1);
    bench.dump().await.assert_sound();
}

/// A name is unique within its lane only: another signer, or the same one on another chain, has
/// its own.
pub async fn one_name_on_two_lanes_is_two_transactions(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    let b = bench.seat_of(&a.holder, lane(2)).await;
    let c = bench.seat_of(&a.holder, lane_on(2, 1)).await;
    for (n, seat) in [(1, &a), (2, &b), (3, &c)] {
        assert_eq!(seat.accept(vec![request(n, "order", 10)]).await, [0]);
        let key = Key::Request(seat.lane, request_id("order"));
        let found = bench.store.find(&key).await.unwrap().unwrap();
        assert_eq!(found.tx, id(n));
    }
}

/// Names are bytes: neither case nor a way to write the same letter makes two of them one.
pub async fn names_that_only_look_alike_are_different(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    let names = ["order", "Order", "caf\u{e9}", "cafe\u{301}", "1", "01"];
    let batch = (1..).zip(names).map(|(n, name)| request(n, name, 10));
    assert_eq!(a.accept(batch.collect()).await, [0, 1, 2, 3, 4, 5]);
    for (n, name) in (1..).zip(names) {
        let key = Key::Request(lane(1), request_id(name));
        let found = bench.store.find(&key).await.unwrap().unwrap();
        assert_eq!(found.tx, id(n), "{name}");
    }
}

/// What is already stored can be told by anyone: a retry is answered even after a takeover.
pub async fn known_requests_are_answered_without_leadership(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(vec![request(1, "order", 10)]).await;
    bench.lapse().await;
    bench.seat("b", lane(1)).await;
    let before = bench.dump().await;
    let batch = vec![request(2, "order", 10), request(3, "order", 11)];
    let (stored, next, _) = done(a.create(batch).await);
    assert_eq!(known(&stored[0]).tx, id(1));
    assert_eq!(conflicting(&stored[1]).tx, id(1));
    assert_eq!(next, nonce(1));
    bench.dump().await.assert_same(&before, "an answer");
    // With anything new among them the whole lane is refused.
    let batch = vec![request(2, "order", 10), tx(4)];
    assert_eq!(refused(a.create(batch).await), LaneRefusal::Fenced);
    bench.dump().await.assert_same(&before, "a refusal");
}

/// One call writes many lanes; each is written whole or not at all, whatever becomes of the others.
pub async fn lanes_of_one_call_are_written_or_refused_on_their_own(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    let b = bench.seat_of(&a.holder, lane(2)).await;
    let lost = bench.seat("b", lane(3)).await;
    b.accept(vec![request(1, "order", 10)]).await;
    let lost_before = lost.view().await;
    let unknown = Held {
        lane: LaneId(1_000_000),
        token: token(1),
    };
    let batch = |held, cursor, txs| LaneBatch {
        held,
        cursor: nonce(cursor),
        free: Vec::new(),
        txs,
    };
    let batches = [
        batch(lost.held, 0, txs([10, 11])),
        batch(b.held, 1, vec![tx(12), request(13, "order", 10), tx(14)]),
        batch(unknown, 0, txs([15])),
        batch(a.held, 7, txs([16, 17])),
    ];
    let answers = bench.store.create(&a.holder, &batches).await.unwrap();
    assert_eq!(refused(answers[0].clone()), LaneRefusal::Fenced);
    let (stored, next, _) = done(answers[1].clone());
    assert_eq!((new_nonce(&stored[0]), new_nonce(&stored[2])), (1, 2));
    assert_eq!((known(&stored[1]).tx, next), (id(1), nonce(3)));
    assert_eq!(refused(answers[2].clone()), LaneRefusal::UnknownLane);
    let moved = LaneRefusal::CursorMoved(nonce(0));
    assert_eq!(refused(answers[3].clone()), moved);

    let dump = bench.dump().await;
    let written: Vec<_> = dump.records.iter().map(|record| record.tx).collect();
    assert_eq!(written, [id(14), id(12), id(1)]);
    assert_eq!(lost.view().await, lost_before);
    dump.assert_sound();
}

/// Two lanes that are sent the same id in one call can never both store it.
pub async fn one_id_sent_to_two_lanes_is_stored_once(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    let b = bench.seat_of(&a.holder, lane(2)).await;
    let batches = [a.batch(txs([1])).await, b.batch(txs([1])).await];
    let answers = bench.store.create(&a.holder, &batches).await.unwrap();
    let stored = answers.into_iter().map(|answer| only(done(answer).0));
    let (new, met): (Vec<_>, Vec<_>) =
        stored.partition(|stored| matches!(stored, Stored::New { .. }));
    assert_eq!(new.len(), 1);
    assert_eq!(conflicting(&only(met)).tx, id(1));
    let dump = bench.dump().await;
    assert_eq!(dump.records.len(), 1);
    dump.assert_sound();
}

/// A batch with nothing in it says where the cursor stands.
pub async fn an_empty_batch_writes_nothing(harness: &dyn Harness) {
    let bench = Bench::new(harness).await;
    let a = bench.seat("a", lane(1)).await;
    a.accept(txs([1])).await;
    let before = bench.dump().await;
    let (stored, next, _) = done(a.create(Vec::new()).await);
    assert_eq!((stored, next), (Vec::new(), nonce(1)));
    assert_eq!(bench.store.create(&a.holder, &[]).await.unwrap(), []);
    bench.dump().await.assert_same(&before, "an empty batch");
}
